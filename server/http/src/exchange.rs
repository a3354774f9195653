//! The interface between fronts and handlers: a request's head one way, a response the other.
//!
//! Neither side sees the other's transport: a front checks the syntax of a request and frames the response. A response that
//! needs the head alone is a [`Reply`]. Every other one comes from a handler on another thread ([`handler`]), as messages
//! ([`message`]) with a credit each way, so that neither a slow client nor a slow handler makes the other side's memory grow.

mod accept;
pub mod accounts;
pub mod compress;
mod error_pages;
mod fields;
pub mod front;
mod generate;
pub mod handler;
pub mod lent;
pub mod local;
pub mod message;
mod opaque;
pub mod ring;
pub mod stall;
mod table;
#[cfg(any(test, feature = "test-fixtures"))]
pub mod test_front;

use bytes::Bytes;
use http::{HeaderValue, Version};

pub use accept::Coding;
pub(crate) use accept::Preference;
pub use error_pages::{ErrorPage, ErrorPages};
pub use fields::{FieldNames, Fields, NO_SERVER, ReplyFields, cookie, is_any};
pub use generate::Generator;
pub use opaque::Opaque;

use crate::path::CanonicalPath;
use crate::target::Query;

/// Head of a request; the front has checked its syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Method, a token, as sent: methods are case-sensitive.
    pub method: String,
    /// Protocol to speak through the tunnel of an extended CONNECT (RFC 8441 §4), a token such as `websocket`, or to which a request of
    /// another method asks to switch by an upgrade of HTTP/1.1 (RFC 9110 §7.8); `None` for every other request.
    pub protocol: Option<String>,
    /// `http` or `https`; `None` for CONNECT without a protocol.
    pub scheme: Option<String>,
    /// Host and perhaps port; where to connect to, for CONNECT without a protocol. Empty only if a request of HTTP/1.0 names none.
    pub authority: String,
    /// Canonical path; `*` for OPTIONS, empty for CONNECT without a protocol.
    pub path: CanonicalPath,
    /// Query: the part of the target behind the first `?`.
    pub query: Option<Query>,
    /// Fields in the order sent, without pseudo-header fields.
    pub headers: Fields,
}

impl RequestHead {
    /// Returns whether the request asks for a tunnel: after a 2xx head its body and that of the response are the bytes of both
    /// directions (RFC 9110 §9.3.6). Either may end first.
    pub fn is_tunnel(&self) -> bool {
        self.method == "CONNECT"
    }

    /// Returns whether the request asks for a tunnel that carries WebSocket (RFC 8441, RFC 9220; for HTTP/1.1, RFC 6455).
    pub fn is_websocket(&self) -> bool {
        self.is_tunnel() && self.protocol.as_deref() == Some("websocket")
    }

    /// Returns whether the request asks for a tunnel that carries datagrams of UDP (RFC 9298).
    pub fn is_connect_udp(&self) -> bool {
        self.is_tunnel() && self.protocol.as_deref() == Some("connect-udp")
    }

    /// Returns whether the request asks to switch to a protocol other than WebSocket, by an upgrade of HTTP/1.1. The server may serve it
    /// as if it did not.
    pub fn is_upgrade(&self) -> bool {
        self.protocol.is_some() && !self.is_tunnel()
    }

    /// Returns whether the method has letters in lower case. Such a method is none of those that routes and handlers know, yet some
    /// applications take `post` for POST.
    pub fn has_lower_case_method(&self) -> bool {
        self.method.bytes().any(|byte| byte.is_ascii_lowercase())
    }

    /// Returns the method as a client of this version has sent it.
    pub fn method_sent(&self, version: Version) -> &str {
        if version < Version::HTTP_2 { self.method_of_route() } else { &self.method }
    }

    /// Returns the method for which a route must be: a request for WebSocket is a GET over HTTP/1.1, so it counts as one.
    pub fn method_of_route(&self) -> &str {
        if self.is_websocket() { "GET" } else { &self.method }
    }
}

/// Response that is known at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Final status, 200 to 599.
    pub status: u16,
    /// Fields without `content-length`, which the front adds, as it does `server` and `date` if they are missing.
    pub headers: ReplyFields,
    /// Content, also for HEAD: the front then sends only its length.
    pub body: Body,
}

impl Reply {
    /// Returns a response with a line of text.
    pub fn plain(status: u16, text: &'static str) -> Reply {
        Reply {
            status,
            headers: ReplyFields::Own(vec![(
                http::header::CONTENT_TYPE,
                HeaderValue::from_static("text/plain; charset=utf-8"),
            )]),
            body: Body::Bytes(Bytes::from_static(text.as_bytes())),
        }
    }
}

/// Returns whether responses with a status have content, to any method but HEAD (RFC 9110 §6.4.1).
pub fn has_content(status: u16) -> bool {
    !matches!(status, 204 | 304)
}

/// Content of a [`Reply`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// No content.
    Empty,
    /// Bytes in memory, shared by all responses with them.
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
