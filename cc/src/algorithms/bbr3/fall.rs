//! Falls of the path's rate: lower rates count before the filter of rates forgets the higher ones.
//!
//! The model's rate is the highest of two probing cycles (draft-ietf-ccwg-bbr-06 §5.5.3), five to eleven seconds. For that long
//! a flow on a path that became slower keeps its queue full. The draft answers with the short-term bounds alone: they need
//! losses, and each probe drops them.

use std::time::Duration;

use super::params::{MIN_RTT_FILTER, scaled};
use crate::Time;

/// The path delivers less than this share of the model's rate.
const FALLEN: f64 = 0.5;

/// A path that delivers more than this share of what the flow may send now does not limit it.
const LIMITED: f64 = 0.7;

/// Round trips this many times the path's show a queue. A fall to half leaves twice the BDP in flight for four of them, and a
/// full queue of one BDP makes them three. On a short path they must exceed it by as long as a client may hold an ACK
/// (max_ack_delay, RFC 9000 §18.2).
const QUEUED: u32 = 3;
const LEAST_QUEUE: Duration = Duration::from_millis(25);

/// Shortest time that a fall lasts: a fade of a radio link may be shorter.
const SHORTEST: Duration = Duration::from_millis(500);

/// Round trips of the empty path that a fall lasts at least.
const EMPTY_ROUNDS: u32 = 3;

/// Round trips with their queue that a fall lasts, and the time that is enough however long they are.
const QUEUED_ROUNDS: u32 = 2;
const ENOUGH: Duration = Duration::from_millis(1_500);

/// Round trips of the empty path without an ACK after which the link was out, and the rate is measured from then on. On a short
/// path ACKs are further apart than that: two datagrams take 100 ms at 200 kbit/s.
const OUTAGE: u32 = 3;
const SHORTEST_OUTAGE: Duration = Duration::from_millis(100);

/// Share of the round trip that is left if a shorter queue does not shorten it: it is the path's own, or other flows hold the
/// queue.
const LONGER: f64 = 0.8;

/// The path as an ACK shows it, beside the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub(super) now: Time,
    /// Rate of the ACK's sample, bytes per second.
    pub(super) rate: u64,
    /// Bytes delivered since the path began.
    pub(super) delivered: u64,
    pub(super) rtt: Duration,
    /// The model's round trip.
    pub(super) min_rtt: Duration,
    /// The model's rate, without and with the short-term bound.
    pub(super) max_bw: u64,
    pub(super) bw: u64,
}

impl Sight {
    /// Returns whether the path is much slower than the model, and not the flow.
    fn is_slow(&self) -> bool {
        self.rtt > (self.min_rtt * QUEUED).max(self.min_rtt + LEAST_QUEUE)
            && self.rate < scaled(self.max_bw, FALLEN)
            && self.rate < scaled(self.bw, LIMITED)
    }

    /// Returns how long the path must be slow for a fall.
    fn wanted(&self) -> Duration {
        (self.rtt * QUEUED_ROUNDS).min(ENOUGH).max(SHORTEST).max(self.min_rtt * EMPTY_ROUNDS)
    }

    /// Returns the time without an ACK after which the link was out.
    fn outage(&self) -> Duration {
        (self.min_rtt * OUTAGE).max(SHORTEST_OUTAGE)
    }
}

/// Time since which every ACK shows a slow path.
#[derive(Clone, Copy, Debug)]
struct Slow {
    since: Time,
    /// Bytes delivered until then.
    delivered: u64,
    latest: Time,
}

/// A fall that may be none.
#[derive(Clone, Copy, Debug)]
struct Doubted {
    rtt: Duration,
    /// The model's rate before it.
    max_bw: u64,
}

/// Detects falls of the path's rate.
#[derive(Debug, Default)]
pub(super) struct FallDetector {
    slow: Option<Slow>,
    /// The latest fall, until it is clear whether the flow's own queue made its round trip.
    doubted: Option<Doubted>,
    /// Falls before this time are not believed.
    blind_until: Time,
}

impl FallDetector {
    /// Takes what an ACK shows. Returns the rate that the path fell to, once it did.
    pub(super) fn check(&mut self, sight: &Sight) -> Option<u64> {
        if !sight.is_slow() || sight.now < self.blind_until {
            self.slow = None;
            return None;
        }
        let start = Slow { since: sight.now, delivered: sight.delivered, latest: sight.now };
        let slow = self.slow.get_or_insert(start);
        if sight.now.saturating_since(slow.latest) > sight.outage() {
            *slow = start;
        }
        slow.latest = sight.now;
        let lasted = sight.now.saturating_since(slow.since);
        if lasted < sight.wanted() {
            return None;
        }
        let bytes = sight.delivered.saturating_sub(slow.delivered);
        let mean = scaled(bytes, 1.0 / lasted.as_secs_f64());
        self.slow = None;
        if mean >= scaled(sight.max_bw, FALLEN) {
            return None;
        }
        self.doubted = Some(Doubted { rtt: sight.rtt, max_bw: sight.max_bw });
        Some(mean.max(sight.rate))
    }

    /// Takes an ACK that says nothing of the path's rate.
    pub(super) const fn skip(&mut self) {
        self.slow = None;
    }

    /// Returns whether the path is slow now, for long enough or not.
    pub(super) const fn is_slow(&self) -> bool {
        self.slow.is_some()
    }

