//! The phases of RFC 9959 §3, and the checks of the path.

use std::time::Duration;

use crate::{Packet, Time};

/// A phase with its variables.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// The first round trips, with the algorithm's own window; bytes acknowledged so far.
    Reconnaissance { acked: u64 },
    /// The saved capacity is tried.
    Unvalidated { jump: Jump, pipe: Pipe },
    /// What was sent in the Unvalidated Phase is on its way; `last` is the number of its last packet.
    Validating { pipe: Pipe, last: u64 },
    /// Something of it was lost. The window is half of what had arrived by then, and `last` the number of the last packet
    /// sent by then.
    SafeRetreat { window: u64, pipe: Pipe, last: u64 },
    /// The algorithm alone: after a try, or without one.
    Normal,
}

/// Bounds of the Unvalidated Phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jump {
    /// `jump_cwnd`, bytes.
    pub(super) window: u64,
    pub(super) began: Time,
    /// Latest round-trip time then.
    pub(super) rtt: Duration,
    /// Round-trip time that the capacity was saved with.
    pub(super) saved_rtt: Duration,
}

impl Jump {
    /// Returns whether more than a round trip has passed.
    pub(super) fn is_over(&self, now: Time) -> bool {
        now.saturating_since(self.began) > self.rtt
    }

    /// Returns whether a round trip turned out to be too short for the saved capacity.
    pub(super) fn is_shorter(&self, min_rtt: Duration) -> bool {
        is_shorter_path(min_rtt, self.saved_rtt)
    }
}

/// `PipeSize` of RFC 9959: the capacity that is known to be there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pipe {
    /// Number of the first unvalidated packet.
    pub(super) first: u64,
    /// Bytes in flight before it, and bytes of unvalidated packets that have arrived.
    pub(super) size: u64,
}

impl Pipe {
    pub(super) fn on_acked(&mut self, packets: &[Packet]) {
        let unvalidated = packets.iter().filter(|p| p.packet_number >= self.first);
        let sum = |sum: u64, packet: &Packet| sum.saturating_add(packet.bytes);
        self.size = unvalidated.fold(self.size, sum);
    }

    /// Returns the slow start threshold after a retreat: a Beta of 0.5 times the pipe.
    pub(super) const fn threshold(&self) -> u64 {
        self.size / 2
    }
}

/// Returns whether a round trip is too short for a rate that was measured over `saved` (RFC 9959 §4.2.1).
fn is_shorter_path(min_rtt: Duration, saved: Duration) -> bool {
    min_rtt <= saved / 2
}

/// Returns whether a round trip tells of another path than the saved one (RFC 9959 §4.2.1).
pub(super) fn is_other_path(min_rtt: Duration, saved: Duration) -> bool {
    is_shorter_path(min_rtt, saved) || min_rtt > saved.saturating_mul(10)
}
