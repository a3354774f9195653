//! The thread that writes the access log.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_config::AccessFormat;

use super::target::LogDestination;
use super::{AccessCounters, AccessLog};
use crate::observe::background::{Background, Bounds, Health, Job};
use crate::observe::line_sink::{LineSink, Lines, Written};

/// Bytes of the queue for which it has one place; a batch is seldom smaller.
const PLACE: u64 = 1024;
/// Places of a queue, whatever its bytes.
const PLACES: std::ops::RangeInclusive<usize> = 64..=65_536;

/// Owns the thread, and makes the workers' ends of the log.
#[derive(Debug)]
pub struct AccessWriter {
    /// Formats of the same file share the thread.
    thread: Arc<Background<Lines>>,
    /// Each worker's end has a clone.
    users: Arc<()>,
    counters: Arc<AccessCounters>,
    reopen: Arc<AtomicBool>,
    format: AccessFormat,
    queries: bool,
}

impl AccessWriter {
    /// Opens `target` and starts the thread; `queue` bytes may wait for it. `counters` go on from where they are.
    ///
    /// # Errors
    /// The target cannot be opened, or there is no thread.
    pub fn start(
        mut target: Box<dyn LogDestination>,
        format: AccessFormat,
        queue: u64,
        counters: Arc<AccessCounters>,
    ) -> io::Result<AccessWriter> {
        let reopen = Arc::new(AtomicBool::new(false));
        let sink = target.open()?;
        let log_writer = LogWriter {
            target,
            sink: LineSink::new(sink),
            counters: Arc::clone(&counters),
            reopen: Arc::clone(&reopen),
            health: Health::new("access log"),
        };
        let places = usize::try_from(queue / PLACE).unwrap_or(usize::MAX);
        let bounds = Bounds { items: places.clamp(*PLACES.start(), *PLACES.end()), bytes: queue };
        Ok(AccessWriter {
            thread: Arc::new(Background::start("access-log", bounds, log_writer)?),
            users: Arc::new(()),
            counters,
            reopen,
            format,
            queries: false,
        })
    }

    /// Returns a writer of lines of another format, by the same thread.
    pub(super) fn with_format(&self, format: AccessFormat) -> AccessWriter {
        AccessWriter {
            thread: Arc::clone(&self.thread),
            users: Arc::clone(&self.users),
            counters: Arc::clone(&self.counters),
            reopen: Arc::clone(&self.reopen),
            format,
            queries: self.queries,
        }
    }

    /// Returns whether another writer uses the same thread.
    pub(super) fn shares_thread(&self, other: &AccessWriter) -> bool {
        Arc::ptr_eq(&self.thread, &other.thread)
    }

    /// Ends the thread if no worker has an end of the log any more, and returns whether it has written all and ended.
    pub(super) fn has_ended(&self) -> bool {
        Arc::strong_count(&self.users) == 1 && self.thread.shutdown(Duration::ZERO)
    }

    /// Sets whether lines contain queries; at first they do not.
    #[must_use]
    pub fn with_queries(self, queries: bool) -> AccessWriter {
        AccessWriter { queries, ..self }
    }

    /// Returns a worker's end of the log; `worker` is its name in the lines.
    pub fn log(&self, worker: String) -> AccessLog {
        AccessLog {
            queue: self.thread.queue.clone(),
            counters: Arc::clone(&self.counters),
            format: self.format,
            queries: self.queries,
            worker,
            lines: Lines::default(),
            _user: Arc::clone(&self.users),
        }
    }

    /// Opens the target again, since its name may lead to another file now. Waiting lines go there.
    pub fn reopen(&self) {
        self.reopen.store(true, Ordering::Release);
        self.thread.queue.wake();
    }

    /// Returns the totals so far.
    pub fn counters(&self) -> &AccessCounters {
        &self.counters
    }

    /// Returns the bytes that wait for the disk.
    pub fn queued_bytes(&self) -> u64 {
        self.thread.queue.bytes()
    }

    /// Writes what was handed over and ends the thread. Returns whether that was done within `limit`. Drop the workers' ends first.
    pub fn shutdown(&self, limit: Duration) -> bool {
        self.thread.shutdown(limit)
    }
}

/// Writes whole lines.
struct LogWriter {
    target: Box<dyn LogDestination>,
    sink: LineSink,
    counters: Arc<AccessCounters>,
    reopen: Arc<AtomicBool>,
    health: Health,
}

impl Job for LogWriter {
    type Item = Lines;

    fn take(&mut self, lines: Lines) {
        self.on_wake();
        let written = self.sink.write(&lines);
        self.on_written(&written);
    }

    fn on_wake(&mut self) {
        if !self.reopen.swap(false, Ordering::AcqRel) {
            return;
        }
        match self.target.open() {
            Ok(sink) => {
                let written = self.sink.replace(sink);
                self.on_written(&written);
                count(&self.counters.reopened, 1);
                tracing::info!(file = %self.target.name(), "access log reopened");
            }
            Err(error) => {
                count(&self.counters.disk_errors, 1);
                let name = self.target.name();
                tracing::warn!(%error, "access log: cannot reopen {name}; the old file stays in use");
            }
        }
    }

    fn on_idle(&mut self) {
        let written = self.sink.mend();
        self.on_written(&written);
    }
}

impl LogWriter {
    fn on_written(&mut self, written: &Written) {
        count(&self.counters.bytes_written, written.bytes);
        count(&self.counters.records_written, written.records);
        count(&self.counters.records_dropped_disk, written.lost);
        if let Some(error) = &written.error {
            count(&self.counters.disk_errors, 1);
            self.health.failed("write to", &self.target.name(), error);
        } else if written.records > 0 {
            self.health.works();
        }
    }
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
