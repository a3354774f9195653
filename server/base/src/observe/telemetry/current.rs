//! The export of spans in effect, which a reload may replace.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_config::Telemetry;

use super::{SpanCounters, SpanSink, SpanWriter};
use crate::observe::in_effect::{InEffect, ReplaceableWriter};

/// Writer of spans in effect, and those before it that still have spans to send. All count together.
#[derive(Debug, Default)]
pub struct CurrentSpans {
    counters: Arc<SpanCounters>,
    writers: InEffect<Telemetry, SpanWriter>,
}

impl CurrentSpans {
    /// Returns the writer for these settings, which [`CurrentSpans::set`] puts into effect. If they are those in effect, it is the present
    /// one, and `sink` is dropped.
    ///
    /// # Errors
    /// There is no thread.
    pub fn prepare(
        &self,
        wanted: &Telemetry,
        sink: Box<dyn SpanSink>,
    ) -> io::Result<Arc<SpanWriter>> {
        let present = |known: &Telemetry, writer: &Arc<SpanWriter>| {
            (known == wanted).then(|| Arc::clone(writer))
        };
        if let Some(writer) = self.writers.look(present) {
            return Ok(writer);
        }
        let counters = Arc::clone(&self.counters);
        SpanWriter::start(sink, wanted.queue, wanted.query, counters).map(Arc::new)
    }

    /// Puts a writer into effect. The one before sends what the workers hand over until they have another one.
    pub fn set(&self, settings: &Telemetry, writer: Option<Arc<SpanWriter>>) {
        self.writers.set(writer.map(|writer| (settings.clone(), writer)));
    }

    /// Returns the writer in effect.
    pub fn get(&self) -> Option<Arc<SpanWriter>> {
        self.writers.get()
    }

    /// Ends the threads of previous writers that no worker uses any more, and drops those that have ended.
    pub fn drop_unused(&self) {
        self.writers.drop_unused();
    }

    /// Sends what was handed over and ends the threads, each within `limit`. Drop the workers' ends first.
    pub fn shutdown(&self, limit: Duration) {
        self.writers.shutdown(limit);
    }
}

impl ReplaceableWriter for SpanWriter {
    fn is_same(&self, other: &SpanWriter) -> bool {
        std::ptr::eq(self, other)
    }

    fn has_ended(writer: &Arc<SpanWriter>) -> bool {
        SpanWriter::has_ended(writer)
    }

    fn end(&self, limit: Duration) {
        self.shutdown(limit);
    }
}
