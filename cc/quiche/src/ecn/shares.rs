//! Parts of several paths in the ECN counts of one ACK frame.
//!
//! The build script places this file at `ecn/shares.rs` of the patched source.

use crate::packet::Epoch;
use crate::path::PathMap;
use crate::ranges::RangeSet;
use crate::recovery::RecoveryOps;

/// Packets that an ACK frame newly acknowledges, of a path or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnAcked {
    /// Those that were marked.
    pub(super) marked: u64,
    /// The largest of these, or the largest at all if none was marked.
    newest: Option<(bool, u64)>,
}

impl EcnAcked {
    /// Counts a packet.
    pub fn add(&mut self, number: u64, is_marked: bool) {
        self.marked += u64::from(is_marked);
        self.newest = self.newest.max(Some((is_marked, number)));
    }

    /// Returns how a path takes part in the counts of a frame that acknowledges all of these packets, its own among them.
    pub fn share(&self, own: EcnAcked) -> EcnShare {
        EcnShare {
            others: self.marked.saturating_sub(own.marked),
            has_newest: self.newest == own.newest,
        }
    }

    /// Returns the number of the newest marked packet.
    pub(super) fn newest_marked(&self) -> Option<u64> {
        self.newest.and_then(|(is_marked, number)| is_marked.then_some(number))
    }

    pub(super) fn join(self, other: EcnAcked) -> EcnAcked {
        EcnAcked {
            marked: self.marked + other.marked,
            newest: self.newest.max(other.newest),
        }
    }
}

/// How a path takes part in the counts of an ACK frame. The counts are of a packet number space, which all paths share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnShare {
    /// Marked packets of other paths that the frame newly acknowledges.
    pub(super) others: u64,
    /// Whether the newest marked packet is the path's. It takes the increase of the counts, so that one increase is no signal
    /// on two paths.
    pub(super) has_newest: bool,
}

impl EcnShare {
    /// The frame acknowledges packets of no other path.
    pub const ALL: EcnShare = EcnShare { others: 0, has_newest: true };
}

impl PathMap {
    /// Returns the packets that an ACK frame newly acknowledges; `None` unless several paths have packets in flight.
    pub fn ecn_acked(&self, epoch: Epoch, ranges: &RangeSet) -> Option<EcnAcked> {
        let paths = self.iter().filter(|(_, path)| path.recovery.has_in_flight(epoch));
        if paths.count() < 2 {
            return None;
        }
        let acked = self.iter().map(|(_, path)| path.recovery.ecn_acked(epoch, ranges));
        acked.reduce(EcnAcked::join)
    }
}
