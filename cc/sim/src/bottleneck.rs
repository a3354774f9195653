//! The bottleneck: rate, delay, queue and faults of the path.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_cc::Time;

use super::Rng;

/// A path with one bottleneck towards the receivers; ACKs come back with the same delay and no queue.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    /// Rates, bits per second, each with the time from which it applies; ascending, the first at 0. `u64::MAX` delivers
    /// without delay.
    pub rate: Vec<(Duration, u64)>,
    /// Propagation delay, one way.
    pub delay: Duration,
    /// Largest deviation of the delay of data, in either direction, uniformly distributed; packets keep their order.
    pub jitter: Duration,
    /// Room in the queue, bytes, including the packet in service. A packet that does not fit is dropped.
    pub queue_bytes: u64,
    /// Random loss of data.
    pub loss: Vec<LossWindow>,
    /// Random loss of ACKs.
    pub ack_loss: Vec<LossWindow>,
    /// Random delays by which later packets overtake one.
    pub reorder: Option<Reorder>,
    /// Token bucket in front of the queue.
    pub policer: Option<Policer>,
    /// Bytes in the queue above which data is marked Congestion Experienced.
    pub ce_above: Option<u64>,
    /// Interval between the batches in which held-back ACKs arrive; zero delivers each ACK at once.
    pub ack_hold: Duration,
}

/// A stretch of time with random loss.
#[derive(Clone, Copy, Debug)]
pub struct LossWindow {
    /// Start of the stretch.
    pub from: Duration,
    /// End of the stretch, not included.
    pub until: Duration,
    /// Loss probability of each packet.
    pub probability: f64,
}

/// Packets that are overtaken.
#[derive(Clone, Copy, Debug)]
pub struct Reorder {
    /// Probability that a packet is overtaken.
    pub probability: f64,
    /// Extra delay of such a packet.
    pub by: Duration,
}

/// A token bucket that drops what exceeds it.
#[derive(Clone, Copy, Debug)]
pub struct Policer {
    /// Rate of tokens, bits per second.
    pub bits_per_second: u64,
    /// Size of the bucket, bytes.
    pub burst_bytes: u64,
}

impl LossWindow {
    /// Loss at all times.
    pub const fn always(probability: f64) -> Self {
        Self {
            from: Duration::ZERO,
            until: Duration::MAX,
            probability,
        }
    }

    fn covers(&self, now: Duration) -> bool {
        self.from <= now && now < self.until
    }
}

impl Bottleneck {
    /// Returns a path without faults whose queue holds `queue_bdp` times rate times round trip.
    pub fn new(bits_per_second: u64, rtt: Duration, queue_bdp: f64) -> Self {
        let bdp = bits_per_second as f64 / 8.0 * rtt.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a queue in whole bytes; saturates"
        )]
        let queue_bytes = (bdp * queue_bdp) as u64;
        Self {
            rate: vec![(Duration::ZERO, bits_per_second)],
            delay: rtt / 2,
            jitter: Duration::ZERO,
            queue_bytes,
            loss: Vec::new(),
            ack_loss: Vec::new(),
            reorder: None,
            policer: None,
            ce_above: None,
            ack_hold: Duration::ZERO,
        }
    }

    /// Returns a path without faults or limits.
    pub fn unlimited(delay: Duration) -> Self {
        Self {
            delay,
            queue_bytes: u64::MAX,
            ..Self::new(u64::MAX, Duration::ZERO, 0.0)
        }
    }
}

/// A packet's arrival behind the bottleneck.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// Arrival time at the receiver. A packet that is overtaken arrives later than some that entered after it.
    pub arrives: Time,
    /// Whether the packet was marked Congestion Experienced.
    pub ce: bool,
}

/// A [`Bottleneck`] at work: its queue and its random numbers. A [`super::Simulation`] has one; so can any other
/// network in virtual time.
#[derive(Debug)]
pub struct BottleneckQueue {
    bottleneck: Bottleneck,
    rng: Rng,
    queue: VecDeque<(Time, u64)>,
    queued: u64,
    busy_until: Time,
    rate_index: usize,
    tokens: f64,
    tokens_at: Time,
    last_arrival: Time,
}

