//! Filters of the model: rounds, the highest rate of two cycles, aggregation over ten rounds.

use super::params::{EXTRA_ACKED_ROUNDS, scaled};
use super::sampler::RateSample;
use crate::Time;

/// Round trips counted by packets: one ends when a packet sent after its start is acknowledged
/// (draft-ietf-ccwg-bbr-06 §5.5.1).
#[derive(Debug, Default)]
pub(super) struct Rounds {
    count: u64,
    /// Whether the present event began a round.
    start: bool,
    next_delivered: u64,
}

impl Rounds {
    /// Returns the number of rounds so far.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether the present event began a round.
    pub(super) const fn started(&self) -> bool {
        self.start
    }

    /// A packet was acknowledged that left after `prior_delivered` bytes were delivered; `delivered` are now. Returns
    /// whether that begins a round.
    pub(super) const fn update(&mut self, prior_delivered: u64, delivered: u64) -> bool {
        self.start = prior_delivered >= self.next_delivered;
        if self.start {
            self.restart(delivered);
            self.count += 1;
        }
        self.start
    }

    /// Begins a round without counting the one before.
    pub(super) const fn restart(&mut self, delivered: u64) {
        self.next_delivered = delivered;
    }
}

/// The highest rate in this cycle of probing and in the one before (§5.5.3).
#[derive(Debug, Default)]
pub(super) struct MaxBw {
    previous: u64,
    current: u64,
}

impl MaxBw {
    /// Returns the rate, bytes per second; 0 before the first sample.
    pub(super) fn get(&self) -> u64 {
        self.previous.max(self.current)
    }

    /// Takes a sample. One that the application limited counts only if it is no lower than the rate.
    pub(super) fn on_sample(&mut self, sample: &RateSample) {
        if let Some(rate) = sample.rate
            && (rate >= self.get() || !sample.app_limited)
        {
            self.update(rate);
        }
    }

    /// Takes a rate that the path has.
    pub(super) fn update(&mut self, rate: u64) {
        self.current = self.current.max(rate);
    }

    /// Forgets every rate but this one, to which the path fell.
    pub(super) const fn replace(&mut self, rate: u64) {
        self.previous = rate;
        self.current = rate;
    }

    /// Ends a cycle (§5.5.6). A cycle without a sample forgets nothing, or the rate would be unknown.
    pub(super) const fn advance(&mut self) {
        if self.current > 0 {
            self.previous = self.current;
            self.current = 0;
        }
    }
}

/// Filter of the bytes acknowledged at once beyond what the rate explains (§5.5.9).
#[derive(Debug, Default)]
pub(super) struct Aggregation {
    start: Time,
    delivered: u64,
    /// Rounds, each with its maximum.
    rounds: [(u64, u64); EXTRA_ACKED_ROUNDS],
    extra: u64,
}

impl Aggregation {
    /// Begins a new interval.
    pub(super) const fn restart(&mut self, now: Time) {
        self.start = now;
    }

    /// Returns the maximum of the rounds that count, bytes.
    pub(super) const fn extra(&self) -> u64 {
        self.extra
    }

    /// Takes `newly_acked` bytes at `now`, with the rate `bw`. One round counts in Startup, ten after it.
    pub(super) fn update(
        &mut self,
        now: Time,
        bw: u64,
        newly_acked: u64,
        cwnd: u64,
        round: u64,
        startup: bool,
    ) {
        let mut expected = scaled(bw, now.saturating_since(self.start).as_secs_f64());
        if self.delivered <= expected {
            self.delivered = 0;
            self.start = now;
            expected = 0;
        }
        self.delivered = self.delivered.saturating_add(newly_acked);
        let extra = (self.delivered - expected).min(cwnd);
        let window = if startup { 1 } else { EXTRA_ACKED_ROUNDS as u64 };
        let index = usize::try_from(round % EXTRA_ACKED_ROUNDS as u64).unwrap_or(0);
        if let Some(slot) = self.rounds.get_mut(index) {
            *slot = if slot.0 == round { (round, slot.1.max(extra)) } else { (round, extra) };
        }
        if startup {
            self.rounds.iter_mut().filter(|slot| slot.0 != round).for_each(|slot| slot.1 = 0);
        }
        let recent = self.rounds.iter().filter(|slot| round.saturating_sub(slot.0) < window);
        self.extra = recent.map(|slot| slot.1).max().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn round_ends_with_a_packet_sent_after_its_start() {
        let mut rounds = Rounds::default();
        rounds.update(0, 1_200);
        assert!(rounds.started());
        rounds.update(0, 2_400);
        assert!(!rounds.started());
        rounds.update(1_200, 3_600);
        assert!(rounds.started());
        assert_eq!(rounds.count(), 2);
    }

    #[test]
    fn rate_is_forgotten_after_two_cycles_with_samples() {
        let mut max = MaxBw::default();
        max.update(100);
        max.advance();
        max.update(10);
        assert_eq!(max.get(), 100);
        max.advance();
        assert_eq!(max.get(), 10);
        max.advance();
        max.advance();
        assert_eq!(max.get(), 10, "a cycle without samples");
        max.update(100);
        max.replace(20);
        assert_eq!(max.get(), 20);
    }

    #[test]
    fn burst_of_acks_counts_as_extra_for_ten_rounds() {
        let mut aggregation = Aggregation::default();
        for round in 0..12 {
            let now = Time::ZERO + Duration::from_secs(round + 1);
            let acked = if round == 0 { 50_000 } else { 1_000 };
            aggregation.update(now, 100_000, acked, 100_000, round, false);
            let expected = if round < 10 { 50_000 } else { 1_000 };
            assert_eq!(aggregation.extra(), expected, "round {round}");
        }
    }

    #[test]
    fn extra_is_bounded_by_the_window_and_startup_remembers_one_round() {
        let mut aggregation = Aggregation::default();
        aggregation.update(Time::from_nanos(1), 1_000, 50_000, 12_000, 0, true);
        assert_eq!(aggregation.extra(), 12_000);
        let later = Time::ZERO + Duration::from_secs(60);
        aggregation.update(later, 1_000, 1_200, 12_000, 1, true);
        assert_eq!(aggregation.extra(), 1_200);
    }
}
