//! Recovery episodes (draft-ietf-ccwg-bbr-06 §5.5.11, §5.6.4.4).

use super::model::Bounds;
use crate::recovery::{Boundary, LateAcked};
use crate::{Packet, State};

/// Window and bounds from before an episode that was spurious, and the state that it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    pub(super) cwnd: u64,
    pub(super) bounds: Bounds,
    pub(super) state: Option<State>,
}

/// The present episode of loss, or the latest. It is bounded by packet numbers: it begins with a loss among packets
/// sent since the one before began, and ends when a packet sent since then is acknowledged.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    boundary: Boundary,
    active: bool,
    /// Window to return to.
    prior_cwnd: u64,
    /// State to restore if the episode turns out to be spurious; `None` if it cannot.
    saved: Option<Undo>,
}

impl Recovery {
    /// Returns no episode, on a path that begins with packet `first_packet`.
    pub(super) fn beginning_at(first_packet: u64) -> Self {
        Self { boundary: Boundary::at(first_packet), ..Self::default() }
    }

    /// Notes a packet number.
    pub(super) fn on_packet(&mut self, number: u64) {
        self.boundary.on_packet(number);
    }

    /// Returns the number after the largest seen.
    pub(super) const fn next_packet(&self) -> u64 {
        self.boundary.next_packet()
    }

    /// A packet was lost. Returns whether that begins an episode: the draft saves its state at the first loss of each
    /// round and again as recovery begins, where the second would forget what the first loss already ended.
    pub(super) fn on_lost(&mut self, number: u64) -> bool {
        if !self.boundary.is_after(number) {
            return false;
        }
        self.boundary.set();
        true
    }

    /// Counts a lost packet of the episode.
    pub(super) const fn count_lost(&mut self, number: u64) {
        self.boundary.on_lost(number);
    }

    /// Notes CE marks in the episode: they are congestion, whatever arrives.
    pub(super) const fn on_ce_marked(&mut self) {
        self.saved = None;
    }

    /// Notes that the episode ended `state`.
    pub(super) const fn undo_to(&mut self, state: State) {
        if let Some(saved) = &mut self.saved {
            saved.state = Some(state);
        }
    }

    /// Begins an episode: saves the window and the bounds.
    pub(super) fn begin(&mut self, cwnd: u64, in_probe_rtt: bool, bounds: Bounds) {
        self.save_cwnd(cwnd, in_probe_rtt);
        self.active = true;
        self.saved = Some(Undo { cwnd: self.prior_cwnd, bounds, state: None });
    }

    /// Saves the window, the largest since it was last untouched.
    pub(super) fn save_cwnd(&mut self, cwnd: u64, in_probe_rtt: bool) {
        self.prior_cwnd =
            if self.active || in_probe_rtt { self.prior_cwnd.max(cwnd) } else { cwnd };
    }

    /// Returns the window to continue with after recovery or ProbeRTT; the model bounds it in the same ACK.
    pub(super) fn restored(&self, cwnd: u64) -> u64 {
        cwnd.max(self.prior_cwnd)
    }

    /// Takes the newest packet of an ACK and returns whether it ends the episode.
    pub(super) const fn on_acked(&mut self, newest: u64) -> bool {
        let ends = self.active && self.boundary.is_after(newest);
        self.active = self.active && !ends;
        ends
    }

    /// Takes packets that were acknowledged late, at least one.
    pub(super) fn on_late_acked(&mut self, packets: &[Packet]) -> LateAcked {
        self.boundary.on_late_acked(packets)
    }

    /// Nothing was lost in the episode: returns what to undo, and forgets the episode.
    pub(super) fn take_back(&mut self) -> Option<Undo> {
        let saved = self.saved.take()?;
        self.boundary.take_back();
        self.active = false;
        Some(saved)
    }

    /// Forgets the window to return to at the end of recovery: it may be what caused the persistent congestion. An undo still
    /// restores it, because then nothing was lost.
    pub(super) const fn abandon(&mut self) {
        self.boundary.extend();
        self.active = false;
        self.prior_cwnd = 0;
    }
}
