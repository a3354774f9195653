//! Proportional rate reduction (RFC 9937): spreads a cut over the round trip after it.

use crate::{Event, Packet};

/// One recovery period's account of bytes delivered and bytes sent.
///
/// Without it a sender with more bytes in flight than its new window falls silent until enough is acknowledged, and the
/// lost packets wait too. With it the first lost packet leaves at once, and then β bytes for each byte delivered. Room
/// comes in whole datagrams, so that the transport sends no short packets.
///
/// It is for losses only. A packet sent right after a CE mark may find the queue still above its threshold and be marked
/// again, which would be a second signal.
#[derive(Debug)]
pub(crate) struct Reduction {
    /// RecoverFS: bytes in flight when the period began, those lost and acknowledged with the signal included.
    recover_fs: u64,
    /// Window before the cut, bytes; the reduction never passes it.
    limit: u64,
    /// prr_delivered: bytes acknowledged since.
    delivered: u64,
    /// prr_out: bytes sent since.
    out: u64,
    /// Bytes that may be in flight.
    window: u64,
}

/// The part of one event that counts in recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Bytes acknowledged.
    delivered: u64,
    /// Whether nothing was lost.
    safe: bool,
    /// Bytes in flight after it.
    in_flight: u64,
}

impl Progress {
    /// Returns that part of `event`.
    pub(crate) fn of(event: &Event<'_>) -> Self {
        let bytes = |sum: u64, packet: &Packet| sum.saturating_add(packet.bytes);
        let delivered = event.acked.iter().fold(0, bytes);
        let lost = event.lost.iter().any(|lost: &Packet| lost.bytes > 0);
        Self { delivered, safe: delivered > 0 && !lost, in_flight: event.in_flight }
    }
}

impl Reduction {
    /// Begins a period with `recover_fs` bytes in flight in a window of `limit`.
    pub(crate) const fn new(recover_fs: u64, limit: u64) -> Self {
        Self { recover_fs, limit, delivered: 0, out: 0, window: 0 }
    }

    /// A packet left.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.out = self.out.saturating_add(bytes);
    }

    /// Packets were acknowledged, lost or both; the bytes in flight are to end at `target`.
    pub(crate) fn on_event(&mut self, progress: &Progress, target: u64, mtu: u64) {
        self.delivered = self.delivered.saturating_add(progress.delivered);
        let in_flight = progress.in_flight;
        let room = if in_flight > target {
            self.share(target).saturating_sub(self.out)
        } else {
            self.refill(progress, mtu).min(target - in_flight)
        };
        let whole = room - room % mtu;
        let first = if self.out == 0 { mtu } else { 0 };
        self.window = in_flight.saturating_add(whole.max(first)).min(self.limit);
    }

    /// Returns the part of the delivered bytes that brings the bytes in flight to `target`, rounded up.
    fn share(&self, target: u64) -> u64 {
        let part = u128::from(self.delivered) * u128::from(target);
        u64::try_from(part.div_ceil(u128::from(self.recover_fs.max(1)))).unwrap_or(u64::MAX)
    }

    /// Returns the room when losses took the bytes in flight below the target: the delivered bytes, and one datagram more
    /// for an event without loss.
    fn refill(&self, progress: &Progress, mtu: u64) -> u64 {
        let conserved = self.delivered.saturating_sub(self.out);
        let extra = if progress.safe { mtu } else { 0 };
        conserved.max(progress.delivered).saturating_add(extra)
    }

    /// Returns the bytes that may be in flight.
    pub(crate) const fn window(&self) -> u64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u64 = 1_000;

    /// A sender that always has data; one packet a datagram.
    struct Sender {
        reduction: Reduction,
        in_flight: u64,
        target: u64,
    }

    impl Sender {
        /// The first of `packets` is declared lost by an ACK of the three after it.
        fn cut(packets: u64, target: u64) -> Self {
            let mut sender = Self {
                reduction: Reduction::new(packets * MTU, packets * MTU),
                in_flight: packets * MTU,
                target: target * MTU,
            };
            sender.event(1, 3);
            sender
        }

        fn event(&mut self, lost: u64, acked: u64) {
            self.in_flight -= (lost + acked) * MTU;
            let progress = Progress {
                delivered: acked * MTU,
                safe: lost == 0 && acked > 0,
                in_flight: self.in_flight,
            };
            self.reduction.on_event(&progress, self.target, MTU);
        }

        /// Sends what there is room for and returns the number of packets.
        fn send(&mut self) -> u64 {
            let mut sent = 0;
            while self.in_flight + MTU <= self.reduction.window() {
                self.reduction.on_sent(MTU);
                self.in_flight += MTU;
                sent += 1;
            }
            sent
        }
    }

    #[test]
    fn first_packet_leaves_at_once() {
        let mut sender = Sender {
            reduction: Reduction::new(100 * MTU, 100 * MTU),
            in_flight: 100 * MTU,
            target: 50 * MTU,
        };
        sender.event(1, 0);
        assert_eq!(sender.send(), 1);
        sender.event(0, 1);
        assert_eq!(sender.send(), 0);
    }

    #[test]
    fn half_the_window_is_a_packet_for_every_two_delivered() {
        let mut sender = Sender::cut(100, 50);
        assert_eq!(sender.send(), 1);
        for _ in 0..40 {
            sender.event(0, 2);
            assert_eq!(sender.send(), 1);
        }
        assert_eq!(sender.in_flight, (100 - 4 - 80 + 41) * MTU);
    }

    #[test]
    fn bytes_in_flight_end_at_the_target() {
        for target in [30, 50, 70, 85] {
            let mut sender = Sender::cut(100, target);
            sender.send();
            for _ in 0..48 {
                sender.event(0, 2);
                sender.send();
            }
            let left = (target * MTU).abs_diff(sender.in_flight);
            assert!(left <= MTU, "{target}: {}", sender.in_flight);
        }
    }

    #[test]
    fn bytes_in_flight_below_the_target_grow_by_a_packet_an_event() {
        let mut sender = Sender {
            reduction: Reduction::new(100 * MTU, 100 * MTU),
            in_flight: 100 * MTU,
            target: 70 * MTU,
        };
        sender.event(80, 3);
        assert_eq!(sender.send(), 3);
        let mut before = sender.in_flight;
        for _ in 0..5 {
            sender.event(0, 2);
            assert_eq!(sender.send(), 3);
            assert_eq!(sender.in_flight, before + MTU);
            before = sender.in_flight;
        }
        sender.event(2, 2);
        assert_eq!(sender.send(), 2);
    }

    #[test]
    fn what_was_not_sent_may_be_sent_later_but_not_past_the_target() {
        let mut sender = Sender::cut(100, 50);
        for _ in 0..40 {
            sender.event(0, 2);
        }
        assert_eq!(sender.in_flight, 16 * MTU);
        assert_eq!(sender.send(), 34);
        assert_eq!(sender.in_flight, sender.target);
    }

    #[test]
    fn more_in_flight_than_the_old_window_gets_no_room() {
        let mut sender = Sender {
            reduction: Reduction::new(103 * MTU, 100 * MTU),
            in_flight: 103 * MTU,
            target: 70 * MTU,
        };
        sender.event(1, 0);
        assert_eq!(sender.send(), 0);
    }

    #[test]
    fn room_comes_in_whole_datagrams() {
        let mut sender = Sender::cut(100, 70);
        for _ in 0..30 {
            sender.send();
            sender.event(0, 1);
            let room = sender.reduction.window() - sender.in_flight;
            assert_eq!(room % MTU, 0);
        }
    }
}
