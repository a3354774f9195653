//! Requests that open a tunnel: a WebSocket over HTTP/1.1 by an upgrade (RFC 6455 §4.2.1), over HTTP/2 by extended CONNECT (RFC 8441);
//! another protocol by an upgrade of HTTP/1.1.

use h2::ext::Protocol;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderValue, Method, Version, request};
use sluicegate_http::websocket;

use super::Refusal::{self, Malformed};

/// Length of a key: 16 bytes by Base64.
const KEY: usize = 24;

/// Returns the protocol of an extended CONNECT. One for WebSocket need not name its version.
///
/// # Errors
/// The request lacks a part that an extended CONNECT has, or asks for another version of WebSocket (RFC 8441 §5).
pub(super) fn protocol(parts: &request::Parts) -> Result<Option<String>, Refusal> {
    let Some(protocol) = parts.extensions.get::<Protocol>() else {
        return Ok(None);
    };
    let uri = &parts.uri;
    let is_whole = uri.scheme().is_some() && uri.path_and_query().is_some();
    if parts.method != Method::CONNECT || !is_whole {
        return Err(Malformed);
    }
    let mut versions = parts.headers.get_all(SEC_WEBSOCKET_VERSION).iter();
    if protocol.as_str() == "websocket" && versions.any(|version| version != "13") {
        return Err(Refusal::Version);
    }
    Ok(Some(protocol.as_str().to_owned()))
}

/// Returns the value of `sec-websocket-accept` for a request of HTTP/1.1 that asks for a WebSocket; `None` for any other request:
/// HTTP/1.0 has no upgrade, and a server may leave one to another protocol undone (RFC 9110 §7.8).
///
/// # Errors
/// The request breaks the rules of the handshake, or asks for another version of WebSocket.
pub(super) fn accept(parts: &request::Parts) -> Result<Option<HeaderValue>, Refusal> {
    let headers = &parts.headers;
    let asks = parts.version == Version::HTTP_11
        && parts.method == Method::GET
        && lists(headers, &CONNECTION, "upgrade")
        && lists(headers, &UPGRADE, "websocket");
    if !asks {
        return Ok(None);
    }
    if has_body(headers) {
        return Err(Malformed);
    }
    let key = only(headers, &SEC_WEBSOCKET_KEY)?.as_bytes();
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/".contains(byte);
    let (digits, padding) = key.split_at_checked(KEY - 2).ok_or(Malformed)?;
    if padding != b"==" || !digits.iter().all(is_base64) {
        return Err(Malformed);
    }
    if only(headers, &SEC_WEBSOCKET_VERSION)? != "13" {
        return Err(Refusal::Version);
    }
    let accept = HeaderValue::try_from(websocket::accept(key));
    accept.map(Some).map_err(|_| Malformed)
}

/// Returns the protocol to which a request of HTTP/1.1 without a body asks to switch, other than WebSocket; `None` for any other
/// request, and for one that names several protocols. A server may leave the upgrade undone (RFC 9110 §7.8).
pub(super) fn upgrade(parts: &request::Parts) -> Option<String> {
    let headers = &parts.headers;
    let may_ask = parts.version == Version::HTTP_11
        && parts.method != Method::CONNECT
        && parts.method != Method::HEAD
        && lists(headers, &CONNECTION, "upgrade")
        && !has_body(headers);
    let protocol = only(headers, &UPGRADE).ok().filter(|_| may_ask)?;
    let protocol = protocol.to_str().ok()?;
    let is_named = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(&byte);
    let is_one = !protocol.is_empty() && protocol.bytes().all(is_named);
    (is_one && !protocol.eq_ignore_ascii_case("websocket")).then(|| protocol.to_owned())
}

/// Returns whether a request of HTTP/1.1 has a body that is not empty.
fn has_body(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING) || { headers.get_all(CONTENT_LENGTH).iter() }
        .any(|length| length != "0")
}

/// Returns whether a field's list has a word, in any case.
fn lists(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    { headers.get_all(name).iter() }
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|item| item.trim().eq_ignore_ascii_case(word))
}

/// Returns the value of a field that a handshake has once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a HeaderValue, Refusal> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (Some(value), None) => Ok(value),
        _ => Err(Malformed),
    }
}