impl BottleneckQueue {
    /// Returns an empty queue; `seed` drives everything random on the path.
    pub fn new(bottleneck: Bottleneck, seed: u64) -> Self {
        let tokens = bottleneck.policer.map_or(0.0, |p| p.burst_bytes as f64);
        Self {
            bottleneck,
            rng: Rng::new(seed),
            queue: VecDeque::new(),
            queued: 0,
            busy_until: Time::ZERO,
            rate_index: 0,
            tokens,
            tokens_at: Time::ZERO,
            last_arrival: Time::ZERO,
        }
    }

    /// Takes a packet of data at `now`, never earlier than the one before; returns `None` if it is lost.
    pub fn data(&mut self, now: Time, bytes: u64) -> Option<Delivery> {
        self.drain(now);
        if lost(&mut self.rng, &self.bottleneck.loss, now) || !self.police(now, bytes) {
            return None;
        }
        if self.queued.saturating_add(bytes) > self.bottleneck.queue_bytes.max(2 * bytes) {
            return None;
        }
        let ce = self
            .bottleneck
            .ce_above
            .is_some_and(|limit| self.queued > limit);
        let departs = self.serve(self.busy_until.max(now), bytes);
        self.busy_until = departs;
        self.queue.push_back((departs, bytes));
        self.queued += bytes;
        Some(Delivery {
            arrives: self.arrival(departs),
            ce,
        })
    }

    /// Takes an ACK for the way back and returns its arrival time; `None` if it is lost.
    pub fn ack(&mut self, now: Time) -> Option<Time> {
        if lost(&mut self.rng, &self.bottleneck.ack_loss, now) {
            return None;
        }
        Some(self.held(now + self.bottleneck.delay))
    }

    /// Returns the end of the holding time that `arrives` falls into.
    pub fn held(&self, arrives: Time) -> Time {
        match nanos(self.bottleneck.ack_hold) {
            0 => arrives,
            hold => Time::from_nanos(arrives.as_nanos().div_ceil(hold).saturating_mul(hold)),
        }
    }

    fn drain(&mut self, now: Time) {
        while let Some(&(departs, bytes)) = self.queue.front()
            && departs <= now
        {
            self.queued -= bytes;
            self.queue.pop_front();
        }
    }

    fn police(&mut self, now: Time, bytes: u64) -> bool {
        let Some(policer) = self.bottleneck.policer else {
            return true;
        };
        let elapsed = now.saturating_since(self.tokens_at).as_secs_f64();
        let earned = elapsed * policer.bits_per_second as f64 / 8.0;
        self.tokens = (self.tokens + earned).min(policer.burst_bytes as f64);
        self.tokens_at = now;
        let passes = self.tokens >= bytes as f64;
        if passes {
            self.tokens -= bytes as f64;
        }
        passes
    }

    /// Returns when `bytes` whose service begins at `start` have left, across changes of rate.
    fn serve(&mut self, start: Time, bytes: u64) -> Time {
        let mut at = start.as_nanos();
        let mut nanobits = u128::from(bytes) * 8_000_000_000;
        loop {
            let next = self.bottleneck.rate.get(self.rate_index + 1);
            let next = next.map_or(u64::MAX, |(from, _)| nanos(*from));
            if next <= at {
                self.rate_index += 1;
                continue;
            }
            let rate = self.bottleneck.rate.get(self.rate_index).map_or(1, |r| r.1);
            if rate == u64::MAX {
                return Time::from_nanos(at);
            }
            let rate = u128::from(rate.max(1));
            let needed = nanobits.div_ceil(rate);
            let until_next = u128::from(next - at);
            if needed <= until_next {
                return Time::from_nanos(at + u64::try_from(needed).unwrap_or(u64::MAX));
            }
            nanobits -= until_next * rate;
            at = next;
        }
    }

