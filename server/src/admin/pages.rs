//! The admin address's pages by path.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Body;
use hyper::{Method, Request, StatusCode};
use sluicegate_base::observe::lifecycle::{Lifecycle, Phase};
use sluicegate_base::observe::metrics;

use super::connections::{self, Connections};
use super::cross_site;
use super::deadline::ConnectionDeadline;
use super::flamegraph::{self, Profiles};
use super::response::{Page, TEXT, method_not_allowed, page, text};
use super::scrape::Scraper;

/// The state that the pages show.
#[derive(Debug)]
pub struct AdminState {
    /// Phase of the process, which decides readiness.
    pub lifecycle: Arc<Lifecycle>,
    /// Collects the metrics page.
    pub scraper: Scraper,
    /// Looks at connections.
    pub connections: Connections,
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

/// Returns the response to a request that reached a local address. It does not read the request's body.
pub(super) async fn respond<B: Body>(
    request: &Request<B>,
    admin_state: &AdminState,
    deadline: &ConnectionDeadline,
    local: IpAddr,
) -> Result<Page, Infallible> {
    let path = request.uri().path();
    let is_profile = flamegraph::has(path);
    let is_connections = connections::has(path);
    if !is_profile && !is_connections && !matches!(path, "/healthz" | "/readyz" | "/metrics") {
        let known = "not found; there are /healthz, /readyz, /metrics, /debug/connections, /debug/flamegraph and /debug/pprof/{profile,allocs,heap}\n";
        return Ok(text(StatusCode::NOT_FOUND, known));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(method_not_allowed("GET, HEAD"));
    }
    if !request.body().is_end_stream() {
        return Ok(text(StatusCode::PAYLOAD_TOO_LARGE, "no body is taken\n"));
    }
    Ok(match path {
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" => ready(&admin_state.lifecycle),
        _ => match cross_site::refusal(request, local, &admin_state.hosts()) {
            Some(reason) => text(StatusCode::FORBIDDEN, reason),
            None if is_profile => {
                flamegraph::respond(request, &admin_state.profiles, deadline).await
            }
            None if is_connections => connections::respond(request, &admin_state.connections).await,
            None => {
                page(StatusCode::OK, metrics::CONTENT_TYPE, admin_state.scraper.page().await.into())
            }
        },
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
        Phase::Draining => {
            text(StatusCode::SERVICE_UNAVAILABLE, "draining: no new connections are taken\n")
        }
    }
}
