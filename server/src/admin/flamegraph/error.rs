//! Reasons for which there is no profile.

use std::io;
use std::time::Duration;

use thiserror::Error;

/// Error that keeps a profile from being recorded.
#[derive(Debug, Error)]
pub(super) enum RecordError {
    /// There is no place for samples.
    #[error(
        "samples need a temporary file: {0}; make /tmp writable, or set TMPDIR to a folder that is"
    )]
    TemporaryFile(io::Error),
    /// pprof refused an operation.
    #[error("pprof: {0}")]
    Pprof(#[from] pprof::Error),
    /// The thread cannot send itself a signal.
    #[error("cannot raise SIGPROF: {0}")]
    Signal(io::Error),
    /// The graph cannot be drawn.
    #[error("cannot draw the graph: {0}")]
    Drawing(io::Error),
    /// The message for pprof cannot be compressed.
    #[error("cannot compress the profile: {0}")]
    Compression(io::Error),
    /// There is nothing to draw.
    #[error(
        "no samples, since the server used {:.2} s of CPU time; record under load, or for longer",
        .0.as_secs_f64()
    )]
    NoSamples(Duration),
}