    fn arrival(&mut self, departs: Time) -> Time {
        let jitter = nanos(self.bottleneck.jitter);
        let shift = if jitter == 0 {
            0
        } else {
            self.rng.bits() % (2 * jitter)
        };
        let travel = nanos(self.bottleneck.delay)
            .saturating_add(shift)
            .saturating_sub(jitter);
        let arrives = (departs + Duration::from_nanos(travel)).max(self.last_arrival);
        if let Some(reorder) = self.bottleneck.reorder
            && self.rng.chance(reorder.probability)
        {
            return arrives + reorder.by;
        }
        self.last_arrival = arrives;
        arrives
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn lost(rng: &mut Rng, windows: &[LossWindow], now: Time) -> bool {
    let now = now.saturating_since(Time::ZERO);
    windows
        .iter()
        .any(|window| window.covers(now) && rng.chance(window.probability))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn clean(bits_per_second: u64, queue_bytes: u64) -> Bottleneck {
        Bottleneck {
            queue_bytes,
            ..Bottleneck::new(bits_per_second, Duration::from_millis(20), 1.0)
        }
    }

    #[test]
    fn packets_leave_at_the_rate_and_arrive_after_the_delay() {
        let mut queue = BottleneckQueue::new(clean(1_000_000, 10_000), 0);
        let arrivals: Vec<_> = (0..3)
            .filter_map(|_| queue.data(Time::ZERO, 1_250))
            .map(|p| p.arrives.as_nanos() / MS)
            .collect();
        assert_eq!(arrivals, [20, 30, 40]);
    }

    #[test]
    fn full_queue_drops_and_drains_with_time() {
        let mut queue = BottleneckQueue::new(clean(1_000_000, 2_500), 0);
        assert!(queue.data(Time::ZERO, 1_250).is_some());
        assert!(queue.data(Time::ZERO, 1_250).is_some());
        assert!(queue.data(Time::ZERO, 1_250).is_none());
        assert!(queue.data(Time::from_nanos(10 * MS), 1_250).is_some());
    }

    #[test]
    fn without_a_rate_packets_take_the_delay_alone() {
        let mut queue = BottleneckQueue::new(clean(u64::MAX, 10_000), 0);
        for _ in 0..20 {
            let delivery = queue.data(Time::ZERO, 1_250);
            assert_eq!(delivery.map(|p| p.arrives), Some(Time::from_nanos(10 * MS)));
        }
    }

    #[test]
    fn rate_change_applies_within_a_packet() {
        let mut bottleneck = clean(1_000_000, 10_000);
        bottleneck.rate.push((Duration::from_millis(5), 10_000_000));
        let delivery = BottleneckQueue::new(bottleneck, 0).data(Time::ZERO, 1_250);
        assert_eq!(
            delivery.map(|p| p.arrives.as_nanos()),
            Some((10_000 + 5_500) * 1_000)
        );
    }

    #[test]
    fn policer_passes_its_rate_and_its_burst() {
        let mut bottleneck = clean(1_000_000_000, 1 << 20);
        bottleneck.policer = Some(Policer {
            bits_per_second: 1_000_000,
            burst_bytes: 12_500,
        });
        let mut queue = BottleneckQueue::new(bottleneck, 0);
        let passed = |queue: &mut BottleneckQueue, ms| {
            (0..100)
                .filter(|_| queue.data(Time::from_nanos(ms * MS), 1_250).is_some())
                .count()
        };
        assert_eq!(passed(&mut queue, 0), 10);
        assert_eq!(passed(&mut queue, 50), 5);
    }

    #[test]
    fn held_acks_come_in_batches() {
        let mut bottleneck = clean(1_000_000, 10_000);
        bottleneck.ack_hold = Duration::from_millis(8);
        let mut queue = BottleneckQueue::new(bottleneck, 0);
        assert_eq!(queue.ack(Time::ZERO), Some(Time::from_nanos(16 * MS)));
        assert_eq!(
            queue.ack(Time::from_nanos(6 * MS)),
            Some(Time::from_nanos(16 * MS))
        );
        assert_eq!(
            queue.ack(Time::from_nanos(7 * MS)),
            Some(Time::from_nanos(24 * MS))
        );
    }
}
