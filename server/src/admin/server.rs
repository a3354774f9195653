//! The listener of the admin address and its connections.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot::{Receiver, Sender, channel};

use super::deadline::ConnectionDeadline;
use super::pages::{self, AdminState};
use super::places::{Place, Places};

/// Connections served at a time. A further one takes the place of the one that has been silent for longest, and waits in the system's
/// queue if all have sent their requests.
const MAX_CONNECTIONS: usize = 32;
/// Time for a connection, from its first byte to its last; it carries one request. The length of a profile comes on top.
const LIFETIME: Duration = Duration::from_secs(10);
/// Time for a request's head.
const HEAD_LIMIT: Duration = Duration::from_secs(5);
/// Largest head of a request, in bytes.
const HEAD_BYTES: usize = 8 * 1024;
/// Pause after a failed accept: the system may be out of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Error that keeps the admin address from being served.
#[derive(Debug, Error)]
pub enum AdminError {
    /// Another socket is bound to the address.
    #[error(
        "cannot bind {0}: address already in use, perhaps by another sluicegate; stop that process or choose another address"
    )]
    InUse(SocketAddr),
    /// No interface has the address.
    #[error("cannot bind {0}: this host does not have the address")]
    NotHere(SocketAddr),
    /// The process may not bind the address.
    #[error("cannot bind {0}: permission denied; ports below 1024 need CAP_NET_BIND_SERVICE")]
    Forbidden(SocketAddr),
    /// The system refused another operation.
    #[error("cannot serve {address}: {source}")]
    Os {
        /// Address of the configuration.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

impl AdminError {
    fn new(address: SocketAddr, source: io::Error) -> AdminError {
        match source.kind() {
            io::ErrorKind::AddrInUse => AdminError::InUse(address),
            io::ErrorKind::AddrNotAvailable => AdminError::NotHere(address),
            io::ErrorKind::PermissionDenied => AdminError::Forbidden(address),
            _ => AdminError::Os { address, source },
        }
    }
}

/// Server of the pages at one address. It accepts connections until it is dropped.
#[derive(Debug)]
pub struct AdminServer {
    local: SocketAddr,
    /// Another descriptor of the socket.
    socket: TcpListener,
    _accepting: Sender<()>,
}

impl AdminServer {
    /// Binds an address, at which nobody is served yet.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(address: SocketAddr) -> Result<TcpListener, AdminError> {
        TcpListener::bind(address).map_err(|source| AdminError::new(address, source))
    }

    /// Serves the pages on a socket that listens at the address already.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn on(
        address: SocketAddr,
        socket: TcpListener,
        admin_state: Arc<AdminState>,
    ) -> Result<AdminServer, AdminError> {
        open(socket, admin_state).map_err(|source| AdminError::new(address, source))
    }

    /// Returns another descriptor of the socket.
    ///
    /// # Errors
    /// There is none.
    pub fn duplicate(&self) -> io::Result<TcpListener> {
        self.socket.try_clone()
    }

    /// Returns the bound address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }
}

fn open(listener: TcpListener, admin_state: Arc<AdminState>) -> io::Result<AdminServer> {
    listener.set_nonblocking(true)?;
    let (local, socket) = (listener.local_addr()?, listener.try_clone()?);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (accepting, dropped) = channel();
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || run(&runtime, listener, admin_state, dropped))?;
    Ok(AdminServer { local, socket, _accepting: accepting })
}

fn run(
    runtime: &Runtime,
    listener: TcpListener,
    admin_state: Arc<AdminState>,
    dropped: Receiver<()>,
) {
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let places = Places::new(MAX_CONNECTIONS);
        tokio::select! {
            () = serve(&listener, &places, admin_state) => {}
            _ = dropped => {}
        }
        drop(listener);
        // The connections that are open get their responses.
        places.all().await;
        io::Result::Ok(())
    });
    if let Err(error) = served {
        tracing::error!(%error, "the admin address is not served");
    }
}

async fn serve(listener: &tokio::net::TcpListener, places: &Places, admin_state: Arc<AdminState>) {
    let mut failing = false;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                failing = false;
                let admin_state = Arc::clone(&admin_state);
                let place = places.take().await;
                tokio::spawn(async move {
                    let deadline = ConnectionDeadline::after(LIFETIME);
                    tokio::select! {
                        () = serve_connection(stream, admin_state, deadline.clone(), &place) => {}
                        // A connection that takes longer is closed.
                        () = deadline.passed() => {}
                        () = place.is_needed() => {}
                    }
                });
            }
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "the admin address accepts no connection; retrying");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Serves one request.
async fn serve_connection(
    stream: TcpStream,
    admin_state: Arc<AdminState>,
    deadline: ConnectionDeadline,
    place: &Place,
) {
    let local = match stream.local_addr() {
        Ok(local) => local.ip(),
        Err(error) => {
            tracing::debug!(%error, "a connection to the admin address has ended");
            return;
        }
    };
    let service = service_fn(move |request| {
        let (admin_state, deadline) = (Arc::clone(&admin_state), deadline.clone());
        async move { pages::respond(request, &admin_state, &deadline, place, local).await }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the admin address failed");
    }
}

#[cfg(test)]
mod tests;
