//! Adds the fields that describe the client and the request's way to the upstream.

use std::net::{IpAddr, SocketAddr};

use http::header::{FORWARDED, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Version};

use super::unsendable::Unsendable;
use crate::http::exchange::message::Request;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const EARLY_DATA: HeaderName = HeaderName::from_static("early-data");

/// Returns whether a field claims something about the client that only this server can know, so that a client's own is dropped.
pub(super) fn is_claim(name: &str) -> bool {
    matches!(name, "forwarded" | "x-real-ip" | "early-data") || name.starts_with("x-forwarded-")
}

/// Adds `via` and `early-data`. If `all`, it also adds the fields that describe the client, unless the configuration sets
/// them.
pub(super) fn add(request: &Request, all: bool, to: &mut HeaderMap) -> Result<(), Unsendable> {
    let connection = &request.peer.connection;
    to.try_append(VIA, hop(connection.version))
        .map_err(|_| Unsendable::Fields)?;
    if request.peer.early_data {
        to.insert(EARLY_DATA, HeaderValue::from_static("1"));
    }
    if !all {
        return Ok(());
    }
    let head = &request.head;
    let client = canonical(request.peer.address);
    let scheme = connection.scheme;
    for (name, text) in [
        (FORWARDED, forwarded(client, scheme, &head.authority)),
        (X_FORWARDED_FOR, client.to_string()),
        (X_FORWARDED_HOST, head.authority.clone()),
        (X_FORWARDED_PROTO, scheme.to_owned()),
    ] {
        let value = HeaderValue::try_from(text).map_err(|_| Unsendable::Authority)?;
        to.entry(name).or_insert(value);
    }
    Ok(())
}

/// Returns the protocol of the request and a name for this hop (RFC 9110 §7.6.3).
fn hop(version: Version) -> HeaderValue {
    HeaderValue::from_static(match version {
        Version::HTTP_3 => "3 sluicegate",
        Version::HTTP_2 => "2 sluicegate",
        Version::HTTP_10 => "1.0 sluicegate",
        _ => "1.1 sluicegate",
    })
}

/// Returns the client's address; an IPv4 address that an IPv6 socket reported is returned as IPv4.
fn canonical(address: SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}

/// Returns the value of `forwarded` (RFC 7239 §4). An IPv6 address has brackets, and therefore quotes (§6.1).
fn forwarded(client: IpAddr, scheme: &str, authority: &str) -> String {
    let client = match client {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("\"[{address}]\""),
    };
    format!("for={client};host={};proto={scheme}", quoted(authority))
}

/// Returns a token as it is, and other text as a quoted string (RFC 9110 §5.6.4).
fn quoted(text: &str) -> String {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if !text.is_empty() && text.bytes().all(token) {
        return text.to_owned();
    }
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_quoted_where_they_must_be() {
        let v4 = canonical("[::ffff:192.0.2.7]:9".parse().unwrap());
        assert_eq!(
            forwarded(v4, "https", "example.org"),
            "for=192.0.2.7;host=example.org;proto=https"
        );
        let v6 = canonical("[2001:db8::1]:9".parse().unwrap());
        assert_eq!(
            forwarded(v6, "https", "example.org:8443"),
            "for=\"[2001:db8::1]\";host=\"example.org:8443\";proto=https"
        );
        assert_eq!(quoted("a\"b\\c"), "\"a\\\"b\\\\c\"");
        assert_eq!(quoted(""), "\"\"");
    }

    #[test]
    fn what_only_this_server_can_know_is_a_claim() {
        for name in [
            "forwarded",
            "x-forwarded-for",
            "x-forwarded-port",
            "early-data",
        ] {
            assert!(is_claim(name), "{name}");
        }
        assert!(!is_claim("via"));
        assert!(!is_claim("x-forward"));
    }
}
