//! The flight recorder: files of what connections did before something went wrong.

use std::time::Instant;

use sluicegate_base::observe::metrics::Label as _;
use sluicegate_base::observe::qlog::{FileFate, TraceName, TracePart};

use super::Endpoint;
use crate::application::Application;
use crate::connection::Rest;
use crate::counters::QuicCounters;
use crate::recorder::{RecorderPool, Suppression, Trigger};
use crate::settings::Tracing;

impl RecorderPool {
    /// Returns the recorders of a worker that traces like this.
    pub(super) fn of(tracing: Option<&Tracing>) -> RecorderPool {
        let mut pool = RecorderPool::default();
        pool.adopt_tracing(tracing);
        pool
    }

    /// Adopts other settings.
    pub(super) fn adopt_tracing(&mut self, tracing: Option<&Tracing>) {
        match tracing.and_then(|tracing| tracing.recorder.as_ref()) {
            Some(settings) => self.adopt(settings.memory, settings.stall),
            None => self.adopt(0, self.stall()),
        }
    }
}

impl<A: Application> Endpoint<A> {
    /// Records a rest of a connection.
    pub(super) fn record_rest(&mut self, slot: usize, rest: Rest, now: Instant) {
        if !self.recorders.is_used() {
            return;
        }
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        if let Some(trigger) = connection.record_rest(rest, &mut self.recorders, now) {
            self.on_trigger(slot, trigger, now);
        }
    }

    /// Writes a file of a connection because of a trigger, unless there are too many; it counts that.
    pub(super) fn on_trigger(&mut self, slot: usize, trigger: Trigger, now: Instant) {
        let tracing = self.settings.tracing.as_ref();
        let Some(recorder) = tracing.and_then(|tracing| tracing.recorder.as_ref()) else {
            return;
        };
        let connection = self.connections.get(slot);
        if connection.is_some_and(|connection| connection.was_dumped(trigger, now)) {
            self.counters.recorder_suppressed[Suppression::Connection] += 1;
        } else if recorder.dumps.take(trigger.index(), now) {
            self.dump(slot, trigger, now);
        } else {
            self.counters.recorder_suppressed[Suppression::Rate] += 1;
        }
    }

    /// Has a file of a connection written, or its trigger alone into the trace that is being written, which it returns; `None` if there
    /// are too many open traces, which is counted, or no folder.
    pub(super) fn dump(&mut self, slot: usize, trigger: Trigger, now: Instant) -> Option<FileFate> {
        let connection = self.connections.get_mut(slot)?;
        if trigger != Trigger::Operator && connection.trace_trigger(trigger, now) {
            connection.note_dump(trigger, now);
            self.counters.recorder_files[trigger] += 1;
            return connection.trace_file();
        }
        let tracing = self.settings.tracing.as_ref()?;
        let listener = self.settings.listeners.get(&connection.listener);
        let listener = listener.map_or("(removed)", |listener| &listener.name);
        let name = TraceName {
            original_dcid: connection.original_id(),
            listener,
            algorithm: connection.algorithm,
            part: TracePart::Recorded(connection.account().age(now), trigger.name()),
        };
        let Some(trace) = tracing.writer.open(&name, b"") else {
            self.counters.recorder_suppressed[Suppression::OpenTraces] += 1;
            return None;
        };
        let file = trace.handle().fate();
        connection.dump(trace, listener, trigger, now);
        connection.note_dump(trigger, now);
        let counters = &mut self.counters;
        self.recorders.begun.retain(|(file, trigger)| !count(file, *trigger, counters));
        self.recorders.begun.push((file.clone(), trigger));
        Some(file)
    }
}

/// Adds to counters what became of files, as far as it is known.
pub(super) fn add_settled(recorders: &RecorderPool, counters: &mut QuicCounters) {
    for (file, trigger) in &recorders.begun {
        count(file, *trigger, counters);
    }
}

/// Counts a file that was begun, if it is known what became of it. Returns whether it is.
fn count(file: &FileFate, trigger: Trigger, counters: &mut QuicCounters) -> bool {
    match file.known() {
        Some(Ok(())) => counters.recorder_files[trigger] += 1,
        Some(Err(_)) => counters.recorder_suppressed[Suppression::Disk] += 1,
        None => return false,
    }
    true
}

#[cfg(test)]
mod tests;
