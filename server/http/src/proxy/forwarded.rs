//! Adds the fields that describe the client and the request's way to the upstream.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use http::header::{FORWARDED, VIA};
use http::{HeaderName, HeaderValue, Version};
use sluicegate_base::address::ValidatedAddress;
use sluicegate_config::{ClientAddressField, Proxy, Via};

use super::request_error::RequestError;
use super::rules::RequestRules;
use super::upstream_head::{InvalidValue, UpstreamHead};
use crate::exchange::message::Request;
use crate::trusted_proxies::{self, is_token};

static X_FORWARDED_FOR: HeaderName = trusted_proxies::X_FORWARDED_FOR;
static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static EARLY_DATA: HeaderName = HeaderName::from_static("early-data");
static ONE: HeaderValue = HeaderValue::from_static("1");

/// Length of the longest address, in bytes: IPv6 with an IPv4 address in it.
const LONGEST_ADDRESS: usize = 45;

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
    proxy: &Proxy,
    rules: &dyn RequestRules,
    to: &mut UpstreamHead<'_>,
) -> Result<(), RequestError> {
    let peer = &request.peer;
    if let Via::Name(name) = &proxy.via
        && !rules.removes(&VIA)
    {
        let written = to.write(&VIA, |text| push_hop(text, peer.connection.version, name));
        written.map_err(|InvalidValue| RequestError::Fields)?;
    }
    // A client that is a proxy may have received the request in early data (RFC 8470 §5.1: it must not be removed).
    let announced = request.head.headers.iter().any(|(name, _)| *name == EARLY_DATA);
    if peer.early_data || announced {
        to.push(&EARLY_DATA, &ONE);
    }
    if !proxy.forwarded {
        return Ok(());
    }
    let hops = Hops::of(peer.address, peer.proxy);
    let (scheme, authority) = (peer.connection.scheme, &request.head.authority);
    for field in Described::ALL {
        let name = field.name();
        if rules.removes(name) || rules.sets(name) {
            continue;
        }
        let is_unknown = field == Described::Host && authority.is_empty();
        if is_unknown || !field.is_list() && to.contains(name) {
            continue;
        }
        // One line, because many upstreams read only one.
        let before = if field.is_list() { to.take_joined(name, b", ") } else { None };
        let written = to.write(name, |text| {
            if let Some(before) = &before {
                text.extend_from_slice(before);
                text.extend_from_slice(b", ");
            }
            match field {
                Described::Hops => {
                    hops.push_forwarded(text, before.is_some(), scheme, authority);
                }
                Described::Addresses => hops.push_x_forwarded_for(text, before.is_some()),
                Described::Host => text.extend_from_slice(authority.as_bytes()),
                Described::Scheme => text.extend_from_slice(scheme.as_bytes()),
            }
        });
        written.map_err(|InvalidValue| RequestError::Authority)?;
    }
    Ok(())
}

/// Field that describes the client and its way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Described {
    /// `forwarded`
    Hops,
    /// `x-forwarded-for`
    Addresses,
    /// `x-forwarded-host`
    Host,
    /// `x-forwarded-proto`
    Scheme,
}

impl Described {
    const ALL: [Described; 4] =
        [Described::Hops, Described::Addresses, Described::Host, Described::Scheme];

    fn name(self) -> &'static HeaderName {
        match self {
            Described::Hops => &FORWARDED,
            Described::Addresses => &X_FORWARDED_FOR,
            Described::Host => &X_FORWARDED_HOST,
            Described::Scheme => &X_FORWARDED_PROTO,
        }
    }

    /// Returns whether each hop adds to the field.
    fn is_list(self) -> bool {
        matches!(self, Described::Hops | Described::Addresses)
    }
}

/// Appends the protocol of the request and this server's name (RFC 9110 §7.6.3).
fn push_hop(text: &mut Vec<u8>, version: Version, name: &str) {
    let version: &[u8] = match version {
        Version::HTTP_3 => b"3 ",
        Version::HTTP_2 => b"2 ",
        Version::HTTP_10 => b"1.0 ",
        _ => b"1.1 ",
    };
    text.extend_from_slice(version);
    text.extend_from_slice(name.as_bytes());
}

/// Addresses on a request's way, written once: more than one field has them.
struct Hops {
    /// Client that a trusted proxy named.
    client: Option<Node>,
    /// Other end of the connection.
    sender: Node,
}

impl Hops {
    /// Returns the addresses of a client and of the trusted proxy through which it came.
    fn of(client: ValidatedAddress, proxy: Option<ValidatedAddress>) -> Hops {
        let sender = proxy.unwrap_or(client).ip().to_canonical();
        let client = client.ip().to_canonical();
        Hops { client: (client != sender).then(|| Node::new(client)), sender: Node::new(sender) }
    }

