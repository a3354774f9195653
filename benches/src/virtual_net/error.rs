//! Errors that keep a simulation from running.

use thiserror::Error;

/// Error that kept a run from starting or broke it. A download that does not finish in time is no error.
#[derive(Debug, Error)]
pub enum SimulationError {
    /// No algorithm of ours has that name.
    #[error("no algorithm is named `{0}`")]
    UnknownAlgorithm(String),
    /// The algorithm refuses an option.
    #[error("{0}")]
    RefusedOption(#[from] sluicegate_cc::OptionError),
    /// The scenario has no download.
    #[error("no download")]
    NoDownload,
    /// The TLS library made no certificate, or refused it.
    #[error("TLS: {0}")]
    Tls(#[from] boring::error::ErrorStack),
    /// The product's endpoint could not be set up.
    #[error("the server: {0}")]
    Server(#[from] anyhow::Error),
    /// quiche failed below HTTP/3.
    #[error("QUIC: {0}")]
    Quic(#[from] quiche::Error),
    /// quiche failed in HTTP/3.
    #[error("HTTP/3: {0}")]
    Http(#[from] quiche::h3::Error),
    /// A request was refused or its response reset.
    #[error("a response that is not the body asked for")]
    Response,
    /// The run has stopped making progress.
    #[error("no end after {0} turns")]
    Turns(u64),
    /// The clients were not done at the end of the run.
    #[error("the clients were not done in time")]
    Unfinished,
}
