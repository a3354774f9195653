//! Undoing a spurious recovery episode (draft-ietf-ccwg-bbr-06 §5.5.11).

use super::Bbr3;
use crate::{Packet, State};

impl Bbr3 {
    /// Packets that were declared lost have arrived. If that holds for every one of the episode, it is undone.
    pub(super) fn on_late_acked(&mut self, packets: &[Packet]) {
        let now = self.observed.now();
        for packet in packets {
            self.sampler.on_late_acked(now, packet);
        }
        let Some(undo) = self.recovery.on_late_acked(packets) else {
            return;
        };
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
