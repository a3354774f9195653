//! Errors of a listener's certificates and settings.

use thiserror::Error;

use crate::quic::key_file::TooOpen;

/// Error that keeps a listener from being set up.
#[derive(Debug, Error)]
pub enum TransportError {
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
    /// The HTTP/3 quiche refused a setting.
    #[error("quiche's HTTP/3 refused the settings: {0}")]
    Http(quiche::h3::Error),
    /// quiche refused a setting.
    #[error("quiche refused the settings: {0}")]
    Engine(#[from] quiche::Error),
}
