//! The recovery period, bounded by packet numbers, and the account of its losses.

use crate::Packet;

/// Recovery periods of a path whose late acknowledgements count. A period has some if a packet is later than any before, and
/// among n late packets that happens about ln n times: 16 times among nine million.
const BELIEVED: u8 = 16;

/// Consequences of late acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LateAcked {
    /// Nothing: too many periods had some before.
    Doubted,
    /// Packets of the period are missing still, or it had none of them.
    Some,
    /// Every packet that was lost since the latest signal has arrived.
    All,
}

/// Separates losses and CE marks that begin a recovery period from those that belong to the present one, and finds out
/// whether every packet that a period took for lost has arrived.
///
/// RFC 9002 §7.3.2 bounds the period by the time it began. A packet number does the same without a clock: numbers
/// rise with every packet of the path, so "sent before the signal" is a comparison that no idle time can shift.
///
/// The losses of a period have numbers from the end of the period before. Each packet is lost and acknowledged late at most
/// once, so a count tells whether all of them have arrived. A transport forgets lost packets after a while; those are
/// never acknowledged late, and the count stays above zero.
///
/// A receiver can acknowledge late what it never received, to have every cut undone. So late acknowledgements count only in
/// the first [`BELIEVED`] periods of a path that have any. An honest receiver rarely needs more: from each the transport learns how
/// far packets overtake each other, and then waits for the late ones.
#[derive(Debug, Default)]
pub(crate) struct Boundary {
    /// Number after the largest seen.
    next_packet: u64,
    /// Packets below were sent before the latest signal.
    end: u64,
    /// Packets below were sent before the signal before that.
    start: u64,
    /// Packets from `start` on that were lost and have not been acknowledged since.
    missing: u64,
    /// Periods whose late acknowledgements counted, and whether the present one is among them.
    believed: u8,
    is_believed: bool,
}

impl Boundary {
    /// Returns a boundary before packet `next_packet`: everything below was sent before the latest signal.
    pub(crate) const fn at(next_packet: u64) -> Self {
        Self {
            next_packet,
            end: next_packet,
            start: next_packet,
            missing: 0,
            believed: 0,
            is_believed: false,
        }
    }

    /// Notes a packet number.
    pub(crate) fn on_packet(&mut self, packet_number: u64) {
        self.next_packet = self.next_packet.max(packet_number.saturating_add(1));
    }

    /// Returns the number after the largest seen.
    pub(crate) const fn next_packet(&self) -> u64 {
        self.next_packet
    }

    /// Returns whether the packet was sent after the latest signal.
    pub(crate) const fn is_after(&self, packet_number: u64) -> bool {
        packet_number >= self.end
    }

    /// Notes a congestion signal: everything sent so far belongs to it. Its losses are counted afterwards.
    pub(crate) const fn set(&mut self) {
        self.start = self.end;
        self.end = self.next_packet;
        self.missing = 0;
        self.is_believed = false;
    }

    /// Lets the latest signal cover everything sent since, too.
    pub(crate) const fn extend(&mut self) {
        self.end = self.next_packet;
    }

    /// Counts a lost packet.
    pub(crate) const fn on_lost(&mut self, packet_number: u64) {
        if packet_number >= self.start {
            self.missing = self.missing.saturating_add(1);
        }
    }

    /// Takes packets that were acknowledged after they were lost, at least one.
    pub(crate) fn on_late_acked(&mut self, packets: &[Packet]) -> LateAcked {
        if !self.is_believed {
            if self.believed == BELIEVED {
                return LateAcked::Doubted;
            }
            self.believed += 1;
            self.is_believed = true;
        }
        let of_signal = packets.iter().filter(|p| p.packet_number >= self.start);
        let arrived = of_signal.count() as u64;
        self.missing = self.missing.saturating_sub(arrived);
        if arrived > 0 && self.missing == 0 { LateAcked::All } else { LateAcked::Some }
    }

    /// Takes the latest signal back: a loss among the packets that it covered begins a period again.
    pub(crate) const fn take_back(&mut self) {
        self.end = self.start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether every lost packet has arrived with these.
    fn late(boundary: &mut Boundary, numbers: &[u64]) -> bool {
        boundary.on_late_acked(&packets(numbers)) == LateAcked::All
    }

    fn packets(numbers: &[u64]) -> Vec<Packet> {
        let packet = |&packet_number| Packet { packet_number, bytes: 1_200, ..Packet::default() };
        numbers.iter().map(packet).collect()
    }

    /// Returns a boundary after ten packets of which some are lost.
    fn signalled(lost: &[u64]) -> Boundary {
        let mut boundary = Boundary::default();
        boundary.on_packet(9);
        boundary.set();
        lost.iter().for_each(|&number| boundary.on_lost(number));
        boundary
    }

    #[test]
    fn signal_was_spurious_once_every_lost_packet_has_arrived() {
        let mut boundary = signalled(&[1, 2, 5]);
        assert!(!late(&mut boundary, &[1]));
        assert!(late(&mut boundary, &[2, 5]));
    }

    #[test]
    fn late_acknowledgements_of_sixteen_periods_count() {
        let mut boundary = Boundary::default();
        for period in 0..20 {
            boundary.on_packet(2 * period + 1);
            boundary.set();
            boundary.on_lost(2 * period);
            boundary.on_lost(2 * period + 1);
            let late = [2 * period, 2 * period + 1].map(|n| boundary.on_late_acked(&packets(&[n])));
            let expected = if period < 16 {
                [LateAcked::Some, LateAcked::All]
            } else {
                [LateAcked::Doubted; 2]
            };
            assert_eq!(late, expected, "{period}");
        }
    }

    #[test]
    fn period_without_late_acknowledgements_uses_up_none() {
        let mut boundary = Boundary::default();
        for number in 0..100 {
            boundary.on_packet(number);
            boundary.set();
            boundary.on_lost(number);
        }
        assert!(late(&mut boundary, &[99]));
    }

    #[test]
    fn loss_that_is_found_later_counts_as_well() {
        let mut boundary = signalled(&[1]);
        boundary.on_packet(12);
        boundary.on_lost(7);
        assert!(!late(&mut boundary, &[1]));
        assert!(late(&mut boundary, &[7]));
    }

    #[test]
    fn packets_of_the_signal_before_do_not_count() {
        let mut boundary = signalled(&[1]);
        boundary.on_packet(19);
        boundary.set();
        boundary.on_lost(4);
        boundary.on_lost(11);
        assert!(!late(&mut boundary, &[1, 4]));
        assert!(late(&mut boundary, &[11]));
    }

    #[test]
    fn loss_after_a_signal_is_taken_back_is_a_signal() {
        let mut boundary = signalled(&[1]);
        assert!(!boundary.is_after(5));
        assert!(late(&mut boundary, &[1]));
        boundary.take_back();
        assert!(boundary.is_after(5));
        boundary.set();
        boundary.on_lost(5);
        assert!(late(&mut boundary, &[5]));
    }

    #[test]
    fn extended_signal_covers_later_packets_and_keeps_its_account() {
        let mut boundary = signalled(&[1]);
        boundary.on_packet(30);
        boundary.extend();
        assert!(!boundary.is_after(30));
        boundary.on_lost(30);
        assert!(!late(&mut boundary, &[1]));
        assert!(late(&mut boundary, &[30]));
    }
}
