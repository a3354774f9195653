//! Checks of the repository itself, for what reviewers should not have to look for.
//!
//! The tests in `tests/` apply them; the binary prints what they work with. Nothing here needs another crate of the
//! workspace, so the checks build in seconds.

pub mod cfg;
pub mod circles;
pub mod crates;
pub mod hardening;
pub mod imports;
pub mod layers;
pub mod lines;
pub mod module_files;
pub mod prose;
pub mod repository;
pub mod resolve;
pub mod rooms;
pub mod tree;
pub mod uses;
