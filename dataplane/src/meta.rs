//! What is known of a datagram beside its bytes.

use std::net::SocketAddr;
use std::ops::AddAssign;

/// Which listener a datagram came in by or leaves from: an index that the caller chose when binding.
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
    /// The two bits as they stand in the header.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::CongestionExperienced => 3,
        }
    }

    /// From the low two bits of a TOS or traffic class byte; the others are ignored.
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

/// Of a received buffer.
#[derive(Clone, Copy, Debug)]
pub struct RxMeta {
    /// Where it was bound.
    pub listener: ListenerId,
    /// Who sent it.
    pub peer: SocketAddr,
    /// The address it was sent to, never a wildcard, with the listener's port.
    pub local: SocketAddr,
    /// ECN bits of the (first) datagram.
    pub ecn: Ecn,
    /// Size of each datagram in the buffer but the last, which may be shorter; the buffer's length where there is one.
    pub stride: usize,
}

/// Of a buffer to transmit.
#[derive(Clone, Copy, Debug)]
pub struct TxMeta {
    /// Which listener's socket it leaves by.
    pub listener: ListenerId,
    /// Where to.
    pub peer: SocketAddr,
    /// The source address, where the caller cares (it does on a wildcard listener); the port is the listener's.
    pub local: Option<SocketAddr>,
    /// ECN bits to set.
    pub ecn: Ecn,
    /// Bytes written, over all datagrams.
    pub len: usize,
    /// Size of each datagram but the last; `len` where there is one.
    pub segment: usize,
}

/// What came of [`Dataplane::transmit`](crate::Dataplane::transmit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transmitted {
    /// Buffers filled and taken.
    pub buffers: usize,
    /// The kernel or device takes no more for now: call again after the next wait. Nothing that was filled is lost.
    pub blocked: bool,
}

/// What a driver can do here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The backend's name.
    pub backend: &'static str,
    /// Several datagrams per transmitted buffer.
    pub gso: bool,
    /// Several datagrams per received buffer.
    pub gro: bool,
    /// ECN bits are read.
    pub ecn: bool,
    /// Largest number of bytes in one transmitted buffer.
    pub max_transmit: usize,
    /// The driver polls: [`Dataplane::wait`](crate::Dataplane::wait) spins and costs a core.
    pub polls: bool,
}

impl RxMeta {
    /// How many datagrams a buffer of `len` bytes holds: an empty one counts.
    #[must_use]
    pub fn datagrams(&self, len: usize) -> u64 {
        datagrams(len, self.stride)
    }
}

impl TxMeta {
    /// How many datagrams the buffer holds: an empty one counts.
    #[must_use]
    pub fn datagrams(&self) -> u64 {
        datagrams(self.len, self.segment)
    }
}

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
    /// Received buffers (fewer, with GRO).
    pub rx_buffers: u64,
    /// Received bytes of UDP payload.
    pub rx_bytes: u64,
    /// Datagrams cut short because they did not fit a buffer: dropped.
    pub rx_truncated: u64,
    /// Receive attempts that failed for another reason.
    pub rx_errors: u64,
    /// Sent datagrams.
    pub tx_datagrams: u64,
    /// Sent buffers (fewer, with GSO).
    pub tx_buffers: u64,
    /// Sent bytes of UDP payload.
    pub tx_bytes: u64,
    /// Buffers the kernel refused for good (unreachable, too big): dropped.
    pub tx_errors: u64,
    /// GSO buffers that had to be sent datagram by datagram.
    pub tx_gso_fallbacks: u64,
    /// Receive buffers ran out and the receive had to be armed again.
    pub rx_exhausted: u64,
}

impl Counters {
    pub(crate) fn on_received(&mut self, meta: &RxMeta, len: usize) {
        self.rx_buffers += 1;
        self.rx_datagrams += meta.datagrams(len);
        self.rx_bytes += len as u64;
    }
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
            tx_datagrams,
            tx_buffers,
            tx_bytes,
            tx_errors,
            tx_gso_fallbacks,
            rx_exhausted,
        } = other;
        self.rx_datagrams += rx_datagrams;
        self.rx_buffers += rx_buffers;
        self.rx_bytes += rx_bytes;
        self.rx_truncated += rx_truncated;
        self.rx_errors += rx_errors;
        self.tx_datagrams += tx_datagrams;
        self.tx_buffers += tx_buffers;
        self.tx_bytes += tx_bytes;
        self.tx_errors += tx_errors;
        self.tx_gso_fallbacks += tx_gso_fallbacks;
        self.rx_exhausted += rx_exhausted;
    }
}
