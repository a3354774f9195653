//! Rewrites a request for an upstream, in the form of HTTP/1.1. HTTP/2 needs another head, but the same fields.

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, HOST, MAX_FORWARDS, TE, TRAILER, TRANSFER_ENCODING,
};
use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};

use super::claims;
use super::fields::{Nominated, is_hop_by_hop};
use super::forwarded;
use super::request_error::RequestError;
use super::rules::RequestRules;
use crate::exchange::message::Request;
use crate::exchange::{RequestHead, is_any};
use sluicegate_config::{HostHeader, Proxy};

/// Framing of a request's body in HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// No body.
    None,
    /// A length, in `content-length`.
    Length(u64),
    /// Chunks, by `transfer-encoding: chunked`.
    Chunked,
}

/// Returns whether requests with this method rarely have a body, so that an open stream does not announce one.
pub(super) fn rarely_has_body(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "DELETE")
}

/// Returns whether a method is known to be idempotent (RFC 9110 §9.2.2).
pub(super) fn is_idempotent(method: &str) -> bool {
    rarely_has_body(method) || method == "PUT"
}

/// Returns the head of the request for an upstream. `path` is the path in the spelling for upstreams, `upstream` the
/// upstream's own host.
pub(super) fn rewrite(
    request: &Request,
    proxy: &Proxy,
    rules: &dyn RequestRules,
    path: &str,
    framing: Framing,
    upstream: &str,
) -> Result<http::Request<()>, RequestError> {
    let head = &request.head;
    let mut rewritten = http::Request::new(());
    // A tunnel of HTTP/2 or HTTP/3 for WebSocket is a GET of HTTP/1.1 (RFC 8441 §5).
    *rewritten.method_mut() =
        Method::from_bytes(head.method_of_route().as_bytes()).map_err(|_| RequestError::Method)?;
    *rewritten.version_mut() = Version::HTTP_11;
    let query = head.query.as_ref();
    let query = query.map(|query| if proxy.raw_path { query.raw() } else { query });
    *rewritten.uri_mut() = request_target(head, path, query)?;
    let mut headers = HeaderMap::with_capacity(head.headers.len() + 8);
    headers.insert(HOST, host(proxy, head, upstream)?);
    forward_fields(request, proxy, rules, framing, &mut headers)?;
    count_down(head, &mut headers)?;
    frame(head, framing, &mut headers);
    forwarded::add(request, proxy, rules, &mut headers)?;
    *rewritten.headers_mut() = headers;
    Ok(rewritten)
}

/// Returns the request target: the origin form, or the asterisk (RFC 9112 §3.2).
fn request_target(
    head: &RequestHead,
    path: &str,
    query: Option<&str>,
) -> Result<Uri, RequestError> {
    if head.path.as_str() == "*" {
        return if head.method == "OPTIONS" {
            Ok(Uri::from_static("*"))
        } else {
            Err(RequestError::Path)
        };
    }
    let mut text = String::with_capacity(path.len() + 2);
    if !path.starts_with('/') {
        text.push('/');
    }
    text.push_str(path);
    if let Some(query) = query {
        text.push('?');
        text.push_str(query);
    }
    if text.contains('#') {
        return Err(RequestError::Path);
    }
    let target = PathAndQuery::try_from(text).map_err(|_| RequestError::Path)?;
    Ok(Uri::from(target))
}

fn host(proxy: &Proxy, head: &RequestHead, upstream: &str) -> Result<HeaderValue, RequestError> {
    let host = match &proxy.host {
        // A request of HTTP/1.0 may name no host, but every one to an upstream does.
        HostHeader::Client if head.authority.is_empty() => upstream,
        HostHeader::Client => &head.authority,
        HostHeader::Upstream => upstream,
        HostHeader::Name(name) => name.as_str(),
    };
    HeaderValue::from_str(host).map_err(|_| RequestError::Authority)
}

