//! The model of the path (draft-ietf-ccwg-bbr-06 §2.9): a rate, a round trip, and how much may be in flight.

use std::time::Duration;

use super::filters::{Aggregation, MaxBw};
use super::long_term::LongTerm;
use super::min_rtt::MinRtt;
use super::params::scaled;
use super::short_term::ShortTerm;
use crate::MAX_WINDOW;

/// Bounds that losses set: [`super::params::UNBOUNDED`] for none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    bw_shortterm: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

/// The estimates of one path.
#[derive(Debug)]
pub(super) struct PathModel {
    pub(super) max_bw: MaxBw,
    pub(super) short_term: ShortTerm,
    pub(super) long_term: LongTerm,
    pub(super) min_rtt: MinRtt,
    pub(super) aggregation: Aggregation,
    bw: u64,
}

impl PathModel {
    /// Returns a model without estimates.
    pub(super) fn new() -> Self {
        Self {
            max_bw: MaxBw::default(),
            short_term: ShortTerm::new(),
            long_term: LongTerm::new(),
            min_rtt: MinRtt::default(),
            aggregation: Aggregation::default(),
            bw: 0,
        }
    }

    /// Returns the rate that the flow may use now, bytes per second; 0 before the first sample.
    pub(super) const fn bw(&self) -> u64 {
        self.bw
    }

    /// Bounds the rate by the highest of two cycles and by recent losses (§5.5.10).
    pub(super) fn update_bw(&mut self) {
        self.bw = self.max_bw.get().min(self.short_term.bw());
    }

    /// Returns the bounds that losses set so far.
    pub(super) const fn bounds(&self) -> Bounds {
        Bounds {
            bw_shortterm: self.short_term.bw(),
            inflight_shortterm: self.short_term.inflight(),
            inflight_longterm: self.long_term.get(),
        }
    }

    /// Restores bounds from before a spurious episode, where they were higher.
    pub(super) fn undo(&mut self, bounds: Bounds) {
        self.short_term.undo(bounds.bw_shortterm, bounds.inflight_shortterm);
        self.long_term.raise(bounds.inflight_longterm);
    }

    /// Returns `gain` times the BDP, bytes; `None` before the first round trip.
    pub(super) fn bdp(&self, gain: f64) -> Option<u64> {
        self.min_rtt.get().map(|rtt| bdp_of(self.bw, rtt, gain))
    }
}

/// Returns the bytes that `bw` delivers in `gain` round trips.
pub(super) fn bdp_of(bw: u64, rtt: Duration, gain: f64) -> u64 {
    scaled(bw, gain * rtt.as_secs_f64()).min(MAX_WINDOW)
}
