//! Proxies in front of a listener, and the client that they name.

use std::net::{IpAddr, SocketAddr};

use http::header::FORWARDED;
use http::{HeaderName, HeaderValue};
use sluicegate_config::{ClientAddressField, Listener};

use crate::networks::Networks;

/// Name of the field that lists the addresses on a request's way.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Proxies whose word about a client counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    networks: Networks,
    /// Field in which they name the client.
    pub field: ClientAddressField,
}

impl TrustedProxies {
    /// Returns the trusted proxies of a listener.
    pub fn of(listener: &Listener) -> TrustedProxies {
        TrustedProxies {
            networks: Networks::new(&listener.trusted_proxies),
            field: listener.client_address_field,
        }
    }

    /// Returns the client of a request that came from `sender`: the right-most address of the field that is no trusted
    /// proxy's, or the left-most one if all are. An entry that is no address ends the search, and so the proxy that wrote it
    /// counts as the client. The port is 0 where the field has none. Returns `None` if `sender` is no trusted proxy.
    pub fn client(
        &self,
        sender: SocketAddr,
        fields: &[(HeaderName, HeaderValue)],
    ) -> Option<SocketAddr> {
        if self.networks.is_empty() || !self.networks.contains(sender.ip()) {
            return None;
        }
        let (name, read): (_, fn(&str) -> Option<SocketAddr>) = match self.field {
            ClientAddressField::XForwardedFor => (X_FORWARDED_FOR, node),
            ClientAddressField::Forwarded => (FORWARDED, forwarded_for),
        };
        let lines = fields.iter().filter(|(known, _)| *known == name).rev();
        let mut client = sender;
        for (_, line) in lines {
            let Ok(line) = line.to_str() else {
                return Some(client);
            };
            for entry in elements(line, ',').into_iter().rev() {
                let Some(address) = read(entry) else {
                    return Some(client);
                };
                client = address;
                if !self.networks.contains(client.ip()) {
                    return Some(client);
                }
            }
        }
        Some(client)
    }
}

/// Splits a list at `separator`, but not within quotes (RFC 9110 §5.6.4). Omits empty elements.
fn elements(text: &str, separator: char) -> Vec<&str> {
    let (mut quoted, mut escaped) = (false, false);
    let at_separator = |c: char| {
        let was_escaped = std::mem::take(&mut escaped);
        match c {
            '"' if !was_escaped => quoted = !quoted,
            '\\' if quoted && !was_escaped => escaped = true,
            _ => {}
        }
        c == separator && !quoted
    };
    let elements = text.split(at_separator).map(str::trim);
    elements.filter(|element| !element.is_empty()).collect()
}

/// Reads the address in an element of `Forwarded` (RFC 7239 §4).
fn forwarded_for(element: &str) -> Option<SocketAddr> {
    let pairs = elements(element, ';').into_iter();
    let mut pairs = pairs.filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.eq_ignore_ascii_case("for"))?;
    let unquoted = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'));
    node(unquoted.unwrap_or(value))
}

/// Reads an address with a port or without; `None` for an obfuscated or unknown one (RFC 7239 §6).
fn node(text: &str) -> Option<SocketAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse::<IpAddr>();
    let address = address.map(|address| SocketAddr::new(address, 0));
    let address = address.or_else(|_| text.parse::<SocketAddr>()).ok()?;
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted(field: ClientAddressField) -> TrustedProxies {
        let networks = ["10.0.0.0/8", "2001:db8:f::/48"].map(|text| text.parse().unwrap());
        TrustedProxies {
            networks: Networks::new(&networks),
            field,
        }
    }

    fn client(field: ClientAddressField, sender: &str, lines: &[&str]) -> Option<String> {
        let name = match field {
            ClientAddressField::XForwardedFor => X_FORWARDED_FOR,
            ClientAddressField::Forwarded => FORWARDED,
        };
        let line = |line: &&str| (name.clone(), HeaderValue::from_str(line).unwrap());
        let fields: Vec<_> = lines.iter().map(line).collect();
        let client = trusted(field).client(sender.parse().unwrap(), &fields);
        client.map(|client| client.to_string())
    }

    #[test]
    fn only_a_trusted_proxy_names_the_client() {
        let of = |sender, lines| client(ClientAddressField::XForwardedFor, sender, lines);
        let named = ["198.51.100.1"];
        assert_eq!(of("192.0.2.7:9", &named), None);
        assert_eq!(of("[2001:db8::1]:9", &named), None);
        let expected = Some("198.51.100.1:0");
        assert_eq!(of("10.0.0.1:9", &named).as_deref(), expected);
        assert_eq!(of("[::ffff:10.0.0.1]:9", &named).as_deref(), expected);
        assert_eq!(of("[2001:db8:f::1]:9", &named).as_deref(), expected);
        let nobody = TrustedProxies::default();
        assert_eq!(nobody.client("10.0.0.1:9".parse().unwrap(), &[]), None);
    }

    #[test]
    fn client_is_the_right_most_address_that_is_not_trusted() {
        for (lines, expected) in [
            // What is to the left of it, the client may have written itself.
            (&["1.1.1.1, 198.51.100.1"][..], "198.51.100.1:0"),
            (&["1.1.1.1, 198.51.100.1, 10.0.0.2"], "198.51.100.1:0"),
            (&["198.51.100.1", "10.0.0.3 ,10.0.0.2,"], "198.51.100.1:0"),
            (&["198.51.100.1:4711"], "198.51.100.1:4711"),
            (&["2001:db8::5"], "[2001:db8::5]:0"),
            (&["[2001:db8::5]"], "[2001:db8::5]:0"),
            (&["[2001:db8::5]:7, 10.0.0.2"], "[2001:db8::5]:7"),
            (&["::ffff:198.51.100.1"], "198.51.100.1:0"),
            // All are trusted.
            (&["10.0.0.9, 10.0.0.2"], "10.0.0.9:0"),
            (&[], "10.0.0.1:9"),
            (&[" , "], "10.0.0.1:9"),
            // No address: whoever has written it stands for the client.
            (&["198.51.100.1, unknown"], "10.0.0.1:9"),
            (&["198.51.100.1, <script>, 10.0.0.2"], "10.0.0.2:0"),
        ] {
            let found = client(ClientAddressField::XForwardedFor, "10.0.0.1:9", lines);
            assert_eq!(found.as_deref(), Some(expected), "{lines:?}");
        }
    }

    #[test]
    fn forwarded_is_read_with_its_quotes() {
        for (lines, expected) in [
            (&["for=198.51.100.1;proto=http"][..], "198.51.100.1:0"),
            (&["proto=https;For=\"198.51.100.1:5\""], "198.51.100.1:5"),
            (
                &["for=1.1.1.1, for=\"[2001:db8::5]:7\", for=10.0.0.2"],
                "[2001:db8::5]:7",
            ),
            (
                &["for=198.51.100.1;host=\"a,for=10.0.0.3;\\\",b\", for=10.0.0.2"],
                "198.51.100.1:0",
            ),
            (&["for=198.51.100.1, for=_hidden"], "10.0.0.1:9"),
            (&["for=198.51.100.1, proto=https"], "10.0.0.1:9"),
        ] {
            let found = client(ClientAddressField::Forwarded, "10.0.0.1:9", lines);
            assert_eq!(found.as_deref(), Some(expected), "{lines:?}");
        }
    }
}
