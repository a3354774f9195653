//! The protocol of a run: that which the options and the scheme of the URL choose.

use anyhow::{bail, ensure};

use crate::options::LoadArgs;

/// Version of HTTP over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    Http2,
}

impl Version {
    pub(crate) fn alpn(self) -> &'static str {
        match self {
            Version::Http1 => "http/1.1",
            Version::Http2 => "h2",
        }
    }

    pub(crate) fn without_tls(self) -> &'static str {
        match self {
            Version::Http1 => "http/1.1",
            Version::Http2 => "h2c",
        }
    }
}

/// Protocol of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/3 over QUIC.
    Http3,
    /// One of these over TLS and TCP, offered in this order.
    Tls(Vec<Version>),
    /// One over TCP without TLS, which the client knows.
    Plain(Version),
}

impl Protocol {
    /// Chooses the protocol for a server of `https`, if `is_secure`, or `http`.
    ///
    /// # Errors
    /// The options name a protocol that is unknown here, or is not spoken over that scheme.
    pub(crate) fn choose(options: &LoadArgs, is_secure: bool) -> anyhow::Result<Protocol> {
        let offered: Vec<_> = match (options.h1, options.h3) {
            (true, _) => vec!["http/1.1"],
            (false, true) => vec!["h3"],
            (false, false) => options.alpn_list.iter().map(String::as_str).collect(),
        };
        if is_secure {
            over_tls(&offered)
        } else {
            let prior = options.no_tls_proto.as_deref().filter(|_| !options.h1);
            without_tls(prior.or(offered.first().copied()))
        }
    }

    /// Returns whether packets of QUIC carry it.
    pub(crate) fn is_quic(&self) -> bool {
        *self == Protocol::Http3
    }

    /// Returns whether connections begin with a TLS handshake.
    pub(crate) fn has_tls(&self) -> bool {
        !matches!(self, Protocol::Plain(_))
    }

    /// Returns the versions that TLS offers over TCP.
    pub(crate) fn offered(&self) -> &[Version] {
        match self {
            Protocol::Tls(offered) => offered,
            _ => &[],
        }
    }

    /// Returns whether a connection has at most one request open at a time.
    pub(crate) fn is_http1_alone(&self) -> bool {
        let alone = [Version::Http1];
        *self == Protocol::Plain(Version::Http1) || self.offered() == alone
    }
}

/// Returns whether a name is that of HTTP/3 or of one of its drafts.
fn is_http3(name: &str) -> bool {
    name == "h3" || name.starts_with("h3-")
}

fn over_tls(offered: &[&str]) -> anyhow::Result<Protocol> {
    if offered.first().is_none_or(|name| is_http3(name)) {
        let list = offered.join(",");
        ensure!(
            offered.is_empty() || offered.contains(&"h3"),
            "--alpn-list {list}: drafts of HTTP/3 are not spoken here; add h3"
        );
        return Ok(Protocol::Http3);
    }
    let mut versions = Vec::new();
    for name in offered {
        match *name {
            "h2" => versions.push(Version::Http2),
            "http/1.1" => versions.push(Version::Http1),
            // The first one has chosen TCP.
            name if is_http3(name) => {}
            "h2c" => bail!("--alpn-list h2c: it is HTTP/2 without TLS; use http://"),
            name => bail!("--alpn-list {name}: known are h3, h2 and http/1.1"),
        }
    }
    Ok(Protocol::Tls(versions))
}

fn without_tls(name: Option<&str>) -> anyhow::Result<Protocol> {
    Ok(Protocol::Plain(match name {
        None | Some("http/1.1") => Version::Http1,
        Some("h2c" | "h2") => Version::Http2,
        Some(name) if is_http3(name) => {
            bail!("`http://` is not served over HTTP/3; use https://")
        }
        Some(name) => bail!("{name}: known without TLS are http/1.1 and h2c"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;

    fn choose(line: &str, is_secure: bool) -> anyhow::Result<Protocol> {
        let words: Vec<_> = line.split_whitespace().collect();
        Protocol::choose(&options::parse(&words).unwrap(), is_secure)
    }

    #[test]
    fn the_first_of_the_list_decides() {
        use Version::{Http1, Http2};
        for (line, expected) in [
            ("", Protocol::Http3),
            ("--h3", Protocol::Http3),
            ("--alpn-list=h3,h2", Protocol::Http3),
            ("--npn-list h3-29,h3", Protocol::Http3),
            ("--alpn-list=h2", Protocol::Tls(vec![Http2])),
            ("--alpn-list=h2,h3", Protocol::Tls(vec![Http2])),
            ("--alpn-list=h2,http/1.1", Protocol::Tls(vec![Http2, Http1])),
            ("--alpn-list=http/1.1,h2", Protocol::Tls(vec![Http1, Http2])),
            ("--h1", Protocol::Tls(vec![Http1])),
            ("--h1 -p h2c", Protocol::Tls(vec![Http1])),
        ] {
            assert_eq!(choose(line, true).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn without_tls_the_client_knows_the_protocol() {
        for (line, expected) in [
            ("", Version::Http1),
            ("--h1 -p h2c", Version::Http1),
            ("-p h2c", Version::Http2),
            ("--alpn-list h2 -p http/1.1", Version::Http1),
            ("--alpn-list=h2c", Version::Http2),
            ("--alpn-list=h2,http/1.1", Version::Http2),
        ] {
            let protocol = choose(line, false).unwrap();
            assert_eq!(protocol, Protocol::Plain(expected), "{line}");
        }
    }

    #[test]
    fn what_is_not_spoken_is_refused_with_a_remedy() {
        for (line, is_secure, part) in [
            ("--h3", false, "use https://"),
            ("--alpn-list h3,h2", false, "use https://"),
            ("--alpn-list h3-29", true, "add h3"),
            ("--alpn-list h2c", true, "use http://"),
            ("--alpn-list h2,spdy/3", true, "known are"),
            ("--alpn-list spdy/3", false, "known without TLS"),
        ] {
            let error = choose(line, is_secure).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn only_http1_has_one_request_at_a_time() {
        assert!(choose("--h1", true).unwrap().is_http1_alone());
        assert!(choose("", false).unwrap().is_http1_alone());
        for (line, is_secure) in [("", true), ("--alpn-list=h2,http/1.1", true), ("-p h2c", false)]
        {
            assert!(!choose(line, is_secure).unwrap().is_http1_alone(), "{line}");
        }
    }
}
