//! How the responses that share a connection, and those that keep to the order of priorities, divide its bytes.
//!
//! RFC 9218 §10 asks servers not to starve responses. A download would: in strict order nothing of its urgency or below is sent before
//! its end. So it shares. What the order puts behind it gets half of the bytes, and it gets a sixteenth beside what is more urgent.

use super::priority::LOWEST;

/// Bytes that responses in the order write before those that share have their turn.
pub(super) const QUANTUM: usize = 16 << 10;

/// Bytes that a response may write in its turn among those that share, for each step of urgency above the lowest, and one more.
const STEP: usize = 4 << 10;

/// Parts of which those that share get one, beside responses that are more urgent.
const PARTS: u64 = 16;

/// Most bytes that are owed.
const MOST_OWED: u64 = 64 << 10;

/// Bytes of all responses after which one that wrote none of them has waited too long.
const LONGEST_WAIT: u64 = 1 << 20;

/// Account of a connection.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// Bytes that all responses have written.
    written: u64,
    /// Of them, those at the last look for responses that have waited too long.
    looked_at: u64,
    /// Bytes owed to those that share, times one less than [`PARTS`].
    owed: u64,
    /// The most urgent urgency of those that share.
    urgency: u8,
    /// Stream whose turn it is or was, and bytes that are left of the turn.
    turn: (u64, usize),
}

impl Sharing {
    /// Returns how many bytes all responses have written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Counts bytes of a body.
    pub(super) fn on_written(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// Notes the most urgent urgency of the responses that share.
    pub(super) fn set_urgency(&mut self, urgency: u8) {
        self.urgency = urgency;
    }

    /// Notes that a response in the order has written while others share.
    pub(super) fn on_ordered(&mut self, urgency: u8, bytes: u64) {
        let parts = if urgency < self.urgency { 1 } else { PARTS - 1 };
        let owed = self.owed.saturating_add(bytes.saturating_mul(parts));
        self.owed = owed.min(MOST_OWED * (PARTS - 1));
    }

    /// Notes that responses that share have written.
    pub(super) fn on_shared(&mut self, bytes: u64) {
        let paid = bytes.saturating_mul(PARTS - 1);
        self.owed = self.owed.saturating_sub(paid);
    }

    /// Notes that no response in the order waits, so nothing is owed.
    pub(super) fn forgive(&mut self) {
        self.owed = 0;
    }

    /// Returns how many bytes those that share may write before the others go on.
    pub(super) fn due(&self) -> usize {
        let owed = usize::try_from(self.owed / (PARTS - 1)).unwrap_or(usize::MAX);
        if owed < QUANTUM { 0 } else { owed }
    }

    /// Returns the first stream whose turn it can be.
    pub(super) fn next_stream(&self) -> u64 {
        let (stream, left) = self.turn;
        if left > 0 { stream } else { stream.saturating_add(1) }
    }

    /// Returns how many bytes a stream may write in its turn, which may have begun.
    pub(super) fn turn(&self, stream: u64, urgency: u8) -> usize {
        match self.turn {
            (of, left) if of == stream && left > 0 => left,
            _ => STEP * (usize::from(LOWEST.saturating_sub(urgency)) + 1),
        }
    }

    /// Notes that a stream has written in its turn, and how many bytes of the turn are left.
    pub(super) fn on_turn(&mut self, stream: u64, left: usize) {
        self.turn = (stream, left);
    }

    /// Returns, now and then, whether some response may have waited too long.
    pub(super) fn is_look_due(&mut self) -> bool {
        let due = self.written - self.looked_at >= LONGEST_WAIT;
        if due {
            self.looked_at = self.written;
        }
        due
    }

    /// Returns whether a response that had its last turn when `then` bytes were written has waited too long.
    pub(super) fn is_overdue(&self, then: u64) -> bool {
        self.written.saturating_sub(then) >= LONGEST_WAIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_share_get_half_beside_less_urgent_responses_and_a_sixteenth_beside_others() {
        for (urgency, parts) in [(0, PARTS), (3, 2), (7, 2)] {
            let mut sharing = Sharing::default();
            sharing.set_urgency(3);
            let (mut ordered, mut shared) = (0, 0);
            for _ in 0..10_000 {
                match sharing.due() as u64 {
                    0 => {
                        ordered += 1000;
                        sharing.on_ordered(urgency, 1000);
                    }
                    due => {
                        shared += due;
                        sharing.on_shared(due);
                    }
                }
            }
            let all = ordered + shared;
            assert!(
                shared.abs_diff(all / parts) <= 2 * QUANTUM as u64,
                "{urgency}: {shared} of {all}"
            );
        }
    }

    #[test]
    fn no_more_is_owed_than_a_bound_and_nothing_once_nobody_waits() {
        let mut sharing = Sharing::default();
        sharing.on_ordered(7, u64::MAX);
        assert_eq!(sharing.due() as u64, MOST_OWED);
        sharing.forgive();
        assert_eq!(sharing.due(), 0);
        sharing.on_ordered(7, QUANTUM as u64 - 1);
        assert_eq!(sharing.due(), 0);
        sharing.on_ordered(7, 1);
        assert_eq!(sharing.due(), QUANTUM);
        sharing.on_shared(u64::MAX);
        assert_eq!(sharing.due(), 0);
    }

    #[test]
    fn urgent_streams_have_longer_turns() {
        let mut sharing = Sharing::default();
        assert_eq!((sharing.turn(4, 0), sharing.turn(4, 7)), (8 * STEP, STEP));
        sharing.on_turn(4, 10);
        assert_eq!((sharing.turn(4, 0), sharing.turn(8, 7)), (10, STEP));
    }
}
