//! The test for a path that sets Congestion Experienced on every packet, whether there is congestion or not.
//!
//! The build script places this file at `ecn/congestion.rs` of the patched source.

use super::Ecn;
use super::EcnAcked;
use super::TEST_PACKETS;

/// Round trips that the test takes with ECT(1), the more cautious of those that RFC 9768 §3.2.2.3 mentions for TCP, three or four. A
/// queue of L4S may well mark a whole first flight, but not the flights after it: the senders shrink their windows at once.
const L4S_ROUNDS: u32 = 4;

/// The test of one path.
#[derive(Debug, Default)]
pub(super) struct CongestionTest {
    /// Marked packets acknowledged so far.
    acked: u64,
    /// Round trips so far, and the number of the newest marked packet that had been sent when the latest ended.
    rounds: u32,
    round_from: Option<u64>,
    /// Whether the peer has counted the mark of any packet as it was sent.
    has_ect: bool,
    is_over: bool,
}

impl CongestionTest {
    /// Takes an ACK frame that newly acknowledges `acked`, and newly counts `ect` packets with `mark`. `newest` is the number of
    /// the newest marked packet that was sent. Returns whether the path fails.
    pub(super) fn on_ack(&mut self, mark: Ecn, newest: Option<u64>, acked: &EcnAcked, ect: u64) -> bool {
        if self.is_over {
            return false;
        }
        self.has_ect |= ect > 0;
        self.acked += acked.marked;
        // By its number, as the count of acknowledged packets falls behind with each that is lost.
        if acked.newest_marked() > self.round_from {
            self.rounds += 1;
            self.round_from = newest;
        }
        self.is_over = self.acked >= TEST_PACKETS && (mark != Ecn::Ect1 || self.rounds >= L4S_ROUNDS);
        // Not by the count of CE: packets that are acknowledged late, after they were declared lost, are part of it.
        self.is_over && !self.has_ect
    }
}
