//! Times of probes for bandwidth, and the meaning of ACKs during them (draft-ietf-ccwg-bbr-06 §2.14, §5.3.3.8).

use std::time::Duration;

use super::params::{MAX_PROBE_ROUNDS, UNBOUNDED};
use crate::{Packet, Time};

/// Meaning of present ACKs for probing (§5.3.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    /// They have no meaning.
    Init,
    /// They are for packets sent before the pipe was full again.
    Refilling,
    /// The bytes in flight rise; the ACKs are for packets sent before.
    ProbeStarting,
    /// They are for packets of the probe.
    ProbeFeedback,
    /// They are the last ones of a probe that is over.
    ProbeStopping,
}

/// The cycle of ProbeBW.
#[derive(Debug)]
pub(super) struct Cycle {
    ack_phase: AckPhase,
    /// Whether present losses are of packets sent while probing, and none of them ended the probe.
    is_probe_sample: bool,
    /// Whether the latest probe lost too much.
    prev_too_high: bool,
    /// Whether the latest probe stopped at the bytes in flight that the one before found too high.
    prev_precautionary: bool,
    rounds_since_probe: u16,
    /// Packets below left before the latest probe was over.
    first_packet: u64,
    stamp: Time,
    wait: Duration,
    up_rounds: u8,
    up_acked: u64,
    acked_per_step: u64,
    random: u64,
}

