//! Addresses of upstream servers.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::field::words_in_fields;
use crate::schema::{Reason, Refusal};
use crate::source::shown;
use crate::value::Word;
use crate::words::{canonical, host, host_port};

/// Longest path of a Unix socket, bytes: `sun_path` without the NUL at its end (unix(7)).
const MAX_SOCKET_PATH: usize = 107;
/// Start of the address of a server that speaks TLS.
const HTTPS: &str = "https://";
/// Start of the address of a server that speaks HTTP/2 without TLS (RFC 9113 §3.3).
const H2C: &str = "h2c://";
/// Start of the address of a server that speaks HTTP/3.
const H3: &str = "h3://";
/// Start of the address of a FastCGI server.
const FASTCGI: &str = "fastcgi://";

/// Address of an upstream server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpstreamAddress {
    /// Host and port of a TCP server, as in `app:8080`.
    Tcp(String),
    /// Host and port of a TCP server that speaks TLS, as in `app:443`.
    Tls(String),
    /// Host and port of a TCP server that speaks HTTP/2 without TLS, as in `app:50051`.
    H2c(String),
    /// Host and port of a UDP server that speaks HTTP/3, as in `app:443`.
    H3(String),
    /// Absolute path of a Unix stream socket.
    Unix(PathBuf),
    /// Absolute path of a Unix stream socket whose server speaks HTTP/2.
    UnixH2c(PathBuf),
    /// Host and port of a FastCGI server, as in `app:9000`.
    FastCgi(String),
    /// Absolute path of the Unix stream socket of a FastCGI server.
    UnixFastCgi(PathBuf),
}

impl UpstreamAddress {
    /// Returns host and port of the server; `None` for a socket.
    pub fn server(&self) -> Option<&str> {
        match self {
            Self::Tcp(server)
            | Self::Tls(server)
            | Self::H2c(server)
            | Self::H3(server)
            | Self::FastCgi(server) => Some(server),
            Self::Unix(_) | Self::UnixH2c(_) | Self::UnixFastCgi(_) => None,
        }
    }

    /// Returns the server's own value of `host`: without the default port of its scheme, `localhost` for a socket.
    pub fn host_field(&self) -> &str {
        match self {
            Self::Tcp(server) | Self::H2c(server) => server.strip_suffix(":80").unwrap_or(server),
            Self::Tls(server) | Self::H3(server) => server.strip_suffix(":443").unwrap_or(server),
            // FastCGI has no such field.
            Self::Unix(_) | Self::UnixH2c(_) | Self::FastCgi(_) | Self::UnixFastCgi(_) => {
                "localhost"
            }
        }
    }

    /// Returns whether connections are encrypted, and the server has a certificate.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::H3(_))
    }

    /// Returns whether all connections speak HTTP/2.
    pub fn is_h2c(&self) -> bool {
        matches!(self, Self::H2c(_) | Self::UnixH2c(_))
    }

    /// Returns whether all connections speak HTTP/3.
    pub fn is_h3(&self) -> bool {
        matches!(self, Self::H3(_))
    }
}

impl fmt::Display for UpstreamAddress {
    /// Writes the address as a file does: `app:8080`, `https://app:443`, `h2c://app:50051`, `h3://app:443`,
    /// `unix:/run/app.sock`, `h2c://unix:/run/app.sock`, `fastcgi://app:9000`, `fastcgi://unix:/run/php.sock`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(server) => f.write_str(server),
            Self::Tls(server) => write!(f, "{HTTPS}{server}"),
            Self::H2c(server) => write!(f, "{H2C}{server}"),
            Self::H3(server) => write!(f, "{H3}{server}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::UnixH2c(path) => write!(f, "{H2C}unix:{}", path.display()),
            Self::FastCgi(server) => write!(f, "{FASTCGI}{server}"),
            Self::UnixFastCgi(path) => write!(f, "{FASTCGI}unix:{}", path.display()),
        }
    }
}

