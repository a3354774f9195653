//! The reverse proxy: forwards requests to servers of HTTP/1.1, HTTP/2 and HTTP/3, and their responses to clients.
//!
//! A route refers to a pool of upstreams, which is compiled with the site ([`PoolCompiler`]); each origin thread has the
//! state of the pools ([`Pools`]). Bodies stream both ways, and neither side is read faster than the other accepts. It speaks
//! HTTP/1.1 itself, HTTP/2 by h2, and HTTP/3 by quiche. This module chooses connections, bounds times, retries, and chooses the status that a client gets
//! for a failure. An exchange drives its HTTP/1.1 connection itself, so that dropping the exchange closes it at once.

mod across_threads;
mod attempt;
mod balance;
mod bare_stream;
mod blocks;
mod claims;
mod congestion;
mod counters;
mod deadline;
mod definition;
mod discard;
mod exchange;
mod exchange_error;
mod failure;
mod fields;
mod forwarded;
mod hash_key;
mod health;
mod health_check;
mod interim;
mod location;
mod metered_stream;
mod pool;
#[cfg(any(test, feature = "test-fixtures"))]
pub mod properties;
mod protocol;
mod queue;
mod relay;
mod request;
mod request_error;
mod response;
mod retry;
mod retry_budget;
mod rules;
mod shared;
mod slots;
#[cfg(test)]
pub(crate) mod tests;
mod tls;
mod transport;
mod tunnel;
pub mod udp;
mod upload;
mod upstream;
mod upstream_head;
mod verdict;
mod websocket;

pub(crate) use bare_stream::BareStream;
pub(crate) use blocks::Blocks;
pub(crate) use claims::is_claim;
pub use counters::{ProxyCounters, UpstreamCounters};
pub(crate) use deadline::Deadline;
pub use definition::{PoolCompiler, RoutePool, RouteProxy, SitePools};
use exchange::Exchange;
use exchange_error::ExchangeError;
pub use failure::Failure;
pub(crate) use fields::{Nominated, is_hop_by_hop};
pub use pool::Pools;
pub(crate) use response::{BodySize, head as response_head};
pub use rules::RequestRules;
pub use tls::UpstreamTlsError;

use crate::exchange::handler::Incoming;

/// Returns whether the name of an upstream has an address, by these name servers, or those of the system if there are none.
pub async fn has_address(host: &str, servers: &[std::net::SocketAddr]) -> bool {
    !transport::look_up(host, servers).await.is_empty()
}

/// Forwards a request to an upstream of its route's pool, and the response to the client. Runs on a `LocalSet`; dropping
/// the future closes the upstream's connection.
pub async fn serve(
    pools: &Pools,
    proxy: &RouteProxy,
    rules: &dyn RequestRules,
    incoming: Incoming,
) {
    let tally = pools.tally();
    tally.count(|c| c.requests += 1);
    let reporter = incoming.reporter();
    let Incoming { request, body, reply } = incoming;
    let exchange = Exchange::new(pools, proxy, rules, request, body, reporter);
    match exchange.run(reply).await {
        Ok(()) => tally.count(|c| c.answered += 1),
        Err(ExchangeError::Request(_)) => tally.count(|c| c.refused += 1),
        Err(ExchangeError::Cancelled | ExchangeError::ClientStalled) => {
            tally.count(|c| c.cancelled += 1)
        }
        // The upstream's failures are counted already.
        Err(ExchangeError::Failed(_)) => {}
    }
}
