//! The long-term bound on bytes in flight: where losses became too many (draft-ietf-ccwg-bbr-06 §2.8, §5.5.10.2).

use super::params::{BETA, HEADROOM, UNBOUNDED, bounded, scaled};

/// The draft's `BBR.inflight_longterm`, bytes.
#[derive(Debug)]
pub(super) struct LongTerm {
    inflight: u64,
}

impl LongTerm {
    /// Returns no bound.
    pub(super) const fn new() -> Self {
        Self { inflight: UNBOUNDED }
    }

    /// Returns the bound; [`UNBOUNDED`] for none.
    pub(super) const fn get(&self) -> u64 {
        self.inflight
    }

    /// Returns the bound for a plot.
    pub(super) fn bounded(&self) -> Option<u64> {
        bounded(self.inflight)
    }

    /// Returns whether there is a bound.
    pub(super) const fn is_bounded(&self) -> bool {
        self.inflight != UNBOUNDED
    }

    /// Returns the part of the bound that leaves headroom for other flows, at least `min_window`.
    pub(super) fn with_headroom(&self, mtu: u64, min_window: u64) -> u64 {
        if !self.is_bounded() {
            return UNBOUNDED;
        }
        let headroom = scaled(self.inflight, HEADROOM).max(mtu);
        self.inflight.saturating_sub(headroom).max(min_window)
    }

    /// Sets the bound.
    pub(super) const fn set(&mut self, inflight: u64) {
        self.inflight = inflight;
    }

    /// Bounds the bytes in flight by those at which losses became too many.
    ///
    /// A flow limited by its application did not find out how much fits. The draft's pseudocode then leaves the bound
    /// alone, its example "Exiting PROBE_UP on Loss When Application-Limited" wants it updated: such a probe lowers the
    /// bound too, but never below `target`, what the model wants in flight.
    pub(super) fn lower(&mut self, at_loss: u64, target: u64, app_limited: bool) {
        self.inflight = if app_limited {
            self.inflight.min(at_loss.max(target))
        } else {
            at_loss.max(scaled(target, BETA))
        };
    }

    /// Raises the bound, if there is one, to `inflight` bytes that were delivered without too many losses.
    pub(super) fn raise(&mut self, inflight: u64) {
        self.inflight = self.inflight.max(inflight);
    }

    /// Adds `bytes` to the bound.
    pub(super) const fn grow(&mut self, bytes: u64) {
        self.inflight = self.inflight.saturating_add(bytes);
    }
}