    /// Appends the elements that `forwarded` lacks: this hop, and the client if a trusted proxy named it in another field, or in
    /// one that this server replaces.
    fn push_forwarded(&self, text: &mut Vec<u8>, is_there: bool, scheme: &str, authority: &str) {
        if let Some(client) = self.client.as_ref().filter(|_| !is_there) {
            text.extend_from_slice(b"for=");
            client.push_quoted(text);
            text.extend_from_slice(b", ");
        }
        push_forwarded(text, &self.sender, scheme, authority);
    }

    /// Appends what `x-forwarded-for` lacks, in the same way.
    fn push_x_forwarded_for(&self, text: &mut Vec<u8>, is_there: bool) {
        if let Some(client) = self.client.as_ref().filter(|_| !is_there) {
            text.extend_from_slice(client.text());
            text.extend_from_slice(b", ");
        }
        text.extend_from_slice(self.sender.text());
    }
}

/// Address, with its text.
struct Node {
    text: [u8; LONGEST_ADDRESS],
    length: usize,
    is_v6: bool,
}

impl Node {
    fn new(address: IpAddr) -> Node {
        let mut text = [0; LONGEST_ADDRESS];
        let length = match address {
            // `Display` costs ten times as much, and this is written for each request.
            IpAddr::V4(address) => write_v4(&mut text, address),
            IpAddr::V6(address) => {
                let mut rest = &mut text[..];
                // No address is longer.
                let _ = write!(rest, "{address}");
                LONGEST_ADDRESS - rest.len()
            }
        };
        Node { text, length, is_v6: address.is_ipv6() }
    }

    fn text(&self) -> &[u8] {
        &self.text[..self.length]
    }

    /// Appends the node of `forwarded`: an IPv6 address has brackets, and therefore quotes (RFC 7239 §6.1).
    fn push_quoted(&self, text: &mut Vec<u8>) {
        if self.is_v6 {
            text.extend_from_slice(b"\"[");
        }
        text.extend_from_slice(self.text());
        if self.is_v6 {
            text.extend_from_slice(b"]\"");
        }
    }
}

/// Writes an IPv4 address, and returns its length.
fn write_v4(text: &mut [u8; LONGEST_ADDRESS], address: Ipv4Addr) -> usize {
    let mut length = 0;
    let mut push = |byte| {
        text[length] = byte;
        length += 1;
    };
    for (place, octet) in address.octets().into_iter().enumerate() {
        if place > 0 {
            push(b'.');
        }
        for unit in [100, 10, 1] {
            if octet >= unit || unit == 1 {
                push(b'0' + octet / unit % 10);
            }
        }
    }
    length
}

/// Appends an element of `forwarded` (RFC 7239 §4), without the host if the request names none.
fn push_forwarded(text: &mut Vec<u8>, client: &Node, scheme: &str, authority: &str) {
    text.extend_from_slice(b"for=");
    client.push_quoted(text);
    if !authority.is_empty() {
        text.extend_from_slice(b";host=");
        push_value(text, authority);
    }
    text.extend_from_slice(b";proto=");
    text.extend_from_slice(scheme.as_bytes());
}

/// Appends a token as it is, and other text as a quoted string (RFC 9110 §5.6.4).
fn push_value(text: &mut Vec<u8>, value: &str) {
    if !value.is_empty() && value.bytes().all(is_token) {
        text.extend_from_slice(value.as_bytes());
        return;
    }
    text.push(b'"');
    for byte in value.bytes() {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    text.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_quoted_where_they_must_be() {
        let forwarded = |address: &str, authority| {
            let mut text = Vec::new();
            let node = Node::new(address.parse().unwrap());
            push_forwarded(&mut text, &node, "https", authority);
            String::from_utf8(text).unwrap()
        };
        let quoted = |value| {
            let mut text = Vec::new();
            push_value(&mut text, value);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(
            forwarded("192.0.2.7", "example.org"),
            "for=192.0.2.7;host=example.org;proto=https"
        );
        assert_eq!(
            forwarded("2001:db8::1", "example.org:8443"),
            "for=\"[2001:db8::1]\";host=\"example.org:8443\";proto=https"
        );
        assert_eq!(quoted("a\"b\\c"), "\"a\\\"b\\\\c\"");
        assert_eq!(quoted(""), "\"\"");
    }

    #[test]
    fn each_ipv4_address_is_written_as_usual() {
        for octets in (0..=u8::MAX).map(|octet| [octet, 0, 255 - octet, octet / 3]) {
            let address = Ipv4Addr::from(octets);
            assert_eq!(Node::new(address.into()).text(), address.to_string().as_bytes());
        }
    }
}
