//! Parameters of an order: what a POST says in its target and in its body.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Body;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use tokio::time::timeout;

use super::response::{Page, TEXT, method_not_allowed, page, text};

/// Longest body, bytes.
const MAX_BODY: usize = 4096;
/// Time for the body.
const BODY_LIMIT: Duration = Duration::from_secs(1);
/// Media type of the body (HTML, "URL-encoded form data").
const FORM: &str = "application/x-www-form-urlencoded";

/// Returns the parameters of an order, in the form of a query.
///
/// # Errors
/// The response to a request that is none.
pub(super) async fn parameters<B>(head: &Parts, body: B) -> Result<String, Page>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if head.method != Method::POST {
        return Err(method_not_allowed("POST"));
    }
    let mut parameters = head.uri.query().unwrap_or_default().to_owned();
    if body.is_end_stream() {
        return Ok(parameters);
    }
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case(FORM) {
        return Err(text(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body is no form: send the parameters in the query or as application/x-www-form-urlencoded\n",
        ));
    }
    let body = Limited::new(body, MAX_BODY).collect();
    let body = match timeout(BODY_LIMIT, body).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let reason = format!("the form is longer than {MAX_BODY} bytes, or was cut\n");
            return Err(page(StatusCode::PAYLOAD_TOO_LARGE, TEXT, reason.into()));
        }
        Err(_) => {
            return Err(text(
                StatusCode::REQUEST_TIMEOUT,
                "the form did not arrive within a second\n",
            ));
        }
    };
    let Ok(form) = String::from_utf8(body.to_bytes().into()) else {
        return Err(text(StatusCode::BAD_REQUEST, "the form is not text\n"));
    };
    parameters.push('&');
    parameters.push_str(&form);
    Ok(parameters)
}
