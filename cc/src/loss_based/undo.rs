//! Undoing a cut for losses that were none (RFC 9438 §4.9.2).

use std::mem;

use super::saved::{Phase, Saved};
use super::{LossBased, Start, WindowLaw, bytes_of};
use crate::recovery::LateAcked;
use crate::{Event, Packet, Time};

impl<L: WindowLaw> LossBased<L> {
    /// Returns the state that a cut is about to change, and takes the slow start out of it.
    pub(super) fn save(&mut self) -> Saved<L> {
        Saved {
            law: self.law.clone(),
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            phase: self.phase,
            slow_start: mem::take(&mut self.slow_start),
            usage: self.usage,
        }
    }

    /// Takes packets that were acknowledged late. If these are all that were missing since the latest cut, nothing was lost, and
    /// the cut is undone, unless too many were before. A CE mark is congestion whatever arrives.
    pub(super) fn take_late_acked(&mut self, event: &Event<'_>) {
        if event.ecn.ce > 0 {
            self.saved = None;
        }
        self.count_for_undo(event.now, event.late_acked);
        if !event.late_acked.is_empty()
            && self.boundary.on_late_acked(event.late_acked) == LateAcked::All
        {
            self.undo();
        }
    }

    /// Counts acknowledged packets for the slow start that an undo would return to.
    pub(super) fn count_for_undo(&mut self, now: Time, acked: &[Packet]) {
        if let Some(saved) = &mut self.saved
            && saved.slow_start.is_search()
        {
            saved.slow_start.count(now, bytes_of(acked));
        }
    }

    /// Restores the state before the latest cut, unless the window has grown beyond it since (RFC 9438 §4.9.2). The epoch
    /// of growth goes on as if the cut had not happened. Pacing, unless it is turned off, spreads what the window has room
    /// for again, so there is no burst (RFC 4015 §3.3).
    fn undo(&mut self) {
        let Some(saved) = self.saved.take() else {
            return;
        };
        if self.cwnd >= saved.cwnd {
            return;
        }
        self.law = saved.law;
        self.cwnd = saved.cwnd.max(self.floor());
        self.ssthresh = saved.ssthresh;
        self.phase = saved.phase;
        self.slow_start = saved.slow_start;
        self.usage.include(&saved.usage);
        self.reduction = None;
        self.boundary.take_back();
        // The period before that one is over, too.
        if self.phase == Phase::Recovery {
            self.begin_avoidance(Start::Recovery);
        }
    }
}
