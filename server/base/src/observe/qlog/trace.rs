//! Gathers the records of a connection for the writer.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use data_encoding::HEXLOWER;

use super::Shared;
use super::count;
use super::storage::SUFFIX;
use crate::observe::background::Queue;

/// Records are handed over when they fill this many bytes.
const BATCH: usize = 8 * 1024;
/// Longest record; what is longer is dropped.
const MAX_RECORD: usize = 64 * 1024;
/// Longest listener or algorithm name within a file name.
const MAX_NAME: usize = 40;

/// The facts in a trace's file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceName<'a> {
    /// The client's first destination connection ID.
    pub original_dcid: &'a [u8],
    /// Name of the listener.
    pub listener: &'a str,
    /// Name of the congestion control algorithm.
    pub algorithm: &'a str,
    /// Part of the connection that it has.
    pub part: TracePart,
}

/// Part of a connection that a trace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePart {
    /// All from the first packet on.
    Whole,
    /// What follows this age.
    From(Duration),
    /// The last events up to this age, because of a trigger of this name.
    Recorded(Duration, &'static str),
}

impl TraceName<'_> {
    /// Returns the file name without the suffix. Characters that a file name should not hold become `-`.
    pub(super) fn stem(&self) -> String {
        let dcid = self.original_dcid;
        let hex = HEXLOWER.encode(&dcid[..dcid.len().min(20)]);
        let part = match self.part {
            TracePart::Whole => String::new(),
            TracePart::From(age) => format!("_from-{}ms", age.as_millis()),
            TracePart::Recorded(age, _) => format!("_recorder-{}ms", age.as_millis()),
        };
        format!("{hex}_{}_{}{part}", safe(self.listener), safe(self.algorithm))
    }
}

fn safe(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    name.chars().take(MAX_NAME).map(keep).collect()
}

/// State of a trace that its writer thread holds too.
#[derive(Debug)]
pub(super) struct TraceState {
    pub(super) id: u64,
    pub(super) stem: String,
    part: TracePart,
    fate: Arc<OnceLock<Result<String, String>>>,
    /// Number of batches on their way.
    pub(super) queued: AtomicU32,
    /// Whether no batch will follow those on their way.
    pub(super) finished: AtomicBool,
    /// Whether further records are dropped, because of a cap, the queue or the disk.
    pub(super) ended: AtomicBool,
    /// Whether the next record is handed over at once, with those before it.
    prompt: AtomicBool,
    shared: Arc<Shared>,
}

impl TraceState {
    pub(super) fn new(id: u64, name: &TraceName<'_>, shared: Arc<Shared>) -> TraceState {
        TraceState {
            id,
            stem: name.stem(),
            part: name.part,
            fate: Arc::default(),
            queued: AtomicU32::new(0),
            finished: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            prompt: AtomicBool::new(false),
            shared,
        }
    }

    /// Returns the `attempt`th name to try, from 0.
    pub(super) fn file_name(&self, attempt: u32) -> String {
        match attempt {
            0 => format!("{}{SUFFIX}", self.stem),
            n => format!("{}-{n}{SUFFIX}", self.stem),
        }
    }

    /// Notes that its file has its beginning.
    pub(super) fn succeed(&self, file: &str) {
        if self.fate.set(Ok(file.to_owned())).is_err() {
            return;
        }
        match self.part {
            TracePart::Whole => {}
            TracePart::From(_) => tracing::info!(file, "a trace has begun on request"),
            TracePart::Recorded(_, trigger) => {
                tracing::info!(file, trigger, "flight recorder: wrote a file");
            }
        }
    }

    /// Notes why it has no file, unless it has one.
    pub(super) fn fail(&self, reason: Option<&str>) {
        let _ = self.fate.set(Err(reason.unwrap_or("the folder cannot be used").to_owned()));
    }

    /// Returns whether the writer has received all of it.
    pub(super) fn is_done(&self) -> bool {
        self.finished.load(Ordering::Acquire) && self.queued.load(Ordering::Acquire) == 0
    }
}

/// A trace that somebody else writes.
#[derive(Clone, Debug)]
pub struct TraceHandle(Arc<TraceState>);

impl TraceHandle {
    /// Returns what becomes of its file.
    pub fn fate(&self) -> FileFate {
        FileFate { name: self.0.file_name(0), fate: Arc::clone(&self.0.fate) }
    }

    /// Returns whether further records are dropped, because of a cap, the queue or the disk.
    pub fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::Relaxed)
    }

    /// Has the next record handed over at once, with those before it.
    pub fn hand_over_next(&self) {
        self.0.prompt.store(true, Ordering::Relaxed);
    }
}

/// What becomes of a trace's file. It keeps no place among the open traces.
#[derive(Clone, Debug)]
pub struct FileFate {
    name: String,
    fate: Arc<OnceLock<Result<String, String>>>,
}

impl FileFate {
    /// Returns the name of the file, unless there is a file of the name already: a number follows it then.
    pub fn name(&self) -> &str {
        self.fate.get().and_then(|fate| fate.as_ref().ok()).unwrap_or(&self.name)
    }

