//! Persistent congestion (RFC 9002 §7.6), for transports that do not detect it.

use std::time::Duration;

use crate::{Event, Packet, Rtt, Time};

/// PTOs that a run of losses must exceed (RFC 9002 §7.6.1).
const THRESHOLD: u32 = 3;

/// Timer granularity (RFC 9002 §6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);

/// Stretches of acknowledged packets remembered above the oldest packet in flight.
const MAX_STRETCHES: usize = 48;

/// Finds runs of lost packets, with none acknowledged between, that are longer than three PTOs.
///
/// It takes every event that the controller takes. A run may grow over several events. Packets sent before the first
/// round-trip sample do not count. If the record of acknowledged packets overflows, the run is dropped: the detector may
/// miss persistent congestion but never reports it wrongly.
#[derive(Debug, Default)]
pub struct PersistentCongestion {
    first_sample: Option<Time>,
    run: Option<Run>,
    /// Acknowledged packets that a later loss could lie beyond: ascending, disjoint, inclusive.
    acked: Vec<(u64, u64)>,
    /// Losses of packets below do not count: the record of acknowledged packets there is dropped.
    blind_below: u64,
}

/// Lost packets, the first and the last of them.
#[derive(Clone, Copy, Debug)]
struct Run {
    first_sent: Time,
    last: u64,
    last_sent: Time,
}

impl PersistentCongestion {
    /// Returns a detector for a path without a round-trip sample.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an event and returns whether it established persistent congestion. After that a new run begins.
    pub fn on_event(&mut self, event: &Event<'_>) -> bool {
        for packets in [event.acked, event.late_acked] {
            for packet in packets {
                self.on_acked(packet.packet_number);
            }
        }
        let mut established = false;
        if !event.lost.is_empty() {
            let limit = duration(&event.rtt);
            for packet in event.lost {
                established |= self.on_lost(packet, limit);
            }
        }
        if event.rtt_updated && self.first_sample.is_none() {
            self.first_sample = Some(event.now);
        }
        self.forget_below(event.least_unacked);
        established
    }

    fn on_acked(&mut self, number: u64) {
        if self.run.is_some_and(|run| number <= run.last) {
            self.run = None;
        }
        match self.acked.last_mut() {
            // The usual case: the packet after the newest.
            Some((_, end)) if end.checked_add(1) == Some(number) => *end = number,
            _ => self.insert(number),
        }
    }

    fn insert(&mut self, number: u64) {
        let at = self.acked.partition_point(|&(_, end)| end.saturating_add(1) < number);
        match self.acked.get_mut(at) {
            Some((start, end)) if number.saturating_add(1) >= *start => {
                *start = number.min(*start);
                *end = number.max(*end);
            }
            _ => {
                self.acked.insert(at, (number, number));
                self.bound();
            }
        }
    }

    /// Drops the older half of a record that grew too long.
    fn bound(&mut self) {
        if self.acked.len() < MAX_STRETCHES {
            return;
        }
        if let Some((_, newest_dropped)) = self.acked.drain(..MAX_STRETCHES / 2).next_back() {
            self.blind_below = newest_dropped;
            self.run = self.run.filter(|run| run.last > newest_dropped);
        }
    }

    fn on_lost(&mut self, packet: &Packet, limit: Duration) -> bool {
        let counts = self.first_sample.is_some_and(|sample| packet.time_sent > sample);
        if packet.bytes == 0 || !counts || packet.packet_number < self.blind_below {
            return false;
        }
        let number = packet.packet_number;
        let fresh = Run { first_sent: packet.time_sent, last: number, last_sent: packet.time_sent };
        let run = match self.run {
            Some(run) if number > run.last && !self.acked_between(run.last, number) => {
                Run { first_sent: run.first_sent, ..fresh }
            }
            Some(run) if number <= run.last => run,
            _ => fresh,
        };
        let established = run.last_sent.saturating_since(run.first_sent) > limit;
        self.run = (!established).then_some(run);
        established
    }

