//! Words with a form of their own: hosts, ports, tokens.

use crate::schema::Refusal;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Returns a word that was read, in its canonical form.
pub(crate) fn canonical(word: Option<impl ToString>) -> Result<String, Refusal> {
    word.map(|word| word.to_string()).ok_or_else(Refusal::default)
}

/// Returns whether `word` is a token of HTTP (RFC 9110 §5.6.2) of up to `max` characters.
pub(crate) fn token(word: &str, max: usize) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    (1..=max).contains(&word.len()) && word.bytes().all(plain)
}

/// Reads a DNS name or an IP address, and returns it in lower case; an IPv6 address stands in brackets.
pub(crate) fn host(word: &str) -> Option<String> {
    if let Some(address) = word.strip_prefix('[') {
        let address: Ipv6Addr = address.strip_suffix(']')?.parse().ok()?;
        return Some(format!("[{address}]"));
    }
    if let Some(last) = word.rsplit('.').next()
        && last.bytes().all(|b| b.is_ascii_digit())
    {
        // What ends in a number is an address or nothing.
        return word.parse::<Ipv4Addr>().ok().map(|a| a.to_string());
    }
    let label = |label: &str| {
        let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let edges = !label.starts_with('-') && !label.ends_with('-');
        (1..=63).contains(&label.len()) && edges && label.bytes().all(inner)
    };
    let name = word.len() <= 253 && word.split('.').all(label);
    name.then(|| word.to_ascii_lowercase())
}

/// Reads `host:port`, with a port above 0.
pub(crate) fn host_port(word: &str) -> Option<String> {
    let (name, port) = word.rsplit_once(':')?;
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let port: u16 = port.parse().ok().filter(|port| digits && *port > 0)?;
    Some(format!("{}:{port}", host(name)?))
}

/// Reads a literal address with its port; `localhost` is 127.0.0.1.
pub(crate) fn socket_address(word: &str) -> Option<SocketAddr> {
    match word.strip_prefix("localhost:") {
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => {
            Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?)))
        }
        Some(_) => None,
        None => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_or_addresses_in_one_form() {
        for (word, form) in [
            ("Example.COM", "example.com"),
            ("localhost", "localhost"),
            ("app_1", "app_1"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("192.0.2.1", "192.0.2.1"),
            ("[2001:DB8:0::1]", "[2001:db8::1]"),
        ] {
            assert_eq!(host(word).as_deref(), Some(form));
        }
        for word in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "-a",
            "a-",
            "a b",
            "b\u{fc}cher.example",
            "*.a",
            "a:1",
            "192.0.2",
            "192.0.2.256",
            "1",
            "2001:db8::1",
            "[2001:db8::1",
            "[192.0.2.1]",
            "a/b",
        ] {
            assert_eq!(host(word), None, "{word}");
        }
        assert_eq!(host(&"a".repeat(64)), None);
        assert_eq!(host(&["a"; 127].join(".")).map(|h| h.len()), Some(253));
        assert_eq!(host(&["a"; 128].join(".")), None);
    }

    #[test]
    fn ports_are_given_and_above_zero() {
        assert_eq!(host_port("App:080").as_deref(), Some("app:80"));
        assert_eq!(host_port("[::1]:65535").as_deref(), Some("[::1]:65535"));
        for word in ["app", "app:", "app:0", "app:+1", "app:65536", ":1", "::1:1"] {
            assert_eq!(host_port(word), None, "{word}");
        }
    }
}