    /// Takes the round trip of a packet that was sent after the flow's queue was gone. Returns the rate before the latest fall
    /// if that shows that it was none; then the model's round trip is wrong, and no fall is believed until it is forgotten.
    pub(super) fn take_back(&mut self, now: Time, rtt: Duration) -> Option<u64> {
        let fall = self.doubted.take()?;
        if rtt <= fall.rtt.mul_f64(LONGER) {
            return None;
        }
        self.blind_until = now + MIN_RTT_FILTER;
        Some(fall.max_bw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Returns an ACK at this time, of a path of 40 ms that the model has with 1 MB/s.
    fn sight(millis: u64, rate: u64, rtt: u64) -> Sight {
        Sight {
            now: Time::ZERO + ms(millis),
            rate,
            delivered: millis * 100,
            rtt: ms(rtt),
            min_rtt: ms(40),
            max_bw: 1_000_000,
            bw: 1_000_000,
        }
    }

    /// Returns the time and the rate of the first fall in two seconds with an ACK every 10 ms.
    fn first_fall(ack: impl Fn(u64) -> Sight) -> Option<(u64, u64)> {
        let mut detector = FallDetector::default();
        let times = (0..200).map(|step| 10 * step);
        times.filter_map(|millis| Some((millis, detector.check(&ack(millis))?))).next()
    }

    #[test]
    fn queue_on_a_slower_path_is_a_fall_to_what_arrives() {
        let fall = first_fall(|millis| sight(millis, 90_000, 200));
        assert_eq!(fall, Some((500, 100_000)));
        let longer = first_fall(|millis| sight(millis, 90_000, 400));
        assert_eq!(longer, Some((800, 100_000)), "two round trips");
        let longest = first_fall(|millis| sight(millis, 90_000, 4_000));
        assert_eq!(longest, Some((1_500, 100_000)));
    }

    #[test]
    fn no_fall_without_a_queue_or_below_what_the_flow_sends() {
        assert_eq!(first_fall(|millis| sight(millis, 90_000, 120)), None);
        assert_eq!(first_fall(|millis| sight(millis, 500_000, 200)), None);
        let slow_flow = |millis| Sight { bw: 120_000, ..sight(millis, 90_000, 200) };
        assert_eq!(first_fall(slow_flow), None);
    }

    #[test]
    fn one_fast_ack_and_an_outage_begin_anew() {
        let blip = |millis| sight(millis, if millis == 300 { 600_000 } else { 90_000 }, 200);
        assert_eq!(first_fall(blip).map(|fall| fall.0), Some(810));
        let outage = |millis: u64| sight(millis + if millis < 300 { 0 } else { 130 }, 90_000, 200);
        assert_eq!(first_fall(outage).map(|fall| fall.0), Some(800));
    }

    /// Returns the time of the first fall from 10 to 1 Mbit/s on a path of 5 ms, with an ACK every 20 ms; those from 300 ms
    /// on are late by `outage`.
    fn fall_on_a_short_path(rtt: u64, outage: u64) -> Option<u64> {
        let mut detector = FallDetector::default();
        let times = (0..100).map(|step| 20 * step);
        let mut times = times.map(|millis| millis + if millis < 300 { 0 } else { outage });
        times.find(|&millis| {
            let sight = Sight {
                delivered: millis * 125,
                min_rtt: ms(5),
                max_bw: 1_250_000,
                bw: 1_250_000,
                ..sight(millis, 120_000, rtt)
            };
            detector.check(&sight).is_some()
        })
    }

    #[test]
    fn short_path_may_have_its_acks_far_apart() {
        assert_eq!(fall_on_a_short_path(100, 0), Some(500));
        assert_eq!(fall_on_a_short_path(29, 0), None, "the ACK may be late");
        assert_eq!(fall_on_a_short_path(100, 110), Some(910), "an outage");
    }

    #[test]
    fn second_fall_is_taken_back_to_the_rate_of_the_first() {
        let mut detector = FallDetector::default();
        let all: Vec<_> = (0..300)
            .map(|n| 10 * n)
            .filter_map(|millis| {
                let max_bw = if millis < 1_000 { 1_000_000 } else { 300_000 };
                detector.check(&Sight { max_bw, ..sight(millis, 90_000, 200) })
            })
            .collect();
        assert!(all.len() >= 2, "{all:?}");
        let now = Time::ZERO + ms(3_000);
        assert_eq!(detector.take_back(now, ms(200)), Some(300_000));
    }

    #[test]
    fn round_trip_that_stays_long_shows_that_there_was_no_fall() {
        let mut detector = FallDetector::default();
        let now = Time::ZERO + ms(3_000);
        assert_eq!(detector.take_back(now, ms(200)), None, "no fall to doubt");
        let fall = Doubted { rtt: ms(200), max_bw: 500_000 };
        detector.doubted = Some(fall);
        assert_eq!(detector.take_back(now, ms(150)), None);
        assert_eq!(detector.take_back(now, ms(200)), None, "asked once");
        detector.doubted = Some(fall);
        assert_eq!(detector.take_back(now, ms(190)), Some(500_000));
        for millis in [3_100, 4_000, 12_000] {
            assert_eq!(detector.check(&sight(millis, 90_000, 200)), None);
            assert!(detector.slow.is_none());
        }
    }
}
