//! Adoption of a window that careful resume has found (RFC 9959).

use super::saved::Phase;
use super::{LossBased, Start, WindowLaw};
use crate::{AdoptedWindow, MAX_WINDOW};

impl<L: WindowLaw> LossBased<L> {
    /// Continues with another window: in slow start below the threshold, in avoidance at it (RFC 9959 §3.7). A cut before
    /// can no longer be undone, because its window is not the algorithm's any more.
    pub(super) fn adopt_window(&mut self, window: AdoptedWindow) {
        self.cwnd = window.cwnd.clamp(self.floor(), MAX_WINDOW);
        self.ssthresh = match window.ssthresh {
            Some(threshold) => Some(threshold.clamp(self.floor(), MAX_WINDOW)),
            None => self.ssthresh,
        };
        self.reduction = None;
        self.saved = None;
        if self.ssthresh.is_some_and(|threshold| self.cwnd >= threshold) {
            self.begin_avoidance(Start::SlowStart);
        } else {
            self.phase = Phase::SlowStart;
        }
        self.note_use();
    }
}
