//! The thread that sends spans to a collector.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::exporter::{Exporter, SpanSink};
use super::{Span, SpanCounters, Spans};
use crate::observe::background::{Background, Bounds};

/// Bytes of the queue for which it has one place; what a worker hands over is seldom smaller.
const PLACE: u64 = 1024;
/// Places of a queue, whatever its bytes.
const PLACES: std::ops::RangeInclusive<usize> = 64..=65_536;

/// Owns the thread, and makes the workers' ends of the export.
#[derive(Debug)]
pub struct SpanWriter {
    thread: Background<Vec<Span>>,
    /// Each worker's end has a clone.
    users: Arc<()>,
    counters: Arc<SpanCounters>,
    queries: bool,
}

impl SpanWriter {
    /// Starts the thread; `queue` bytes may wait for it. `counters` go on from where they are. `queries` says whether spans contain
    /// queries.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(
        sink: Box<dyn SpanSink>,
        queue: u64,
        queries: bool,
        counters: Arc<SpanCounters>,
    ) -> io::Result<SpanWriter> {
        let places = usize::try_from(queue / PLACE).unwrap_or(usize::MAX);
        let bounds = Bounds { items: places.clamp(*PLACES.start(), *PLACES.end()), bytes: queue };
        let exporter = Exporter::new(sink, queue, Arc::clone(&counters));
        let thread = Background::start("telemetry", bounds, exporter)?;
        Ok(SpanWriter { thread, users: Arc::new(()), counters, queries })
    }

    /// Ends the thread if no worker has an end of the export any more, and returns whether it has sent all and ended.
    pub(super) fn has_ended(&self) -> bool {
        Arc::strong_count(&self.users) == 1 && self.thread.shutdown(Duration::ZERO)
    }

    /// Returns a worker's end of the export.
    pub fn spans(&self) -> Spans {
        Spans {
            queue: self.thread.queue.clone(),
            counters: Arc::clone(&self.counters),
            queries: self.queries,
            batch: Vec::new(),
            bytes: 0,
            _user: Arc::clone(&self.users),
        }
    }

    /// Returns the totals so far.
    pub fn counters(&self) -> &SpanCounters {
        &self.counters
    }

    /// Returns the bytes of spans that wait.
    pub fn queued_bytes(&self) -> u64 {
        self.thread.queue.bytes()
    }

    /// Sends what was handed over, each batch once, and ends the thread. Returns whether that was done within `limit`. Drop the workers' ends
    /// first.
    pub fn shutdown(&self, limit: Duration) -> bool {
        self.thread.shutdown(limit)
    }
}
