//! Bytes in flight that the model asks for (draft-ietf-ccwg-bbr-06 §5.6.4).

use super::Bbr3;
use super::model::bdp_of;
use crate::State;

impl Bbr3 {
    /// Returns `gain` times the BDP, bytes; the initial window before the first round trip.
    pub(super) fn bdp(&self, gain: f64) -> u64 {
        let bdp = self.model.bdp(gain);
        bdp.unwrap_or(self.sizes.initial_window())
    }

    /// Raises a BDP to what `bw` needs in flight whatever the round trip is: bursts on both hosts, delayed ACKs
    /// (§5.6.4.2). A probe takes one packet more, not two: where flows have few packets each, these are much of the queue.
    pub(super) fn quantized(&self, bdp: u64) -> u64 {
        let bdp = bdp.max(self.output.quantum()).max(self.sizes.min_window());
        if self.state == State::ProbeBwUp && !self.climb.is_on() {
            bdp + self.sizes.mtu()
        } else {
            bdp
        }
    }

    /// Returns the bytes in flight that `bw` needs, with `gain`.
    pub(super) fn inflight(&self, bw: u64, gain: f64) -> u64 {
        let rtt = self.model.min_rtt.get();
        let bdp = rtt.map(|rtt| bdp_of(bw, rtt, gain));
        self.quantized(bdp.unwrap_or(self.sizes.initial_window()))
    }

    /// Returns the bytes that the flow wants in flight: the BDP, unless congestion cut the window.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp(1.0).min(self.output.cwnd())
    }

    /// Returns the part of the long-term bound that leaves headroom for other flows.
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        let sizes = &self.sizes;
        self.model.long_term.with_headroom(sizes.mtu(), sizes.min_window())
    }

    /// Returns half the BDP, by the shorter one of the round trips from before the visit and now, at least two datagrams:
    /// four of each flow would be a queue on a path with few datagrams for each, and the model's round trip contain it.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        let rtt = self.model.min_rtt.get();
        let half = self.rtt_probe.half_bdp(self.model.bw(), rtt);
        half.unwrap_or(self.sizes.initial_window()).max(2 * self.sizes.mtu())
    }
}
