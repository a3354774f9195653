//! The thread that writes traces.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::Shared;
use super::storage::{Directory, Storage, TraceFile};
use super::trace::{Batch, Trace, TraceName, TraceState};
use super::{QlogCounters, QlogOptions, count};
use crate::observe::background::{Background, Bounds, Health, Job};

/// Number of batches after which the thread looks for finished traces; it also does when idle.
const SWEEP_EVERY: u32 = 256;
/// Number of names tried for one trace, since clients may choose the same connection ID again.
const NAME_ATTEMPTS: u32 = 10;

/// Opens traces, from any thread, and owns the thread that writes them.
#[derive(Debug)]
pub struct QlogWriter {
    shared: Arc<Shared>,
    thread: Background<Batch>,
    next_id: AtomicU64,
}

impl QlogWriter {
    /// Starts the thread. `counters` go on from where they are. A directory that cannot be used is reported by the thread, in the log and in the counters.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(options: &QlogOptions, counters: Arc<QlogCounters>) -> io::Result<QlogWriter> {
        let directory = Directory::new(options.directory.clone());
        QlogWriter::start_with(options, Box::new(directory), counters)
    }

    /// Starts the thread with another storage than `options.directory`.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start_with(
        options: &QlogOptions,
        storage: Box<dyn Storage>,
        counters: Arc<QlogCounters>,
    ) -> io::Result<QlogWriter> {
        let shared = Arc::new(Shared {
            counters,
            max_trace_bytes: options.max_trace_bytes,
            max_open: options.max_open,
            open: AtomicUsize::new(0),
            idle_epoch: AtomicU64::new(0),
        });
        let files = Files {
            shared: Arc::clone(&shared),
            files: BTreeMap::new(),
            disk: Disk {
                shared: Arc::clone(&shared),
                storage,
                max_bytes: options.max_directory_bytes,
                bytes: 0,
                listed: false,
                deletable: VecDeque::new(),
                health: Health::new("qlog"),
                last_error: None,
            },
            since_sweep: 0,
        };
        let bounds = Bounds { items: options.queue_batches, bytes: options.queue_bytes };
        Ok(QlogWriter {
            shared,
            thread: Background::start("qlog", bounds, files)?,
            next_id: AtomicU64::new(0),
        })
    }

    /// Opens a trace that begins with `header`: whole records, or nothing, since quiche writes its own.
    ///
    /// Returns `None`, and counts that, if too many are open or the writer is shutting down.
    pub fn open(&self, name: &TraceName<'_>, header: &[u8]) -> Option<Trace> {
        let counters = &self.shared.counters;
        let taken = self.shared.open.fetch_add(1, Ordering::Relaxed);
        if taken >= self.shared.max_open || self.thread.queue.is_closing() {
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
            count(&counters.traces_refused, 1);
            return None;
        }
        count(&counters.traces_started, 1);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(TraceState::new(id, name, Arc::clone(&self.shared)));
        let mut trace = Trace::new(Arc::clone(&self.shared), state, self.thread.queue.clone());
        // Writing to a trace cannot fail.
        let _ = io::Write::write(&mut trace, header);
        Some(trace)
    }

    /// Returns the totals so far.
    pub fn counters(&self) -> &QlogCounters {
        &self.shared.counters
    }

    /// Returns the number of open traces, those included that the thread has yet to close.
    pub fn open_traces(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Writes what was handed over, closes all files and ends the thread. Returns whether that was done within `limit`.
    ///
    /// Drop the traces first: what they still hold, or receive later, is lost. If the disk hangs, the thread is left behind.
    pub fn shutdown(&self, limit: Duration) -> bool {
        self.thread.shutdown(limit)
    }
}

/// The files of all traces.
struct Files {
    shared: Arc<Shared>,
    files: BTreeMap<u64, OpenFile>,
    disk: Disk,
    since_sweep: u32,
}

/// A trace's file, from its first batch on.
struct OpenFile {
    trace: Arc<TraceState>,
    name: String,
    /// `None` once it was abandoned.
    file: Option<Box<dyn TraceFile>>,
    bytes: u64,
}

impl Job for Files {
    type Item = Batch;

    /// Lists the old files before the first new one, so that an idle server reports a bad directory, too.
    fn begin(&mut self) {
        self.disk.ready();
    }

    fn take(&mut self, batch: Batch) {
        let trace = Arc::clone(&batch.trace);
        if batch.records > 0 {
            self.write(batch);
        }
        trace.queued.fetch_sub(1, Ordering::AcqRel);
        if trace.is_done() {
            self.finish(trace.id);
        }
        self.since_sweep += 1;
        if self.since_sweep >= SWEEP_EVERY {
            self.sweep();
        }
    }

    fn on_idle(&mut self) {
        self.shared.idle_epoch.fetch_add(1, Ordering::Relaxed);
        self.sweep();
    }
}

