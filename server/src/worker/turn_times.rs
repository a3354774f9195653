//! Durations of turns and their phases.

use std::time::{Duration, Instant};

use sluicegate_base::observe::histogram::Histogram;
use sluicegate_base::observe::metrics::metrics;

metrics! {
    /// Durations of turns and of their phases.
    #[derive(Clone, Debug, Default)]
    pub struct TurnTimes: Sum {
        /// Duration of a worker's turn, without the wait at its end.
        pub turn: Histogram = histogram("sluicegate_turn_seconds"),
        /// Datagrams are received and decrypted.
        pub receive: Histogram = histogram(
            "sluicegate_turn_phase_seconds", phase = "receive";
            "Duration of each phase of a worker's turn."
        ),
        /// Timers run.
        pub timers: Histogram = also(phase = "timers"),
        /// Commands and datagrams of other threads are taken.
        pub mailbox: Histogram = also(phase = "mailbox"),
        /// Messages of handlers on the origin thread are taken.
        pub origin: Histogram = also(phase = "origin"),
        /// HTTP/3 sessions run.
        pub service: Histogram = also(phase = "service"),
        /// Packets are written, encrypted and handed to the driver.
        pub emit: Histogram = also(phase = "emit"),
    }
}

/// Measures the phases of one turn, one after the other.
#[derive(Debug)]
pub(super) struct Stopwatch {
    began: Instant,
    last: Instant,
}

impl Stopwatch {
    /// Begins a turn.
    pub(super) fn start(now: Instant) -> Self {
        Self { began: now, last: now }
    }

    /// Ends a phase at `now`. Returns its duration.
    pub(super) fn lap(&mut self, phase: &mut Histogram, now: Instant) -> Duration {
        let spent = now.saturating_duration_since(self.last);
        phase.record(spent);
        self.last = now;
        spent
    }

    /// Ends the turn with its last phase.
    pub(super) fn stop(self, turn: &mut Histogram) {
        turn.record(self.last.saturating_duration_since(self.began));
    }
}
