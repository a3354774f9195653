//! Parses and validates the head of a request (RFC 9114 §4.1 to §4.4).

use http::{HeaderName, HeaderValue};
use quiche::h3::NameValue;

use sluicegate_http::authority::{is_authority, set_host, without_empty_port};
use sluicegate_http::exchange::{Fields, RequestHead};
use sluicegate_http::gate::{FIELD_OVERHEAD, MAX_FIELDS};
use sluicegate_http::target::RequestTarget;

/// Well-formed head.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ParsedRequest {
    pub(super) head: RequestHead,
    pub(super) content_length: Option<u64>,
    /// The client waits for a status before it sends the body (RFC 9110 §10.1.1).
    pub(super) expects_status: bool,
}

/// Reason to refuse a head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The head is malformed: H3_MESSAGE_ERROR.
    Malformed,
    /// The client speaks another version of WebSocket: 426.
    Version,
    /// The field section is larger than the limit: 431.
    TooLarge,
    /// Servers read the path differently: 400.
    Path(Box<RefusedPath>),
}

/// Head that is well-formed except for its path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RefusedPath {
    /// Request with an empty path.
    pub(super) request: ParsedRequest,
    /// Path as the client sent it.
    pub(super) raw: String,
}

use Refusal::{Malformed, TooLarge};

/// Pseudo-header fields, each at most once.
#[derive(Default)]
struct Pseudo<'a> {
    method: Option<&'a str>,
    protocol: Option<&'a str>,
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: Option<&'a str>,
}

/// Fields that frame the message or name its host.
#[derive(Default)]
struct Framing {
    host: Option<String>,
    content_length: Option<u64>,
    expects_status: bool,
    /// The client names a version of WebSocket other than 13.
    names_other_version: bool,
}

/// Checks a head; `max_section` is the largest size as RFC 9114 §4.2.2 counts it.
pub(super) fn parse<H: NameValue>(list: &[H], max_section: u64) -> Result<ParsedRequest, Refusal> {
    check_size(list, max_section)?;
    // Browsers split a cookie into crumbs, which are one line (RFC 9114 §4.2.1).
    let crumbs = list.iter().filter(|line| line.name() == b"cookie").count();
    check_count(list.len() - crumbs.saturating_sub(1))?;
    let mut pseudo = Pseudo::default();
    let mut framing = Framing::default();
    let mut headers = Vec::with_capacity(list.len());
    for line in list {
        let (name, value) = (line.name(), line.value());
        if name.first() == Some(&b':') {
            if !headers.is_empty() {
                return Err(Malformed);
            }
            pseudo.take(name, value)?;
        } else {
            let name = field(name, value)?;
            framing.note(name, value)?;
            headers.push(owned(name, value)?);
        }
    }
    let (head, raw) = pseudo.head(framing.host, headers)?;
    // RFC 9220 §3, RFC 8441 §5
    if framing.names_other_version && head.is_websocket() {
        return Err(Refusal::Version);
    }
    let request = ParsedRequest {
        head,
        content_length: framing.content_length,
        expects_status: framing.expects_status,
    };
    match raw {
        None => Ok(request),
        Some(raw) => Err(Refusal::Path(Box::new(RefusedPath { request, raw }))),
    }
}

/// Checks a trailer section: fields only, none that frames the message.
pub(super) fn trailers<H: NameValue>(list: &[H], max_section: u64) -> Result<Fields, Refusal> {
    let checked = check_size(list, max_section).and_then(|()| check_count(list.len()));
    checked.map_err(|_| Malformed)?;
    let lines = list.iter().map(|line| match field(line.name(), line.value())? {
        "content-length" | "host" => Err(Malformed),
        name => owned(name, line.value()),
    });
    lines.collect()
}

fn owned(name: &str, value: &[u8]) -> Result<(HeaderName, HeaderValue), Refusal> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Malformed)?;
    let value = HeaderValue::from_bytes(value).map_err(|_| Malformed)?;
    Ok((name, value))
}

fn check_size<H: NameValue>(list: &[H], max_section: u64) -> Result<(), Refusal> {
    let size = list.iter().fold(0_u64, |sum, line| {
        sum.saturating_add((line.name().len() + line.value().len() + FIELD_OVERHEAD) as u64)
    });
    if size > max_section {
        return Err(TooLarge);
    }
    Ok(())
}

fn check_count(lines: usize) -> Result<(), Refusal> {
    if lines > MAX_FIELDS {
        return Err(TooLarge);
    }
    Ok(())
}

impl<'a> Pseudo<'a> {
    fn take(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), Refusal> {
        let slot = match name {
            b":method" => &mut self.method,
            b":protocol" => &mut self.protocol,
            b":scheme" => &mut self.scheme,
            b":authority" => &mut self.authority,
            b":path" => &mut self.path,
            _ => return Err(Malformed),
        };
        let visible = |byte: &u8| byte.is_ascii_graphic() || name == b":path" && !byte.is_ascii();
        let visible = value.iter().all(visible);
        let value = std::str::from_utf8(value).map_err(|_| Malformed)?;
        if !visible || slot.replace(value).is_some() {
            return Err(Malformed);
        }
        Ok(())
    }

