//! Connects to an upstream over TCP.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::super::failure::Failure;
use super::host_name::{HostName, alternately};

/// Time after which the next address is tried beside those that have not responded (RFC 8305 §5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Connections that are being opened.
type Attempts = Vec<Pin<Box<dyn Future<Output = io::Result<TcpStream>>>>>;

/// Connects within `limit`, which includes the lookup of the name. It tries the addresses in turn, IPv4 and IPv6 alternately.
/// One that does not respond within [`ATTEMPT_DELAY`] goes on beside the next, and the first connection counts.
///
/// # Errors
/// The failure of the last attempt that has ended, or of the lookup; [`Failure::ConnectTimeout`] after `limit`.
pub(super) async fn connect(name: &Rc<HostName>, limit: Duration) -> Result<TcpStream, Failure> {
    let deadline = Instant::now() + limit;
    let found = timeout_at(deadline, name.addresses()).await;
    let found = found.map_err(|_| Failure::ConnectTimeout)?;
    let mut untried = alternately(found).into_iter();
    let mut attempts = Attempts::new();
    let mut failure = Failure::Resolve;
    loop {
        if let Some(address) = untried.next() {
            attempts.push(Box::pin(TcpStream::connect(address)));
        }
        if attempts.is_empty() {
            break;
        }
        let until = match untried.len() {
            0 => deadline,
            _ => deadline.min(Instant::now() + ATTEMPT_DELAY),
        };
        match timeout_at(until, first(&mut attempts)).await {
            Ok(Ok(stream)) => {
                name.trust();
                // Heads and ends of bodies must not wait for an acknowledgement. Without the option they do, but work.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => failure = Failure::of_connect(&error),
            Err(_) if until == deadline => {
                failure = Failure::ConnectTimeout;
                break;
            }
            Err(_) => {}
        }
        if failure == Failure::Exhausted {
            return Err(failure);
        }
    }
    name.doubt();
    Err(failure)
}

/// Waits for the first attempt that ends, and removes it.
async fn first(attempts: &mut Attempts) -> io::Result<TcpStream> {
    std::future::poll_fn(|cx| {
        for place in 0..attempts.len() {
            if let Poll::Ready(result) = attempts[place].as_mut().poll(cx) {
                drop(attempts.swap_remove(place));
                return Poll::Ready(result);
            }
        }
        Poll::Pending
    })
    .await
}
