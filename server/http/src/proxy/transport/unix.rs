//! Connects to an upstream's Unix socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::super::failure::Failure;

/// Time between two attempts while the socket's backlog is full: the kernel refuses these connections at once and
/// reports no room later (unix(7)).
const BACKLOG_RETRY: Duration = Duration::from_millis(5);

/// Path of an upstream's Unix socket.
///
/// While the backlog is full, one request retries and the others wait in the order of their arrival. So the number of
/// attempts does not depend on the number of requests, and no new request overtakes one that waits.
#[derive(Debug)]
pub(in crate::proxy) struct SocketPath {
    path: PathBuf,
    /// Held by the request that retries.
    retrier: Mutex<()>,
}

impl SocketPath {
    pub(super) fn new(path: &Path) -> SocketPath {
        SocketPath { path: path.to_owned(), retrier: Mutex::new(()) }
    }

    /// Connects within `limit`.
    ///
    /// # Errors
    /// Why the socket takes no connection; [`Failure::ConnectTimeout`] if its backlog stays full.
    pub(super) async fn connect(&self, limit: Duration) -> Result<UnixStream, Failure> {
        let connected = self.until_room(|| UnixStream::connect(&self.path));
        match timeout(limit, connected).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(failure(&error)),
            Err(_) => Err(Failure::ConnectTimeout),
        }
    }

    /// Returns the result of the first attempt that does not find the backlog full.
    async fn until_room<S, F>(&self, attempt: impl Fn() -> F) -> io::Result<S>
    where
        F: Future<Output = io::Result<S>>,
    {
        // Locked also while it passes from one request to the next.
        let others_wait = self.retrier.try_lock().is_err();
        if !others_wait {
            let result = attempt().await;
            if !is_full(&result) {
                return result;
            }
        }
        let _retrier = self.retrier.lock().await;
        loop {
            let result = attempt().await;
            if !is_full(&result) {
                return result;
            }
            sleep(BACKLOG_RETRY).await;
        }
    }
}

fn is_full<S>(result: &io::Result<S>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
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
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use tokio::net::{UnixDatagram, UnixSocket};

    use super::*;
    use crate::proxy::tests::run;

    /// Returns a listener whose backlog holds one connection.
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
            let limit = Duration::from_secs(60);
            let socket = SocketPath::new(&path);
            let _first = socket.connect(limit).await.unwrap();
            tokio::time::pause();
            let late = socket.connect(limit).await;
            assert_eq!(late.unwrap_err(), Failure::ConnectTimeout);
            let (second, first) = tokio::join!(socket.connect(limit), listener.accept());
            assert!(second.is_ok() && first.is_ok());
        });
    }

    #[test]
    fn one_request_retries_while_the_others_wait_in_order() {
        const WAITING: usize = 1000;
        run(async {
            tokio::time::pause();
            let socket = Rc::new(SocketPath::new(Path::new("app.sock")));
            let (attempts, room) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
            let connected = Rc::new(RefCell::new(Vec::new()));
            let request = |number: usize| {
                let (socket, attempts) = (Rc::clone(&socket), Rc::clone(&attempts));
                let (room, connected) = (Rc::clone(&room), Rc::clone(&connected));
                tokio::task::spawn_local(async move {
                    let attempt = || {
                        attempts.set(attempts.get() + 1);
                        let has_room = room.get();
                        async move { has_room.then_some(()).ok_or(io::ErrorKind::WouldBlock.into()) }
                    };
                    socket.until_room(attempt).await.unwrap();
                    connected.borrow_mut().push(number);
                })
            };
            let mut requests: Vec<_> = (0..WAITING).map(request).collect();
            sleep(Duration::from_secs(1)).await;
            // The request that arrived first makes an attempt each 5 ms.
            assert!(attempts.get() <= 202, "{}", attempts.get());
            // The first of those that wait is cancelled, as by its client.
            requests.remove(1).abort();
            room.set(true);
            attempts.set(0);
            requests.push(request(WAITING));
            for request in requests {
                request.await.unwrap();
            }
            assert!((0..=WAITING).filter(|number| *number != 1).eq(connected.take()));
            assert_eq!(attempts.get(), WAITING);
        });
    }

    #[test]
    fn request_that_retries_and_ends_lets_the_next_one_retry() {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("app.sock");
            let listener = listen(&path);
            let socket = SocketPath::new(&path);
            let limit = Duration::from_secs(60);
            let _first = socket.connect(limit).await.unwrap();
            tokio::time::pause();
            let (short, long) = (socket.connect(Duration::from_secs(1)), socket.connect(limit));
            let accept = async {
                sleep(Duration::from_secs(2)).await;
                listener.accept().await
            };
            let (short, long, accepted) = tokio::join!(short, long, accept);
            assert_eq!(short.unwrap_err(), Failure::ConnectTimeout);
            assert!(long.is_ok() && accepted.is_ok());
        });
    }

    #[test]
    fn cause_of_a_refused_connection_is_told_apart() {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let limit = Duration::from_secs(60);
            let of = async |path: &str| {
                let socket = SocketPath::new(&folder.path().join(path));
                socket.connect(limit).await.unwrap_err()
            };
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