impl Word for UpstreamAddress {
    fn of_canonical(word: String) -> Option<Self> {
        if let Some(server) = word.strip_prefix(HTTPS) {
            return Some(Self::Tls(server.to_owned()));
        }
        if let Some(server) = word.strip_prefix(H2C) {
            let socket = server.strip_prefix("unix:/");
            let socket = socket.map(|path| Self::UnixH2c(Path::new("/").join(path)));
            return socket.or_else(|| Some(Self::H2c(server.to_owned())));
        }
        if let Some(server) = word.strip_prefix(H3) {
            return Some(Self::H3(server.to_owned()));
        }
        if let Some(server) = word.strip_prefix(FASTCGI) {
            let socket = server.strip_prefix("unix:/");
            let socket = socket.map(|path| Self::UnixFastCgi(Path::new("/").join(path)));
            return socket.or_else(|| Some(Self::FastCgi(server.to_owned())));
        }
        // A server called `unix` has a port behind the colon, not a slash.
        Some(match word.strip_prefix("unix:/") {
            Some(path) => Self::Unix(Path::new("/").join(path)),
            None => Self::Tcp(word),
        })
    }
}

words_in_fields!(UpstreamAddress);

/// Reads `host:port`; `http://host` or `h2c://host`, whose port is 80 if none is given; `https://host` or `h3://host`, whose port is
/// 443 then; `unix:/path`; or `h2c://unix:/path`.
pub(super) fn upstream_address(word: &str) -> Result<String, Refusal> {
    let server = match word.split_once("://") {
        _ if word.starts_with("unix:") && host_port(word).is_none() => return unix_socket(word),
        None => host_port(word),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
            if let Some(path) = rest.strip_prefix("unix:/") {
                // nginx separates the path of the request by a colon.
                let path = path.split(':').next().unwrap_or(path);
                let socket = format!("unix:/{path}");
                return Err(refused(word, "a Unix socket without http://", Some(socket)));
            }
            with_port(rest, 80)
        }
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => {
            with_port(rest, 443).map(|server| format!("{HTTPS}{server}"))
        }
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("h3") => {
            with_port(rest, 443).map(|server| format!("{H3}{server}"))
        }
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("h2c") => {
            if rest.starts_with("unix:") && with_port(rest, 80).is_none() {
                return unix_socket(rest).map(|socket| format!("{H2C}{socket}"));
            }
            with_port(rest, 80).map(|server| format!("{H2C}{server}"))
        }
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("fastcgi") => {
            let expected = "a server of HTTP; for FastCGI, a route has fastcgi = { server = \"…\", root = \"…\" }";
            return Err(refused(word, expected, None));
        }
        Some(_) => None,
    };
    canonical(server)
}

/// Reads `unix:/path` or `host:port`, whose port is 9000 if none is given, with `fastcgi://` in front or without.
pub(super) fn fastcgi_address(word: &str) -> Result<String, Refusal> {
    let server = match word.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("fastcgi") => rest,
        _ => word,
    };
    let address = with_port(server, 9000);
    if server.starts_with("unix:") && address.is_none() {
        return unix_socket(server).map(|socket| format!("{FASTCGI}{socket}"));
    }
    canonical(address.map(|server| format!("{FASTCGI}{server}")))
}

/// Reads `host:port`, or a host that has this port, with a slash behind it or without.
fn with_port(server: &str, port: u16) -> Option<String> {
    let server = server.strip_suffix('/').unwrap_or(server);
    host_port(server).or_else(|| Some(format!("{}:{port}", host(server)?)))
}

/// Reads `unix:/path`, or `unix:///path`, its form as a URL.
fn unix_socket(word: &str) -> Result<String, Refusal> {
    let path = word.strip_prefix("unix:").unwrap_or(word);
    let path = path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path);
    let absolute = path.starts_with('/') && !path.starts_with("//") && !path.ends_with('/');
    if absolute && path.len() <= MAX_SOCKET_PATH && !path.contains(char::is_control) {
        return Ok(format!("unix:{path}"));
    }
    let expected = format!(
        "the absolute path of a socket, of up to {MAX_SOCKET_PATH} bytes, as in \"unix:/run/app.sock\""
    );
    Err(refused(word, expected, None))
}

