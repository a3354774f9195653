//! Sends batches of spans, and tries again where that may help.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Span, SpanCounters};
use crate::clock;
use crate::entropy::Entropy;
use crate::observe::background::Job;

/// Spans in a batch; it is sent when it has so many.
const BATCH: usize = 512;
/// Time after which a batch is sent although it has fewer.
const INTERVAL: Duration = Duration::from_secs(1);
/// Attempts to send a batch.
const ATTEMPTS: u32 = 5;
/// Pause after a failure; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// Sends spans to a collector.
pub trait SpanSink: Send + 'static {
    /// Sends a batch, within a time limit of its own. Returns the number of spans that the collector rejected.
    ///
    /// # Errors
    /// The collector cannot be reached, or does not take the batch.
    fn export(&mut self, spans: &[Span]) -> Result<u64, ExportError>;
}

/// Error that keeps a collector from taking a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportError {
    /// The cause, for the log.
    pub cause: String,
    /// Whether the collector may take the same batch later.
    pub is_transient: bool,
    /// Pause that the collector asks for.
    pub pause: Option<Duration>,
}

/// The thread's work.
pub(super) struct Exporter {
    sink: Box<dyn SpanSink>,
    counters: Arc<SpanCounters>,
    entropy: Entropy,
    batch: Vec<Span>,
    /// Time of the oldest span in the batch.
    since: Option<Instant>,
    /// Attempts to send the batch so far.
    attempts: u32,
    /// Attempts in a row that have failed, whatever the batch was.
    failures: u32,
    /// Time before which nothing is sent.
    paused_until: Option<Instant>,
    /// The process is to end, and nothing is tried twice.
    is_closing: bool,
}

impl Exporter {
    pub(super) fn new(sink: Box<dyn SpanSink>, counters: Arc<SpanCounters>) -> Exporter {
        Exporter {
            sink,
            counters,
            entropy: Entropy::new(),
            batch: Vec::new(),
            since: None,
            attempts: 0,
            failures: 0,
            paused_until: None,
            is_closing: false,
        }
    }

    fn export(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        if self.is_closing && self.failures > 0 {
            return self.drop_batch();
        }
        self.attempts += 1;
        match self.sink.export(&self.batch) {
            Ok(rejected) => {
                let taken = self.batch.len() as u64;
                count(&self.counters.exported, taken);
                count(&self.counters.rejected, rejected);
                if self.failures > 0 {
                    tracing::info!("telemetry: the collector takes spans again");
                }
                self.failures = 0;
                self.clear();
            }
            Err(error) => self.on_failure(&error),
        }
    }

    fn on_failure(&mut self, error: &ExportError) {
        count(&self.counters.failed, 1);
        if self.failures == 0 {
            tracing::warn!(
                error = %error.cause,
                "telemetry: the collector does not take spans; they are dropped when the queue is full"
            );
        }
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.failures.min(5)).min(LAST_PAUSE);
        // Servers that lost the same collector do not come back to it at once.
        let [random] = self.entropy.take();
        let jittered = doubled / 2 + doubled / 2 * u32::from(random) / 256;
        let pause = error.pause.map_or(jittered, |asked| asked.clamp(jittered, LAST_PAUSE));
        self.paused_until = Some(clock::now() + pause);
        self.failures = self.failures.saturating_add(1);
        if !error.is_transient || self.is_closing || self.attempts >= ATTEMPTS {
            self.drop_batch();
        }
    }

    /// Ends a pause.
    #[cfg(test)]
    pub(super) fn skip_pause(&mut self) {
        if let Some(until) = &mut self.paused_until {
            *until = clock::now();
        }
    }

    fn drop_batch(&mut self) {
        count(&self.counters.dropped_collector, self.batch.len() as u64);
        self.clear();
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.since = None;
        self.attempts = 0;
    }
}

impl Job for Exporter {
    type Item = Vec<Span>;

    fn take(&mut self, spans: Vec<Span>) {
        self.batch.extend(spans);
        let now = clock::now();
        let since = *self.since.get_or_insert(now);
        if self.batch.len() >= BATCH || now.saturating_duration_since(since) >= INTERVAL {
            self.export();
        }
    }

    fn on_idle(&mut self) {
        self.export();
    }

    fn resume(&mut self) -> Option<Duration> {
        let left = self.paused_until?.saturating_duration_since(clock::now());
        if !left.is_zero() {
            return Some(left);
        }
        self.paused_until = None;
        self.export();
        self.resume()
    }

    fn on_close(&mut self) {
        self.is_closing = true;
    }

    fn end(&mut self) {
        self.export();
    }
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
