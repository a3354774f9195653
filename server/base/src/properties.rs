//! Strings of bytes from which properties make what a client could send.

mod bytes;

pub use bytes::Bytes;

pub use crate::observe::access::properties::line;