    /// Returns the head, and the raw path if it is refused.
    fn head(
        self,
        host: Option<String>,
        mut headers: Fields,
    ) -> Result<(RequestHead, Option<String>), Refusal> {
        let method = self.method.filter(|m| is_token(m.as_bytes())).ok_or(Malformed)?;
        let authority = authority(self.authority, host.as_deref())?;
        set_host(&mut headers, &authority);
        let (scheme, target) = match (method, self.protocol) {
            // RFC 9114 §4.4: :authority names the host and port to connect to, and nothing else does.
            ("CONNECT", None) => {
                if self.authority.is_none() || self.scheme.is_some() || self.path.is_some() {
                    return Err(Malformed);
                }
                (None, "")
            }
            // RFC 8441 §4: only CONNECT may have :protocol. It then has :scheme and :path, like every other method.
            (_, Some(protocol)) if method != "CONNECT" || !is_token(protocol.as_bytes()) => {
                return Err(Malformed);
            }
            _ => (Some(scheme(self.scheme)?), target(method, self.path)?),
        };
        let target = RequestTarget::read(target).ok_or(Malformed)?;
        let head = RequestHead {
            method: method.to_owned(),
            protocol: self.protocol.map(str::to_owned),
            scheme,
            authority,
            path: target.path,
            query: target.query,
            headers,
        };
        Ok((head, target.refused))
    }
}

fn scheme(given: Option<&str>) -> Result<String, Refusal> {
    let scheme = given.ok_or(Malformed)?.to_ascii_lowercase();
    match scheme.as_str() {
        "http" | "https" => Ok(scheme),
        _ => Err(Malformed),
    }
}

/// Checks `:path` (RFC 9114 §4.3.1).
fn target<'a>(method: &str, given: Option<&'a str>) -> Result<&'a str, Refusal> {
    let path = given.ok_or(Malformed)?;
    let origin_form = path.starts_with('/');
    let asterisk = path == "*" && method == "OPTIONS";
    if !origin_form && !asterisk {
        return Err(Malformed);
    }
    Ok(path)
}

/// Takes the authority from `:authority`, or else from Host; both must agree, and be a host with a port or without.
fn authority(pseudo: Option<&str>, host: Option<&str>) -> Result<String, Refusal> {
    let pseudo = pseudo.map(without_empty_port);
    let authority = match (pseudo, host.map(without_empty_port)) {
        (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
            return Err(Malformed);
        }
        (Some(authority), _) => authority,
        (None, Some(host)) => host,
        (None, None) => return Err(Malformed),
    };
    if is_authority(authority) { Ok(authority.to_owned()) } else { Err(Malformed) }
}

impl Framing {
    fn note(&mut self, name: &str, value: &[u8]) -> Result<(), Refusal> {
        match name {
            "host" => {
                let host = String::from_utf8(value.to_vec()).map_err(|_| Malformed)?;
                if self.host.replace(host).is_some() {
                    return Err(Malformed);
                }
            }
            "content-length" => {
                let length = content_length(value)?;
                if self.content_length.replace(length).is_some_and(|before| before != length) {
                    return Err(Malformed);
                }
            }
            "expect" => self.expects_status = value.eq_ignore_ascii_case(b"100-continue"),
            "sec-websocket-version" => self.names_other_version |= value != b"13",
            _ => {}
        }
        Ok(())
    }
}

fn content_length(value: &[u8]) -> Result<u64, Refusal> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Malformed);
    }
    let digits = std::str::from_utf8(value).map_err(|_| Malformed)?;
    digits.parse().map_err(|_| Malformed)
}

/// Checks a field line other than a pseudo-header field (RFC 9114 §4.2, RFC 9110 §5.5), and returns its name.
fn field<'a>(name: &'a [u8], value: &[u8]) -> Result<&'a str, Refusal> {
    if !is_token(name) || name.iter().any(u8::is_ascii_uppercase) || !is_value(value) {
        return Err(Malformed);
    }
    let name = std::str::from_utf8(name).map_err(|_| Malformed)?;
    match name {
        "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => {
            Err(Malformed)
        }
        "te" if !value.eq_ignore_ascii_case(b"trailers") => Err(Malformed),
        _ => Ok(name),
    }
}

/// Returns whether text is a token (RFC 9110 §5.6.2).
fn is_token(text: &[u8]) -> bool {
    let tchar = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    !text.is_empty() && text.iter().all(tchar)
}

/// Returns whether bytes are a field value (RFC 9110 §5.5): no control characters except tabs, no whitespace at either end.
fn is_value(value: &[u8]) -> bool {
    let blank = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    let allowed = |b: &u8| *b == b'\t' || !b.is_ascii_control();
    value.iter().all(allowed) && !blank(value.first()) && !blank(value.last())
}

#[cfg(test)]
mod tests;
