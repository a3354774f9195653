//! Explicit Congestion Notification (RFC 9000 §13.4): counts of received marks for the peer, and validation of its counts for
//! marks of our own.
//!
//! The build script places this file at `ecn.rs` of the patched source.

mod congestion;
mod shares;

#[cfg(feature = "qlog")]
use qlog::events::quic;
#[cfg(feature = "qlog")]
use qlog::events::EventData;

use crate::frame::EcnCounts;
use crate::packet::Epoch;
use crate::BufFactory;
use crate::Connection;
use crate::RecvInfo;
use crate::Result;

use self::congestion::CongestionTest;
pub use self::shares::EcnAcked;
pub use self::shares::EcnShare;

/// Packets that leave with a mark on a new path. Then marking stops until the peer has counted one (RFC 9000 §13.4.2).
const TEST_PACKETS: u64 = 10;

/// The two ECN bits of an IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotCapable = 0b00,
    /// ECN-capable, ECT(1).
    Ect1 = 0b01,
    /// ECN-capable, ECT(0).
    Ect0 = 0b10,
    /// Congestion experienced.
    CongestionExperienced = 0b11,
}

impl Ecn {
    /// Returns the mark of the low two bits of a TOS or traffic class byte.
    pub fn from_bits(byte: u8) -> Self {
        match byte & 0b11 {
            0b00 => Ecn::NotCapable,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::CongestionExperienced,
        }
    }

    /// Returns the two bits.
    pub fn bits(self) -> u8 {
        self as u8
    }
}

/// State of a path (RFC 9000 §A.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnState {
    /// The first packets are marked.
    Testing,
    /// No more packets are marked before the peer counts one that was.
    #[default]
    Unknown,
    /// All packets are marked.
    Capable,
    /// No packet is marked any more.
    Failed(EcnFailure),
}

/// Reason for which a path failed validation (RFC 9000 §13.4.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnFailure {
    /// The peer acknowledged marked packets without counts: it cannot read marks.
    NoCounts,
    /// The peer counted fewer marks than it acknowledged marked packets: the path cleared them.
    Cleared,
    /// The peer counted marks of the kind that was never sent, ECT(1) or ECT(0): the path changed marks.
    Changed,
    /// The peer counted more marks than were sent.
    TooMany,
    /// A count fell.
    Decreased,
    /// Every packet of the test came out as Congestion Experienced: that says nothing about congestion. The test takes ten packets
    /// with ECT(0), and four round trips with ECT(1).
    AllCongested,
    /// Marked packets were lost until a probe timeout, twice in a row: the path drops them.
    Dropped,
}

/// Sums over all paths of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnStats {
    /// Packets received with Congestion Experienced.
    pub ce_received: u64,
    /// Packets that the peer received with Congestion Experienced, on paths that passed validation.
    pub ce_reported: u64,
    /// Paths that passed validation.
    pub capable: u64,
    /// Paths that failed it, and the latest reason.
    pub failed: u64,
    /// Reason of the latest failure.
    pub failure: Option<EcnFailure>,
}

impl EcnStats {
    /// Adds what an ACK frame said of a path.
    pub(crate) fn add(&mut self, outcome: EcnOutcome) {
        self.ce_reported += outcome.ce;
        match outcome.changed {
            Some(EcnState::Capable) => self.capable += 1,
            Some(EcnState::Failed(failure)) => {
                self.failed += 1;
                self.failure = Some(failure);
            },
            _ => {},
        }
    }
}

impl crate::Config {
    /// Sets whether packets are marked on paths that pass validation: ECT(1) where the algorithm's response is scalable, or else
    /// ECT(0). The default is `false`. It takes effect with controllers from outside, which respond to Congestion Experienced.
    /// Received marks are always reported to the peer.
    pub fn enable_ecn(&mut self, enabled: bool) {
        self.ecn = enabled;
    }
}

impl<F: BufFactory> Connection<F> {
    /// Processes the packets of a datagram that was received with an ECN mark; `recv()` takes them as not marked.
    ///
    /// # Errors
    /// Those of `recv()`.
    pub fn recv_with_ecn(&mut self, buf: &mut [u8], info: RecvInfo, ecn: Ecn) -> Result<usize> {
        self.recv_ecn = ecn;
        let received = self.recv(buf, info);
        self.recv_ecn = Ecn::NotCapable;
        received
    }

    /// Returns sums over all paths.
    pub fn ecn_stats(&self) -> EcnStats {
        let mut ce_received = self.ecn_stats.ce_received + self.ce_received(Epoch::Application);
        if self.pkt_num_spaces.first() == Epoch::Initial {
            ce_received += self.ce_received_in_handshake();
        }
        EcnStats { ce_received, ..self.ecn_stats }
    }

    #[inline(always)]
    fn ce_received(&self, epoch: Epoch) -> u64 {
        self.pkt_num_spaces[epoch].ecn.received.ecn_ce_count
    }

