//! What a transport reports to a controller.

use std::time::Duration;

use crate::Time;

/// One packet that left and counts as in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Rises with every packet of the path, over all packet number spaces.
    pub packet_number: u64,
    /// Size on the wire, UDP payload.
    pub bytes: u64,
    /// Bytes in flight before this packet.
    pub in_flight_before: u64,
    /// Whether the packet carries application or handshake data, as against a bare PING or probe.
    pub has_data: bool,
}

/// One packet newly acknowledged. Never reported with 0 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// As in [`Sent`].
    pub packet_number: u64,
    /// When it left.
    pub time_sent: Time,
    /// As in [`Sent`].
    pub bytes: u64,
}

/// One packet newly declared lost. Never reported with 0 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// As in [`Sent`].
    pub packet_number: u64,
    /// When it left.
    pub time_sent: Time,
    /// As in [`Sent`].
    pub bytes: u64,
}

/// The transport's round-trip estimate (RFC 9002 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtt {
    /// Newest sample.
    pub latest: Duration,
    /// Smoothed.
    pub smoothed: Duration,
    /// Mean deviation.
    pub var: Duration,
    /// Smallest of the path; `None` before the first sample.
    pub min: Option<Duration>,
    /// The peer's `max_ack_delay`.
    pub max_ack_delay: Duration,
}

/// One ACK frame or one expiry of the loss timer: a batch that a controller handles losses first.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// When it was processed.
    pub now: Time,
    /// Newly acknowledged packets, ascending packet numbers.
    pub acked: &'a [Acked],
    /// Newly lost packets, ascending packet numbers.
    pub lost: &'a [Lost],
    /// Bytes in flight before any of this was subtracted.
    pub in_flight_before: u64,
    /// Bytes in flight after it.
    pub in_flight: u64,
    /// Estimate, this event's sample included.
    pub rtt: Rtt,
    /// Whether the event brought a round-trip sample.
    pub rtt_updated: bool,
    /// Packets newly reported as marked Congestion Experienced.
    pub ecn_ce: u64,
    /// Smallest packet number still in flight, or the next one where none is.
    pub least_unacked: u64,
}
