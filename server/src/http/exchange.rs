//! What a front and a handler say to each other: a request's head one way, a reply the other.
//!
//! Neither side sees the other's transport: a front checks the syntax before a handler sees a request, and frames what a
//! handler answers. What is known at once is a [`Reply`]; what takes a file or another server is an exchange of messages
//! ([`message`]) with a handler on another thread ([`handler`]), under a credit each way, so that neither a slow client
//! nor a slow handler makes the other side's memory grow.

pub mod accounts;
mod generate;
pub mod handler;
mod key;
pub mod message;
mod opaque;
pub mod ring;
#[cfg(test)]
pub(crate) mod test_front;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

pub use generate::Generator;
pub use key::{ConnectionKey, ExchangeKey};
pub use opaque::Opaque;

use crate::http::path::CanonicalPath;

/// Field lines in the order sent.
pub type Fields = Vec<(HeaderName, HeaderValue)>;

/// A request as a handler sees it; the front has checked its syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Method, a token, as sent: methods are case-sensitive.
    pub method: String,
    /// Protocol to speak through the tunnel of an extended CONNECT (RFC 8441 §4), a token such as `websocket`; `None` for
    /// every other request.
    pub protocol: Option<String>,
    /// `http` or `https`; `None` for CONNECT without a protocol.
    pub scheme: Option<String>,
    /// Host and perhaps port, never empty; where to connect to, for CONNECT without a protocol.
    pub authority: String,
    /// Path, one spelling for all of the server; `*` for OPTIONS, empty for CONNECT without a protocol.
    pub path: CanonicalPath,
    /// Query: what follows the first `?` of the target.
    pub query: Option<String>,
    /// Fields in the order sent, without pseudo-header fields.
    pub headers: Fields,
}

impl RequestHead {
    /// Whether the request asks for a tunnel: after a 2xx head its body and that of the response are the bytes of both
    /// directions (RFC 9110 §9.3.6), and either may end first.
    pub fn is_tunnel(&self) -> bool {
        self.method == "CONNECT"
    }
}

/// A reply that is known at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// A final status, 200 to 599.
    pub status: u16,
    /// Fields beyond `content-length`, which the front writes, as it does `server` and `date` where they are missing.
    pub headers: Fields,
    /// The content, given for HEAD too: the front leaves it out and tells its length.
    pub body: Body,
}

impl Reply {
    /// A status with a line of text that says it.
    pub fn plain(status: u16, text: &'static str) -> Reply {
        Reply {
            status,
            headers: vec![(
                http::header::CONTENT_TYPE,
                HeaderValue::from_static("text/plain; charset=utf-8"),
            )],
            body: Body::Bytes(Bytes::from_static(text.as_bytes())),
        }
    }
}

/// The content of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// No content.
    Empty,
    /// Bytes in memory, shared by all replies that carry them.
    Bytes(Bytes),
    /// Bytes that are generated while they are sent.
    Generated(Generator),
}

impl Body {
    /// Returns the length in bytes, known from the start.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a generator of size 0 and Empty are framed alike; nobody asks"
    )]
    pub fn len(&self) -> u64 {
        match self {
            Body::Empty => 0,
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::Generated(generator) => generator.size(),
        }
    }
}
