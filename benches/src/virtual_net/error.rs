//! Errors that keep a simulation from running.

use thiserror::Error;

/// Error that kept a run from starting. A download that does not finish is no error.
#[derive(Debug, Error)]
pub enum SimulationError {
    /// No algorithm has that name.
    #[error("no algorithm is named `{0}`")]
    UnknownAlgorithm(String),
    /// The algorithm refuses an option.
    #[error("{0}")]
    RefusedOption(#[from] sluicegate_cc::OptionError),
    /// The TLS library made no certificate, or refused it.
    #[error("TLS: {0}")]
    Tls(#[from] boring::error::ErrorStack),
    /// quiche failed below HTTP/3.
    #[error("QUIC: {0}")]
    Quic(#[from] quiche::Error),
    /// quiche failed in HTTP/3.
    #[error("HTTP/3: {0}")]
    Http(#[from] quiche::h3::Error),
}
