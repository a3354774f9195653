//! Metadata of datagrams, budgets and counters.

use std::net::SocketAddr;
use std::ops::AddAssign;
use std::time::Instant;

/// Identifies the listener that a datagram arrives at or leaves from: a number that the caller chose when acquiring it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub u16);

/// The two ECN bits of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// 00
    #[default]
    NotCapable,
    /// 01
    Ect1,
    /// 10
    Ect0,
    /// 11
    CongestionExperienced,
}

impl Ecn {
    /// Returns the two bits as they stand in the header.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::CongestionExperienced => 3,
        }
    }

    /// Reads the low two bits of a TOS or traffic class byte and ignores the others.
    #[must_use]
    pub const fn from_bits(byte: u8) -> Self {
        match byte & 3 {
            0 => Self::NotCapable,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::CongestionExperienced,
        }
    }
}

/// Metadata of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxMeta {
    /// Listener that received it.
    pub listener: ListenerId,
    /// Sender's address; its port is never 0.
    pub peer: SocketAddr,
    /// Destination address, never a wildcard, with the listener's port.
    pub local: SocketAddr,
    /// ECN bits of the datagram, or of the first of those that GRO merged.
    pub ecn: Ecn,
}

/// Metadata of a datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxMeta {
    /// Destination address.
    pub peer: SocketAddr,
    /// Source address, where the caller cares (it does on a wildcard listener); the port is the listener's.
    pub local: Option<SocketAddr>,
    /// ECN bits to set.
    pub ecn: Ecn,
    /// Earliest departure; a backend without a timed queue sends at once.
    pub departure: Option<Instant>,
}

/// Limit on the work of one call: whichever of the two runs out first ends it.
///
/// The datagram that uses up the bytes is still handled, so a call exceeds them by less than one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Datagrams left.
    pub datagrams: usize,
    /// Bytes of UDP payload left.
    pub bytes: usize,
}

impl Budget {
    /// No limit.
    pub const UNLIMITED: Self = Self::of_datagrams(usize::MAX);

    /// Limits both.
    #[must_use]
    pub const fn new(datagrams: usize, bytes: usize) -> Self {
        Self { datagrams, bytes }
    }

    /// Limits datagrams alone.
    #[must_use]
    pub const fn of_datagrams(datagrams: usize) -> Self {
        Self::new(datagrams, usize::MAX)
    }

    /// Whether nothing is left.
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        self.datagrams == 0 || self.bytes == 0
    }

    /// Takes one datagram of `bytes` off.
    pub const fn spend(&mut self, bytes: usize) {
        self.datagrams = self.datagrams.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Returns the number of datagrams in `len` bytes that are cut every `size` bytes: an empty datagram counts.
pub(crate) fn datagrams(len: usize, size: usize) -> u64 {
    if size == 0 || len <= size {
        1
    } else {
        len.div_ceil(size) as u64
    }
}

/// Totals since the driver was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Received datagrams.
    pub rx_datagrams: u64,
    /// Received messages: fewer than datagrams where GRO merges them.
    pub rx_buffers: u64,
    /// Received bytes of UDP payload.
    pub rx_bytes: u64,
    /// Datagrams dropped because they did not fit a receive buffer.
    pub rx_truncated: u64,
    /// Receive attempts that failed for another reason.
    pub rx_errors: u64,
    /// Datagrams dropped because their source port is 0, which can't be answered.
    pub rx_port_zero: u64,
    /// Datagrams that the kernel or device dropped because the worker read too slowly (SO_RXQ_OVFL).
    pub rx_overflows: u64,
    /// Times receive buffers ran out and the receive had to be armed again.
    pub rx_exhausted: u64,
    /// Sent datagrams.
    pub tx_datagrams: u64,
    /// Sent messages, each a GSO batch or a single datagram.
    pub tx_buffers: u64,
    /// Sent bytes of UDP payload.
    pub tx_bytes: u64,
    /// Messages that the kernel or device refused for good (unreachable, too big): dropped.
    pub tx_errors: u64,
    /// GSO batches that had to be sent datagram by datagram.
    pub tx_gso_fallbacks: u64,
    /// Events dropped because 64 earlier ones were not taken.
    pub events_lost: u64,
}

impl AddAssign<&Counters> for Counters {
    fn add_assign(&mut self, other: &Counters) {
        // Named one by one, so that none is forgotten.
        let Counters {
            rx_datagrams,
            rx_buffers,
            rx_bytes,
            rx_truncated,
            rx_errors,
            rx_port_zero,
            rx_overflows,
            rx_exhausted,
            tx_datagrams,
            tx_buffers,
            tx_bytes,
            tx_errors,
            tx_gso_fallbacks,
            events_lost,
        } = other;
        self.rx_datagrams += rx_datagrams;
        self.rx_buffers += rx_buffers;
        self.rx_bytes += rx_bytes;
        self.rx_truncated += rx_truncated;
        self.rx_errors += rx_errors;
        self.rx_port_zero += rx_port_zero;
        self.rx_overflows += rx_overflows;
        self.rx_exhausted += rx_exhausted;
        self.tx_datagrams += tx_datagrams;
        self.tx_buffers += tx_buffers;
        self.tx_bytes += tx_bytes;
        self.tx_errors += tx_errors;
        self.tx_gso_fallbacks += tx_gso_fallbacks;
        self.events_lost += events_lost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_limit_spends_a_budget() {
        let mut budget = Budget::new(2, 100);
        budget.spend(10);
        assert!(!budget.is_spent());
        budget.spend(10);
        assert!(budget.is_spent());
        let mut budget = Budget::new(9, 100);
        budget.spend(99);
        assert!(!budget.is_spent());
        budget.spend(1200);
        assert!(budget.is_spent());
    }
}
