//! A memory of one path, in the test's hand.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sluicegate_cc::{
    Algorithm, CarefulResume, Controller, MAX_WINDOW, Observation, PathCapacity, PathMemory,
    ResumeEvent,
};

use super::{MTU, controller};

/// A memory of one path. A clone is the same memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) saved: Option<PathCapacity>,
    pub(crate) is_claimed: bool,
    pub(crate) events: Vec<ResumeEvent>,
}

impl Memory {
    /// Returns a memory of `packets` datagrams per round trip of `min_rtt`.
    pub(crate) fn of(packets: u64, min_rtt: Duration) -> Self {
        let memory = Self::default();
        memory.contents().saved = Some(PathCapacity { cwnd: packets * MTU, min_rtt });
        memory
    }

    pub(crate) fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().expect("not poisoned")
    }

    pub(crate) fn events(&self) -> Vec<ResumeEvent> {
        self.contents().events.clone()
    }

    /// Returns a controller that resumes from this memory and leaves what it observes.
    pub(crate) fn resume(&self, algorithm: &Algorithm) -> Box<dyn Controller> {
        self.resume_at_most(algorithm, MAX_WINDOW)
    }

    pub(crate) fn resume_at_most(
        &self,
        algorithm: &Algorithm,
        max_jump: u64,
    ) -> Box<dyn Controller> {
        let inner = controller(algorithm, 0);
        let memory = Box::new(self.clone());
        Box::new(CarefulResume::new(inner, MTU, max_jump, memory))
    }
}

impl PathMemory for Memory {
    fn claim(&self) -> Option<PathCapacity> {
        let mut contents = self.contents();
        if contents.is_claimed {
            return None;
        }
        let saved = contents.saved?;
        contents.is_claimed = true;
        Some(saved)
    }

    fn release(&self) {
        self.contents().is_claimed = false;
    }

    fn save(&self, observed: Observation) {
        let saved = &mut self.contents().saved;
        if saved.is_none_or(|saved| observed.replaces(&saved)) {
            *saved = Some(observed.capacity);
        }
    }

    fn discard(&self) {
        let mut contents = self.contents();
        contents.saved = None;
        contents.is_claimed = false;
    }

    fn on_event(&self, event: ResumeEvent) {
        self.contents().events.push(event);
    }
}
