//! Heads of requests: from the form of hyper and h2 to that of handlers, with all that servers could read differently refused.

mod opening;

use std::borrow::Cow;
use std::collections::HashSet;

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderMap, HeaderName, TE, TRANSFER_ENCODING,
};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Version, request};

use self::Refusal::{Malformed, TooLarge};

use sluicegate_http::authority::{is_authority, set_host, without_empty_port};
use sluicegate_http::exchange::{Fields, RequestHead};
use sluicegate_http::gate::{FIELD_OVERHEAD, MAX_FIELDS};
use sluicegate_http::target::RequestTarget;

/// Reason to refuse a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) enum Refusal {
    /// The head is malformed: 400.
    Malformed,
    /// The client speaks another version of WebSocket: 426.
    Version,
    /// The field section is larger than the limit: 431.
    TooLarge,
}

/// Well-formed head.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ParsedRequest {
    pub(super) head: RequestHead,
    pub(super) content_length: Option<u64>,
    /// Size of the head as RFC 9113 §6.5.2 counts it.
    pub(super) size: u64,
    /// The client waits for a status before it sends the body (RFC 9110 §10.1.1).
    pub(super) expects_status: bool,
    /// Value of `sec-websocket-accept` that opens the WebSocket for which a client of HTTP/1.1 asks.
    pub(super) accept: Option<HeaderValue>,
    /// Path as the client sent it, if servers read it differently; that of the head is then empty.
    pub(super) refused_path: Option<String>,
}

/// Checks a head that came over a connection of `scheme`; `max_section` is the largest size as RFC 9113 §6.5.2 counts it.
pub(super) fn parse(
    parts: &request::Parts,
    scheme: &str,
    max_section: u64,
) -> Result<ParsedRequest, Refusal> {
    let size = check_size(parts, max_section)?;
    check_coding(&parts.headers)?;
    let accept = opening::accept(parts)?;
    let protocol = match &accept {
        Some(_) => Some("websocket".to_owned()),
        None => opening::protocol(parts)?.or_else(|| opening::upgrade(parts)),
    };
    // CONNECT without a protocol names only whom to connect to (RFC 9112 §3.2.3).
    let is_connect = parts.method == Method::CONNECT && protocol.is_none();
    let authority = authority(parts)?;
    let scheme = match parts.uri.scheme_str() {
        _ if is_connect => None,
        None => Some(scheme.to_owned()),
        Some(given) if given == "http" || given == "https" => Some(given.to_owned()),
        Some(_) => return Err(Malformed),
    };
    let target = RequestTarget::read(&target(parts, is_connect)?).ok_or(Malformed)?;
    let mut headers = fields(&parts.headers, parts.version)?;
    set_host(&mut headers, &authority);
    let expects_status = { parts.headers.get(EXPECT) }
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    Ok(ParsedRequest {
        content_length: content_length(&parts.headers)?,
        size,
        head: RequestHead {
            method: match &accept {
                Some(_) => Method::CONNECT.as_str(),
                None => parts.method.as_str(),
            }
            .to_owned(),
            protocol,
            scheme,
            authority,
            path: target.path,
            query: target.query,
            headers,
        },
        expects_status,
        accept,
        refused_path: target.refused,
    })
}

/// Checks the size of the section with the fields that HTTP/2 and HTTP/3 have in place of the request line, and returns it.
fn check_size(parts: &request::Parts, max_section: u64) -> Result<u64, Refusal> {
    let uri = &parts.uri;
    let target = [
        Some((":method", parts.method.as_str())),
        uri.scheme_str().map(|scheme| (":scheme", scheme)),
        uri.authority().map(|authority| (":authority", authority.as_str())),
        uri.path_and_query().map(|path| (":path", path.as_str())),
    ];
    let target = target.into_iter().flatten();
    let target = target.map(|(name, value)| name.len() + value.len() + FIELD_OVERHEAD);
    let size = target.sum::<usize>() as u64 + section_size(&parts.headers);
    if size > max_section || count(&parts.headers) > MAX_FIELDS {
        return Err(TooLarge);
    }
    Ok(size)
}

/// Returns the number of field lines. Browsers split a cookie into crumbs, which are one line (RFC 9113 §8.2.3).
fn count(headers: &HeaderMap) -> usize {
    let crumbs = headers.get_all(COOKIE).iter().count();
    headers.len() - crumbs.saturating_sub(1)
}

/// Refuses transfer codings but `chunked` alone: hyper decodes no other, and takes the last of several for all of them.
fn check_coding(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if codings.next().is_none_or(is_chunked) && codings.next().is_none() {
        Ok(())
    } else {
        Err(Malformed)
    }
}

/// Returns whether a value begins or ends with white space, which makes a message of HTTP/2 malformed (RFC 9113 §8.2.1). In HTTP/1.1
/// it is not a part of the value.
fn has_outer_space(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    bytes.trim_ascii() != bytes
}

/// Returns the size of fields as RFC 9113 §6.5.2 counts it.
fn section_size(fields: &HeaderMap) -> u64 {
    let lines = fields.iter();
    let sizes = lines.map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD);
    sizes.sum::<usize>() as u64
}