impl Files {
    fn write(&mut self, batch: Batch) {
        let counters = &self.shared.counters;
        let length = batch.bytes.len() as u64;
        let open = match self.files.get_mut(&batch.trace.id) {
            Some(open) => open,
            None => {
                let (name, file) = self.disk.create(&batch.trace);
                self.files.entry(batch.trace.id).or_insert(OpenFile {
                    trace: batch.trace,
                    name,
                    file,
                    bytes: 0,
                })
            }
        };
        let Some(file) = &mut open.file else {
            open.trace.fail(self.disk.last_error.as_deref());
            open.trace.ended.store(true, Ordering::Relaxed);
            count(&counters.records_dropped_disk, batch.records);
            return;
        };
        if !self.disk.make_room(length) {
            count(&counters.records_dropped_cap, batch.records);
            open.trace.fail(Some("the folder has as much as `max_total_bytes` in [qlog] allows"));
            self.disk.abandon_if_empty(open);
            return;
        }
        let written = file.write_all(&batch.bytes);
        if self.disk.check("write", &open.name, written).is_some() {
            open.bytes += length;
            self.disk.bytes += length;
            count(&counters.records_written, batch.records);
            count(&counters.bytes_written, length);
            open.trace.succeed(&open.name);
            return;
        }
        count(&counters.records_dropped_disk, batch.records);
        open.trace.fail(self.disk.last_error.as_deref());
        // Half a record must not stay.
        let whole = file.truncate(open.bytes).is_ok();
        self.disk.abandon_if_empty(open);
        if !whole {
            open.file = None;
        }
    }

    fn sweep(&mut self) {
        self.since_sweep = 0;
        let done: Vec<u64> =
            self.files.iter().filter(|(_, open)| open.trace.is_done()).map(|(id, _)| *id).collect();
        for id in done {
            self.finish(id);
        }
    }

    fn finish(&mut self, id: u64) {
        if let Some(open) = self.files.remove(&id)
            && open.bytes > 0
        {
            self.disk.deletable.push_back((open.name, open.bytes));
        }
    }
}

/// Storage with its fill level and health.
struct Disk {
    shared: Arc<Shared>,
    storage: Box<dyn Storage>,
    max_bytes: u64,
    /// Bytes of all trace files, open ones too.
    bytes: u64,
    listed: bool,
    /// Finished files and their sizes, the oldest first.
    deletable: VecDeque<(String, u64)>,
    health: Health,
    /// Words of the last error.
    last_error: Option<String>,
}

impl Disk {
    /// Lists the files that exist, once, and returns whether the storage can be used.
    fn ready(&mut self) -> bool {
        if !self.listed {
            let listing = self.storage.list();
            if let Some(files) = self.check("list", "directory", listing) {
                self.listed = true;
                self.bytes += files.iter().map(|file| file.bytes).sum::<u64>();
                let files = files.into_iter().map(|file| (file.name, file.bytes));
                self.deletable.extend(files);
            }
        }
        self.listed
    }

    /// Creates a trace's file under a free name.
    fn create(&mut self, trace: &TraceState) -> (String, Option<Box<dyn TraceFile>>) {
        let mut name = trace.file_name(0);
        if !self.ready() {
            return (name, None);
        }
        let mut created = self.storage.create(&name);
        for attempt in 1..NAME_ATTEMPTS {
            match &created {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    name = trace.file_name(attempt);
                    created = self.storage.create(&name);
                }
                _ => break,
            }
        }
        let file = self.check("create", &name, created);
        (name, file)
    }

    /// Deletes the oldest finished files until `length` more bytes fit, and returns whether they do.
    fn make_room(&mut self, length: u64) -> bool {
        while self.bytes.saturating_add(length) > self.max_bytes {
            let Some((name, bytes)) = self.deletable.pop_front() else {
                return false;
            };
            let removed = match self.storage.remove(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            };
            // What cannot be deleted goes on counting.
            if self.check("delete", &name, removed).is_some() {
                self.bytes = self.bytes.saturating_sub(bytes);
                count(&self.shared.counters.files_deleted, 1);
            }
        }
        true
    }

    /// Abandons a file whose beginning, with the header that makes the rest readable, was lost.
    fn abandon_if_empty(&mut self, open: &mut OpenFile) {
        if open.bytes == 0 && open.file.take().is_some() {
            // It is empty: that it may stay harms nobody.
            let _ = self.storage.remove(&open.name);
        }
    }

    /// Counts an error, and logs it where it is the first since the disk worked. Only a record written shows that it works again.
    fn check<T>(&mut self, action: &str, name: &str, result: io::Result<T>) -> Option<T> {
        match result {
            Ok(value) => {
                if action == "write" {
                    self.health.works();
                }
                Some(value)
            }
            Err(error) => {
                count(&self.shared.counters.disk_errors, 1);
                self.health.failed(action, name, &error);
                self.last_error = Some(error.to_string());
                None
            }
        }
    }
}