/// Copies the fields that are for the upstream.
fn forward_fields(
    request: &Request,
    proxy: &Proxy,
    rules: &dyn RequestRules,
    framing: Framing,
    to: &mut HeaderMap,
) -> Result<(), RequestError> {
    let believed = proxy.forwarded.then(|| forwarded::Believed::of(request));
    let is_believed = |name: &HeaderName| {
        believed.as_ref().is_some_and(|believed| believed.contains(name.as_str()))
    };
    let lines = || request.head.headers.iter();
    let connection = lines().filter(|(name, _)| name == CONNECTION);
    let nominated = Nominated::by(connection.map(|(_, value)| value));
    let mut cookies = Vec::new();
    for (name, value) in lines() {
        let claimed =
            is_claim(name) && !rules.sets(name) && !is_believed(name) && !is_passed(proxy, name);
        if claimed || is_dropped(name) || nominated.contains(name) {
            continue;
        }
        if name == COOKIE {
            // An empty line would leave a separator, and at the end white space that no value may end in.
            if !cookies.is_empty() && !value.is_empty() {
                cookies.extend_from_slice(b"; ");
            }
            cookies.extend_from_slice(value.as_bytes());
        } else if name != TRAILER || framing == Framing::Chunked {
            to.try_append(name.clone(), value.clone()).map_err(|_| RequestError::Fields)?;
        }
    }
    // HTTP/1.1 has one line for all cookies (RFC 9114 §4.2.1).
    if !cookies.is_empty() {
        let cookies = HeaderValue::try_from(cookies).map_err(|_| RequestError::Fields)?;
        to.insert(COOKIE, cookies);
    }
    Ok(())
}

/// Decrements `max-forwards` for the methods that it has a meaning for (RFC 9110 §7.6.2).
fn count_down(head: &RequestHead, headers: &mut HeaderMap) -> Result<(), RequestError> {
    if !matches!(head.method.as_str(), "OPTIONS" | "TRACE") {
        return Ok(());
    }
    let text = headers.get(MAX_FORWARDS).and_then(|value| value.to_str().ok());
    let hops = text.and_then(|text| text.parse::<u64>().ok());
    if let Some(hops) = hops {
        let left = hops.checked_sub(1).ok_or(RequestError::LastHop)?;
        headers.insert(MAX_FORWARDS, HeaderValue::from(left));
    }
    Ok(())
}

/// Returns whether only this server or its configuration may send the field.
fn is_claim(name: &HeaderName) -> bool {
    is_any(name, claims::is_claim)
}

/// Returns whether the configuration lets a claim through, whoever sends it.
fn is_passed(proxy: &Proxy, name: &HeaderName) -> bool {
    proxy.pass_fields.iter().any(|passed| passed == name.as_str())
}

/// Returns whether no upstream gets this field.
fn is_dropped(name: &HeaderName) -> bool {
    is_any(name, |name| {
        // `proxy` would become the environment variable HTTP_PROXY of a CGI script.
        // `early-data` has one valid value, whatever the client writes, and is added later.
        is_hop_by_hop(name) || matches!(name, "host" | "expect" | "proxy" | "early-data")
    })
}

/// Adds the fields that frame the body, and `te`.
fn frame(head: &RequestHead, framing: Framing, to: &mut HeaderMap) {
    match framing {
        Framing::Length(length) => {
            to.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        Framing::Chunked => {
            to.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        // A method that defines a meaning for content states an empty one (RFC 9110 §8.6).
        Framing::None if matches!(head.method.as_str(), "POST" | "PUT" | "PATCH") => {
            to.insert(CONTENT_LENGTH, HeaderValue::from(0));
        }
        Framing::None => {}
    }
    let trailers = |(name, value): &(HeaderName, HeaderValue)| {
        name == TE && value.as_bytes().eq_ignore_ascii_case(b"trailers")
    };
    if head.headers.iter().any(trailers) {
        to.insert(TE, HeaderValue::from_static("trailers"));
        // `te` concerns the connection (RFC 9110 §10.1.4).
        to.insert(CONNECTION, HeaderValue::from_static("te"));
    }
}

#[cfg(test)]
mod tests;
