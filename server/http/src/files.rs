//! Serves files (RFC 9110): GET and HEAD, with preconditions, ranges, and encoded variants that lie beside a file.
//!
//! A worker responds with small files from its [`Cache`], the origin thread with all others from the disk ([`disk`]). Both build the
//! response here, so it is the same. Only [`disk`] opens files and waits.

mod cache;
mod condition;
pub mod disk;
mod field_value;
#[cfg(any(test, feature = "test-fixtures"))]
mod fixture;
mod folder;
mod kind;
mod meta;
mod path;
#[cfg(any(test, feature = "test-fixtures"))]
pub mod properties;
mod range;
pub(crate) mod response_plan;

pub use cache::{Cache, Key};
pub use folder::{Folder, FolderCompiler, SiteFolders};
pub use meta::{Entry, Meta};

pub(crate) use kind::content_type;
pub(crate) use meta::FileStat;
pub(crate) use path::{Refusal, Target};
pub(crate) use response_plan::reply_from_memory;