fn refused(word: &str, expected: impl Into<String>, nearest: Option<String>) -> Refusal {
    Refusal::because(Reason {
        found: format!("upstream \"{}\"", shown(word)),
        expected: expected.into(),
        nearest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(word: &str) -> Option<UpstreamAddress> {
        UpstreamAddress::of_canonical(upstream_address(word).ok()?)
    }

    fn refusal(word: &str) -> Reason {
        *upstream_address(word).unwrap_err().0.unwrap()
    }

    #[test]
    fn address_is_a_server_or_a_socket_and_prints_as_it_is_read() {
        let tcp = |server: &str| UpstreamAddress::Tcp(server.to_owned());
        let tls = |server: &str| UpstreamAddress::Tls(server.to_owned());
        let h2c = |server: &str| UpstreamAddress::H2c(server.to_owned());
        let h3 = |server: &str| UpstreamAddress::H3(server.to_owned());
        let unix = |path: &str| UpstreamAddress::Unix(path.into());
        let unix_h2c = |path: &str| UpstreamAddress::UnixH2c(path.into());
        for (word, address) in [
            ("App:8080", tcp("app:8080")),
            ("http://app/", tcp("app:80")),
            ("https://App/", tls("app:443")),
            ("HTTPS://[::1]:8443", tls("[::1]:8443")),
            ("h2c://App:50051", h2c("app:50051")),
            ("H2C://app/", h2c("app:80")),
            ("H3://App/", h3("app:443")),
            ("h3://[::1]:8443", h3("[::1]:8443")),
            ("unix:8080", tcp("unix:8080")),
            ("http://unix:8080", tcp("unix:8080")),
            ("unix:/run/App.sock", unix("/run/App.sock")),
            ("unix:///run/app.sock", unix("/run/app.sock")),
            ("unix:/run/app 1:2.sock", unix("/run/app 1:2.sock")),
            ("h2c://unix:50051", h2c("unix:50051")),
            ("H2C://unix:/run/App.sock", unix_h2c("/run/App.sock")),
            ("h2c://unix:///run/app.sock", unix_h2c("/run/app.sock")),
        ] {
            assert_eq!(read(word), Some(address.clone()), "{word}");
            assert_eq!(read(&address.to_string()), Some(address), "{word}");
        }
    }

    #[test]
    fn fastcgi_server_is_a_socket_or_has_a_port() {
        let read = |word: &str| UpstreamAddress::of_canonical(fastcgi_address(word).ok()?);
        let tcp = |server: &str| UpstreamAddress::FastCgi(server.to_owned());
        let unix = |path: &str| UpstreamAddress::UnixFastCgi(path.into());
        for (word, address) in [
            ("127.0.0.1:9001", tcp("127.0.0.1:9001")),
            ("PHP", tcp("php:9000")),
            ("[::1]:9000", tcp("[::1]:9000")),
            ("fastcgi://php:9000/", tcp("php:9000")),
            ("unix:/run/php/fpm.sock", unix("/run/php/fpm.sock")),
            ("unix:///run/fpm.sock", unix("/run/fpm.sock")),
            ("FastCGI://unix:/run/fpm.sock", unix("/run/fpm.sock")),
            ("unix:9000", tcp("unix:9000")),
        ] {
            assert_eq!(read(word), Some(address.clone()), "{word}");
            assert_eq!(read(&address.to_string()), Some(address), "{word}");
        }
        for word in
            ["", "http://php:9000", "php:0", "php:9000/x", "unix:fpm.sock", "/run/fpm.sock", "a b"]
        {
            assert_eq!(read(word), None, "{word}");
        }
        let reason = refusal("fastcgi://php:9000");
        assert!(reason.expected.contains("fastcgi = {"), "{reason:?}");
    }

    #[test]
    fn refused_socket_names_the_remedy() {
        let long = format!("unix:/{}", "a".repeat(MAX_SOCKET_PATH));
        assert!(read(&long[..long.len() - 1]).is_some());
        for word in [
            "unix:",
            "unix:/",
            "unix:app.sock",
            "unix:run/app.sock",
            "unix://run/app.sock",
            "unix:/run/",
            "unix:/run/a\nb",
            "unix:@app",
            "h2c://unix:app.sock",
            &long,
        ] {
            let reason = refusal(word);
            assert!(reason.expected.contains("as in \"unix:/run/app.sock\""), "{word}");
        }
        for word in ["http://unix:/run/app.sock", "http://unix:/run/app.sock:/api/"] {
            let nearest = refusal(word).nearest;
            assert_eq!(nearest.as_deref(), Some("unix:/run/app.sock"), "{word}");
        }
    }
}
