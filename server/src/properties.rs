//! Invariants for every string of bytes, wherever bytes from outside are read.
//!
//! A function for each such place turns a string into what a client could send, hands it over, and panics where a rule is
//! broken. They return whether the string passed the first check, which shows the tests that something was tried. The
//! tests here run them over seeded strings; the targets in `server/fuzz/` run the same functions with strings of a fuzzer's
//! making. Each stands beside what it tries, as that is private.

mod bytes;

pub(crate) use bytes::Bytes;

pub use crate::h3::properties::{head, priority};
pub use crate::http::files::properties::file;
pub use crate::http::path::properties::path;
pub use crate::http::route::properties::route;
pub use crate::observe::access::properties::line;
pub use crate::quic::properties::{datagrams, header, token};

#[cfg(test)]
mod tests;
