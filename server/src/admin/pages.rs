//! The admin address's pages by path.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Body;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::scrape::Scraper;
use crate::observe::lifecycle::{Lifecycle, Phase};
use crate::observe::metrics;

/// Media type of everything but metrics.
const TEXT: &str = "text/plain; charset=utf-8";

type Page = Response<Full<Bytes>>;

/// The state that the pages show.
#[derive(Debug)]
pub struct AdminState {
    /// Phase of the process, which decides readiness.
    pub lifecycle: Arc<Lifecycle>,
    /// Collects the metrics page.
    pub scraper: Scraper,
}

/// Returns the response to a request. It does not read the request's body.
pub(super) async fn respond<B: Body>(
    request: &Request<B>,
    admin_state: &AdminState,
) -> Result<Page, Infallible> {
    let path = request.uri().path();
    if !matches!(path, "/healthz" | "/readyz" | "/metrics") {
        let known = "not found; there are /healthz, /readyz and /metrics\n";
        return Ok(text(StatusCode::NOT_FOUND, known));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut page = text(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD only\n");
        let allowed = HeaderValue::from_static("GET, HEAD");
        page.headers_mut().insert(ALLOW, allowed);
        return Ok(page);
    }
    if !request.body().is_end_stream() {
        return Ok(text(StatusCode::PAYLOAD_TOO_LARGE, "no body is taken\n"));
    }
    Ok(match path {
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" => ready(&admin_state.lifecycle),
        _ => page(
            StatusCode::OK,
            metrics::CONTENT_TYPE,
            admin_state.scraper.page().await.into(),
        ),
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
        Phase::Starting => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "starting: not every worker serves yet\n",
        ),
        Phase::Draining => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "draining: no new connections are taken\n",
        ),
    }
}

fn text(status: StatusCode, content: &'static str) -> Page {
    page(status, TEXT, Bytes::from_static(content.as_bytes()))
}

fn page(status: StatusCode, kind: &'static str, content: Bytes) -> Page {
    let mut page = Response::new(Full::new(content));
    *page.status_mut() = status;
    let headers = page.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    page
}