    /// Returns whether the file has its beginning, or why there is none; `None` while that is open.
    pub fn known(&self) -> Option<Result<(), &str>> {
        let fate = self.fate.get()?;
        Some(fate.as_ref().map(drop).map_err(String::as_str))
    }
}

/// Releases the place among the open traces once neither side holds the trace.
impl Drop for TraceState {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A batch of whole records for the writer thread.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) trace: Arc<TraceState>,
    pub(super) bytes: Vec<u8>,
    pub(super) records: u64,
}

/// Reason for which a trace takes no more records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Cap,
    /// The first batch, with the header that makes the rest readable, was lost.
    Queue,
}

/// The writing end of one trace, for quiche's `set_qlog_with_level`.
///
/// It takes any split of the bytes, cuts them at line feeds and passes whole records on. It never fails and never waits. It sends
/// batches of 8 KiB, and the rest on [`Write::flush`], when it is dropped, with the next record after the writer went idle, or where
/// [`TraceHandle::hand_over_next`] asks for it.
#[derive(Debug)]
pub struct Trace {
    shared: Arc<Shared>,
    state: Arc<TraceState>,
    queue: Queue<Batch>,
    /// Whole records, then the beginning of one.
    batch: Vec<u8>,
    /// Offset of the record that has begun.
    complete: usize,
    records: u64,
    /// Bytes of records taken so far.
    taken: u64,
    /// Whether the current record is too long and skipped to its end.
    skipping: bool,
    started: bool,
    end: Option<End>,
    idle_epoch: u64,
}

impl Trace {
    pub(super) fn new(shared: Arc<Shared>, state: Arc<TraceState>, queue: Queue<Batch>) -> Trace {
        let idle_epoch = shared.idle_epoch.load(Ordering::Relaxed);
        Trace {
            shared,
            state,
            queue,
            batch: Vec::with_capacity(BATCH + BATCH / 4),
            complete: 0,
            records: 0,
            taken: 0,
            skipping: false,
            started: false,
            end: None,
            idle_epoch,
        }
    }

    /// Returns a handle, for those who do not write the trace.
    pub fn handle(&self) -> TraceHandle {
        TraceHandle(Arc::clone(&self.state))
    }

    fn end(&mut self, end: End) {
        self.end = Some(end);
        self.state.ended.store(true, Ordering::Relaxed);
    }

    fn piece(&mut self, piece: &[u8]) {
        if !self.skipping && self.end.is_none() {
            if self.batch.len() - self.complete + piece.len() > MAX_RECORD {
                self.skipping = true;
                self.batch.truncate(self.complete);
            } else {
                self.batch.extend_from_slice(piece);
            }
        }
        if piece.ends_with(b"\n") {
            self.end_record();
        }
    }

    fn end_record(&mut self) {
        if self.end == Some(End::Queue) {
            count(&self.shared.counters.records_dropped_queue, 1);
            return;
        }
        let length = (self.batch.len() - self.complete) as u64;
        if self.end.is_none() && self.taken + length > self.shared.max_trace_bytes {
            self.end(End::Cap);
            self.batch.truncate(self.complete);
        }
        if self.end.is_some() || std::mem::take(&mut self.skipping) {
            count(&self.shared.counters.records_dropped_cap, 1);
            return;
        }
        self.taken += length;
        self.complete = self.batch.len();
        self.records += 1;
        let epoch = self.shared.idle_epoch.load(Ordering::Relaxed);
        let is_prompt = self.state.prompt.load(Ordering::Relaxed);
        if self.complete >= BATCH || epoch != self.idle_epoch || is_prompt {
            self.state.prompt.store(false, Ordering::Relaxed);
            self.idle_epoch = epoch;
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        if self.records == 0 {
            return;
        }
        let mut next = Vec::with_capacity(BATCH + BATCH / 4);
        next.extend_from_slice(&self.batch[self.complete..]);
        let mut bytes = std::mem::replace(&mut self.batch, next);
        bytes.truncate(self.complete);
        self.complete = 0;
        let records = std::mem::take(&mut self.records);
        if self.end != Some(End::Queue) && self.send(bytes, records) {
            self.started = true;
        } else {
            count(&self.shared.counters.records_dropped_queue, records);
            if !self.started {
                self.end(End::Queue);
                let _ = self.state.fate.set(Err("too much waits for the disk".to_owned()));
            }
        }
    }

    /// Returns whether the queue took it.
    fn send(&self, bytes: Vec<u8>, records: u64) -> bool {
        let length = bytes.len() as u64;
        let batch = Batch { trace: Arc::clone(&self.state), bytes, records };
        self.state.queued.fetch_add(1, Ordering::AcqRel);
        let sent = self.queue.send(batch, length);
        if !sent {
            self.state.queued.fetch_sub(1, Ordering::AcqRel);
        }
        sent
    }
}

impl Write for Trace {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.piece(piece);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_over();
        Ok(())
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.hand_over();
        if !self.started {
            let _ = self.state.fate.set(Err("there was nothing to write".to_owned()));
        }
        self.state.finished.store(true, Ordering::Release);
        // A hint to close the file now. If it gets lost, the writer finds out by itself.
        self.send(Vec::new(), 0);
    }
}
