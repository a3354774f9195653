//! The request that the options of `sluicegate get` describe.

use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use http::{HeaderName, HeaderValue, Method};
use sluicegate_quic_client::Url;

/// Largest body that is read from a file or from standard input, bytes.
const MAX_BODY: u64 = 1 << 30;
/// Media type of data without another one, as in curl.
const FORM: &str = "application/x-www-form-urlencoded";
/// Names of fields that identify the client to one server, and do not follow a redirect to another one.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];
/// Names of fields about an HTTP/1.1 connection, which HTTP/3 forbids (RFC 9114 §4.2), and of what this client sets itself.
const FORBIDDEN: [&str; 7] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// A field of the request.
pub(super) type Field = (HeaderName, HeaderValue);

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) authority: String,
    pub(super) path: String,
    /// Fields that the command line adds, or that replace those of the program.
    pub(super) fields: Vec<Field>,
    pub(super) body: Option<Vec<u8>>,
}

impl Request {
    /// Returns the whole head, in the order in which it is sent.
    pub(super) fn head(&self) -> Vec<(&str, &[u8])> {
        let agent = concat!("sluicegate/", env!("CARGO_PKG_VERSION"));
        let mut head = vec![
            (":method", self.method.as_str().as_bytes()),
            (":scheme", b"https"),
            (":authority", self.authority.as_bytes()),
            (":path", self.path.as_bytes()),
        ];
        let is_given = |name: &str| self.fields.iter().any(|(given, _)| given == name);
        for (name, value) in [("user-agent", agent), ("accept", "*/*")] {
            if !is_given(name) {
                head.push((name, value.as_bytes()));
            }
        }
        if self.body.is_some() && !is_given("content-type") {
            head.push(("content-type", FORM.as_bytes()));
        }
        // Without a value a field is left out, as in curl.
        let given = self.fields.iter().filter(|(_, value)| !value.is_empty());
        head.extend(given.map(|(name, value)| (name.as_str(), value.as_bytes())));
        head
    }

    /// Returns the request that follows a redirect from `from` to `to`, with the methods of RFC 9110 §15.4 as browsers and curl have
    /// them: `POST` becomes `GET` except with 307 and 308, and a method that was asked for stays.
    pub(super) fn redirected(
        self,
        status: u16,
        is_method_given: bool,
        from: &Url,
        to: &Url,
    ) -> Request {
        let becomes_get = match status {
            303 => self.method != Method::HEAD,
            301 | 302 => self.method == Method::POST,
            _ => false,
        };
        let is_same_server = from.host.eq_ignore_ascii_case(&to.host) && from.port == to.port;
        let keeps = |name: &HeaderName| is_same_server || !CREDENTIALS.contains(&name.as_str());
        let (method, body) = if becomes_get && !is_method_given {
            (Method::GET, None)
        } else {
            (self.method, self.body)
        };
        Request {
            method,
            authority: to.authority(),
            path: to.path.clone(),
            fields: self.fields.into_iter().filter(|(name, _)| keeps(name)).collect(),
            body,
        }
    }
}

/// Reads a value of `-H`.
pub(super) fn field(text: &str) -> Result<Field, String> {
    let wrong = "expected \"name: value\"";
    let (name, value) = text.split_once(':').ok_or(wrong)?;
    let name = HeaderName::try_from(name).map_err(|_| wrong)?;
    let value = HeaderValue::try_from(value.trim()).map_err(|_| wrong)?;
    if FORBIDDEN.contains(&name.as_str()) {
        return Err(format!("HTTP/3 has no field `{name}`, or this program sets it"));
    }
    Ok((name, value))
}

/// Reads a value of `-X`.
pub(super) fn method(text: &str) -> Result<Method, String> {
    Method::try_from(text).map_err(|_| "expected a method such as POST".into())
}

/// Returns the body of the data given: the pieces with & between them, as in curl. `@FILE` stands for the content of a file, and `@-`
/// for standard input; without `binary`, without its line ends.
///
/// # Errors
/// A file cannot be read.
pub(super) fn body(data: &[String], binary: &[String]) -> anyhow::Result<Option<Vec<u8>>> {
    let texts = data.iter().map(|one| (one, false));
    let given: Vec<_> = texts.chain(binary.iter().map(|one| (one, true))).collect();
    if given.is_empty() {
        return Ok(None);
    }
    let pieces = given.into_iter().map(|(one, is_binary)| {
        let Some(file) = one.strip_prefix('@') else {
            return Ok(one.as_bytes().to_vec());
        };
        let mut bytes = content(file).with_context(|| format!("cannot read {file}"))?;
        if !is_binary {
            bytes.retain(|byte| !b"\r\n\0".contains(byte));
        }
        Ok(bytes)
    });
    let pieces = pieces.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Some(pieces.join(&b'&')))
}

fn content(file: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = match file {
        "-" => io::stdin().take(MAX_BODY + 1).read_to_end(&mut bytes)?,
        _ => std::fs::File::open(Path::new(file))?.take(MAX_BODY + 1).read_to_end(&mut bytes)?,
    };
    ensure!(read as u64 <= MAX_BODY, "larger than 1 GiB");
    Ok(bytes)
}

/// Returns the URL that a Location field names, which may be relative to the URL that was asked for (RFC 3986 §5.2).
///
/// # Errors
/// It is no URL of HTTP/3.
pub(super) fn target(base: &Url, location: &str) -> anyhow::Result<Url> {
    let location = location.split('#').next().unwrap_or_default();
    let scheme = location.split(['/', '?']).next().unwrap_or_default();
    if scheme.contains(':') {
        if !location.contains("://") {
            bail!("the redirect to {location} is none to HTTP");
        }
        return Url::parse(location)
            .with_context(|| format!("cannot follow the redirect to {location}"));
    }
    if let Some(rest) = location.strip_prefix("//") {
        return Url::parse(&format!("https://{rest}"));
    }
    let path = base.path.split('?').next().unwrap_or_default();
    let joined = match location.bytes().next() {
        None => base.path.clone(),
        Some(b'?') => format!("{path}{location}"),
        Some(b'/') => location.to_owned(),
        Some(_) => {
            let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
            format!("{folder}{location}")
        }
    };
    Url::parse(&format!("https://{}{}", base.authority(), without_dots(&joined)))
}

