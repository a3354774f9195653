//! Responses of the admin address.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::Value;

/// Media type of text for people.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// A whole response.
pub(super) type Page = Response<Full<Bytes>>;

/// Returns a response that nobody may store.
pub(super) fn page(status: StatusCode, kind: &'static str, content: Bytes) -> Page {
    let mut page = Response::new(Full::new(content));
    *page.status_mut() = status;
    let headers = page.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    page
}

pub(super) fn text(status: StatusCode, content: &'static str) -> Page {
    page(status, TEXT, Bytes::from_static(content.as_bytes()))
}

/// Returns a value as JSON, in lines for people.
pub(super) fn json(value: &Value) -> Page {
    page(StatusCode::OK, "application/json", format!("{value:#}\n").into())
}

/// Returns the refusal of parameters, which says what is expected.
pub(super) fn wrong_parameters(reason: String) -> Page {
    page(StatusCode::BAD_REQUEST, TEXT, reason.into())
}

/// Returns the refusal of a method where only `allowed` ones are taken.
pub(super) fn method_not_allowed(allowed: &'static str) -> Page {
    let reason = format!("{} only\n", allowed.replace(", ", " or "));
    let mut page = page(StatusCode::METHOD_NOT_ALLOWED, TEXT, reason.into());
    let allowed = HeaderValue::from_static(allowed);
    page.headers_mut().insert(ALLOW, allowed);
    page
}
