//! Spans of requests, on their way to a collector of OpenTelemetry.
//!
//! A worker hands its spans over once in a turn and never waits for the collector. One thread of the process sends them in batches. If
//! too many wait, or the collector does not take them, they are dropped and counted.

mod current;
mod exporter;
mod span;
mod trace_context;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::background::Queue;
use super::metrics::metrics;

pub use current::CurrentSpans;
pub use exporter::{ExportError, SpanSink};
pub use span::{MAX_TEXT, Span, SpanStart, UpstreamCall};
pub use trace_context::{HEADER_LENGTH, TraceContext};
pub use writer::SpanWriter;

/// Spans that a worker hands over at once, at most.
const HANDED: usize = 64;

metrics! {
    /// Totals since the start.
    #[derive(Debug, Default)]
    pub struct SpanCounters {
        /// Requests whose spans were sent, less the spans that the collector rejected.
        pub exported: AtomicU64 = counter("sluicegate_telemetry_requests_exported_total"),
        /// Requests whose spans were dropped because too many waited.
        pub dropped_queue: AtomicU64 = counter(
            "sluicegate_telemetry_requests_dropped_total", reason = "queue";
            "Requests whose spans were dropped, by reason: too many waited (queue), or the collector could not be reached or did not take them (collector)."
        ),
        /// Requests whose spans were dropped because the collector did not take them.
        pub dropped_collector: AtomicU64 = also(reason = "collector"),
        /// Spans that the collector rejected from batches that it took.
        pub rejected: AtomicU64 = counter("sluicegate_telemetry_spans_rejected_total"),
        /// Batches of spans that could not be sent, each attempt counted.
        pub failed: AtomicU64 = counter("sluicegate_telemetry_exports_failed_total"),
    }
}

impl SpanCounters {
    /// Writes the totals to the log.
    pub fn log(&self) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        tracing::info!(
            exported = read(&self.exported),
            dropped_queue = read(&self.dropped_queue),
            dropped_collector = read(&self.dropped_collector),
            rejected = read(&self.rejected),
            failed = read(&self.failed),
            "total of telemetry"
        );
    }
}

/// A worker's end of the export.
#[derive(Debug)]
pub struct Spans {
    queue: Queue<Vec<Span>>,
    counters: Arc<SpanCounters>,
    /// Whether spans contain queries.
    queries: bool,
    batch: Vec<Span>,
    /// Memory of the batch.
    bytes: u64,
    /// Tells the writer that somebody may still hand spans over.
    _user: Arc<()>,
}

impl Spans {
    /// Returns whether spans contain the queries of requests.
    pub fn has_queries(&self) -> bool {
        self.queries
    }

    /// Keeps a span until the next [`Spans::flush`], or until many wait for that.
    pub fn record(&mut self, mut span: Span) {
        span.cut_texts();
        self.bytes += span.size();
        self.batch.push(span);
        if self.batch.len() >= HANDED {
            self.flush();
        }
    }

    /// Hands the spans to the thread. A worker calls it at the end of a turn.
    pub fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let (spans, size) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.bytes));
        let count = spans.len() as u64;
        if !self.queue.send(spans, size) {
            self.counters.dropped_queue.fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl Drop for Spans {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests;
