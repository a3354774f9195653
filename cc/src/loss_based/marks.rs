//! Responses to CE marks (RFC 9331 §4.3, RFC 9002 §7.1).

use super::saved::Phase;
use super::{Feedback, LossBased, Response, Start, WindowLaw};
use crate::slow_start::SlowStart;
use crate::{Event, MAX_WINDOW};

impl<L: WindowLaw> LossBased<L> {
    /// Takes the event's ECN counts. Returns whether they are a signal as losses are, which the present recovery period does not
    /// explain.
    pub(super) fn take_marks(&mut self, event: &Event<'_>) -> bool {
        let newest = event.acked.last().map(|newest| newest.packet_number);
        let is_explained = match newest {
            Some(newest) => !self.boundary.is_after(newest),
            None => self.phase == Phase::Recovery,
        };
        let response = self.law.respond(&Feedback {
            now: event.now,
            ecn: event.ecn,
            newest,
            next_packet: self.boundary.next_packet(),
            cwnd: self.cwnd,
            rtt: event.rtt,
            rtt_updated: event.rtt_updated,
            is_explained,
        });
        match response {
            Response::AsLosses => event.ecn.ce > 0 && !is_explained,
            Response::Reduce(window) => {
                self.reduce(window);
                false
            }
            Response::Nothing => false,
        }
    }

    /// Continues in avoidance with a smaller window.
    fn reduce(&mut self, window: u64) {
        self.cwnd = window.clamp(self.floor(), MAX_WINDOW);
        self.ssthresh = Some(self.cwnd);
        self.slow_start = SlowStart::Standard;
        self.congestion_events += 1;
        if self.phase == Phase::SlowStart {
            self.begin_avoidance(Start::SlowStart);
        }
    }
}
