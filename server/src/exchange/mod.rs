//! What a front and a handler say to each other: a request's head one way, a reply the other.
//!
//! Neither side sees the other's transport: a front checks the syntax before a handler sees a request, and frames what a
//! handler answers.

mod generate;

use bytes::Bytes;

pub use generate::Generator;

/// A request as a handler sees it; the front has checked its syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// A token, as sent: methods are case-sensitive.
    pub method: String,
    /// `http` or `https`; `None` for CONNECT.
    pub scheme: Option<String>,
    /// Host and perhaps port, never empty.
    pub authority: String,
    /// Up to the first `?`, starting with `/`; `*` for OPTIONS, empty for CONNECT.
    pub path: String,
    /// What follows the first `?`.
    pub query: Option<String>,
    /// Fields in the order sent, names in lower case; without pseudo-header fields.
    pub headers: Vec<(String, Vec<u8>)>,
}

/// What a handler answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// A final status, 200 to 599.
    pub status: u16,
    /// Fields beyond `server` and `content-length`, which the front writes; names in lower case.
    pub headers: Vec<(&'static str, Bytes)>,
    /// The content, given for HEAD too: the front leaves it out and tells its length.
    pub body: Body,
}

impl Reply {
    /// A status with a line of text that says it.
    pub fn plain(status: u16, text: &'static str) -> Reply {
        Reply {
            status,
            headers: vec![(
                "content-type",
                Bytes::from_static(b"text/plain; charset=utf-8"),
            )],
            body: Body::Bytes(Bytes::from_static(text.as_bytes())),
        }
    }
}

/// The content of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// None.
    Empty,
    /// In memory, shared by all replies that carry it.
    Bytes(Bytes),
    /// Made while it is sent.
    Generated(Generator),
}

impl Body {
    /// Length in bytes, known from the start.
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
