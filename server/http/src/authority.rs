//! Hosts with ports, as requests name them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::header::HOST;
use http::{HeaderName, HeaderValue};

/// Returns whether text is a host with a port or without (RFC 3986 §3.2), as a request may name it: a name of letters, digits, `-`,
/// `_` and single dots, of which one may stand at the end, an IPv4 address, or an IPv6 address in brackets; the port has digits
/// only. Names that need other characters do not exist in DNS, and servers read them differently.
pub fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else {
                return false;
            };
            if address.parse::<Ipv6Addr>().is_err() {
                return false;
            }
            ("", port)
        }
        None => text.split_at(find(text, b':').unwrap_or(text.len())),
    };
    let is_port = |port: &str| {
        let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        digits && port.parse::<u16>().is_ok()
    };
    let has_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    has_port && (text.starts_with('[') || is_name(host))
}

/// Returns an authority without the colon of an empty port, which names the default port as no port does (RFC 3986 §3.2.3).
pub fn without_empty_port(text: &str) -> &str {
    match text.strip_suffix(':') {
        Some(host) if host.ends_with(']') || !host.contains(':') => host,
        _ => text,
    }
}

/// Has a Host line name the authority of its request, so that nobody who reads the fields finds another host.
pub fn set_host(fields: &mut [(HeaderName, HeaderValue)], authority: &str) {
    for (_, value) in fields.iter_mut().filter(|(name, _)| name == HOST) {
        if value != authority
            && let Ok(host) = HeaderValue::from_str(authority)
        {
            *value = host;
        }
    }
}

/// Returns the host of an authority in the form by which routes are found: without its port, and without the dot that may end a
/// name. An IPv6 address keeps its brackets.
pub fn host(authority: &str) -> &str {
    let end = match authority.bytes().rposition(|byte| byte == b']') {
        Some(bracket) => bracket + 1,
        None => find(authority, b':').unwrap_or(authority.len()),
    };
    let host = &authority[..end];
    host.strip_suffix('.').unwrap_or(host)
}

/// Returns the host of an authority; the address that the client has connected to if a request of HTTP/1.0 names none.
pub fn host_or_local(authority: &str, local: Option<SocketAddr>) -> Option<String> {
    if !authority.is_empty() {
        return Some(host(authority).to_owned());
    }
    Some(match local?.ip().to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    })
}

fn is_name(name: &str) -> bool {
    let mut is_label_begun = false;
    let is_valid = name.bytes().all(|byte| match byte {
        // No label is empty.
        b'.' => std::mem::take(&mut is_label_begun),
        _ => {
            is_label_begun = true;
            byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
        }
    });
    is_valid && !name.is_empty()
}

/// Returns where an octet stands first. Authorities are so short that the search of `str` for a character only begins with more work.
fn find(text: &str, octet: u8) -> Option<usize> {
    text.bytes().position(|byte| byte == octet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authority_is_a_host_with_a_port_or_without() {
        for text in [
            "example.org",
            "EXAMPLE.org:443",
            "example.org.",
            "example.org.:8443",
            "app_1",
            "xn--bcher-kva.example",
            "192.0.2.1:1",
            "[2001:db8::1]",
            "[::1]:65535",
        ] {
            assert!(is_authority(text), "{text}");
        }
        for text in [
            "",
            ".",
            ":443",
            ".example.org",
            "example..org",
            "example.org..",
            "example.org:",
            "example.org:x",
            "example.org:+1",
            "example.org:65536",
            "example.org:80:80",
            "user@example.org",
            "example.org/x",
            "exa mple",
            "b\u{fc}cher.example",
            "a,b",
            "a%2eb",
            "2001:db8::1",
            "[2001:db8::1",
            "[192.0.2.1]",
            "[::1]x",
            "[::1]:",
            "[fe80::1%eth0]",
        ] {
            assert!(!is_authority(text), "{text}");
        }
    }

    #[test]
    fn an_empty_port_is_as_none() {
        for (text, expected) in [
            ("example.org:", "example.org"),
            ("example.org.:", "example.org."),
            ("[::1]:", "[::1]"),
        ] {
            assert_eq!(without_empty_port(text), expected);
        }
        for text in ["example.org", "a:1", "[::1]:1", "a::", "a:1:", "::1:"] {
            assert_eq!(without_empty_port(text), text);
        }
        for text in ["", ":", "::", "[:", "[::1]x:", "a]:", "user@a:"] {
            assert!(!is_authority(without_empty_port(text)), "{text}");
        }
    }

    #[test]
    fn host_has_neither_port_nor_last_dot() {
        for (authority, expected) in [
            ("example.org", "example.org"),
            ("example.org.:443", "example.org"),
            ("[::1]:443", "[::1]"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(host(authority), expected);
        }
    }
}