    fn acked_between(&self, after: u64, before: u64) -> bool {
        let at = self.acked.partition_point(|&(_, end)| end <= after);
        self.acked.get(at).is_some_and(|&(start, _)| start < before)
    }

    /// Drops the record below `least_unacked`, where nothing can be lost any more.
    fn forget_below(&mut self, least_unacked: u64) {
        let gone = self.acked.partition_point(|&(_, end)| end < least_unacked);
        let Some(&(_, newest_gone)) = gone.checked_sub(1).and_then(|last| self.acked.get(last))
        else {
            return;
        };
        if self.run.is_some_and(|run| newest_gone > run.last) {
            self.run = None;
        }
        self.acked.drain(..gone);
    }
}

/// Returns the duration that a run must exceed (RFC 9002 §7.6.1).
fn duration(rtt: &Rtt) -> Duration {
    let pto = rtt
        .smoothed
        .saturating_add(rtt.var.saturating_mul(4).max(GRANULARITY))
        .saturating_add(rtt.max_ack_delay);
    pto.saturating_mul(THRESHOLD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EcnCounts;

    const MS: u64 = 1_000_000;

    /// srtt 100, var 0, max_ack_delay 24: the limit is 3 x 125 = 375 ms.
    const RTT: Rtt = Rtt {
        latest: Duration::from_millis(100),
        smoothed: Duration::from_millis(100),
        var: Duration::ZERO,
        min: Some(Duration::from_millis(100)),
        max_ack_delay: Duration::from_millis(24),
    };

    /// Feeds packets as (number, ms sent).
    fn feed(
        detector: &mut PersistentCongestion,
        acked: &[u64],
        lost: &[(u64, u64)],
        least_unacked: u64,
        sampled: bool,
    ) -> bool {
        let acked: Vec<_> = acked
            .iter()
            .map(|&packet_number| Packet { packet_number, bytes: 1_200, ..Packet::default() })
            .collect();
        let lost: Vec<_> = lost
            .iter()
            .map(|&(packet_number, ms)| Packet {
                packet_number,
                time_sent: Time::from_nanos(ms * MS),
                bytes: 1_200,
                ..Packet::default()
            })
            .collect();
        detector.on_event(&Event {
            now: Time::from_nanos(MS),
            acked: &acked,
            lost: &lost,
            late_acked: &[],
            in_flight_before: 0,
            in_flight: 0,
            rtt: RTT,
            rtt_updated: sampled,
            ecn: EcnCounts::NONE,
            least_unacked,
        })
    }

    fn sampled() -> PersistentCongestion {
        let mut detector = PersistentCongestion::new();
        assert!(!feed(&mut detector, &[0], &[], 1, true));
        detector
    }

    #[test]
    fn run_longer_than_three_ptos_is_established() {
        assert!(feed(&mut sampled(), &[3], &[(1, 100), (2, 476)], 4, true));
    }

    #[test]
    fn run_of_exactly_three_ptos_is_not() {
        assert!(!feed(&mut sampled(), &[3], &[(1, 100), (2, 475)], 4, true));
    }

    #[test]
    fn limit_counts_four_deviations_and_a_timer_s_granularity() {
        let with_var = |var| Rtt { var, ..RTT };
        let ms = Duration::from_millis;
        assert_eq!(duration(&with_var(ms(10))), ms(3 * (100 + 40 + 24)));
        assert_eq!(duration(&with_var(Duration::ZERO)), ms(3 * (100 + 1 + 24)));
    }

    #[test]
    fn packets_before_the_first_sample_do_not_count() {
        let mut detector = PersistentCongestion::new();
        assert!(!feed(&mut detector, &[3], &[(1, 100), (2, 900)], 4, true));
        let mut detector = sampled();
        assert!(!feed(&mut detector, &[3], &[(1, 0), (2, 1)], 4, false));
    }

    #[test]
    fn packet_sent_at_the_moment_of_the_first_sample_does_not_count() {
        assert!(!feed(&mut sampled(), &[3], &[(1, 1), (2, 377)], 4, false));
    }

    #[test]
    fn losses_where_the_record_was_dropped_do_not_count() {
        let mut detector = sampled();
        let acked: Vec<_> = (1..200).map(|n| n * 2).collect();
        assert!(!feed(&mut detector, &acked, &[], 1, false));
        assert!(!feed(&mut detector, &[], &[(1, 100), (3, 900)], 5, false));
        assert!(feed(&mut detector, &[], &[(401, 1_000), (402, 1_400)], 403, false));
    }

    #[test]
    fn run_grows_over_several_events() {
        let mut detector = sampled();
        assert!(!feed(&mut detector, &[], &[(1, 100)], 2, false));
        assert!(!feed(&mut detector, &[], &[(2, 300)], 3, false));
        assert!(feed(&mut detector, &[], &[(3, 500)], 4, false));
    }

    #[test]
    fn acknowledged_packet_between_ends_a_run() {
        assert!(!feed(&mut sampled(), &[2], &[(1, 100), (3, 500)], 4, true));
        let mut detector = sampled();
        assert!(!feed(&mut detector, &[2], &[(1, 100)], 3, true));
        assert!(!feed(&mut detector, &[], &[(3, 500)], 4, false));
        assert!(!feed(&mut detector, &[], &[(4, 874)], 5, false));
        assert!(feed(&mut detector, &[], &[(5, 876)], 6, false));
    }

    #[test]
    fn late_acknowledgement_of_a_lost_packet_ends_the_run() {
        let mut detector = sampled();
        assert!(!feed(&mut detector, &[], &[(1, 100), (2, 200)], 3, false));
        assert!(!feed(&mut detector, &[2], &[], 3, false));
        assert!(!feed(&mut detector, &[], &[(3, 500)], 4, false));
    }

    #[test]
    fn losses_found_after_a_later_acknowledgement_extend_the_run() {
        let mut detector = sampled();
        assert!(!feed(&mut detector, &[9], &[(1, 100), (2, 200)], 3, true));
        assert!(feed(&mut detector, &[], &[(3, 500)], 4, false));
    }

    #[test]
    fn one_run_is_reported_once() {
        let mut detector = sampled();
        assert!(feed(&mut detector, &[], &[(1, 100), (2, 500)], 3, false));
        assert!(!feed(&mut detector, &[], &[(3, 501), (4, 600)], 5, false));
    }

    /// Takes packets in the order in which they are mostly acknowledged, with gaps, repeats and late ones, once with the short cut
    /// for the packet after the newest and once without.
    #[test]
    fn short_cut_for_the_next_packet_changes_nothing() {
        // Miri takes minutes for all.
        let seeds = if cfg!(miri) { 1..3 } else { 1..200 };
        for seed in seeds {
            let [mut quick, mut slow] = [(); 2].map(|()| PersistentCongestion::new());
            // Xorshift (Marsaglia, 2003).
            let mut random: u64 = seed;
            let mut newest = 0;
            for _ in 0..500 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let number = match random % 8 {
                    0 => newest + 2 + random / 8 % 3,
                    1 => newest.saturating_sub(random / 8 % 100),
                    _ => newest + 1,
                };
                newest = newest.max(number);
                quick.on_acked(number);
                slow.insert(number);
                assert_eq!(quick.acked, slow.acked, "seed {seed}, after {number}");
                assert_eq!(quick.blind_below, slow.blind_below, "seed {seed}");
            }
        }
    }

    #[test]
    fn endless_holes_neither_grow_the_record_nor_establish_anything() {
        let mut detector = sampled();
        let holes = if cfg!(miri) { 300 } else { 10_000 };
        for number in 1..holes {
            assert!(!feed(&mut detector, &[number * 2], &[], 1, false));
        }
        assert!(detector.acked.len() <= MAX_STRETCHES);
        assert!(detector.acked.capacity() < 2 * MAX_STRETCHES);
    }
}
