//! Keys in files, as hexadecimal digits.

use std::io;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER_PERMISSIVE;

use super::key_file::{self, TooOpen};
use crate::named_file;

/// Reason why a file gave no key.
#[derive(Debug, thiserror::Error)]
pub enum HexKeyError {
    /// The system's error.
    #[error("cannot read {}: {cause}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        cause: io::Error,
    },
    /// Other users have access to it.
    #[error(transparent)]
    TooOpen(TooOpen),
    /// It holds something else.
    #[error(
        "{} does not hold a key of {digits} hexadecimal digits; make one with `openssl rand -hex {}`",
        path.display(),
        digits / 2
    )]
    NoKey {
        /// Path of the file.
        path: PathBuf,
        /// Number of digits that a key has.
        digits: usize,
    },
}

/// Reads a key of `LEN` bytes. Space around the digits does not count. `accept_open` accepts a file that other users have access to.
///
/// # Errors
/// The file cannot be read, others have access to it, or it holds no key: also one byte over and over is none, such as a line of zeros.
pub fn read<const LEN: usize>(path: &Path, accept_open: bool) -> Result<[u8; LEN], HexKeyError> {
    let failed = |cause| HexKeyError::Io { path: path.to_owned(), cause };
    let file = named_file::open(path).map_err(failed)?;
    let bytes = named_file::read_open(&file, named_file::SECRET).map_err(failed)?;
    if !accept_open {
        key_file::check(path, &file).map_err(failed)?.map_err(HexKeyError::TooOpen)?;
    }
    let key = HEXLOWER_PERMISSIVE.decode(bytes.trim_ascii()).ok();
    let key = key.and_then(|key| <[u8; LEN]>::try_from(key).ok());
    let key = key.filter(|key| key.iter().any(|byte| *byte != key[0]));
    key.ok_or_else(|| HexKeyError::NoKey { path: path.to_owned(), digits: 2 * LEN })
}
