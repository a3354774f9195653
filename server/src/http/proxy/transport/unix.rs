//! Connects to an upstream's Unix socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use super::super::failure::Failure;

/// Time between two attempts while the socket's backlog is full: the kernel refuses these connections at once and
/// reports no room later (unix(7)).
const BACKLOG_RETRY: Duration = Duration::from_millis(5);

/// Connects within `limit`.
///
/// # Errors
/// Why the socket takes no connection; [`Failure::ConnectTimeout`] if its backlog stays full.
pub(super) async fn connect(path: &Path, limit: Duration) -> Result<UnixStream, Failure> {
    let connected = timeout(limit, async {
        loop {
            match UnixStream::connect(path).await {
                Ok(stream) => return Ok(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    sleep(BACKLOG_RETRY).await;
                }
                Err(error) => return Err(failure(&error)),
            }
        }
    });
    connected.await.unwrap_or(Err(Failure::ConnectTimeout))
}

fn failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Failure::NoSocket,
        io::ErrorKind::PermissionDenied => Failure::Forbidden,
        _ => match Failure::of_connect(error) {
            // No routes lead to paths: it is a socket of another type, or the links of the path form a loop.
            Failure::Unreachable => Failure::NoStreamSocket,
            failure => failure,
        },
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{UnixDatagram, UnixSocket};

    use super::*;

    fn run<F: Future>(test: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(test)
    }

    /// A listener whose backlog holds one connection.
    fn listen(path: &Path) -> tokio::net::UnixListener {
        let socket = UnixSocket::new_stream().unwrap();
        socket.bind(path).unwrap();
        socket.listen(0).unwrap()
    }

    #[test]
    fn full_backlog_delays_a_connection_until_there_is_room() {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("app.sock");
            let listener = listen(&path);
            let limit = Duration::from_secs(3600);
            let _first = connect(&path, limit).await.unwrap();
            tokio::time::pause();
            let late = connect(&path, limit).await;
            assert_eq!(late.unwrap_err(), Failure::ConnectTimeout);
            let (second, first) = tokio::join!(connect(&path, limit), listener.accept());
            assert!(second.is_ok() && first.is_ok());
        });
    }

    #[test]
    fn cause_of_a_refused_connection_is_told_apart() {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let limit = Duration::from_secs(3600);
            let of =
                async |path: &str| connect(&folder.path().join(path), limit).await.unwrap_err();
            assert_eq!(of("app.sock").await, Failure::NoSocket);
            std::fs::write(folder.path().join("file"), "").unwrap();
            assert_eq!(of("file").await, Failure::Refused);
            assert_eq!(of("file/app.sock").await, Failure::NoSocket);
            drop(listen(&folder.path().join("left")));
            assert_eq!(of("left").await, Failure::Refused);
            let _datagrams = UnixDatagram::bind(folder.path().join("datagrams")).unwrap();
            assert_eq!(of("datagrams").await, Failure::NoStreamSocket);
            std::os::unix::fs::symlink("loop", folder.path().join("loop")).unwrap();
            assert_eq!(of("loop").await, Failure::NoStreamSocket);
        });
    }
}
