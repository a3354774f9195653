//! Words with a form of their own: lists of them, hosts, ports, tokens.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

use toml::de::DeValue;

use crate::error::Error;
use crate::value::{Item, kind_of};

/// One word, or a list of as many as `count` allows, each once; `read` takes each.
pub(super) fn list<T: PartialEq>(
    item: &Item<'_>,
    count: RangeInclusive<usize>,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, Error> {
    let mut once: Vec<T> = Vec::new();
    for (at, word) in words(&item.value, item.at, count) {
        let value = word.as_str().and_then(&read).ok_or_else(|| {
            let found = format!("{} for `{}`", kind_of(word), item.key.name);
            item.source.error(at, found, item.key.kind.expectation())
        })?;
        if once.contains(&value) {
            let found = format!("{} twice in `{}`", kind_of(word), item.key.name);
            return Err(item.source.error(at, found, "each once"));
        }
        once.push(value);
    }
    Ok(once)
}

/// The values of a list with their places. Any other value, and a list of a length that `count` does not allow, stands
/// for itself.
pub(super) fn words<'a>(
    value: &'a DeValue<'_>,
    at: usize,
    count: RangeInclusive<usize>,
) -> Vec<(usize, &'a DeValue<'a>)> {
    match value {
        DeValue::Array(entries) if count.contains(&entries.len()) => entries
            .iter()
            .map(|e| (e.span().start, e.get_ref()))
            .collect(),
        one => vec![(at, one)],
    }
}

/// A token of HTTP (RFC 9110 §5.6.2) of up to `max` characters.
pub(super) fn token(word: &str, max: usize) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    (1..=max).contains(&word.len()) && word.bytes().all(plain)
}

/// A DNS name or an IP address, in lower case; an IPv6 address in its brackets and its canonical form.
pub(super) fn host(word: &str) -> Option<String> {
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

/// `host:port`, with a port above 0.
pub(super) fn host_port(word: &str) -> Option<String> {
    let (name, port) = word.rsplit_once(':')?;
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let port: u16 = port.parse().ok().filter(|port| digits && *port > 0)?;
    Some(format!("{}:{port}", host(name)?))
}

/// A literal address with its port; `localhost` is 127.0.0.1.
pub(super) fn socket_address(word: &str) -> Option<SocketAddr> {
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
