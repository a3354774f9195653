//! The reverse proxy: requests passed on to HTTP/1.1 servers, and their responses passed back.
//!
//! Bodies stream both ways, each side read no faster than the other takes. hyper speaks the protocol; which connection
//! serves a request, how long anything may take, what is tried again and which status the client gets is decided here. An
//! exchange drives its connection itself, so that dropping the exchange closes it at once.

mod attempt;
mod blocks;
mod connection;
mod counters;
mod deadline;
mod exchange;
mod failure;
mod fields;
mod forwarded;
mod idle;
mod interim;
mod metered_stream;
mod relay;
mod request;
mod response;
mod rules;
mod stop;
#[cfg(test)]
pub(crate) mod tests;
mod transport;
mod unsendable;
mod upload;
mod upstream;

use std::rc::Rc;

use sluicegate_config::Proxy;

pub use counters::{Counters, State};
use exchange::Exchange;
pub use failure::Failure;
pub use rules::RequestRules;
use stop::Stop;
pub use upstream::Upstreams;

use crate::http::exchange::handler::Incoming;

/// Passes a request on, and the response back. To be run on a `LocalSet`; dropping the future closes the upstream's
/// connection.
pub async fn serve(
    upstreams: &Rc<Upstreams>,
    proxy: &Proxy,
    rules: &dyn RequestRules,
    incoming: Incoming,
) {
    let tally = upstreams.tally();
    tally.count(|c| c.requests += 1);
    let Incoming {
        request,
        body,
        reply,
    } = incoming;
    let exchange = Exchange::new(upstreams, (proxy, rules), request, body);
    match exchange.run(reply).await {
        Ok(()) => tally.count(|c| c.answered += 1),
        Err(Stop::Unsendable(_)) => tally.count(|c| c.refused += 1),
        Err(Stop::Cancelled | Stop::ClientStalled) => tally.count(|c| c.cancelled += 1),
        // Counted where they happened.
        Err(Stop::Failed(_)) => {}
    }
}
