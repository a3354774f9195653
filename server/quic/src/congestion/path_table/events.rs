//! Counts of what comes of saved capacities.

use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_cc::ResumeEvent;

use sluicegate_base::observe::metrics::{Label as _, PerLabel, labels};

labels! {
    /// Step of careful resume.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Resumption {
        /// A connection tries a saved capacity.
        Jumped = "jumped",
        /// Everything that was sent in the try has arrived.
        Validated = "validated",
        /// There was congestion, or the round trip turned out to be too short.
        Retreated = "retreated",
        /// The connection had too little to send to tell.
        RateLimited = "rate_limited",
        /// The connection ended, or left the path, before the result was known.
        Undecided = "undecided",
        /// A saved capacity was not tried, because the round-trip time differs.
        RttDiffers = "rtt_differs",
    }
}

impl From<ResumeEvent> for Resumption {
    fn from(event: ResumeEvent) -> Self {
        match event {
            ResumeEvent::Jumped => Resumption::Jumped,
            ResumeEvent::Validated => Resumption::Validated,
            ResumeEvent::Retreated => Resumption::Retreated,
            ResumeEvent::RateLimited => Resumption::RateLimited,
            ResumeEvent::Undecided => Resumption::Undecided,
            ResumeEvent::RttDiffers => Resumption::RttDiffers,
        }
    }
}

/// A worker's counts. Its connections share them.
#[derive(Debug, Default)]
pub struct Resumptions([AtomicU64; Resumption::ALL.len()]);

impl Resumptions {
    pub(super) fn count(&self, event: Resumption) {
        self.0[event.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts so far.
    pub fn totals(&self) -> PerLabel<Resumption> {
        let mut totals = PerLabel::default();
        for event in Resumption::ALL {
            totals[*event] = self.0[event.index()].load(Ordering::Relaxed);
        }
        totals
    }
}
