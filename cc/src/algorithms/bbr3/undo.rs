//! Undoing a spurious recovery episode (draft-ietf-ccwg-bbr-06 §5.5.11).

use super::Bbr3;
use super::episode::Undo;
use crate::recovery::LateAcked;
use crate::{Packet, State};

impl Bbr3 {
    /// Packets that were declared lost have arrived. If that holds for every one of the episode, it is undone. If too many
    /// episodes had some before, they stay lost.
    pub(super) fn on_late_acked(&mut self, packets: &[Packet]) {
        let late = self.recovery.on_late_acked(packets);
        if late == LateAcked::Doubted {
            return;
        }
        let now = self.observed.now();
        for packet in packets {
            self.sampler.on_late_acked(now, packet);
        }
        if late == LateAcked::All
            && let Some(undo) = self.recovery.take_back()
        {
            self.undo(undo);
        }
    }

    fn undo(&mut self, undo: Undo) {
        self.output.raise_cwnd(undo.cwnd);
        self.full_pipe.reset(0);
        self.model.undo(undo.bounds);
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_pipe.undo();
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
