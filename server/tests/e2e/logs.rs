//! The process's log and the access log: strangers do not make them grow without bound, every request has its line, and readers that
//! are stuck cost lines and no service.

mod cancelled;
mod floods;
mod refused;
mod stuck;

use std::net::{SocketAddr, TcpListener};

/// Returns an address of this host at which nobody listens.
fn unused() -> SocketAddr {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap()
}