    fn ce_received_in_handshake(&self) -> u64 {
        self.ce_received(Epoch::Initial) + self.ce_received(Epoch::Handshake)
    }

    /// Returns whether the connection has packet number spaces of its handshake.
    #[doc(hidden)]
    pub fn has_handshake_spaces(&self) -> bool {
        self.pkt_num_spaces.first() == Epoch::Initial || self.crypto_ctx.first() == Epoch::Initial
    }

    /// Frees the packet number spaces of the handshake once they have ended. Before, Initial may begin again with another version.
    pub(crate) fn end_handshake_spaces(&mut self) {
        let has_keys = |epoch| self.crypto_ctx[epoch].crypto_open.is_some();
        if !self.handshake_completed || has_keys(Epoch::Initial) || has_keys(Epoch::Handshake) {
            return;
        }
        self.ecn_stats.ce_received += self.ce_received_in_handshake();
        self.pkt_num_spaces.end_handshake();
        self.crypto_ctx.end_handshake();
    }
}

/// The counts of a packet number space.
#[derive(Clone, Copy, Debug, Default)]
pub struct EcnSpace {
    /// Packets received, by mark.
    received: EcnCounts,
    /// Marked packets sent.
    sent: u64,
    /// Their mark.
    mark: Ecn,
    /// Largest packet number that the peer has acknowledged.
    largest_acked: Option<u64>,
    /// The peer's latest counts.
    reported: EcnCounts,
}

impl EcnSpace {
    /// Counts a new packet of the peer.
    pub fn on_received(&mut self, mark: Ecn) {
        match mark {
            Ecn::NotCapable => {},
            Ecn::Ect0 => self.received.ect0_count += 1,
            Ecn::Ect1 => self.received.ect1_count += 1,
            Ecn::CongestionExperienced => self.received.ecn_ce_count += 1,
        }
    }

    /// Returns the counts for an ACK frame; `None` as long as no packet was marked.
    pub fn counts(&self) -> Option<EcnCounts> {
        (self.received != EcnCounts::default()).then_some(self.received)
    }

    /// Counts a packet that left with a mark: the same for all packets of a connection, or another one on new paths after
    /// `switch_controller`, where counts of the former mark only end the marking.
    pub fn on_marked(&mut self, mark: Ecn) {
        self.sent += 1;
        self.mark = mark;
    }

    /// Takes the counts of an ACK frame that acknowledges `largest` and packets before it.
    pub fn on_ack(&mut self, largest: u64, counts: Option<EcnCounts>) -> EcnReport {
        // Frames that arrive out of order have older counts (RFC 9000 §13.4.2.1).
        if self.largest_acked.is_some_and(|acked| largest <= acked) {
            return EcnReport::Outdated;
        }
        self.largest_acked = Some(largest);
        let Some(counts) = counts else {
            return EcnReport::NoCounts;
        };
        let before = std::mem::replace(&mut self.reported, counts);
        let (Some(ect0), Some(ect1), Some(ce)) = (
            counts.ect0_count.checked_sub(before.ect0_count),
            counts.ect1_count.checked_sub(before.ect1_count),
            counts.ecn_ce_count.checked_sub(before.ecn_ce_count),
        ) else {
            return EcnReport::Wrong(EcnFailure::Decreased);
        };
        let (ect, other, total) = match self.mark {
            Ecn::Ect1 => (ect1, ect0, counts.ect1_count),
            _ => (ect0, ect1, counts.ect0_count),
        };
        if other > 0 {
            return EcnReport::Wrong(EcnFailure::Changed);
        }
        if total.saturating_add(counts.ecn_ce_count) > self.sent {
            return EcnReport::Wrong(EcnFailure::TooMany);
        }
        EcnReport::Increase { ect, ce }
    }
}

/// What an ACK frame says of marks, before it is known which packets it newly acknowledges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnReport {
    /// Nothing: it is older than another one.
    #[default]
    Outdated,
    /// It has no counts.
    NoCounts,
    /// The counts of the frame are wrong, whatever the frame acknowledges.
    Wrong(EcnFailure),
    /// Packets by which the counts have grown: of the mark that is sent, and of Congestion Experienced.
    Increase { ect: u64, ce: u64 },
}

/// Result of an ACK frame for a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnOutcome {
    /// Packets newly counted as Congestion Experienced.
    pub ce: u64,
    /// The path's state, if it has changed.
    pub changed: Option<EcnState>,
}

impl EcnOutcome {
    /// Returns the event of a change.
    #[cfg(feature = "qlog")]
    pub fn to_qlog(self) -> Option<EventData> {
        let new = match self.changed? {
            EcnState::Testing => quic::EcnState::Testing,
            EcnState::Unknown => quic::EcnState::Unknown,
            EcnState::Capable => quic::EcnState::Capable,
            EcnState::Failed(_) => quic::EcnState::Failed,
        };
        Some(EventData::QuicEcnStateUpdated(quic::EcnStateUpdated { old: None, new }))
    }
}

