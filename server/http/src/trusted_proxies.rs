//! Proxies in front of a listener, and the client that they name.

use std::net::{IpAddr, SocketAddr};

use http::header::FORWARDED;
use http::{HeaderName, HeaderValue};
use sluicegate_config::{ClientAddressField, Listener};

use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::networks::Networks;

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
    ///
    /// The search reads each line from its end, where proxies append, so nothing that a client writes changes how theirs is
    /// read.
    pub fn client(
        &self,
        sender: ValidatedAddress,
        fields: &[(HeaderName, HeaderValue)],
    ) -> Option<ValidatedAddress> {
        if !self.contains(sender.ip()) {
            return None;
        }
        let mut client = sender;
        for line in self.lines(fields).rev() {
            let mut rest = without_separators(line);
            while !rest.is_empty() {
                let Some((before, Some(address))) = self.last_entry(rest) else {
                    return Some(client);
                };
                // Its word counts as far as the entries behind it are trusted proxies'.
                client = ValidatedAddress::named_by(sender, address);
                if !self.networks.contains(client.ip()) {
                    return Some(client);
                }
                rest = without_separators(before);
            }
        }
        Some(client)
    }

    /// Returns whether an address is a trusted proxy's.
    pub fn contains(&self, address: IpAddr) -> bool {
        !self.networks.is_empty() && self.networks.contains(address)
    }

    /// Returns whether every reader finds the same entries in the field: upstreams may read it from the beginning.
    pub fn is_readable(&self, fields: &[(HeaderName, HeaderValue)]) -> bool {
        self.lines(fields).all(|line| match self.field {
            ClientAddressField::XForwardedFor => {
                line.is_ascii() && !line.iter().any(|byte| b"\"\\".contains(byte))
            }
            ClientAddressField::Forwarded => {
                let mut rest = without_separators(line);
                while !rest.is_empty() {
                    let Some((before, _)) = forwarded_element(rest) else {
                        return false;
                    };
                    rest = without_separators(before);
                }
                true
            }
        })
    }

    fn lines<'a>(
        &self,
        fields: &'a [(HeaderName, HeaderValue)],
    ) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        let name = match self.field {
            ClientAddressField::XForwardedFor => X_FORWARDED_FOR,
            ClientAddressField::Forwarded => FORWARDED,
        };
        let lines = fields.iter().filter(move |(known, _)| *known == name);
        lines.map(|(_, line)| line.as_bytes())
    }

    /// Returns what stands before the last entry of a line, and the address in it; `None` if the entry is malformed.
    fn last_entry<'a>(&self, line: &'a [u8]) -> Option<(&'a [u8], Option<SocketAddr>)> {
        match self.field {
            ClientAddressField::XForwardedFor => {
                let (before, entry) = split_end(line, |byte| byte != b',');
                Some((before, node(entry.trim_ascii())))
            }
            ClientAddressField::Forwarded => forwarded_element(line),
        }
    }
}

/// Returns a list without the white space and the empty entries at its end.
fn without_separators(list: &[u8]) -> &[u8] {
    split_end(list, |byte| b", \t".contains(&byte)).0
}

/// Splits off the longest end in which all bytes are such.
fn split_end(text: &[u8], mut is_such: impl FnMut(u8) -> bool) -> (&[u8], &[u8]) {
    let at = text.iter().rposition(|byte| !is_such(*byte));
    text.split_at(at.map_or(0, |at| at + 1))
}

/// Splits the last element off a line of `Forwarded` (RFC 7239 §4). Returns what stands before it, and the address in it;
/// `None` if the element is malformed.
fn forwarded_element(mut rest: &[u8]) -> Option<(&[u8], Option<SocketAddr>)> {
    let mut named = None;
    loop {
        rest = rest.trim_ascii_end();
        match rest.last() {
            None | Some(b',') => return Some((rest, named.flatten())),
            Some(b';') => rest = &rest[..rest.len() - 1],
            Some(_) => {
                let (before, name, value) = forwarded_pair(rest)?;
                // No parameter may occur twice.
                if name.eq_ignore_ascii_case(b"for") && named.replace(node(value)).is_some() {
                    return None;
                }
                rest = before.trim_ascii_end();
                if !matches!(rest.last(), None | Some(b',' | b';')) {
                    return None;
                }
            }
        }
    }
}

