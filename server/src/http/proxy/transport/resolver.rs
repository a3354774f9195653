//! Looks host names up with the system's resolver.

use std::net::{SocketAddr, ToSocketAddrs as _};

use tokio::sync::{Semaphore, oneshot};

/// Lookups at a time, of all origin threads. Further ones wait.
const MAX_LOOKUPS: usize = 16;

/// Permits of running lookups.
static LOOKUPS: Semaphore = Semaphore::const_new(MAX_LOOKUPS);

/// Returns the addresses of `server`, a host and a port; none if the name has none.
///
/// getaddrinfo(3) blocks, for many seconds if a name server does not respond. So each lookup has a thread of its own: reads of
/// files, which tokio's blocking threads run, never wait for a name server.
pub(super) async fn look_up(server: &str) -> Vec<SocketAddr> {
    let Ok(permit) = LOOKUPS.acquire().await else {
        return Vec::new();
    };
    let (sender, found) = oneshot::channel();
    let server = server.to_owned();
    let thread = std::thread::Builder::new().name("resolver".to_owned());
    let spawned = thread.spawn(move || {
        // The permit is held for as long as the thread runs, even if nobody waits any more.
        let _permit = permit;
        let found = server.to_socket_addrs().map(Iterator::collect);
        let _ = sender.send(found.unwrap_or_default());
    });
    match spawned {
        Ok(_) => found.await.unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%error, "no thread for the lookup of an upstream's name");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A thread pool that is full with other work, as with reads of a slow disk, delays no lookup.
    #[test]
    fn lookup_needs_no_blocking_thread_of_the_runtime() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { &mut runtime }
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        runtime.block_on(async {
            let busy = tokio::task::spawn_blocking(move || blocked.recv().is_ok());
            let found =
                tokio::time::timeout(Duration::from_secs(60), look_up("localhost:80")).await;
            assert!(
                found
                    .unwrap()
                    .iter()
                    .all(|address| address.ip().is_loopback())
            );
            release.send(()).unwrap();
            assert!(busy.await.unwrap());
        });
    }
}