impl Cycle {
    /// Returns a cycle before the first probe; `seed` drives the random waits.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            ack_phase: AckPhase::Init,
            is_probe_sample: false,
            prev_too_high: false,
            prev_precautionary: false,
            rounds_since_probe: 0,
            first_packet: 0,
            stamp: Time::ZERO,
            wait: Duration::ZERO,
            up_rounds: 0,
            up_acked: 0,
            acked_per_step: UNBOUNDED,
            random: seed,
        }
    }

    /// Begins a cycle with packet `first_packet`: picks the wait for the next probe, 2 to 3 s or at most 62 or 63 rounds.
    pub(super) fn begin(&mut self, now: Time, first_packet: u64) {
        self.first_packet = first_packet;
        self.acked_per_step = UNBOUNDED;
        self.rounds_since_probe = u16::from(self.draw() >> 63 == 1);
        let fraction = Duration::from_nanos(self.draw() % 1_000_000_000);
        self.wait = Duration::from_secs(2) + fraction;
        self.stamp = now;
        self.ack_phase = AckPhase::ProbeStopping;
    }

    /// Returns whether to probe now, with `target` bytes wanted in flight.
    ///
    /// Reno would need as many rounds as its window has datagrams to fill what a loss emptied; bytes are turned into
    /// datagrams, rounded up, so that the shortest path waits for a round too.
    pub(super) fn is_due(&self, now: Time, target: u64, mtu: u64) -> bool {
        let rounds = target.div_ceil(mtu).clamp(1, MAX_PROBE_ROUNDS);
        now > self.stamp + self.wait || u64::from(self.rounds_since_probe) >= rounds
    }

    /// Returns whether all feedback of the latest probe has arrived.
    pub(super) fn is_between_probes(&self) -> bool {
        self.ack_phase == AckPhase::Init
    }

    /// Returns how many of the packets left after the latest probe. Its last ones may be declared lost when all other feedback
    /// of it has arrived.
    pub(super) fn sent_between(&self, packets: &[Packet]) -> usize {
        let is_after = |packet: &&Packet| packet.packet_number >= self.first_packet;
        packets.iter().filter(is_after).count()
    }

    /// Returns the rounds since the latest probe.
    pub(super) fn rounds_since_probe(&self) -> u64 {
        self.rounds_since_probe.into()
    }

    /// Counts a round since the latest probe.
    pub(super) const fn count_round(&mut self) {
        self.rounds_since_probe = self.rounds_since_probe.saturating_add(1);
    }

    /// Begins a probe.
    pub(super) const fn probe(&mut self) {
        self.is_probe_sample = true;
        self.ack_phase = AckPhase::ProbeStarting;
    }

    /// Returns whether present losses are of packets of a probe that nothing ended yet.
    pub(super) const fn is_probe_sample(&self) -> bool {
        self.is_probe_sample
    }

    /// The probe lost too much.
    pub(super) const fn on_too_high(&mut self) {
        self.prev_too_high = true;
        self.is_probe_sample = false;
    }

    /// Returns whether the probe before lost too much.
    pub(super) const fn was_too_high(&self) -> bool {
        self.prev_too_high
    }

    /// Ends a probe that did not lose too much; `precautionary` if it reached what the one before found too high.
    pub(super) const fn end_probe(&mut self, precautionary: bool) {
        self.prev_precautionary |= precautionary;
        self.prev_too_high = false;
    }

    /// Leaves the cycle for ProbeRTT.
    pub(super) const fn stop(&mut self) {
        self.ack_phase = AckPhase::ProbeStopping;
    }

    /// A round began. Returns whether the last ACK of the latest probe came with it.
    pub(super) fn on_round_start(&mut self) -> bool {
        match self.ack_phase {
            AckPhase::ProbeStarting => {
                self.ack_phase = AckPhase::ProbeFeedback;
                false
            }
            AckPhase::ProbeStopping => {
                self.is_probe_sample = false;
                self.ack_phase = AckPhase::Init;
                true
            }
            _ => false,
        }
    }

    /// Returns whether to probe again at once: the latest probe stopped only as a precaution (§5.3.3.6).
    pub(super) const fn is_repeat_due(&self) -> bool {
        self.prev_precautionary && !self.prev_too_high
    }

    /// Begins to refill the pipe before a probe.
    pub(super) const fn refill(&mut self) {
        self.up_rounds = 0;
        self.up_acked = 0;
        self.prev_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
    }

    /// Lets each round of a probe grow the long-term bound by twice as much as the one before (§5.3.3.5).
    pub(super) fn raise_slope(&mut self, cwnd: u64, mtu: u64) {
        let growth = 1u64 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.acked_per_step = (cwnd / growth).max(mtu);
    }

    /// Returns the datagrams that `acked` bytes add to the long-term bound.
    pub(super) const fn growth(&mut self, acked: u64) -> u64 {
        self.up_acked = self.up_acked.saturating_add(acked);
        let steps = self.up_acked / self.acked_per_step;
        self.up_acked -= steps * self.acked_per_step;
        steps
    }

    /// Returns 64 random bits (SplitMix64).
    pub(super) const fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_is_between_two_and_three_seconds() {
        let mut cycle = Cycle::new(1);
        let mut waits = Vec::new();
        for _ in 0..100 {
            cycle.begin(Time::ZERO, 0);
            assert!(cycle.rounds_since_probe <= 1);
            waits.push(cycle.wait);
        }
        assert!(waits.iter().all(|w| (2..3).contains(&w.as_secs())));
        assert!(waits.iter().any(|w| *w < Duration::from_millis(2_300)));
        assert!(waits.iter().any(|w| *w > Duration::from_millis(2_700)));
    }

    #[test]
    fn rounds_to_wait_are_the_datagrams_in_flight_between_1_and_63() {
        let mut cycle = Cycle::new(1);
        cycle.begin(Time::ZERO, 0);
        let mut due_after = |target| {
            cycle.rounds_since_probe = 0;
            while !cycle.is_due(Time::ZERO, target, 1_200) {
                cycle.rounds_since_probe += 1;
            }
            cycle.rounds_since_probe
        };
        assert_eq!([0, 100, 24_000, 1 << 30].map(&mut due_after), [1, 1, 20, 63]);
    }

    #[test]
    fn packets_of_the_probe_are_not_sent_between_probes() {
        let mut cycle = Cycle::new(1);
        cycle.begin(Time::ZERO, 7);
        let packets =
            [5, 6, 7, 9].map(|packet_number| Packet { packet_number, ..Packet::default() });
        assert_eq!(cycle.sent_between(&packets), 2);
    }

    #[test]
    fn growth_doubles_each_round() {
        let mut cycle = Cycle::new(1);
        cycle.refill();
        let per_round: Vec<_> = (0..5)
            .map(|_| {
                cycle.raise_slope(120_000, 1_200);
                (0..100).map(|_| cycle.growth(1_200)).sum::<u64>()
            })
            .collect();
        assert_eq!(per_round, [1, 2, 4, 8, 16]);
    }
}
