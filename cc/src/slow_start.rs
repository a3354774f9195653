//! Slow start: how it grows, and what ends it besides a congestion signal.

mod ack;
mod hystart;
mod search;

pub(crate) use ack::{Ack, Step};
use hystart::HyStart;
use search::Search;

use crate::{Sent, Time};

/// The words for each kind of a first slow start.
pub(crate) const WORDS: &[&str] = &[STANDARD, HYSTART, SEARCH];
const STANDARD: &str = "standard";
pub(crate) const HYSTART: &str = "hystart++";
const SEARCH: &str = "search";

/// A path's slow start.
#[derive(Clone, Debug, Default)]
pub(crate) enum SlowStart {
    /// Grows by what is acknowledged, and goes on until the window reaches the threshold or a congestion signal comes (RFC 9002
    /// §7.3.1). Every slow start after the first one is of this kind.
    #[default]
    Standard,
    /// Ends when the delay rises (RFC 9406).
    HyStart(HyStart),
    /// Ends when the path delivers less than was sent (draft-chung-ccwg-search-09).
    Search(Search),
}

impl SlowStart {
    /// Returns a path's first slow start, of the kind that one of [`WORDS`] names; `paced` tells whether sending is paced.
    pub(crate) fn new(word: &str, paced: bool) -> Self {
        match word {
            HYSTART => Self::HyStart(HyStart::new(paced)),
            SEARCH => Self::Search(Search::Waiting),
            _ => Self::Standard,
        }
    }

    /// Returns whether it notes packets of other phases as well.
    pub(crate) const fn is_search(&self) -> bool {
        matches!(self, Self::Search(_))
    }

    /// Returns whether growth is slowed.
    pub(crate) const fn is_conservative(&self) -> bool {
        matches!(self, Self::HyStart(hystart) if hystart.is_conservative())
    }

    /// Returns whether the window falls to what the path holds.
    pub(crate) const fn is_draining(&self) -> bool {
        matches!(self, Self::Search(search) if search.is_draining())
    }

    /// A packet leaves, in whatever phase.
    pub(crate) fn on_sent(&mut self, now: Time, sent: &Sent) {
        if let Self::Search(search) = self {
            search.on_sent(now, sent);
        }
    }

    /// The application has nothing to send though there is room.
    pub(crate) fn on_app_limited(&mut self, now: Time) {
        if let Self::Search(search) = self {
            search.on_app_limited(now);
        }
    }

    /// Takes bytes that are acknowledged while another phase is in force, from which an undo may return.
    pub(crate) fn count(&mut self, now: Time, acked: u64) {
        if let Self::Search(search) = self {
            search.count(now, acked);
        }
    }

    /// Returns the growth, bytes, that `acked` bytes of one ACK earn.
    pub(crate) fn growth(&mut self, acked: u64, mtu: u64) -> u64 {
        match self {
            Self::Standard => acked,
            Self::HyStart(hystart) => hystart.growth(acked, mtu),
            Self::Search(search) => search.growth(acked),
        }
    }

    /// Takes one ACK, after its growth. Most of `ack` is for SEARCH alone.
    pub(crate) fn on_ack(&mut self, ack: impl FnOnce() -> Ack) -> Step {
        match self {
            Self::Standard => Step::Continue,
            Self::HyStart(hystart) => {
                let ack = ack();
                if hystart.on_ack(ack.sample, ack.new_round) {
                    Step::End(ack.cwnd)
                } else {
                    Step::Continue
                }
            }
            Self::Search(search) => search.on_ack(&ack()),
        }
    }
}