/// Marks of the packets that leave on a path.
#[derive(Debug, Default)]
pub struct EcnPath {
    /// `None` where nothing is marked.
    state: Option<EcnState>,
    /// ECT(0) or ECT(1).
    mark: Ecn,
    /// Whether the present datagram is marked.
    marking: bool,
    /// Marked packets sent, and the number of the newest.
    sent: u64,
    newest_sent: Option<u64>,
    congestion: CongestionTest,
    /// Marked packets sent since one was last acknowledged, and probe timeouts that ended with none acknowledged.
    unacked: u64,
    timeouts: u64,
    /// Whether the present datagram is a probe after a timeout.
    probing: bool,
    outcome: EcnOutcome,
}

impl EcnPath {
    /// Returns the state of a new path whose packets get this mark, or none.
    pub fn new(mark: Ecn) -> Self {
        EcnPath {
            state: (mark != Ecn::NotCapable).then_some(EcnState::Testing),
            mark,
            ..EcnPath::default()
        }
    }

    /// Returns the mark that packets get on a path that passes validation.
    pub fn mark(&self) -> Ecn {
        self.mark
    }

    /// Begins a datagram and returns its mark. A probe after a timeout has none: the path may drop what is marked.
    pub fn begin_datagram(&mut self, is_probe: bool) -> Ecn {
        if is_probe && !self.probing {
            self.on_probe_timeout();
        }
        self.probing = is_probe;
        self.marking = !is_probe && matches!(self.state, Some(EcnState::Testing | EcnState::Capable));
        if self.marking {
            self.mark
        } else {
            Ecn::NotCapable
        }
    }

    /// Stops marking if nothing that was marked arrives (RFC 9000 §13.4.2): in the test at the first timeout, later at the
    /// second, because an outage of the path looks the same once.
    fn on_probe_timeout(&mut self) {
        if self.unacked == 0 {
            return;
        }
        match self.state {
            Some(EcnState::Testing) => self.state = Some(EcnState::Unknown),
            Some(EcnState::Capable) => {
                self.timeouts += 1;
                if self.timeouts > 1 {
                    self.fail(EcnFailure::Dropped);
                }
            },
            _ => {},
        }
    }

    /// Takes a packet of the present datagram and returns whether it is marked.
    pub fn on_packet_sent(&mut self, number: u64) -> bool {
        if self.marking {
            self.sent += 1;
            self.newest_sent = Some(number);
            self.unacked += 1;
            if self.state == Some(EcnState::Testing) && self.sent >= TEST_PACKETS {
                self.state = Some(EcnState::Unknown);
            }
        }
        self.marking
    }

    /// Takes the report of an ACK frame, and the packets of the path that it newly acknowledges. Returns the packets that the
    /// peer newly counted with the path's mark and as Congestion Experienced, if they are this path's.
    pub fn on_ack(&mut self, report: EcnReport, share: EcnShare, acked: EcnAcked) -> (u64, u64) {
        let acked_any = acked.marked > 0;
        if acked_any {
            self.unacked = 0;
            self.timeouts = 0;
        }
        let (ect, ce) = match (self.state, report) {
            (None | Some(EcnState::Failed(_)), _) | (_, EcnReport::Outdated) => return (0, 0),
            (_, EcnReport::Wrong(failure)) => return self.fail(failure),
            (_, EcnReport::NoCounts) if acked_any => return self.fail(EcnFailure::NoCounts),
            (_, EcnReport::NoCounts) => return (0, 0),
            (_, EcnReport::Increase { ect, ce }) => (ect, ce),
        };
        // Which path lost its marks, the counts do not tell.
        if acked_any && ect.saturating_add(ce) < acked.marked + share.others {
            return self.fail(EcnFailure::Cleared);
        }
        if self.congestion.on_ack(self.mark, self.newest_sent, &acked, ect) {
            return self.fail(EcnFailure::AllCongested);
        }
        if acked_any && self.state != Some(EcnState::Capable) {
            self.change(EcnState::Capable);
        }
        if !share.has_newest {
            return (0, 0);
        }
        self.outcome.ce = ce;
        (ect, ce)
    }

    /// Returns what the latest ACK frame said, once.
    pub fn take_outcome(&mut self) -> EcnOutcome {
        std::mem::take(&mut self.outcome)
    }

    fn fail(&mut self, failure: EcnFailure) -> (u64, u64) {
        self.change(EcnState::Failed(failure));
        (0, 0)
    }

    fn change(&mut self, state: EcnState) {
        self.state = Some(state);
        self.outcome.changed = Some(state);
    }
}

#[cfg(test)]
mod tests;
