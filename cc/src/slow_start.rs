//! Slow start: how it grows, and what ends it besides a congestion signal.

mod hystart;

use std::time::Duration;

use hystart::HyStart;

/// The words for each kind of a first slow start.
pub(crate) const WORDS: &[&str] = &[STANDARD, HYSTART];
const STANDARD: &str = "standard";
pub(crate) const HYSTART: &str = "hystart++";

/// A path's slow start.
#[derive(Clone, Debug)]
pub(crate) enum SlowStart {
    /// Grows by what is acknowledged, and goes on until the window reaches the threshold or a congestion signal comes (RFC 9002
    /// §7.3.1). Every slow start after the first one is of this kind.
    Standard,
    /// Ends when the delay rises (RFC 9406).
    HyStart(HyStart),
}

impl SlowStart {
    /// Returns a path's first slow start, of the kind that one of [`WORDS`] names; `paced` tells whether sending is paced.
    pub(crate) fn new(word: &str, paced: bool) -> Self {
        match word {
            HYSTART => Self::HyStart(HyStart::new(paced)),
            _ => Self::Standard,
        }
    }

    /// Returns whether growth is slowed.
    pub(crate) const fn is_conservative(&self) -> bool {
        match self {
            Self::Standard => false,
            Self::HyStart(hystart) => hystart.is_conservative(),
        }
    }

    /// Returns the growth, bytes, that `acked` bytes of one ACK earn.
    pub(crate) fn growth(&mut self, acked: u64, mtu: u64) -> u64 {
        match self {
            Self::Standard => acked,
            Self::HyStart(hystart) => hystart.growth(acked, mtu),
        }
    }

    /// Takes one ACK and returns whether slow start is over.
    pub(crate) fn on_ack(&mut self, sample: Option<Duration>, new_round: bool) -> bool {
        match self {
            Self::Standard => false,
            Self::HyStart(hystart) => hystart.on_ack(sample, new_round),
        }
    }
}
