//! Heads of responses, in the form of hyper and h2.

use bytes::Bytes;
use http::header::{ALT_SVC, CONNECTION, CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT, SERVER, UPGRADE};
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version};
use http_body_util::Empty;
use sluicegate_http::exchange::message::Head;
use sluicegate_http::exchange::{Body, Fields, NO_SERVER, Reply, has_content};

use super::body::{Content, ResponseBody};
use super::exchange::Exchange;
use super::request_guard::RequestGuard;

/// Name of this server in responses that have no other.
const OWN_NAME: HeaderValue = HeaderValue::from_static("sluicegate");

/// Returns the response with a reply; for HEAD only the length of its body.
pub(super) fn of_reply(mut reply: Reply, guard: RequestGuard) -> Response<ResponseBody> {
    guard.request.exchange().refuse();
    if let Some(id) = &guard.request.returned_id {
        id.add(reply.headers.edit());
    }
    let length = reply.body.len();
    let content = match reply.body {
        _ if !guard.request.exchange().has_content(reply.status) => Content::Empty,
        Body::Empty => Content::Empty,
        Body::Bytes(bytes) => Content::Bytes(bytes),
        Body::Generated(generator) => Content::Generated(generator, 0),
    };
    framed(reply.status, &reply.headers, Some(length), content, guard)
}

pub(super) fn of_handler(
    mut head: Head,
    mut exchange: Exchange,
    guard: RequestGuard,
) -> Response<ResponseBody> {
    if let Some(id) = &guard.request.returned_id {
        id.add(&mut head.fields);
    }
    let has_content = guard.request.exchange().has_content(head.status);
    let length = head.length.or((head.end && has_content).then_some(0));
    let content = if head.end {
        exchange.finish();
        Content::Empty
    } else {
        Content::Handler(exchange)
    };
    framed(head.status, &head.fields, length, content, guard)
}

/// Returns the head that opens a tunnel, with its status in the client's version. HTTP/1.1 names the protocol in `upgrade`; `accept` belongs
/// to a WebSocket.
pub(super) fn of_tunnel(
    mut head: Head,
    upgrade: Option<HeaderValue>,
    accept: Option<HeaderValue>,
    guard: &RequestGuard,
) -> Response<Empty<Bytes>> {
    if let Some(id) = &guard.request.returned_id {
        id.add(&mut head.fields);
    }
    let mut headers = headers(&head.fields, guard, closes(guard));
    let mut status = StatusCode::OK;
    if let Some(upgrade) = upgrade {
        status = StatusCode::SWITCHING_PROTOCOLS;
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, upgrade);
    }
    if let Some(accept) = accept {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    note_status(status.as_u16(), guard);
    let mut response = Response::new(Empty::new());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Counts and records the status of a response.
fn note_status(status: u16, guard: &RequestGuard) {
    guard.request.status.set(Some(status));
    let front = &guard.connection.front;
    let begun = guard.request.exchange().account().begun();
    let after = front.now().saturating_duration_since(begun);
    let protocol = guard.request.protocol();
    front.count(|counters| counters.requests.on_head(status, protocol, after));
}

/// Returns the fields of a response, with those of the server.
fn headers(fields: &Fields, guard: &RequestGuard, closes: bool) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(fields.len() + 4);
    for line in fields.iter().filter(|line| **line != NO_SERVER) {
        headers.append(line.0.clone(), line.1.clone());
    }
    if !fields.iter().any(|(name, _)| *name == SERVER) {
        headers.insert(SERVER, OWN_NAME);
    }
    if let Some(alt_svc) = &guard.connection.alt_svc
        && !headers.contains_key(ALT_SVC)
    {
        headers.insert(ALT_SVC, alt_svc.clone());
    }
    if closes {
        headers.append(CONNECTION, HeaderValue::from_static("close"));
    }
    headers
}

/// Decides whether the connection is closed behind the response (RFC 9112 §9.6): it is left, or a part of the request's body is unread, so
/// that nobody could tell where the next request begins.
fn closes(guard: &RequestGuard) -> bool {
    let connection = &guard.connection;
    !connection.is_http2() && (connection.is_leaving() || guard.request.unread.get())
}

fn framed(
    status: u16,
    fields: &Fields,
    length: Option<u64>,
    content: Content,
    guard: RequestGuard,
) -> Response<ResponseBody> {
    let left = match &content {
        Content::Empty => Some(0),
        _ => length,
    };
    let is_http10 = guard.request.is_http10.get();
    // HTTP/1.0 has no chunks: the end of the connection is that of a body without a length (RFC 9112 §6.3).
    let closes = closes(&guard) || is_http10 && left.is_none();
    let mut headers = headers(fields, &guard, closes);
    // RFC 9110 §8.6: not with 204; with 304 it would be the length of a body that is not known here.
    if let Some(length) = length
        && has_content(status)
    {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    note_status(status, &guard);
    let mut response = Response::new(ResponseBody::new(content, left, guard));
    if closes && is_http10 {
        // hyper would add `keep-alive` for a client of HTTP/1.0 that asks for it.
        *response.version_mut() = Version::HTTP_10;
    }
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = headers;
    response
}
