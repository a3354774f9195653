//! Errors of secrets.

use std::path::PathBuf;

use super::key_file::TooOpen;

/// Most root secrets a file may hold.
pub const MAX_ROOTS: usize = 16;

/// Error that keeps secrets from being used; each message names the cause and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// A file or directory could not be read, written or locked.
    #[error("cannot {action} {}: {cause}; check that it exists and that this user may do so", path.display())]
    Io {
        /// Verb of the failed operation.
        action: &'static str,
        /// File or directory.
        path: PathBuf,
        /// Error of the system.
        cause: std::io::Error,
    },
    /// Other users have access to the file.
    #[error(transparent)]
    TooOpen(#[from] TooOpen),
    /// A line is no root secret.
    #[error("{}:{line}: {found} where 64 hexadecimal digits should stand; make a line with `openssl rand -hex 32`", path.display())]
    Line {
        /// The key file.
        path: PathBuf,
        /// Number of the line, counted from 1.
        line: usize,
        /// Description of what stands there, never the bytes.
        found: String,
    },
    /// The file holds no root secret, or too many.
    #[error("{}: {found} secrets where 1 to {MAX_ROOTS} should stand; make a line with `openssl rand -hex 32` or remove the oldest", path.display())]
    Count {
        /// The key file.
        path: PathBuf,
        /// Number of secrets in the file.
        found: usize,
    },
    /// A line does not say which nonces are taken.
    #[error("{}:{line}: no record of the nonces of connection IDs; set a new `quic.connection_ids.key_file` under another `config`, and remove this file", path.display())]
    Nonces {
        /// File of the nonces.
        path: PathBuf,
        /// Number of the line, counted from 1.
        line: usize,
    },
    /// Earlier starts have taken all nonces.
    #[error("{}: every nonce under the key of `quic.connection_ids.key_file` has been used; give servers and balancer a new key under another `config`, or a longer `nonce`", path.display())]
    NoncesUsedUp {
        /// File of the nonces.
        path: PathBuf,
    },
}
