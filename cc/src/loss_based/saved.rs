//! The state of a loss-based algorithm that a cut changes.

use crate::idle::Reading;
use crate::slow_start::SlowStart;
use crate::usage::Usage;

/// Phase of a loss-based algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    SlowStart,
    Recovery,
    Avoidance { epoch: Reading },
}

/// State before a cut, as far as the cut changes it.
#[derive(Debug)]
pub(super) struct Saved<L> {
    pub(super) law: L,
    pub(super) cwnd: u64,
    pub(super) ssthresh: Option<u64>,
    pub(super) phase: Phase,
    pub(super) slow_start: SlowStart,
    pub(super) usage: Usage,
}
