//! The capacities that connections save for later ones with the same client.

use std::fmt::Debug;
use std::time::Duration;

use super::phase::is_other_path;

/// Capacity of a path, as a connection observed it: the congestion control parameters of RFC 9959 §3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathCapacity {
    /// Bytes that the path delivers in a round trip without a queue.
    pub cwnd: u64,
    /// Smallest round-trip time.
    pub min_rtt: Duration,
}

/// Capacity of a path as a connection observed it, for its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Bytes and round trip.
    pub capacity: PathCapacity,
    /// Whether the connection was in its first slow start, so that the path has at least this capacity.
    pub is_least: bool,
}

impl Observation {
    /// Returns whether it takes the place of a capacity that is saved and not too old. One from slow start does not, if more is
    /// saved for a path with a similar round trip (RFC 9959 §4.1).
    pub fn replaces(&self, saved: &PathCapacity) -> bool {
        !self.is_least
            || self.capacity.cwnd >= saved.cwnd
            || is_other_path(self.capacity.min_rtt, saved.min_rtt)
    }
}

/// The capacity saved for one path, which all connections of that path share.
///
/// A controller asks for it once, and reports to it a few times in a connection's life. It has no clock that would
/// outlive the connection: whoever implements this notes when a capacity was saved, and returns none that is too old.
pub trait PathMemory: Debug + Send + Sync {
    /// Returns the saved capacity and keeps it for the caller: other connections get none until it is released. `None` if
    /// there is none, if it is too old, or if another connection has it.
    fn claim(&self) -> Option<PathCapacity>;

    /// Leaves a claimed capacity to others.
    fn release(&self);

    /// Saves what the caller observed, if it [replaces](Observation::replaces) what is saved. The capacity is the caller's, which
    /// uses it, unless another connection has claimed it.
    fn save(&self, observed: Observation);

    /// Forgets the saved capacity and the caller's claim, unless another connection has claimed it.
    fn discard(&self);

    /// Counts an event.
    fn on_event(&self, event: ResumeEvent);
}

/// A step of careful resume that operators count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResumeEvent {
    /// A connection tries a saved capacity.
    Jumped,
    /// Everything that was sent in the try has arrived.
    Validated,
    /// There was congestion, or the round trip turned out to be too short.
    Retreated,
    /// The connection had too little to send to tell.
    RateLimited,
    /// The connection ended, or left the path, before everything of a try had arrived.
    Undecided,
    /// A saved capacity was not tried, because the round-trip time is a different one.
    RttDiffers,
}
