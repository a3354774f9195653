//! Sends batches of spans, and tries again where that may help.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Span, SpanCounters};
use crate::clock;
use crate::entropy::Entropy;
use crate::observe::background::Job;

/// Spans in a batch, at most; it is sent when so many wait.
const BATCH: usize = 512;
/// Memory of the spans in a batch, bytes, at most a quarter of the queue, unless one span takes more. Collectors bound their requests, and
/// encoded spans are about as large. It is less after a request that was too large.
const BATCH_BYTES: u64 = 512 << 10;
/// Part by which the memory of a batch grows again with each that the collector takes: one in so many.
const GROWTH: u64 = 16;
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
    /// Whether the collector may take a smaller batch at once.
    pub is_too_large: bool,
    /// Pause that the collector asks for.
    pub pause: Option<Duration>,
}

/// The thread's work.
pub(super) struct Exporter {
    sink: Box<dyn SpanSink>,
    counters: Arc<SpanCounters>,
    entropy: Entropy,
    /// Spans that wait; the first of them are the next batch.
    waiting: Vec<Span>,
    /// Memory of the spans that wait.
    bytes: u64,
    /// Memory of the spans in a batch, at most, unless one alone takes more.
    most_bytes: u64,
    /// The most that this may be.
    full_bytes: u64,
    /// Time of the oldest span that waits.
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
    /// Returns the work of a thread whose queue holds so many bytes, those of its batch included.
    pub(super) fn new(
        sink: Box<dyn SpanSink>,
        queue: u64,
        counters: Arc<SpanCounters>,
    ) -> Exporter {
        let full_bytes = BATCH_BYTES.min(queue / 4);
        Exporter {
            sink,
            counters,
            entropy: Entropy::new(),
            waiting: Vec::new(),
            bytes: 0,
            most_bytes: full_bytes,
            full_bytes,
            since: None,
            attempts: 0,
            failures: 0,
            paused_until: None,
            is_closing: false,
        }
    }

    /// Sends all that waits, until a batch fails.
    fn export(&mut self) {
        while !self.waiting.is_empty() {
            if self.is_closing && self.failures > 0 {
                return self.drop_first(self.waiting.len());
            }
            let batch = self.batch();
            self.attempts += 1;
            match self.sink.export(&self.waiting[..batch]) {
                Ok(rejected) => {
                    // A request may have two spans.
                    count(&self.counters.exported, (batch as u64).saturating_sub(rejected));
                    count(&self.counters.rejected, rejected);
                    if self.failures > 0 {
                        tracing::info!("telemetry: the collector takes spans again");
                    }
                    self.failures = 0;
                    self.most_bytes =
                        (self.most_bytes + self.most_bytes / GROWTH).min(self.full_bytes);
                    self.remove_first(batch);
                }
                Err(error) if error.is_too_large && batch > 1 => self.halve(batch),
                Err(error) => return self.on_failure(&error, batch),
            }
        }
    }

    /// Returns the number of spans in the next batch.
    fn batch(&self) -> usize {
        let mut bytes = 0;
        let fits = |span: &&Span| {
            bytes += span.size();
            bytes <= self.most_bytes
        };
        self.waiting.iter().take(BATCH).take_while(fits).count().max(1)
    }

    /// Has the next batches take half of the memory of this one.
    fn halve(&mut self, batch: usize) {
        count(&self.counters.failed, 1);
        let bytes: u64 = self.waiting[..batch].iter().map(Span::size).sum();
        self.most_bytes = bytes / 2;
        self.attempts = 0;
    }

    fn on_failure(&mut self, error: &ExportError, batch: usize) {
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
            self.drop_first(batch);
        }
    }

    /// Ends a pause.
    #[cfg(test)]
    pub(super) fn skip_pause(&mut self) {
        if let Some(until) = &mut self.paused_until {
            *until = clock::now();
        }
    }

    fn drop_first(&mut self, spans: usize) {
        count(&self.counters.dropped_collector, spans as u64);
        self.remove_first(spans);
    }

    fn remove_first(&mut self, spans: usize) {
        self.bytes -= self.waiting.drain(..spans).map(|span| span.size()).sum::<u64>();
        if self.waiting.is_empty() {
            self.since = None;
        }
        self.attempts = 0;
    }
}

impl Job for Exporter {
    type Item = Vec<Span>;

    const KEEPS_ITEMS: bool = true;

    fn take(&mut self, spans: Vec<Span>) {
        self.bytes += spans.iter().map(Span::size).sum::<u64>();
        self.waiting.extend(spans);
        let now = clock::now();
        let since = *self.since.get_or_insert(now);
        let is_full = self.waiting.len() >= BATCH || self.bytes >= self.most_bytes;
        if is_full || now.saturating_duration_since(since) >= INTERVAL {
            self.export();
        }
    }

    fn on_idle(&mut self) {
        self.export();
    }

    fn held(&self) -> u64 {
        self.bytes
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
