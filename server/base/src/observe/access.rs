//! The access log: a line for each request, written by one thread for the whole process.
//!
//! A worker writes lines into memory and hands them over once in a turn; it never waits for a disk. If too much waits, or the
//! disk fails, it drops whole lines and counts them. Whatever a client sends, a line stays one line, and ends whole.

mod current;
mod escape;
mod format;
#[cfg(any(test, feature = "test-fixtures"))]
pub mod properties;
mod record;
mod target;
mod time;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_config::AccessFormat;

use super::background::Queue;
use super::line_sink::Lines;
use super::metrics::metrics;

pub use current::CurrentAccess;
pub use record::{Outcome, PathState, Record, TlsSession, UpstreamTimes};
pub use target::LogDestination;
pub use writer::AccessWriter;

/// Lines are handed over when they fill this many bytes, at the latest.
const BATCH: usize = 16 * 1024;
/// First capacity of a batch, in bytes.
const FIRST_ROOM: usize = 1024;

metrics! {
    /// Totals since the start.
    #[derive(Debug, Default)]
    pub struct AccessCounters {
        /// Lines written to the access log.
        pub records_written: AtomicU64 = counter("sluicegate_access_log_records_written_total"),
        /// Bytes written to the access log.
        pub bytes_written: AtomicU64 = counter("sluicegate_access_log_written_bytes_total"),
        /// Failed operations on the access log.
        pub disk_errors: AtomicU64 = counter("sluicegate_access_log_disk_errors_total"),
        /// Times that the access log was reopened.
        pub reopened: AtomicU64 = counter("sluicegate_access_log_reopened_total"),
        /// Lines dropped because too much waited.
        pub records_dropped_queue: AtomicU64 = counter(
            "sluicegate_access_log_records_dropped_total", reason = "queue";
            "Lines dropped before they were written, by reason."
        ),
        /// Lines dropped because the disk failed.
        pub records_dropped_disk: AtomicU64 = also(reason = "disk"),
    }
}

impl AccessCounters {
    /// Writes the totals to the log.
    pub fn log(&self) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        tracing::info!(
            records = read(&self.records_written),
            bytes = read(&self.bytes_written),
            dropped_queue = read(&self.records_dropped_queue),
            dropped_disk = read(&self.records_dropped_disk),
            disk_errors = read(&self.disk_errors),
            reopened = read(&self.reopened),
            "total of the access log"
        );
    }
}

/// A worker's end of the log.
#[derive(Debug)]
pub struct AccessLog {
    queue: Queue<Lines>,
    counters: Arc<AccessCounters>,
    format: AccessFormat,
    /// Whether lines contain queries.
    queries: bool,
    worker: String,
    lines: Lines,
    /// Tells the writer that somebody may still hand lines over.
    _user: Arc<()>,
}

impl AccessLog {
    /// Writes a line into memory. It reaches the writer with the next [`AccessLog::flush`], or once many wait for that.
    pub fn record(&mut self, record: &Record<'_>) {
        if self.lines.bytes.capacity() == 0 {
            self.lines.bytes.reserve(FIRST_ROOM);
        }
        let record = if self.queries { *record } else { record.without_queries() };
        match self.format {
            AccessFormat::Json => format::json(&mut self.lines.bytes, &record, &self.worker),
            AccessFormat::Combined => format::combined(&mut self.lines.bytes, &record),
            AccessFormat::Extended => format::extended(&mut self.lines.bytes, &record),
        }
        self.lines.records += 1;
        if self.lines.bytes.len() >= BATCH {
            self.flush();
        }
    }

    /// Hands the lines to the writer. A worker calls it at the end of a turn.
    pub fn flush(&mut self) {
        if self.lines.records == 0 {
            return;
        }
        let Lines { bytes, records } = std::mem::take(&mut self.lines);
        // What it holds, not only what it says.
        let size = bytes.capacity() as u64;
        if !self.queue.send(Lines { bytes, records }, size) {
            let dropped = &self.counters.records_dropped_queue;
            dropped.fetch_add(records, Ordering::Relaxed);
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests;
