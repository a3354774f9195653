//! Errors of certificates, keys and settings of TLS.

use thiserror::Error;

use crate::secrets::TooOpen;

/// Error that keeps a listener's TLS from being set up.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path}: cannot read: {cause}; check the path and its permissions")]
    File {
        /// Path of the file.
        path: String,
        /// Error of the system.
        cause: std::io::Error,
    },
    /// Other users have access to the key.
    #[error(transparent)]
    TooOpen(#[from] TooOpen),
    /// The certificate or its key cannot be used.
    #[error("{origin}: {cause}; {remedy}")]
    Tls {
        /// Names of the files.
        origin: String,
        /// Description of the problem.
        cause: String,
        /// Advice to the operator.
        remedy: &'static str,
    },
}
