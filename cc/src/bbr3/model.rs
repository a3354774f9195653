//! The model of the path (draft-ietf-ccwg-bbr-06 §2.9): a rate, a round trip, and how much may be in flight.

use std::time::Duration;

use super::filters::{Aggregation, MaxBw};
use super::long_term::LongTerm;
use super::min_rtt::MinRtt;
use super::params::scaled;
use super::short_term::ShortTerm;
use crate::MAX_WINDOW;

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

    /// Returns `gain` times the BDP, bytes; `None` before the first round trip.
    pub(super) fn bdp(&self, gain: f64) -> Option<u64> {
        self.min_rtt.get().map(|rtt| bdp_of(self.bw, rtt, gain))
    }
}

/// Returns the bytes that `bw` delivers in `gain` round trips.
pub(super) fn bdp_of(bw: u64, rtt: Duration, gain: f64) -> u64 {
    scaled(bw, gain * rtt.as_secs_f64()).min(MAX_WINDOW)
}
