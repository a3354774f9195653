//! The reports of a transport to a controller.

use std::time::Duration;

use crate::Time;

/// One packet that is sent and counts as in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Number of the packet, which rises with every packet of the path, over all packet number spaces.
    pub packet_number: u64,
    /// Size, bytes of UDP payload.
    pub bytes: u64,
    /// Bytes in flight before this packet.
    pub in_flight_before: u64,
    /// Whether the packet carries application or handshake data, and not only a PING or a probe.
    pub has_data: bool,
}

/// The per-packet state of the delivery-rate sampler (draft-ietf-ccwg-bbr-06 §4.1.2.1), as the packet left.
///
/// [`crate::Controller::on_sent`] returns it. The transport stores it with the packet and hands it back unchanged in
/// [`Packet::state`], so that no controller keeps a queue of packets. A controller that samples nothing returns the
/// default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketState {
    /// Bytes delivered on the path before the packet left.
    pub delivered: u64,
    /// Time of the latest delivery before the packet left.
    pub delivered_time: Time,
    /// Departure time of the newest packet that was delivered by then.
    pub first_sent_time: Time,
    /// Bytes lost on the path before the packet left.
    pub lost: u64,
    /// Bytes in flight, the packet included.
    pub tx_in_flight: u64,
    /// Whether the application, or ProbeRTT, left a gap that was still on the path.
    pub app_limited: bool,
    /// Whether ProbeRTT left that gap.
    pub probe_rtt: bool,
}

/// One packet of an [`Event`]. Its size is never 0: a packet without bytes in flight is not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The number given in [`Sent::packet_number`].
    pub packet_number: u64,
    /// Departure time.
    pub time_sent: Time,
    /// Size, bytes of UDP payload.
    pub bytes: u64,
    /// The value that [`crate::Controller::on_sent`] returned for the packet.
    pub state: PacketState,
}

/// Packets that the peer newly reports as received with each ECN codepoint (RFC 9000 §19.3.2).
///
/// The transport validates the peer's counts first (RFC 9000 §13.4.2); counts that fail validation are not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// Packets received with ECT(0).
    pub ect0: u64,
    /// Packets received with ECT(1).
    pub ect1: u64,
    /// Packets received with Congestion Experienced.
    pub ce: u64,
}

impl EcnCounts {
    /// Counts without any packet.
    pub const NONE: Self = Self { ect0: 0, ect1: 0, ce: 0 };

    /// Returns counts of `ce` packets marked Congestion Experienced, and of no others.
    pub const fn ce(ce: u64) -> Self {
        Self { ce, ..Self::NONE }
    }

    /// Returns the packets counted since `earlier`, an earlier total of the same path.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            ect0: self.ect0.saturating_sub(earlier.ect0),
            ect1: self.ect1.saturating_sub(earlier.ect1),
            ce: self.ce.saturating_sub(earlier.ce),
        }
    }
}

/// A change of the peer's address on the path that a controller serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChange {
    /// Only the port changed, as after a NAT rebinding: the path counts as the same one (RFC 9000 §9.4), and the
    /// controller keeps everything that it has learnt.
    Port,
    /// The IP address changed: nothing is known of the new path. The controller starts over, and ignores packets that
    /// left before; the transport starts its round-trip estimate over, and takes no sample from such packets.
    Address,
}

/// The transport's round-trip estimate (RFC 9002 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtt {
    /// Newest sample.
    pub latest: Duration,
    /// Smoothed round-trip time; the initial value before the first sample.
    pub smoothed: Duration,
    /// Mean deviation of the samples.
    pub var: Duration,
    /// Smallest sample of the path; `None` before the first.
    pub min: Option<Duration>,
    /// The peer's `max_ack_delay`.
    pub max_ack_delay: Duration,
}

/// One ACK frame, or one expiry of the loss timer.
///
/// A transport builds the three lists as it walks its own record of packets, and lends them. Each packet appears once
/// as acknowledged or lost; one that was reported as lost may appear once more in `late_acked`.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Time at which the transport processed the ACK frame or the expiry.
    pub now: Time,
    /// Newly acknowledged packets, ascending packet numbers.
    pub acked: &'a [Packet],
    /// Packets newly declared lost, ascending packet numbers.
    pub lost: &'a [Packet],
    /// Packets acknowledged only after an earlier event had declared them lost, ascending packet numbers.
    pub late_acked: &'a [Packet],
    /// Bytes in flight before the event.
    pub in_flight_before: u64,
    /// Bytes in flight after the event.
    pub in_flight: u64,
    /// Round-trip estimate, this event's sample included.
    pub rtt: Rtt,
    /// Whether the event brought a round-trip sample.
    pub rtt_updated: bool,
    /// ECN counts that the event added.
    pub ecn: EcnCounts,
    /// Smallest packet number still in flight, or the next one if none is.
    pub least_unacked: u64,
}
