//! Invariants for every string of bytes, wherever bytes from outside are read.
//!
//! A function for each such place turns a string into what a client could send, hands it over, and panics where a rule is
//! broken. They return whether the string passed the first check, which shows the tests that something was tried. The
//! tests here run them over seeded strings; the targets in `server/fuzz/` run the same functions with strings of a fuzzer's
//! making. Each stands beside what it tries, as that is private.

mod client;
mod datagrams;
mod frames;

use crate::http::exchange::RequestHead;
use crate::http::path::CanonicalPath;

pub use crate::h3::properties::{head, priority, upstream};
pub use crate::http::files::properties::file;
pub use crate::http::path::properties::path;
pub use crate::http::route::properties::route;
pub use sluicegate_base::observe::access::properties::line;
pub use sluicegate_quic::properties::{header, token};

pub use datagrams::datagrams;
pub use frames::frames;

/// Returns the head of a request to `example.org` without query and fields.
pub(crate) fn request_head(method: String, path: CanonicalPath) -> RequestHead {
    RequestHead {
        method,
        protocol: None,
        scheme: Some("https".to_owned()),
        authority: "example.org".to_owned(),
        path,
        query: None,
        headers: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
