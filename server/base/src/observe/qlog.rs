//! qlog traces of connections, sampled ones and others that an operator asks for, written by one thread for the whole process.
//!
//! A worker never waits for a disk: a [`Trace`] gathers whole records and hands them over in batches. If the queue is full, a cap is
//! reached or the disk fails, it drops whole records and counts them. Files are JSON text sequences (RFC 7464), readable while they
//! grow and after a crash, named `<original DCID>_<listener>_<algorithm>.sqlog`, or `…_from-<age>ms.sqlog` where a trace begins in a running
//! connection, and `…_recorder-<age>ms.sqlog` where it is what a flight recorder had by then.

mod current;
mod limit;
mod sampler;
mod storage;
mod text;
mod trace;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::metrics::metrics;

pub use current::CurrentTraces;
pub use limit::DumpLimit;
pub use sampler::Sampler;
pub use storage::{Directory, Storage, StoredFile, TraceFile};
pub use text::{HeaderFacts, TraceText, milliseconds};
pub use trace::{FileFate, Trace, TraceHandle, TraceName, TracePart};
pub use writer::QlogWriter;

/// Running connections that an operator's order traces at most.
pub const TRACED_BY_ORDER: usize = 64;
/// The same of what the flight recorder has: a worker writes each at once.
pub const RECORDED_BY_ORDER: usize = 16;

/// Bounds on the resources of traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QlogOptions {
    /// Directory of the files; created if missing.
    pub directory: PathBuf,
    /// Largest number of open traces; each has a file descriptor.
    pub max_open: usize,
    /// Largest size of one trace, bytes.
    pub max_trace_bytes: u64,
    /// Largest size of all traces in the directory, bytes, those of earlier processes included. The oldest finished ones are deleted
    /// first.
    pub max_directory_bytes: u64,
    /// Largest number of batches that wait for the disk.
    pub queue_batches: usize,
    /// Largest number of bytes that wait for the disk.
    pub queue_bytes: u64,
}

impl QlogOptions {
    /// Returns bounds for traces in `directory`: 256 open traces of up to 64 MiB, 1 GiB in all, 16 MiB waiting.
    pub fn new(directory: PathBuf) -> QlogOptions {
        QlogOptions {
            directory,
            max_open: 256,
            max_trace_bytes: 64 << 20,
            max_directory_bytes: 1 << 30,
            queue_batches: 2048,
            queue_bytes: 16 << 20,
        }
    }
}

metrics! {
    /// Totals since the writer was started.
    #[derive(Debug, Default)]
    pub struct QlogCounters {
        /// Traces opened.
        pub traces_started: AtomicU64 = counter("sluicegate_qlog_traces_started_total"),
        /// Connections not traced because too many traces are open.
        pub traces_refused: AtomicU64 = counter("sluicegate_qlog_traces_refused_total"),
        /// Records written to files.
        pub records_written: AtomicU64 = counter("sluicegate_qlog_records_written_total"),
        /// Bytes written to files.
        pub bytes_written: AtomicU64 = counter("sluicegate_qlog_written_bytes_total"),
        /// Failed operations on the disk.
        pub disk_errors: AtomicU64 = counter("sluicegate_qlog_disk_errors_total"),
        /// Traces deleted to make room.
        pub files_deleted: AtomicU64 = counter("sluicegate_qlog_files_deleted_total"),
        /// Records dropped because too much waited for the disk.
        pub records_dropped_queue: AtomicU64 = counter(
            "sluicegate_qlog_records_dropped_total", reason = "queue";
            "Records dropped before they were written, by reason."
        ),
        /// Records dropped because of their size, their trace's or the directory's.
        pub records_dropped_cap: AtomicU64 = also(reason = "cap"),
        /// Records dropped because the disk failed.
        pub records_dropped_disk: AtomicU64 = also(reason = "disk"),
    }
}

impl QlogCounters {
    /// Writes the totals to the log.
    pub fn log(&self) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        tracing::info!(
            traces = read(&self.traces_started),
            refused = read(&self.traces_refused),
            records = read(&self.records_written),
            bytes = read(&self.bytes_written),
            dropped_queue = read(&self.records_dropped_queue),
            dropped_cap = read(&self.records_dropped_cap),
            dropped_disk = read(&self.records_dropped_disk),
            disk_errors = read(&self.disk_errors),
            files_deleted = read(&self.files_deleted),
            "total of traces"
        );
    }
}

/// Adds to a counter.
fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Counters and limits that workers and the writer thread share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) counters: Arc<QlogCounters>,
    pub(super) max_trace_bytes: u64,
    pub(super) max_open: usize,
    pub(super) open: AtomicUsize,
    pub(super) idle_epoch: AtomicU64,
}

#[cfg(test)]
mod tests;
