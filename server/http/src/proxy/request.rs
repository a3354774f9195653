//! Rewrites a request for an upstream, in the form of HTTP/1.1. HTTP/2 needs another head, but the same fields.

use http::header::{CONNECTION, COOKIE, HOST, MAX_FORWARDS, TE, TRAILER};
use http::{HeaderName, HeaderValue};

use super::claims;
use super::fields::{Nominated, is_hop_by_hop};
use super::forwarded;
use super::request_error::RequestError;
use super::rules::RequestRules;
use super::upstream_head::{Framing, InvalidValue, UpstreamHead};
use crate::exchange::message::Request;
use crate::exchange::{RequestHead, is_any};
use sluicegate_config::{HostHeader, Proxy};

static TRAILERS: HeaderValue = HeaderValue::from_static("trailers");
static OPTION_TE: HeaderValue = HeaderValue::from_static("te");

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
pub(super) fn rewrite<'a>(
    request: &'a Request,
    proxy: &Proxy,
    rules: &dyn RequestRules,
    path: &str,
    framing: Framing,
    upstream: &str,
) -> Result<UpstreamHead<'a>, RequestError> {
    let head = &request.head;
    let query = head.query.as_ref();
    let query = query.map(|query| if proxy.raw_path { query.raw() } else { query });
    if head.path.as_str() == "*" && head.method != "OPTIONS" {
        return Err(RequestError::Path);
    }
    // A tunnel of HTTP/2 or HTTP/3 for WebSocket is a GET of HTTP/1.1 (RFC 8441 §5).
    let (method, lines) = (head.method_of_route(), head.headers.len());
    let target = |text: &mut Vec<u8>| push_target(text, head, path, query);
    let mut rewritten = UpstreamHead::new(method, lines, target)?;
    rewritten.set_framing(framing);
    let host = host(proxy, head, upstream).as_bytes();
    let written = rewritten.write(&HOST, |text| text.extend_from_slice(host));
    written.map_err(|InvalidValue| RequestError::Authority)?;
    forward_fields(request, proxy, rules, framing, &mut rewritten)?;
    count_down(head, &mut rewritten)?;
    forwarded::add(request, proxy, rules, &mut rewritten)?;
    Ok(rewritten)
}

/// Appends the request target: the origin form, or the asterisk (RFC 9112 §3.2).
fn push_target(text: &mut Vec<u8>, head: &RequestHead, path: &str, query: Option<&str>) {
    if head.path.as_str() == "*" {
        text.push(b'*');
        return;
    }
    if !path.starts_with('/') {
        text.push(b'/');
    }
    text.extend_from_slice(path.as_bytes());
    if let Some(query) = query {
        text.push(b'?');
        text.extend_from_slice(query.as_bytes());
    }
}

fn host<'a>(proxy: &'a Proxy, head: &'a RequestHead, upstream: &'a str) -> &'a str {
    match &proxy.host {
        // A request of HTTP/1.0 may name no host, but every one to an upstream does.
        HostHeader::Client if head.authority.is_empty() => upstream,
        HostHeader::Client => &head.authority,
        HostHeader::Upstream => upstream,
        HostHeader::Name(name) => name,
    }
}

/// Adds the fields that are for the upstream.
fn forward_fields<'a>(
    request: &'a Request,
    proxy: &Proxy,
    rules: &dyn RequestRules,
    framing: Framing,
    to: &mut UpstreamHead<'a>,
) -> Result<(), RequestError> {
    let believed = proxy.forwarded.then(|| forwarded::Believed::of(request));
    let is_believed = |name: &HeaderName| {
        believed.as_ref().is_some_and(|believed| believed.contains(name.as_str()))
    };
    let lines = || request.head.headers.iter();
    let connection = lines().filter(|(name, _)| name == CONNECTION);
    let nominated = Nominated::by(connection.map(|(_, value)| value));
    let (mut cookies, mut takes_trailers) = (0, false);
    for (name, value) in lines() {
        takes_trailers |= name == TE && value.as_bytes().eq_ignore_ascii_case(b"trailers");
        let is_refused = || {
            let claims = is_claim(name) && !rules.sets(name);
            claims && !is_believed(name) && !is_passed(proxy, name) || is_dropped(name)
        };
        if !is_harmless(name) && is_refused() || nominated.contains(name) {
            continue;
        }
        if name == COOKIE {
            // An empty line would leave a separator, and at the end white space that no value may end in.
            if !value.is_empty() {
                cookies += 1;
                to.push(name, value);
            }
        } else if name != TRAILER || framing == Framing::Chunked {
            to.push(name, value);
        }
    }
    // HTTP/1.1 has one line for all cookies (RFC 9114 §4.2.1).
    if cookies > 1
        && let Some(joined) = to.take_joined(&COOKIE, b"; ")
    {
        let written = to.write(&COOKIE, |text| text.extend_from_slice(&joined));
        written.map_err(|InvalidValue| RequestError::Fields)?;
    }
    if takes_trailers {
        to.push(&TE, &TRAILERS);
        // `te` concerns the connection (RFC 9110 §10.1.4).
        to.push(&CONNECTION, &OPTION_TE);
    }
    Ok(())
}

/// Decrements `max-forwards` for the methods that it has a meaning for (RFC 9110 §7.6.2).
fn count_down(head: &RequestHead, to: &mut UpstreamHead<'_>) -> Result<(), RequestError> {
    if !matches!(head.method.as_str(), "OPTIONS" | "TRACE") {
        return Ok(());
    }
    let text = to.values(&MAX_FORWARDS).next();
    let text = text.and_then(|value| std::str::from_utf8(value).ok());
    let hops = text.and_then(|text| text.parse::<u64>().ok());
    if let Some(hops) = hops {
        let left = hops.checked_sub(1).ok_or(RequestError::LastHop)?.to_string();
        to.remove(&MAX_FORWARDS);
        let written = to.write(&MAX_FORWARDS, |text| text.extend_from_slice(left.as_bytes()));
        written.map_err(|InvalidValue| RequestError::Fields)?;
    }
    Ok(())
}

/// Returns whether most requests have the field, and upstreams get it whatever the configuration says.
fn is_harmless(name: &HeaderName) -> bool {
    let name = name.as_str();
    claims::is_ordinary(name) && !matches!(name, "content-length" | "host")
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

#[cfg(test)]
mod tests;
