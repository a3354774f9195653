//! Field sections of the requests.

use anyhow::bail;
use http::Method;
use quiche::h3;
use sluicegate_quic_client::Url;

use crate::options::LoadArgs;

/// Returns the fields of all requests, without `:path`.
pub(super) fn shared(
    options: &LoadArgs,
    origin: &Url,
    body: Option<&[u8]>,
) -> anyhow::Result<Vec<(String, String)>> {
    let method = if body.is_some() { "POST" } else { "GET" };
    let scheme = if origin.is_secure { "https" } else { "http" };
    let agent = concat!("sluicegate/", env!("CARGO_PKG_VERSION"));
    let fields = [
        (":method", method),
        (":scheme", scheme),
        (":authority", &origin.authority()),
        ("user-agent", agent),
    ];
    let mut fields: Vec<_> = fields.map(|(n, v)| (n.to_owned(), v.to_owned())).into();
    let built_in = fields.len();
    for (name, value) in &options.header {
        let name = if name == "host" { ":authority" } else { name };
        match fields[..built_in].iter_mut().find(|(known, _)| known == name) {
            Some(field) => field.1.clone_from(value),
            None if name.starts_with(':') => {
                bail!("-H {name}: only :authority, :method and :scheme can be set")
            }
            None => fields.push((name.to_owned(), value.clone())),
        }
    }
    let has_length = fields.iter().any(|(name, _)| name == "content-length");
    if let Some(body) = body.filter(|_| !has_length) {
        fields.push(("content-length".into(), body.len().to_string()));
    }
    Ok(fields)
}

pub(super) fn method(fields: &[(String, String)]) -> Option<Method> {
    let (_, method) = fields.iter().find(|(name, _)| name == ":method")?;
    Method::from_bytes(method.as_bytes()).ok()
}

/// Returns a request's field section: the pseudo-header fields come first (RFC 9114 §4.3).
pub(super) fn head(shared: &[(String, String)], path: &str) -> Vec<h3::Header> {
    let field =
        |(name, value): &(String, String)| h3::Header::new(name.as_bytes(), value.as_bytes());
    let (pseudo, others): (Vec<_>, Vec<_>) = shared.iter().partition(|(n, _)| n.starts_with(':'));
    let path = h3::Header::new(b":path", path.as_bytes());
    let pseudo = pseudo.into_iter().map(field).chain([path]);
    pseudo.chain(others.into_iter().map(field)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;

    /// Returns the fields of requests to https://127.0.0.1/ with these options, and with a body, if there is one.
    fn fields(words: &[&str], body: Option<&[u8]>) -> anyhow::Result<Vec<(String, String)>> {
        let options = options::parse(words).unwrap();
        shared(&options, &Url::parse("https://127.0.0.1/").unwrap(), body)
    }

    fn lengths(words: &[&str], body: &[u8]) -> Vec<String> {
        let fields = fields(words, Some(body)).unwrap().into_iter();
        let lengths = fields.filter(|(name, _)| name == "content-length");
        lengths.map(|(_, value)| value).collect()
    }

    #[test]
    fn fields_are_added_or_replaced() {
        let words = ["-H", "host:h", "-H", ":method:HEAD", "-H", "user-agent:u", "-H", "x:y"];
        let expected = [
            (":method", "HEAD"),
            (":scheme", "https"),
            (":authority", "h"),
            ("user-agent", "u"),
            ("x", "y"),
        ];
        let expected = expected.map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(fields(&words, None).unwrap(), expected);
    }

    #[test]
    fn pseudo_header_fields_come_first() {
        let shared = [(":method", "GET"), ("x", "y")];
        let shared = shared.map(|(n, v)| (n.to_owned(), v.to_owned()));
        let expected = [(":method", "GET"), (":path", "/p"), ("x", "y")];
        let expected = expected.map(|(n, v)| h3::Header::new(n.as_bytes(), v.as_bytes()));
        assert_eq!(head(&shared, "/p"), expected);
    }

    #[test]
    fn a_body_has_its_length_unless_another_is_given() {
        assert_eq!(lengths(&[], b"body"), ["4"]);
        assert_eq!(lengths(&[], b""), ["0"]);
        assert_eq!(lengths(&["-H", "Content-Length:7"], b"body"), ["7"]);
    }
}