/// Removes the segments `.` and `..` of a path (RFC 3986 §5.2.4).
fn without_dots(target: &str) -> String {
    let (path, query) = match target.find('?') {
        Some(at) => target.split_at(at),
        None => (target, ""),
    };
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (index, segment) in segments.iter().enumerate() {
        let is_last = index + 1 == segments.len();
        match *segment {
            "." => {}
            ".." => drop(kept.pop()),
            other => {
                kept.push(other);
                continue;
            }
        }
        if is_last {
            kept.push("");
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, fields: &[&str], body: Option<&str>) -> Request {
        Request {
            method,
            authority: "a.example".into(),
            path: "/".into(),
            fields: fields.iter().map(|text| field(text).unwrap()).collect(),
            body: body.map(|body| body.as_bytes().to_vec()),
        }
    }

    #[test]
    fn given_fields_replace_those_of_the_program() {
        let given = ["User-Agent: me", "accept:", "X-A: 1", "x-a: 2", "content-type: text/plain"];
        let request = request(Method::POST, &given, Some("x"));
        let head = request.head();
        let values = |name: &str| -> Vec<&[u8]> {
            let found = head.iter().filter(|(known, _)| *known == name);
            found.map(|(_, value)| *value).collect()
        };
        assert_eq!(values("user-agent"), [b"me"]);
        assert_eq!(values("accept"), [b""; 0]);
        assert_eq!(values("x-a"), [b"1", b"2"]);
        assert_eq!(values("content-type"), [b"text/plain"]);
        assert_eq!(values(":method"), [b"POST"]);
    }

    #[test]
    fn fields_that_http_3_forbids_are_refused() {
        for wrong in [
            "a",
            ": b",
            "Connection: close",
            "Content-Length: 1",
            "TE: trailers",
            "a\n: b",
            "a: b\nc",
        ] {
            assert!(field(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn data_is_joined_and_files_lose_their_line_ends_unless_they_are_binary() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data");
        std::fs::write(&file, "a\r\nb\n").unwrap();
        let at = format!("@{}", file.display());
        let body = |data: &[&str], binary: &[&str]| {
            let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
            body(&owned(data), &owned(binary))
        };
        assert_eq!(body(&[], &[]).unwrap(), None);
        assert_eq!(body(&["x=1", &at], &[]).unwrap().unwrap(), b"x=1&ab");
        assert_eq!(body(&[], &[&at]).unwrap().unwrap(), b"a\r\nb\n");
        assert_eq!(body(&[""], &[]).unwrap().unwrap(), b"");
        assert!(body(&["@/none/there"], &[]).is_err());
    }

    #[test]
    fn redirects_change_methods_as_browsers_do_and_keep_passwords_at_their_server() {
        let url = |text: &str| Url::parse(text).unwrap();
        let (here, same, other) =
            (url("https://a.example/"), url("https://A.example/b"), url("https://b.example/"));
        let fields = ["authorization: x", "x-a: 1"];
        for (method, status, given, expected) in [
            (Method::POST, 301, false, Method::GET),
            (Method::POST, 302, false, Method::GET),
            (Method::POST, 303, false, Method::GET),
            (Method::POST, 307, false, Method::POST),
            (Method::POST, 308, false, Method::POST),
            (Method::PUT, 301, false, Method::PUT),
            (Method::PUT, 303, false, Method::GET),
            (Method::HEAD, 303, false, Method::HEAD),
            (Method::POST, 302, true, Method::POST),
        ] {
            let first = request(method.clone(), &fields, Some("x"));
            let next = first.clone().redirected(status, given, &here, &same);
            assert_eq!(next.method, expected, "{method} {status}");
            assert_eq!(next.body.is_some(), expected != Method::GET, "{method} {status}");
            assert_eq!((next.fields.len(), &*next.path), (2, "/b"));
            let next = first.redirected(status, given, &here, &other);
            assert_eq!((next.fields.len(), &*next.authority), (1, "b.example"));
        }
    }

    #[test]
    fn locations_are_relative_to_the_url_that_was_asked_for() {
        let base = Url::parse("https://a.example:8443/b/c?d").unwrap();
        for (location, authority, path) in [
            ("/x", "a.example:8443", "/x"),
            ("x?y", "a.example:8443", "/b/x?y"),
            ("?y", "a.example:8443", "/b/c?y"),
            ("", "a.example:8443", "/b/c?d"),
            ("../x", "a.example:8443", "/x"),
            ("../../..", "a.example:8443", "/"),
            ("./", "a.example:8443", "/b/"),
            ("x/../y/.?../z", "a.example:8443", "/b/y/?../z"),
            ("#top", "a.example:8443", "/b/c?d"),
            ("//c.example/x", "c.example", "/x"),
            ("https://c.example", "c.example", "/"),
            ("x?y=z://w", "a.example:8443", "/b/x?y=z://w"),
        ] {
            let found = target(&base, location).unwrap();
            assert_eq!((&*found.authority(), &*found.path), (authority, path), "{location}");
        }
        for wrong in ["http://a.example/", "mailto:a@b", "ftp://a/", "https://", "x y"] {
            assert!(target(&base, wrong).is_err(), "{wrong}");
        }
    }
}
