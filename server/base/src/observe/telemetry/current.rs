//! The export of spans in effect, which a reload may replace.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_config::Telemetry;

use super::{SpanCounters, SpanSink, SpanWriter};

/// Writer of spans in effect, and those before it that still have spans to send. All count together.
#[derive(Debug, Default)]
pub struct CurrentSpans {
    counters: Arc<SpanCounters>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    current: Option<(Telemetry, Arc<SpanWriter>)>,
    retired: Vec<Arc<SpanWriter>>,
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
        if let Some((known, writer)) = &self.state().current
            && known == wanted
        {
            return Ok(Arc::clone(writer));
        }
        let counters = Arc::clone(&self.counters);
        SpanWriter::start(sink, wanted.queue, wanted.query, counters).map(Arc::new)
    }

    /// Puts a writer into effect. The one before sends what the workers hand over until they have another one.
    pub fn set(&self, settings: &Telemetry, writer: Option<Arc<SpanWriter>>) {
        let mut state = self.state();
        let next = writer.map(|writer| (settings.clone(), writer));
        let before = std::mem::replace(&mut state.current, next);
        let current = state.current.as_ref().map(|(_, writer)| writer);
        if let Some((_, before)) = before
            && !current.is_some_and(|current| Arc::ptr_eq(current, &before))
        {
            state.retired.push(before);
        }
    }

    /// Returns the writer in effect.
    pub fn get(&self) -> Option<Arc<SpanWriter>> {
        let state = self.state();
        state.current.as_ref().map(|(_, writer)| Arc::clone(writer))
    }

    /// Ends the threads of previous writers that no worker uses any more, and drops those that have ended.
    pub fn drop_unused(&self) {
        self.state().retired.retain(|writer| !writer.has_ended());
    }

    /// Sends what was handed over and ends the threads, each within `limit`. Drop the workers' ends first.
    pub fn shutdown(&self, limit: Duration) {
        let state = self.state();
        let current = state.current.iter().map(|(_, writer)| writer);
        for writer in state.retired.iter().chain(current) {
            writer.shutdown(limit);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
