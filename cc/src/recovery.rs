//! The recovery period, bounded by a packet number.

/// Tells the losses and marks that begin a recovery period from those that belong to the present one.
///
/// RFC 9002 §7.3.2 bounds the period by the time it began. A packet number does the same without a clock: numbers
/// rise with every packet of the path, so "sent before the signal" is a comparison that no idle time can shift.
#[derive(Debug, Default)]
pub(crate) struct Boundary {
    /// The number after the largest seen.
    next_packet: u64,
    /// Packets below were sent before the latest signal.
    end: u64,
}

impl Boundary {
    /// A boundary before packet `next_packet`: everything below was sent before the latest signal.
    pub(crate) const fn at(next_packet: u64) -> Self {
        Self {
            next_packet,
            end: next_packet,
        }
    }

    /// A packet number was seen.
    pub(crate) fn on_packet(&mut self, packet_number: u64) {
        self.next_packet = self.next_packet.max(packet_number.saturating_add(1));
    }

    /// The number after the largest seen.
    pub(crate) const fn next_packet(&self) -> u64 {
        self.next_packet
    }

    /// Whether the packet was sent after the latest signal.
    pub(crate) const fn is_after(&self, packet_number: u64) -> bool {
        packet_number >= self.end
    }

    /// A congestion signal: everything sent so far belongs to it.
    pub(crate) const fn set(&mut self) {
        self.end = self.next_packet;
    }
}
