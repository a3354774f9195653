//! Adds the fields that describe the client and the request's way to the upstream.

use std::net::IpAddr;

use http::header::{FORWARDED, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use sluicegate_config::{ClientAddressField, Proxy, Via};

use super::rules::RequestRules;
use super::unsendable::Unsendable;
use crate::http::exchange::message::Request;
use crate::http::trusted_proxies::{X_FORWARDED_FOR, is_token};

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const EARLY_DATA: HeaderName = HeaderName::from_static("early-data");

/// Fields by which some proxies name the client, beside `forwarded` and those that begin with `x-forwarded-`.
const CLIENT_NAMES: [&str; 11] = [
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "fastly-client-ip",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-forwarded",
    "x-original-forwarded-for",
    "x-real-ip",
    "x-remote-ip",
];

/// Returns whether a field claims something about the client that only this server or a trusted proxy can know, so that a
/// client's own is dropped.
pub(super) fn is_claim(name: &str) -> bool {
    name == "forwarded" || name.starts_with("x-forwarded-") || CLIENT_NAMES.contains(&name)
}

/// Claims that come from a trusted proxy, which writes them itself: those of the field in which it names the client. It may
/// pass on all others as its client sent them.
pub(super) struct Believed {
    /// Field in which the proxy names the client; none where nothing is believed.
    field: Option<ClientAddressField>,
    /// Upstreams read the same in that field as this server does.
    is_readable: bool,
}

impl Believed {
    /// Returns the claims of a request that are believed.
    pub(super) fn of(request: &Request) -> Believed {
        let proxies = &request.peer.connection.trusted_proxies;
        let is_proxy = request.peer.proxy.is_some();
        Believed {
            field: is_proxy.then_some(proxies.field),
            is_readable: is_proxy && proxies.is_readable(&request.head.headers),
        }
    }

    /// Returns whether the field of this name is believed.
    pub(super) fn contains(&self, name: &str) -> bool {
        match (name, self.field) {
            ("forwarded", Some(ClientAddressField::Forwarded))
            | ("x-forwarded-for", Some(ClientAddressField::XForwardedFor)) => self.is_readable,
            (name, Some(ClientAddressField::XForwardedFor)) => {
                name.starts_with("x-forwarded-") && !name.contains('_')
            }
            _ => false,
        }
    }
}

/// Adds `via`, `early-data` and the fields that describe the client, unless the configuration sets, removes or omits them.
/// Fields that a trusted proxy wrote are already in `to`, and are extended.
pub(super) fn add(
    request: &Request,
    (proxy, rules): (&Proxy, &dyn RequestRules),
    to: &mut HeaderMap,
) -> Result<(), Unsendable> {
    let peer = &request.peer;
    if let Via::Name(name) = &proxy.via
        && !rules.removes(&VIA)
    {
        let hop = hop(peer.connection.version, name)?;
        to.try_append(VIA, hop).map_err(|_| Unsendable::Fields)?;
    }
    // A client that is a proxy may have received the request in early data (RFC 8470 §5.1: it must not be removed).
    let announced = { request.head.headers.iter() }.any(|(name, _)| *name == EARLY_DATA);
    if peer.early_data || announced {
        to.insert(EARLY_DATA, HeaderValue::from_static("1"));
    }
    if !proxy.forwarded {
        return Ok(());
    }
    let authority = &request.head.authority;
    let (client, sender) = (peer.address.ip(), peer.proxy.unwrap_or(peer.address).ip());
    let hops = Hops {
        client: client.to_canonical(),
        sender: sender.to_canonical(),
    };
    let scheme = peer.connection.scheme;
    for (name, text) in [
        (FORWARDED, hops.forwarded(to, scheme, authority)),
        (X_FORWARDED_FOR, hops.x_forwarded_for(to)),
        (X_FORWARDED_HOST, authority.clone()),
        (X_FORWARDED_PROTO, scheme.to_owned()),
    ] {
        let is_list = name == FORWARDED || name == X_FORWARDED_FOR;
        if rules.removes(&name) || rules.sets(&name) || !is_list && to.contains_key(&name) {
            continue;
        }
        let added = HeaderValue::try_from(text).map_err(|_| Unsendable::Authority)?;
        // One line, because many upstreams read only one.
        let mut lines: Vec<&[u8]> = to
            .get_all(&name)
            .iter()
            .map(HeaderValue::as_bytes)
            .collect();
        let value = if lines.is_empty() {
            added
        } else {
            lines.push(added.as_bytes());
            HeaderValue::try_from(lines.join(&b", "[..])).map_err(|_| Unsendable::Fields)?
        };
        to.insert(name, value);
    }
    Ok(())
}

/// Returns the protocol of the request and this server's name (RFC 9110 §7.6.3).
fn hop(version: Version, name: &str) -> Result<HeaderValue, Unsendable> {
    let version = match version {
        Version::HTTP_3 => "3",
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    };
    HeaderValue::try_from(format!("{version} {name}")).map_err(|_| Unsendable::Fields)
}

/// Addresses on a request's way.
struct Hops {
    client: IpAddr,
    /// Other end of the connection.
    sender: IpAddr,
}

impl Hops {
    /// Returns the elements that `forwarded` lacks: this hop, and the client if a trusted proxy named it in another field, or in
    /// one that this server replaces.
    fn forwarded(&self, fields: &HeaderMap, scheme: &str, authority: &str) -> String {
        let hop = forwarded(self.sender, scheme, authority);
        if self.is_unnamed_in(&FORWARDED, fields) {
            format!("for={}, {hop}", forwarded_node(self.client))
        } else {
            hop
        }
    }

    /// Returns what `x-forwarded-for` lacks, in the same way.
    fn x_forwarded_for(&self, fields: &HeaderMap) -> String {
        if self.is_unnamed_in(&X_FORWARDED_FOR, fields) {
            format!("{}, {}", self.client, self.sender)
        } else {
            self.sender.to_string()
        }
    }

    fn is_unnamed_in(&self, name: &HeaderName, fields: &HeaderMap) -> bool {
        self.client != self.sender && !fields.contains_key(name)
    }
}

/// Returns the value of `forwarded` (RFC 7239 §4). An IPv6 address has brackets, and therefore quotes (§6.1).
fn forwarded(client: IpAddr, scheme: &str, authority: &str) -> String {
    let client = forwarded_node(client);
    format!("for={client};host={};proto={scheme}", quoted(authority))
}

fn forwarded_node(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("\"[{address}]\""),
    }
}

/// Returns a token as it is, and other text as a quoted string (RFC 9110 §5.6.4).
fn quoted(text: &str) -> String {
    if !text.is_empty() && text.bytes().all(is_token) {
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
        let v4 = "192.0.2.7".parse().unwrap();
        assert_eq!(
            forwarded(v4, "https", "example.org"),
            "for=192.0.2.7;host=example.org;proto=https"
        );
        let v6 = "2001:db8::1".parse().unwrap();
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
            "x-real-ip",
            "true-client-ip",
        ] {
            assert!(is_claim(name), "{name}");
        }
        assert!(!is_claim("via"));
        assert!(!is_claim("x-forward"));
    }
}
