//! The recovery period, bounded by a packet number.

/// Separates losses and CE marks that begin a recovery period from those that belong to the present one.
///
/// RFC 9002 §7.3.2 bounds the period by the time it began. A packet number does the same without a clock: numbers
/// rise with every packet of the path, so "sent before the signal" is a comparison that no idle time can shift.
#[derive(Debug, Default)]
pub(crate) struct Boundary {
    /// Number after the largest seen.
    next_packet: u64,
    /// Packets below were sent before the latest signal.
    end: u64,
}

impl Boundary {
    /// Returns a boundary before packet `next_packet`: everything below was sent before the latest signal.
    pub(crate) const fn at(next_packet: u64) -> Self {
        Self {
            next_packet,
            end: next_packet,
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

    /// Notes a congestion signal: everything sent so far belongs to it.
    pub(crate) const fn set(&mut self) {
        self.end = self.next_packet;
    }
}
