//! Metadata of datagrams, and budgets.

use std::net::SocketAddr;
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
    /// Source address, or `None` to let the host choose one. A listener on a wildcard address needs it to answer from
    /// the address that the client used. The port is the listener's.
    pub local: Option<SocketAddr>,
    /// ECN bits to set.
    pub ecn: Ecn,
    /// Earliest time of departure. A backend without a timed queue sends at once.
    pub departure: Option<Instant>,
}

/// Limit on the work of one call, which ends when either number runs out.
///
/// The datagram that uses up the bytes is still processed, so a call exceeds them by less than one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Datagrams left.
    pub datagrams: usize,
    /// Bytes of UDP payload left.
    pub bytes: usize,
}

impl Budget {
    /// A budget without limits.
    pub const UNLIMITED: Self = Self::of_datagrams(usize::MAX);

    /// Returns a budget that limits datagrams and bytes.
    #[must_use]
    pub const fn new(datagrams: usize, bytes: usize) -> Self {
        Self { datagrams, bytes }
    }

    /// Returns a budget that limits datagrams alone.
    #[must_use]
    pub const fn of_datagrams(datagrams: usize) -> Self {
        Self::new(datagrams, usize::MAX)
    }

    /// Returns whether nothing is left.
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        self.datagrams == 0 || self.bytes == 0
    }

    /// Takes one datagram of `bytes` off the budget.
    pub const fn spend(&mut self, bytes: usize) {
        self.datagrams = self.datagrams.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Returns the number of datagrams in `len` bytes that are cut every `size` bytes: an empty datagram counts.
pub(crate) fn datagrams(len: usize, size: usize) -> u64 {
    if size == 0 || len <= size { 1 } else { len.div_ceil(size) as u64 }
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
