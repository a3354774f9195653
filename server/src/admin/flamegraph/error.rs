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
    /// jemalloc refused an operation.
    #[error("jemalloc: {0}")]
    Jemalloc(#[from] tikv_jemalloc_ctl::Error),
    /// jemalloc's profiler was not enabled when the process started.
    #[error("jemalloc's profiler is off; start the server without `prof:false` in MALLOC_CONF")]
    NoHeapProfiler,
    /// The file with jemalloc's samples cannot be read.
    #[error("cannot read the samples of jemalloc: {0}")]
    HeapDump(io::Error),
    /// The file with jemalloc's samples has another form than expected.
    #[error("the samples of jemalloc have an unknown form")]
    UnknownHeapDump,
    /// The message for pprof cannot be compressed.
    #[error("cannot compress the profile: {0}")]
    Compression(io::Error),
    /// There is nothing to draw.
    #[error(
        "no samples, since the server used {:.2} s of CPU time; record under load, or for longer",
        .0.as_secs_f64()
    )]
    NoSamples(Duration),
    /// There is nothing to draw of allocations.
    #[error("no allocation was sampled; record under load, or for longer")]
    NoAllocations,
    /// There is nothing to draw of memory in use.
    #[error("nothing that was sampled is in use at the end; record for longer")]
    NothingInUse,
}
