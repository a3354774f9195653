//! Detection of a queue that marks but is not one of L4S (RFC 9331 §4.3).
//!
//! Such a queue, shared with a flow that cuts by a third or half at each mark, would be left to Prague. A queue of L4S begins to mark at
//! about a millisecond of delay, a classic one usually at five or more. So marks with a delay of more come from a classic queue, or
//! from a path where the delay arises elsewhere; there the classic response costs rate and harms nobody.

use std::time::Duration;

use crate::loss_based::Feedback;

/// Delay of the queue at which a classic AQM marks: CoDel's target by default (RFC 8289 §4.4). One that marks below is not
/// recognised.
const CLASSIC_DELAY: Duration = Duration::from_millis(5);

/// Marked rounds with that delay, less those without, from which on the queue counts as classic. Slow start overshoots
/// an L4S queue for two or three rounds.
const ENOUGH: u8 = 8;

/// Bound of that number, so that a path which changes is recognised.
const MOST: u8 = 16;

/// The evidence so far.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassicQueue {
    /// Whether a packet of the present round was marked.
    marked: bool,
    /// Whether every sample of the present round has that delay; `None` before the first.
    delayed: Option<bool>,
    evidence: u8,
}

impl ClassicQueue {
    /// Takes an event of the present round.
    pub(super) fn on_feedback(&mut self, feedback: &Feedback) {
        self.marked |= feedback.ecn.ce > 0;
        if let Some(min) = feedback.rtt.min.filter(|_| feedback.rtt_updated) {
            let delayed = feedback.rtt.latest.saturating_sub(min) > CLASSIC_DELAY;
            self.delayed = Some(delayed && self.delayed != Some(false));
        }
    }

    /// Ends a round.
    pub(super) fn end_round(&mut self) {
        let marked = std::mem::take(&mut self.marked);
        match self.delayed.take().filter(|_| marked) {
            Some(true) => self.evidence = MOST.min(self.evidence + 1),
            Some(false) => self.evidence = self.evidence.saturating_sub(1),
            None => {}
        }
    }

    /// Returns whether marks count as losses.
    pub(super) const fn is_classic(&self) -> bool {
        self.evidence >= ENOUGH
    }
}
