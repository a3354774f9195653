//! What a request for a file is about, and what it gets (RFC 9110), as far as no disk is needed to tell: GET and HEAD, with
//! preconditions, ranges, and encodings that lie beside a file.
//!
//! A worker answers hot files from its [`Cache`] with what is here, and an origin's thread, which has the disk
//! ([`crate::http::files::disk`]), all others; so both give the same answers. Nothing here opens a file or waits.

mod accept;
mod cache;
mod condition;
pub mod disk;
#[cfg(any(test, fuzzing))]
mod fixture;
mod kind;
mod meta;
mod path;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
mod range;
pub(crate) mod response_plan;

pub use accept::Coding;
pub use cache::{Cache, Key};
pub use meta::{Entry, Meta};

pub(crate) use accept::Preference;
pub(crate) use cache::preference;
pub(crate) use meta::FileStat;
pub(crate) use path::{Refusal, Target};
pub(crate) use response_plan::reply_from_memory;
