//! Rounds, and the bias of short round trips (§2.4.4, RFC 9331 §4.3).

use std::time::Duration;

use crate::Time;
use crate::loss_based::Feedback;

/// Round trip that shorter ones act like, so that a flow does not get more than its share for being near.
const REFERENCE: Duration = Duration::from_millis(25);

/// Rounds of avoidance before that: short flows keep the quickness of their path.
const TRANSITION: u32 = 500;

/// The rounds in which marks are averaged.
#[derive(Clone, Debug, Default)]
pub(super) struct RttIndependence {
    /// Whether avoidance has begun.
    counts: bool,
    /// Rounds of avoidance so far, up to [`TRANSITION`].
    rounds: u32,
    began: Time,
    /// Number of the first packet sent in the present round.
    first: u64,
}

impl RttIndependence {
    /// Begins avoidance.
    pub(super) const fn begin(&mut self) {
        self.counts = true;
    }

    const fn is_independent(&self) -> bool {
        self.rounds >= TRANSITION
    }

    /// Returns the least time, besides a round trip of the path, to average marks over and to reduce the window once in.
    pub(super) fn least_round(&self, smoothed: Duration) -> Duration {
        if self.is_independent() { smoothed.max(REFERENCE) } else { Duration::ZERO }
    }

    /// Returns whether an event begins a round, which ends the one before.
    pub(super) fn is_over(&mut self, feedback: &Feedback) -> bool {
        let acknowledged = feedback.newest.is_some_and(|newest| newest >= self.first);
        let lasted = feedback.now.saturating_since(self.began);
        if !acknowledged || lasted < self.least_round(feedback.rtt.smoothed) {
            return false;
        }
        self.first = feedback.next_packet;
        self.began = feedback.now;
        if self.counts && !self.is_independent() {
            self.rounds += 1;
        }
        true
    }

    /// Returns the datagrams of growth per round trip: with this many, rates depend on the path's round trip only above the
    /// reference.
    pub(super) fn growth(&self, srtt: Duration) -> f64 {
        if self.is_independent() && srtt < REFERENCE {
            (srtt.as_secs_f64() / REFERENCE.as_secs_f64()).powi(2)
        } else {
            1.0
        }
    }
}
