//! Recorders of a worker.

use std::time::Duration;

use sluicegate_base::observe::qlog::FileFate;

use super::{Recorder, RestSample, Trigger};

/// Recorders of a worker, as many as its memory has room for. Those that no connection has are kept for the next one.
#[derive(Debug, Default)]
pub(crate) struct RecorderPool {
    // Boxed, as connections have them.
    #[expect(clippy::vec_box, reason = "a recorder moves between the pool and a connection")]
    free: Vec<Box<Recorder>>,
    most: usize,
    lent: usize,
    refused: u64,
    stall: Duration,
    /// Files that were begun, which the disk may refuse.
    pub(crate) begun: Vec<(FileFate, Trigger)>,
}

impl RecorderPool {
    /// Lends no more recorders than fit into `memory` bytes from now on. `stall` is the time without progress that fires a trigger.
    pub(crate) fn adopt(&mut self, memory: u64, stall: Duration) {
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        self.most = memory / Recorder::BYTES;
        self.stall = stall;
        self.free.truncate(self.most.saturating_sub(self.lent));
    }

    /// Returns whether it lends any, or connections still have some.
    pub(crate) fn is_used(&self) -> bool {
        self.most > 0 || self.lent > 0
    }

    /// Returns whether a recorder that is lent has to come back, because there may be fewer now.
    pub(crate) fn wants_back(&self) -> bool {
        self.lent > self.most
    }

    /// Returns whether one is left to be lent; counts the refusal otherwise.
    pub(crate) fn has_one(&mut self) -> bool {
        let has_one = self.lent < self.most;
        self.refused += u64::from(!has_one);
        has_one
    }

    /// Lends a recorder, if there is one left.
    pub(crate) fn take(&mut self, look: &RestSample) -> Option<Box<Recorder>> {
        if !self.has_one() {
            return None;
        }
        self.lent += 1;
        let recorder = self.free.pop().map(|mut recorder| {
            recorder.restart(look);
            recorder
        });
        Some(recorder.unwrap_or_else(|| Box::new(Recorder::new(look))))
    }

    /// Takes a recorder back.
    pub(crate) fn put_back(&mut self, recorder: Box<Recorder>) {
        self.lent = self.lent.saturating_sub(1);
        if self.lent + self.free.len() < self.most {
            self.free.push(recorder);
        }
    }

    /// Returns the number of recorders that connections have.
    pub(crate) fn lent(&self) -> u64 {
        self.lent as u64
    }

    /// Returns how often there was none left.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the time without progress that fires a trigger.
    pub(crate) fn stall(&self) -> Duration {
        self.stall
    }
}
