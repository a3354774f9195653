//! Connects to an upstream over TCP.

use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;

use super::super::failure::Failure;
use super::attempts;
use super::host_name::HostName;

/// Connects to any address of a name within `limit`.
///
/// # Errors
/// Those of [`attempts::first`].
pub(super) async fn connect(name: &Rc<HostName>, limit: Duration) -> Result<TcpStream, Failure> {
    let attempt = async |address| {
        let connected = TcpStream::connect(address).await;
        connected.map_err(|error| Failure::of_connect(&error))
    };
    let stream = attempts::first(name, limit, attempt).await?;
    // Heads and ends of bodies must not wait for an acknowledgement. Without the option they do, but work.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}
