//! SEARCH: leaves the first slow start when the path delivers clearly less than was sent a round trip before
//! (draft-chung-ccwg-search-09).
//!
//! HyStart++ judges by the delay, which also rises without load on many radio links. SEARCH compares amounts: in slow start
//! what is sent in a window is delivered in the same window one round trip later, until the path is full. Then a part of it
//! waits in the queue.

mod bins;

use self::bins::Bins;
use super::ack::{Ack, Step};
use crate::{Sent, Time};

/// Datagrams acknowledged for each that leaves while the queue is emptied, as in the authors' implementations of version 4.0.
const DRAIN_DIVISOR: u64 = 3;

/// The first slow start of a path.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    /// Nothing is measured before the next round-trip sample.
    Waiting,
    /// Compares what was delivered with what was sent.
    Measuring(Box<Bins>),
    /// The path is full: the window falls until the bytes in flight no longer fill a queue.
    Draining {
        /// Window to end at, bytes.
        target: u64,
    },
}

impl Search {
    /// Returns whether the window falls.
    pub(crate) const fn is_draining(&self) -> bool {
        matches!(self, Self::Draining { .. })
    }

    /// A packet leaves.
    pub(crate) fn on_sent(&mut self, now: Time, sent: &Sent) {
        let Self::Measuring(bins) = self else {
            return;
        };
        if sent.in_flight_before == 0 && bins.are_stale(now) {
            *self = Self::Waiting;
        } else {
            bins.on_sent(now, sent.bytes);
        }
    }

    /// The application has nothing to send though there is room.
    pub(crate) fn on_app_limited(&mut self, now: Time) {
        if let Self::Measuring(bins) = self {
            bins.on_app_limited(now);
        }
    }

    /// Counts acknowledged bytes while another phase is in force.
    pub(crate) fn count(&mut self, now: Time, acked: u64) {
        if let Self::Measuring(bins) = self {
            bins.on_acked(now, acked);
        }
    }

    /// Returns the growth, bytes, that `acked` bytes earn.
    pub(crate) const fn growth(&self, acked: u64) -> u64 {
        if self.is_draining() { 0 } else { acked }
    }

    /// Takes one ACK.
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> Step {
        match self {
            Self::Waiting => {
                if let Some(rtt) = ack.sample {
                    *self = Self::Measuring(Box::new(Bins::new(ack.now, rtt)));
                }
                Step::Continue
            }
            Self::Measuring(bins) => {
                let judged = bins.on_acked(ack.now, ack.bytes);
                if !judged || !bins.is_path_full(ack.latest_rtt) {
                    return Step::Continue;
                }
                let target = bins.delivered_in_round_trip();
                let target = target.max(ack.initial_window).min(ack.cwnd);
                *self = Self::Draining { target };
                Self::fall(target, ack.cwnd.min(ack.in_flight))
            }
            Self::Draining { target } => {
                let fallen = ack.cwnd.saturating_sub(ack.bytes - ack.bytes / DRAIN_DIVISOR);
                Self::fall(*target, fallen)
            }
        }
    }

    const fn fall(target: u64, window: u64) -> Step {
        if window > target { Step::Reduce(window) } else { Step::End(target) }
    }
}

#[cfg(test)]
mod tests;
