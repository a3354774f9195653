//! Recovery episodes, and taking back what a spurious one did (draft-ietf-ccwg-bbr-06 §5.5.11, §5.6.4.4).

use super::Bbr3;
use crate::recovery::Boundary;
use crate::{Packet, State};

/// The model as an episode began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    pub(super) cwnd: u64,
    pub(super) bw_shortterm: u64,
    pub(super) inflight_shortterm: u64,
    pub(super) inflight_longterm: u64,
}

/// The present episode of loss, or the latest. It is bounded by packet numbers: it begins with a loss among what was
/// sent since the one before began, and ends when something sent since then is acknowledged.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    boundary: Boundary,
    active: bool,
    /// The window to return to.
    prior_cwnd: u64,
    saved: Option<Saved>,
    /// The state that the episode ended.
    undo_state: Option<State>,
    /// Packets lost in the episode that were not heard of since.
    missing: u64,
}

impl Recovery {
    /// No episode yet, on a path that begins with packet `first_packet`.
    pub(super) fn beginning_at(first_packet: u64) -> Self {
        Self {
            boundary: Boundary::at(first_packet),
            ..Self::default()
        }
    }

    /// A packet number was seen.
    pub(super) fn on_packet(&mut self, number: u64) {
        self.boundary.on_packet(number);
    }

    /// The number after the largest seen.
    pub(super) const fn next_packet(&self) -> u64 {
        self.boundary.next_packet()
    }

    /// A packet was lost. True where that begins an episode: the draft saves its state at the first loss of each
    /// round and again as recovery begins, where the second would forget what the first loss already ended.
    pub(super) fn on_lost(&mut self, number: u64) -> bool {
        if !self.boundary.is_after(number) {
            return false;
        }
        self.boundary.set();
        true
    }

    pub(super) const fn count_lost(&mut self) {
        self.missing = self.missing.saturating_add(1);
    }

    /// The episode ended `state`.
    pub(super) const fn undo_to(&mut self, state: State) {
        self.undo_state = Some(state);
    }

    /// Remembers the window, the largest since it was last untouched.
    pub(super) fn save_cwnd(&mut self, cwnd: u64, in_probe_rtt: bool) {
        self.prior_cwnd = if self.active || in_probe_rtt {
            self.prior_cwnd.max(cwnd)
        } else {
            cwnd
        };
    }

    /// The window to go on with after recovery or ProbeRTT; the model bounds it in the same ACK.
    pub(super) fn restored(&self, cwnd: u64) -> u64 {
        cwnd.max(self.prior_cwnd)
    }

    /// The newest packet of an ACK. True where it ends the episode.
    pub(super) const fn on_acked(&mut self, newest: u64) -> bool {
        let ends = self.active && self.boundary.is_after(newest);
        self.active = self.active && !ends;
        ends
    }

    /// The window is not restored when recovery from persistent congestion ends: it may have been what caused it.
    pub(super) const fn abandon(&mut self) {
        self.boundary.set();
        self.active = false;
        self.prior_cwnd = 0;
    }
}

impl Bbr3 {
    pub(super) fn save_before_recovery(&mut self) {
        let in_probe_rtt = matches!(self.state, State::ProbeRtt);
        self.recovery.save_cwnd(self.cwnd, in_probe_rtt);
        self.recovery.active = true;
        self.recovery.undo_state = None;
        self.recovery.missing = 0;
        self.recovery.saved = Some(Saved {
            cwnd: self.recovery.prior_cwnd,
            bw_shortterm: self.short_term.bw,
            inflight_shortterm: self.short_term.inflight,
            inflight_longterm: self.inflight_longterm,
        });
    }

    /// `packets` declared lost were delivered. If that holds for every one of the episode, nothing was lost at all, and
    /// what the episode did is undone.
    pub(super) fn on_late_acked(&mut self, packets: &[Packet]) {
        let of_this_path = |packet: &&Packet| self.sampler.is_of_this_path(packet);
        let packets = packets.iter().filter(of_this_path).count() as u64;
        let Some(saved) = self.recovery.saved else {
            return;
        };
        self.recovery.missing = self.recovery.missing.saturating_sub(packets);
        if self.recovery.missing > 0 {
            return;
        }
        self.recovery.saved = None;
        self.recovery.active = false;
        self.cwnd = self.cwnd.max(saved.cwnd);
        self.short_term.loss_in_round = false;
        self.full_pipe.reset(0);
        self.short_term.bw = self.short_term.bw.max(saved.bw_shortterm);
        self.short_term.inflight = self.short_term.inflight.max(saved.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(saved.inflight_longterm);
        match self.recovery.undo_state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_pipe.reached = false;
                if self.state != State::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(State::ProbeBwUp) if !matches!(self.state, State::ProbeBwUp | State::ProbeRtt) => {
                self.start_refill();
            }
            _ => {}
        }
    }
}