/// Takes the authority from the target, or else from Host; both must be a host with a port or without, and agree. An absolute target of
/// HTTP/1.1 overrides Host (RFC 9112 §3.2.2), which still has to be valid. A request of HTTP/1.1 has one Host line (RFC 9112 §3.2). One
/// of HTTP/1.0 may have none; its authority is then empty (RFC 9112 §3.3).
fn authority(parts: &request::Parts) -> Result<String, Refusal> {
    let mut lines = parts.headers.get_all(HOST).iter();
    let host = lines.next();
    if lines.next().is_some() {
        return Err(Malformed);
    }
    let host = host.map(|value| value.to_str().map_err(|_| Malformed));
    let host = host.transpose()?.map(without_empty_port);
    if host.is_none() && parts.version == Version::HTTP_11 {
        return Err(Malformed);
    }
    let target = parts.uri.authority();
    let target = target.map(|authority| without_empty_port(authority.as_str()));
    let overrides = parts.version < Version::HTTP_2 && parts.uri.scheme().is_some();
    let authority = match (target, host) {
        (Some(_), Some(host)) if overrides && !host.is_empty() && !is_authority(host) => {
            return Err(Malformed);
        }
        (Some(authority), Some(host)) if !overrides && !authority.eq_ignore_ascii_case(host) => {
            return Err(Malformed);
        }
        (Some(authority), _) => authority,
        (None, Some(host)) => host,
        (None, None) if parts.version == Version::HTTP_10 => return Ok(String::new()),
        (None, None) => return Err(Malformed),
    };
    if is_authority(authority) { Ok(authority.to_owned()) } else { Err(Malformed) }
}

/// Returns the target in origin form, or `*` (RFC 9112 §3.2): empty for CONNECT without a protocol.
fn target(parts: &request::Parts, is_connect: bool) -> Result<Cow<'_, str>, Refusal> {
    let target = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
    if is_connect {
        return if matches!(target, "" | "/") { Ok("".into()) } else { Err(Malformed) };
    }
    let is_asterisk = target == "*" && parts.method == Method::OPTIONS;
    if target.starts_with('/') || is_asterisk {
        Ok(target.into())
    } else if target.starts_with('?') && parts.version != Version::HTTP_2 {
        // An absolute target of HTTP/1.1 may lack a path, which is then empty.
        Ok(format!("/{target}").into())
    } else {
        Err(Malformed)
    }
}

fn content_length(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let mut known = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        let digits = value.as_bytes();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(Malformed);
        }
        let text = value.to_str().map_err(|_| Malformed)?;
        let length: u64 = text.parse().map_err(|_| Malformed)?;
        if known.replace(length).is_some_and(|before| before != length) {
            return Err(Malformed);
        }
    }
    Ok(known)
}

/// Returns the fields that concern the request: neither those of the connection nor those that the client names in `connection`,
/// so that nothing which the route adds later can be among them. `te: trailers` of HTTP/2 is kept: servers of gRPC insist on it.
fn fields(headers: &HeaderMap, version: Version) -> Result<Fields, Refusal> {
    // Each once, however often a client names it, and none that is not there.
    let mut nominated = HashSet::new();
    for value in headers.get_all(CONNECTION) {
        let text = value.to_str().map_err(|_| Malformed)?;
        let names = text.split(',').map(str::trim);
        let present = names.filter(|name| headers.contains_key(*name));
        nominated.extend(present.filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok()));
    }
    let is_nominated = |name: &HeaderName| {
        // Framing and host are the request's own, whatever the client says.
        let kept = [HOST, CONTENT_LENGTH].contains(name);
        !kept && nominated.contains(name)
    };
    // Exactly as RFC 9113 §8.2.2 has it; with HTTP/1.1, the field is for the server alone.
    let takes_trailers = |name: &HeaderName, value: &HeaderValue| {
        version == Version::HTTP_2 && name == TE && value == "trailers"
    };
    if headers.values().any(has_outer_space) {
        return Err(Malformed);
    }
    let lines = headers.iter();
    let kept = lines.filter(|(name, value)| {
        (!is_of_connection(name) || takes_trailers(name, value)) && !is_nominated(name)
    });
    Ok(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Returns the fields of a trailer section; `None` if one of them would frame the message, concern the connection or name the host,
/// if one is malformed, or if there are too many.
pub(super) fn trailers(map: &HeaderMap) -> Option<Fields> {
    if map.len() > MAX_FIELDS {
        return None;
    }
    let lines = map.iter().map(|(name, value): (&HeaderName, &HeaderValue)| {
        let refused = [HOST, CONTENT_LENGTH].contains(name)
            || is_of_connection(name)
            || has_outer_space(value);
        (!refused).then(|| (name.clone(), value.clone()))
    });
    lines.collect()
}

/// Returns whether a field concerns the connection and not the request (RFC 9110 §7.6.1).
pub(super) fn is_of_connection(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "transfer-encoding"
            | "upgrade"
            | "te"
            | "keep-alive"
            | "proxy-connection"
            | "http2-settings"
    )
}

#[cfg(test)]
mod tests;
