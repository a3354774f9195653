//! Connects to an upstream over TCP.

use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::failure::Failure;
use super::host_name::HostName;

/// Connects within `limit`, which includes the lookup of the name. It tries the addresses in turn, each for an equal share
/// of the remaining time.
///
/// # Errors
/// The failure of the last address, or of the lookup.
pub(super) async fn connect(name: &Rc<HostName>, limit: Duration) -> Result<TcpStream, Failure> {
    let deadline = Instant::now() + limit;
    let found = timeout_at(deadline, name.addresses()).await;
    let found = found.map_err(|_| Failure::ConnectTimeout)?;
    let mut failure = Failure::Resolve;
    for (tried, address) in found.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let share = u32::try_from(found.len() - tried).map_or(left, |shares| left / shares);
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Heads and ends of bodies must not wait for an acknowledgement. Without the option they do, but work.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => failure = Failure::of_connect(&error),
            Err(_) => failure = Failure::ConnectTimeout,
        }
        if failure == Failure::Exhausted {
            return Err(failure);
        }
    }
    name.doubt();
    Err(failure)
}
