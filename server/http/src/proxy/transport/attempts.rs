//! Tries the addresses of an upstream's name.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::super::failure::Failure;
use super::host_name::{HostName, alternately};

/// Time after which the next address is tried beside those that have not responded (RFC 8305 §5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Connects within `limit`, which includes the lookup of the name. It tries the addresses in turn, IPv4 and IPv6 alternately.
/// One that does not respond within [`ATTEMPT_DELAY`] goes on beside the next, and the first connection counts.
///
/// # Errors
/// The failure of the last attempt that has ended, or of the lookup; [`Failure::ConnectTimeout`] after `limit`.
pub(super) async fn first<T, F>(
    name: &Rc<HostName>,
    limit: Duration,
    attempt: impl Fn(SocketAddr) -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let deadline = Instant::now() + limit;
    let found = timeout_at(deadline, name.addresses()).await;
    let found = found.map_err(|_| Failure::ConnectTimeout)?;
    let mut untried = alternately(found).into_iter();
    let mut attempts = Vec::new();
    let mut failure = Failure::Resolve;
    loop {
        if let Some(address) = untried.next() {
            attempts.push(Box::pin(attempt(address)));
        }
        if attempts.is_empty() {
            break;
        }
        let until = match untried.len() {
            0 => deadline,
            _ => deadline.min(Instant::now() + ATTEMPT_DELAY),
        };
        match timeout_at(until, ended(&mut attempts)).await {
            Ok(Ok(connection)) => {
                name.trust();
                return Ok(connection);
            }
            Ok(Err(ended)) => failure = ended,
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
async fn ended<F: Future>(attempts: &mut Vec<Pin<Box<F>>>) -> F::Output {
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