/// Splits the last pair off a line of `Forwarded`. Returns what stands before it, its name and its value.
///
/// Read from the end, a quoted string begins at the first quote that is not escaped. Before that stands `=`, so a backslash
/// at the end of what a client wrote escapes nothing.
fn forwarded_pair(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (before, value) = if let Some(quoted) = text.strip_suffix(b"\"") {
        if is_escaped(quoted) {
            return None;
        }
        let mut begin = quoted.len();
        loop {
            begin = quoted[..begin].iter().rposition(|byte| *byte == b'"')?;
            if !is_escaped(&quoted[..begin]) {
                break (&quoted[..begin], &quoted[begin + 1..]);
            }
        }
    } else {
        // Some proxies do not quote ports and IPv6 addresses.
        let (before, value) = split_end(text, |byte| is_token(byte) || b":[]".contains(&byte));
        (!value.is_empty()).then_some((before, value))?
    };
    let (before, name) = split_end(before.strip_suffix(b"=")?, is_token);
    (!name.is_empty()).then_some((before, name, value))
}

/// Returns whether a token may contain the byte (RFC 9110 §5.6.2).
pub fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns whether the byte behind this part of a quoted string is escaped.
fn is_escaped(before: &[u8]) -> bool {
    split_end(before, |byte| byte == b'\\').1.len() % 2 == 1
}

/// Reads an address with a port or without; `None` for an obfuscated or unknown one (RFC 7239 §6).
fn node(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
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
        TrustedProxies { networks: Networks::new(&networks), field }
    }

    fn client(field: ClientAddressField, sender: &str, lines: &[&str]) -> Option<String> {
        let name = match field {
            ClientAddressField::XForwardedFor => X_FORWARDED_FOR,
            ClientAddressField::Forwarded => FORWARDED,
        };
        let line = |line: &&str| (name.clone(), HeaderValue::from_bytes(line.as_bytes()).unwrap());
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
            // The field has no quoting, so a quote hides nothing behind it.
            (&["\", 198.51.100.1"], "198.51.100.1:0"),
            (&["\"x, 198.51.100.1, 10.0.0.2"], "198.51.100.1:0"),
            (&["1.1.1.1, \"198.51.100.1\""], "10.0.0.1:9"),
            (&["\u{e9}, 198.51.100.1"], "198.51.100.1:0"),
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
            (&["for=1.1.1.1, for=\"[2001:db8::5]:7\", for=10.0.0.2"], "[2001:db8::5]:7"),
            (&["for=198.51.100.1;host=\"a,for=10.0.0.3;\\\",b\", for=10.0.0.2"], "198.51.100.1:0"),
            (&["for=198.51.100.1, for=_hidden"], "10.0.0.1:9"),
            (&["for=198.51.100.1, proto=https"], "10.0.0.1:9"),
            (&["for=198.51.100.1;host=\"\\\\\" ; proto=https , ,"], "198.51.100.1:0"),
            (&["for=198.51.100.1:5"], "198.51.100.1:5"),
        ] {
            let found = client(ClientAddressField::Forwarded, "10.0.0.1:9", lines);
            assert_eq!(found.as_deref(), Some(expected), "{lines:?}");
        }
    }

    #[test]
    fn what_a_client_leaves_open_does_not_swallow_what_proxies_append() {
        let v6 = "for=1.1.1.1;a=\", for=\"[2001:db8::5]:7\";host=\"x,y;\\\"\", for=10.0.0.2";
        for (lines, expected) in [
            (&["for=1.1.1.1;a=\", for=198.51.100.1"][..], "198.51.100.1:0"),
            (&[v6], "[2001:db8::5]:7"),
            (&["for=1.1.1.1;a=\"\\\", for=198.51.100.1;b=\"c\""], "198.51.100.1:0"),
            (&["for=1.1.1.1;a=\"\\, for=198.51.100.1"], "198.51.100.1:0"),
            (&["\u{e9}=, for=198.51.100.1"], "198.51.100.1:0"),
            (&["for=1.1.1.1;a=\"", "for=198.51.100.1"], "198.51.100.1:0"),
            // Behind it, whoever appended it counts as the client.
            (&["for=1.1.1.1;a=\", for=10.0.0.2"], "10.0.0.2:0"),
            (&["for=1.1.1.1;a=\""], "10.0.0.1:9"),
            // An element that is malformed itself names nobody.
            (&["for=1.1.1.1, for=\"198.51.100.1"], "10.0.0.1:9"),
            (&["for=1.1.1.1, for=198.51.100.1\""], "10.0.0.1:9"),
            (&["for=198.51.100.1;a=\"b\\\""], "10.0.0.1:9"),
            (&["for=198.51.100.1;a=\"b\"\"c\""], "10.0.0.1:9"),
            (&["for=198.51.100.1;for=1.1.1.1"], "10.0.0.1:9"),
            (&["for=198.51.100.1;a"], "10.0.0.1:9"),
            (&["for=198.51.100.1;=b"], "10.0.0.1:9"),
            (&["for=198.51.100.1;a="], "10.0.0.1:9"),
        ] {
            let found = client(ClientAddressField::Forwarded, "10.0.0.1:9", lines);
            assert_eq!(found.as_deref(), Some(expected), "{lines:?}");
        }
    }
}
