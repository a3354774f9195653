//! The thread that writes the access log.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_config::AccessFormat;

use super::target::Target;
use super::{AccessCounters, AccessLog, Lines};
use crate::observe::background::{Background, Bounds, Health, Job};

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
        mut target: Box<dyn Target>,
        format: AccessFormat,
        queue: u64,
        counters: Arc<AccessCounters>,
    ) -> io::Result<AccessWriter> {
        let reopen = Arc::new(AtomicBool::new(false));
        let sink = target.open()?;
        let log_writer = LogWriter {
            target,
            sink,
            torn: Vec::new(),
            counters: Arc::clone(&counters),
            reopen: Arc::clone(&reopen),
            health: Health::new("access log"),
        };
        let places = usize::try_from(queue / PLACE).unwrap_or(usize::MAX);
        let bounds = Bounds {
            items: places.clamp(*PLACES.start(), *PLACES.end()),
            bytes: queue,
        };
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
            lines: Lines {
                bytes: Vec::new(),
                records: 0,
            },
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
    target: Box<dyn Target>,
    sink: Box<dyn Write + Send>,
    /// The rest of a line of which the sink took only the beginning.
    torn: Vec<u8>,
    counters: Arc<AccessCounters>,
    reopen: Arc<AtomicBool>,
    health: Health,
}

impl Job for LogWriter {
    type Item = Lines;

    fn take(&mut self, lines: Lines) {
        self.on_wake();
        if !self.mend() {
            return count(&self.counters.records_dropped_disk, lines.records);
        }
        let (taken, result) = write(&mut self.sink, &lines.bytes);
        count(&self.counters.bytes_written, taken as u64);
        let Err(error) = result else {
            count(&self.counters.records_written, lines.records);
            return self.health.works();
        };
        self.failed("write to", &error);
        let (there, missing) = lines.bytes.split_at(taken);
        let whole = newlines(there);
        count(&self.counters.records_written, whole);
        let mut lost = lines.records - whole;
        if !(there.is_empty() || there.ends_with(b"\n")) {
            // The line that was begun is neither there nor lost yet.
            let rest = missing.split_inclusive(|byte| *byte == b'\n').next();
            self.torn = rest.unwrap_or_default().to_vec();
            lost -= 1;
        }
        count(&self.counters.records_dropped_disk, lost);
    }

    fn on_wake(&mut self) {
        if !self.reopen.swap(false, Ordering::AcqRel) {
            return;
        }
        match self.target.open() {
            Ok(sink) => {
                // The old file gets its last chance.
                if !self.mend() {
                    self.torn.clear();
                    count(&self.counters.records_dropped_disk, 1);
                }
                self.sink = sink;
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
        self.mend();
    }
}

impl LogWriter {
    /// Ends the line that was begun, and returns whether the sink can take another one.
    fn mend(&mut self) -> bool {
        if self.torn.is_empty() {
            return true;
        }
        let (taken, result) = write(&mut self.sink, &self.torn);
        count(&self.counters.bytes_written, taken as u64);
        self.torn.drain(..taken);
        if let Err(error) = result {
            self.failed("write to", &error);
            return false;
        }
        count(&self.counters.records_written, 1);
        self.health.works();
        true
    }

    fn failed(&mut self, action: &str, error: &io::Error) {
        count(&self.counters.disk_errors, 1);
        self.health.failed(action, &self.target.name(), error);
    }
}

/// Returns how many bytes the sink took, and the error that ended it.
fn write(sink: &mut dyn Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut taken = 0;
    while taken < bytes.len() {
        match sink.write(&bytes[taken..]) {
            Ok(0) => return (taken, Err(io::ErrorKind::WriteZero.into())),
            Ok(more) => taken += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (taken, Err(error)),
        }
    }
    (taken, Ok(()))
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
