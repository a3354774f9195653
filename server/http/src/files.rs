//! Serves files (RFC 9110): GET and HEAD, with preconditions, ranges, and encoded variants that lie beside a file.
//!
//! A worker responds with small files from memory ([`Cache`]), the origin thread with all others from the disk ([`disk`]). Both build the
//! response by [`crate::representation`], so it is the same. Only [`disk`] opens files and waits.

mod cache;
pub mod disk;
#[cfg(any(test, feature = "test-fixtures"))]
mod fixture;
mod folder;
mod kind;
mod path;
#[cfg(any(test, feature = "test-fixtures"))]
pub mod properties;
mod refusal;
mod stat;

pub use cache::{Cache, FileStore, Key, Vacancy};
pub use folder::{Folder, FolderCompiler, SiteFolders};

pub(crate) use kind::content_type;
pub(crate) use path::{FilePath, PathRefusal};
pub(crate) use refusal::{redirect_to_folder, refuse};
pub(crate) use stat::{FileStat, describe};
