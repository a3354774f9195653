//! Invariants for every string of bytes, wherever bytes from outside are read.
//!
//! A function for each such place turns a string into what a client could send, hands it over, and panics where a rule is
//! broken. They return whether the string passed the first check, which shows the tests that something was tried. The
//! tests here run them over seeded strings; the targets in `server/fuzz/` run the same functions with strings of a fuzzer's
//! making. Most stand beside what they try, in the crates below.

mod client;
mod datagrams;
mod frames;
mod handover;

pub use crate::h3::properties::{head, priority, upstream};
pub use sluicegate_base::properties::line;
pub use sluicegate_http::properties::{file, path, route};
pub use sluicegate_http::proxy::properties::response;
pub use sluicegate_quic::properties::{connection_id, header, token};

pub use datagrams::datagrams;
pub use frames::frames;
pub use handover::handover;

#[cfg(test)]
mod tests;
