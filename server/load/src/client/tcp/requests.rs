//! The plan's requests as hyper takes them.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::Full;
use quiche::h3::{Header, NameValue as _};

use super::http::Body;
use crate::protocol::Version;

/// A request in the form of each version.
struct Forms {
    http1: Request<()>,
    http2: Request<()>,
}

/// Requests without their bodies.
pub(super) struct Requests(Vec<Forms>);

impl Requests {
    /// # Errors
    /// A field has a value that HTTP does not allow.
    pub(super) fn new(heads: &[Vec<Header>]) -> Result<Requests> {
        let forms = heads.iter().map(|head| forms(head));
        let forms: Result<_> = forms.collect();
        Ok(Requests(forms.context("cannot encode a request")?))
    }

    /// Returns request number `head` with its body.
    pub(super) fn of(&self, version: Version, head: usize, body: Bytes) -> Request<Body> {
        let forms = &self.0[head];
        let form = match version {
            Version::Http1 => &forms.http1,
            Version::Http2 => &forms.http2,
        };
        form.clone().map(|()| Full::new(body))
    }
}

fn forms(head: &[Header]) -> Result<Forms> {
    let value = |name: &[u8]| {
        let found = head.iter().find(|field| field.name() == name);
        found.map_or(&b""[..], Header::value)
    };
    let method = Method::from_bytes(value(b":method"))?;
    let path = PathAndQuery::try_from(value(b":path"))?;
    let uri = Uri::builder().scheme(value(b":scheme"));
    let uri = uri.authority(value(b":authority")).path_and_query(path.clone());
    let mut http2 = Request::new(());
    *http2.method_mut() = method;
    for field in head.iter().filter(|field| field.name()[0] != b':') {
        let name = HeaderName::from_bytes(field.name())?;
        let value = HeaderValue::from_bytes(field.value())?;
        http2.headers_mut().append(name, value);
    }
    let mut http1 = http2.clone();
    *http1.uri_mut() = path.into();
    let host = HeaderValue::from_bytes(value(b":authority"))?;
    http1.headers_mut().insert(header::HOST, host);
    *http2.uri_mut() = uri.build()?;
    *http2.version_mut() = http::Version::HTTP_2;
    Ok(Forms { http1, http2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> Vec<Header> {
        let field = |(name, value): &(&str, &str)| Header::new(name.as_bytes(), value.as_bytes());
        fields.iter().map(field).collect()
    }

    #[test]
    fn each_version_has_its_form() {
        let fields = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "a.example:8443"),
            (":path", "/x?y"),
            ("user-agent", "u"),
            ("accept", "b"),
            ("accept", "c"),
        ];
        let requests = Requests::new(&[head(&fields)]).unwrap();
        let of = |version| requests.of(version, 0, Bytes::from_static(b"body"));
        let (http1, http2) = (of(Version::Http1), of(Version::Http2));
        assert_eq!(http1.uri(), "/x?y");
        assert_eq!(http1.headers()["host"], "a.example:8443");
        assert_eq!(http2.uri(), "https://a.example:8443/x?y");
        assert!(!http2.headers().contains_key("host"));
        for request in [http1, http2] {
            assert_eq!(request.method(), "POST");
            let accepted = request.headers().get_all("accept");
            assert!(accepted.iter().eq(["b", "c"]));
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let fields = [(":method", "A B"), (":scheme", "https")];
        let error = Requests::new(&[head(&fields)]).map(drop).unwrap_err();
        assert!(error.to_string().contains("cannot encode"), "{error:#}");
    }
}
