//! The admin address's pages by path.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hyper::body::Body;
use hyper::{Method, Request, StatusCode};
use sluicegate_base::observe::lifecycle::{Lifecycle, Phase};
use sluicegate_base::observe::metrics;
use sluicegate_cc::Registry;

use super::connections::{self, Connections};
use super::cross_site::{self, Purpose};
use super::dashboard;
use super::deadline::ConnectionDeadline;
use super::flamegraph::{self, Profiles};
use super::form;
use super::places::Place;
use super::response::{Page, TEXT, method_not_allowed, page, text};
use super::scrape::Scraper;
use super::switch;
use super::traces::{self, Traces};
use super::worker_queries::WorkerQueries;

/// The state that the pages show.
#[derive(Debug)]
pub struct AdminState {
    /// Phase of the process, which decides readiness.
    pub lifecycle: Arc<Lifecycle>,
    /// Collects the metrics page.
    pub scraper: Scraper,
    /// Whether connections may be seen.
    pub connections: Connections,
    /// Asks the workers.
    pub workers: WorkerQueries,
    /// Traces on request, where profiles are allowed.
    pub traces: Traces,
    /// Algorithms to which connections may be switched, where profiles are allowed.
    pub algorithms: Registry,
    /// Records profiles.
    pub profiles: Profiles,
    /// Names by which the address may be asked, beside `localhost` and IP addresses.
    pub hosts: Mutex<Arc<[String]>>,
}

impl AdminState {
    fn hosts(&self) -> Arc<[String]> {
        Arc::clone(&self.hosts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes these names by which the address may be asked.
    pub fn set_hosts(&self, hosts: &[String]) {
        *self.hosts.lock().unwrap_or_else(PoisonError::into_inner) = hosts.into();
    }
}

/// Returns the response to a request that reached a local address. Its connection keeps its `place` once the request is whole.
pub(super) async fn respond<B>(
    request: Request<B>,
    admin_state: &AdminState,
    deadline: &ConnectionDeadline,
    place: &Place,
    local: IpAddr,
) -> Result<Page, Infallible>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let path = request.uri().path();
    if path == traces::PATH || switch::connection(path).is_some() {
        let carried_out = order(request, admin_state, place, local).await;
        return Ok(carried_out.unwrap_or_else(|refusal| refusal));
    }
    place.on_request();
    let is_profile = flamegraph::has(path);
    let is_connections = connections::has(path);
    let is_other = matches!(path, dashboard::PATH | "/healthz" | "/readyz" | "/metrics");
    if !is_profile && !is_connections && !is_other {
        let known = "not found; there are / for browsers, /healthz, /readyz, /metrics, /debug/connections, /debug/connections/ID/congestion_control, /debug/trace, /debug/flamegraph and /debug/pprof/{profile,allocs,heap}\n";
        return Ok(text(StatusCode::NOT_FOUND, known));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(method_not_allowed("GET, HEAD"));
    }
    if !request.body().is_end_stream() {
        return Ok(text(StatusCode::PAYLOAD_TOO_LARGE, "no body is taken\n"));
    }
    let AdminState { connections, workers, profiles, .. } = admin_state;
    Ok(match path {
        "/healthz" => text(StatusCode::OK, "ok\n"),
        // It has no figures itself.
        dashboard::PATH => dashboard::respond(),
        "/readyz" => ready(&admin_state.lifecycle),
        _ => match cross_site::refusal(&request, local, &admin_state.hosts(), Purpose::Look) {
            Some(reason) => text(StatusCode::FORBIDDEN, reason),
            None if is_profile => flamegraph::respond(&request, profiles, deadline).await,
            None if is_connections => connections::respond(&request, connections, workers).await,
            None => metrics_page(&admin_state.scraper).await,
        },
    })
}

async fn metrics_page(scraper: &Scraper) -> Page {
    match scraper.page().await {
        Some(content) => page(StatusCode::OK, metrics::CONTENT_TYPE, content.into()),
        None => text(StatusCode::SERVICE_UNAVAILABLE, "another process serves now; ask again\n"),
    }
}

/// Carries out an order, which changes what the server does.
///
/// # Errors
/// The response to a request that may not, or is wrong.
async fn order<B>(
    request: Request<B>,
    admin_state: &AdminState,
    place: &Place,
    local: IpAddr,
) -> Result<Page, Page>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if let Some(reason) = cross_site::refusal(&request, local, &admin_state.hosts(), Purpose::Order)
    {
        return Err(text(StatusCode::FORBIDDEN, reason));
    }
    if !admin_state.profiles.is_allowed() {
        return Err(text(
            StatusCode::FORBIDDEN,
            "orders are refused: set `profiles = true` in [admin] and reload; it is on by default only where the admin address is a \
             loopback address\n",
        ));
    }
    // The reply names them.
    if !admin_state.connections.are_shown() {
        return Err(text(StatusCode::FORBIDDEN, connections::NOT_SHOWN));
    }
    let (head, body) = request.into_parts();
    let parameters = form::parameters(&head, body).await?;
    place.on_request();
    let AdminState { algorithms, workers, traces, .. } = admin_state;
    Ok(match switch::connection(head.uri.path()) {
        Some(id) => switch::respond(id, &parameters, algorithms, workers).await,
        None => traces::respond(&parameters, traces, workers).await,
    })
}

fn ready(lifecycle: &Lifecycle) -> Page {
    let silent = lifecycle.silent();
    match lifecycle.phase() {
        Phase::Serving if !silent.is_empty() => {
            let content = format!("hanging: no reply from {}\n", silent.join(", "));
            page(StatusCode::SERVICE_UNAVAILABLE, TEXT, content.into())
        }
        Phase::Serving => text(StatusCode::OK, "ready\n"),
        Phase::Starting => {
            text(StatusCode::SERVICE_UNAVAILABLE, "starting: not every worker serves yet\n")
        }
        Phase::Leaving => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "leaving: new connections are taken until server.shutdown_delay has passed\n",
        ),
        Phase::Draining => {
            text(StatusCode::SERVICE_UNAVAILABLE, "draining: no new connections are taken\n")
        }
    }
}
