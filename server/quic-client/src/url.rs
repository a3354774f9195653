//! Parses URLs (RFC 3986).

use std::net::{IpAddr, Ipv6Addr};

use anyhow::{Context as _, bail, ensure};
use http::Uri;
use http::uri::Authority;

use crate::client::ServerName;

/// A checked URL of `https` or `http`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The scheme is `https`, not `http`.
    pub is_secure: bool,
    /// Host: a name, or an address without brackets.
    pub host: String,
    /// Port; where the URL has none, 443 of `https`, 80 of `http`.
    pub port: u16,
    /// Path and query, never empty.
    pub path: String,
}

impl Url {
    /// Parses `https://host[:port][/path][?query][#fragment]`; the scheme is optional, and the fragment is dropped.
    ///
    /// # Errors
    /// Another scheme, user information, no host, an invalid port, or a character outside visible ASCII, which has to be encoded.
    pub fn parse(text: &str) -> anyhow::Result<Url> {
        let url = Url::parse_any(text)?;
        ensure!(url.is_secure, "`http://` is not served over HTTP/3; use https://");
        Ok(url)
    }

    /// Parses a URL of `https`, as [`Url::parse`] does, or of `http`.
    ///
    /// # Errors
    /// The same as of [`Url::parse`].
    pub fn parse_any(text: &str) -> anyhow::Result<Url> {
        let text = text.split('#').next().unwrap_or_default();
        let (is_secure, rest) = match split_scheme(text) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, _)) => bail!("`{scheme}://` is not HTTP; use https:// or http://"),
            None => (true, text),
        };
        if let Some(wrong) = text.chars().find(|c| !c.is_ascii_graphic()) {
            bail!("{wrong:?} in a URL has to be percent-encoded (a host name: punycode)");
        }
        let named = rest.split(['/', '?']).next().unwrap_or_default();
        ensure!(!named.is_empty() && !named.starts_with(':'), "the URL names no host");
        ensure!(named.contains('[') == named.contains(']'), "the URL's host has a `[` without `]`");
        let uri: Uri = format!("https://{rest}").parse().context("the URL cannot be parsed")?;
        let authority = uri.authority().map_or("", Authority::as_str);
        if authority.contains('@') {
            bail!("user names and passwords in a URL are not supported");
        }
        let host = uri.host().unwrap_or_default();
        let port = match &authority[host.len()..] {
            "" | ":" => default_port(is_secure),
            behind => {
                let digits = behind.strip_prefix(':');
                let digits = digits.context("after `]` comes `:port`")?;
                let port = digits.parse().ok().filter(|port| *port != 0);
                port.with_context(|| {
                    format!("`{digits}` is no port, which is a number up to 65535")
                })?
            }
        };
        let host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
            Some(address) => {
                let checked: Result<Ipv6Addr, _> = address.parse();
                checked.with_context(|| format!("`{address}` is no IPv6 address"))?;
                address
            }
            None => host,
        };
        Ok(Url {
            is_secure,
            host: host.to_owned(),
            port,
            path: uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
        })
    }

    /// Returns the host if it is an address.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Returns the identity that the host's certificate must have.
    pub fn server_name(&self) -> ServerName<'_> {
        self.ip().map_or(ServerName::Dns(&self.host), ServerName::Ip)
    }

    /// Returns the `:authority` of a request (RFC 9114 §4.3.1).
    pub fn authority(&self) -> String {
        let host = match self.ip() {
            Some(IpAddr::V6(ip)) => format!("[{ip}]"),
            _ => self.host.clone(),
        };
        match self.port {
            port if port == default_port(self.is_secure) => host,
            port => format!("{host}:{port}"),
        }
    }
}

fn default_port(is_secure: bool) -> u16 {
    if is_secure { 443 } else { 80 }
}

/// Returns the scheme and what comes after `://`, if the text has a scheme (RFC 3986 §3.1).
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    scheme.chars().all(allowed).then_some((scheme, rest))
}

/// Returns a URL with the scheme `https` in place of its own.
pub fn as_https(text: &str) -> String {
    let rest = split_scheme(text).map_or(text, |(_, rest)| rest);
    format!("https://{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, u16, String, String) {
        let url = Url::parse(text).unwrap();
        let authority = url.authority();
        (url.host, url.port, url.path, authority)
    }

    #[test]
    fn urls_fall_into_their_parts() {
        for (text, host, port, path, authority) in [
            ("https://a.example", "a.example", 443, "/", "a.example"),
            ("a.example/x?y=/z#f", "a.example", 443, "/x?y=/z", "a.example"),
            ("HTTPS://a:4433?q", "a", 4433, "/?q", "a:4433"),
            ("a/<x>?q={\"y\"}", "a", 443, "/<x>?q={\"y\"}", "a"),
            ("a#f", "a", 443, "/", "a"),
            ("https://[::1]:4433/b", "::1", 4433, "/b", "[::1]:4433"),
            ("https://[::1]", "::1", 443, "/", "[::1]"),
            ("127.0.0.1:1/", "127.0.0.1", 1, "/", "127.0.0.1:1"),
            ("a/?b=http://c", "a", 443, "/?b=http://c", "a"),
        ] {
            let expected = (host.into(), port, path.into(), authority.into());
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn the_scheme_has_a_port() {
        for (text, port, authority) in
            [("http://a/", 80, "a"), ("HTTP://a:443/", 443, "a:443"), ("https://a:80/", 80, "a:80")]
        {
            let url = Url::parse_any(text).unwrap();
            assert_eq!((url.port, &*url.authority()), (port, authority), "{text}");
        }
        assert!(Url::parse_any("ftp://a/").is_err());
    }

    #[test]
    fn any_scheme_can_be_replaced() {
        for text in ["http://a/b://c", "https://a/b://c", "a/b://c"] {
            assert_eq!(as_https(text), "https://a/b://c", "{text}");
        }
    }

    #[test]
    fn what_is_no_such_url_is_refused_with_the_reason() {
        for (text, reason) in [
            ("http://a/", "`http://`"),
            ("https:///x", "no host"),
            ("https://:443/", "no host"),
            ("https://a:b:c/", "cannot be parsed"),
            ("https://u:p@a/", "user names"),
            ("https://a:0/", "no port"),
            ("https://a:65536/", "no port"),
            ("https://a:b/", "no port"),
            ("https://[::1/", "without `]`"),
            ("https://[a]/", "no IPv6"),
            ("https://[::1]8/", "`:port`"),
            ("https://a/b c", "percent-encoded"),
            ("https://bücher.example/", "punycode"),
        ] {
            let error = Url::parse(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
