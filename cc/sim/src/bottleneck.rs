//! The bottleneck: rate, delay, queue and faults of the path.

use std::time::Duration;

use sluicegate_cc::Time;

use super::aqm::Aqm;
use super::fifo::Fifo;
use super::loss::{Channel, GilbertElliott, LossWindow, lost};
use super::transmitter::nanos;
use super::{Rng, Stalls};

/// A path with one bottleneck towards the receivers. ACKs come back with the same delay, and without a queue unless
/// `ack_path` has one.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    /// Rates, bits per second, each with the time from which it applies; ascending, the first at 0. `u64::MAX` delivers
    /// without delay.
    pub rate: Vec<(Duration, u64)>,
    /// Propagation delay, one way.
    pub delay: Duration,
    /// Changes of that delay, each with its time, ascending; packets keep their order.
    pub delay_steps: Vec<(Duration, Duration)>,
    /// Largest deviation of the delay of data, in either direction, uniformly distributed; packets keep their order.
    pub jitter: Duration,
    /// Times in which the link holds random packets up.
    pub stalls: Vec<Stalls>,
    /// Room in the queue, bytes, including the packet in service. A packet that does not fit is dropped.
    pub queue_bytes: u64,
    /// AQM of the queue; `None` drops at the tail.
    pub aqm: Option<Aqm>,
    /// Random loss of data.
    pub loss: Vec<LossWindow>,
    /// Loss of data in bursts.
    pub burst_loss: Option<GilbertElliott>,
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
    /// Bottleneck of the ACKs; `None` if they have none.
    pub ack_path: Option<AckPath>,
}

/// The way back, where it is slower than the ACKs need.
#[derive(Clone, Copy, Debug)]
pub struct AckPath {
    /// Bits per second.
    pub bits_per_second: u64,
    /// Room in the queue, bytes. An ACK that does not fit is dropped.
    pub queue_bytes: u64,
    /// Size of an ACK, bytes; real packets have their own.
    pub ack_bytes: u64,
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

impl Bottleneck {
    /// Returns a path without faults whose queue holds `queue_bdp` times rate times round trip.
    pub fn new(bits_per_second: u64, rtt: Duration, queue_bdp: f64) -> Self {
        let bdp = bits_per_second as f64 / 8.0 * rtt.as_secs_f64();
        #[expect(clippy::cast_possible_truncation, reason = "a queue in whole bytes; saturates")]
        let queue_bytes = (bdp * queue_bdp) as u64;
        Self {
            rate: vec![(Duration::ZERO, bits_per_second)],
            delay: rtt / 2,
            delay_steps: Vec::new(),
            jitter: Duration::ZERO,
            stalls: Vec::new(),
            queue_bytes,
            aqm: None,
            loss: Vec::new(),
            burst_loss: None,
            ack_loss: Vec::new(),
            reorder: None,
            policer: None,
            ce_above: None,
            ack_hold: Duration::ZERO,
            ack_path: None,
        }
    }

    /// Returns a path without faults or limits.
    pub fn unlimited(delay: Duration) -> Self {
        Self { delay, queue_bytes: u64::MAX, ..Self::new(u64::MAX, Duration::ZERO, 0.0) }
    }

    /// Returns the propagation delay, one way, at a time.
    fn delay_at(&self, at: Time) -> Duration {
        let at = at.saturating_since(Time::ZERO);
        let steps = self.delay_steps.partition_point(|(from, _)| *from <= at);
        let step = steps.checked_sub(1).and_then(|i| self.delay_steps.get(i));
        step.map_or(self.delay, |(_, delay)| *delay)
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
    fifo: Fifo,
    ack_fifo: Option<Fifo>,
    channel: Option<Channel>,
    tokens: f64,
    tokens_at: Time,
    last_arrival: Time,
    last_ack: Time,
}

impl BottleneckQueue {
    /// Returns an empty queue; `seed` drives everything random on the path.
    pub fn new(bottleneck: Bottleneck, seed: u64) -> Self {
        let ack_path = bottleneck.ack_path.as_ref();
        Self {
            rng: Rng::new(seed),
            fifo: Fifo::new(bottleneck.rate.clone(), bottleneck.queue_bytes),
            ack_fifo: ack_path.map(|path| {
                Fifo::new(vec![(Duration::ZERO, path.bits_per_second)], path.queue_bytes)
            }),
            channel: bottleneck.burst_loss.map(Channel::new),
            tokens: bottleneck.policer.map_or(0.0, |p| p.burst_bytes as f64),
            tokens_at: Time::ZERO,
            last_arrival: Time::ZERO,
            last_ack: Time::ZERO,
            bottleneck,
        }
    }

    /// Takes a packet of data at `now`, never earlier than the one before; returns `None` if it is lost. The queue drops at the
    /// tail; where there is an AQM, data goes to an [`super::AqmQueue`] instead.
    pub fn data(&mut self, now: Time, bytes: u64) -> Option<Delivery> {
        debug_assert!(self.bottleneck.aqm.is_none(), "data goes to its `AqmQueue`");
        if !self.admits(now, bytes) {
            return None;
        }
        let queued = self.fifo.bytes(now);
        let departs = self.fifo.push(now, bytes)?;
        let marks_above = self.bottleneck.ce_above;
        Some(Delivery {
            arrives: self.arrival(departs),
            ce: marks_above.is_some_and(|limit| queued > limit),
        })
    }

    /// Returns whether a packet reaches the queue: it is neither lost at random nor above the rate of the policer.
    pub(super) fn admits(&mut self, now: Time, bytes: u64) -> bool {
        let lost = lost(&mut self.rng, &self.bottleneck.loss, now)
            || self.channel.as_mut().is_some_and(|channel| channel.loses(&mut self.rng));
        !lost && self.police(now, bytes)
    }

    /// Returns the propagation delay, one way, at a time.
    pub(super) fn delay_at(&self, at: Time) -> Duration {
        self.bottleneck.delay_at(at)
    }

    /// Returns the random numbers of the path.
    pub(super) const fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Takes an ACK for the way back and returns its arrival time; `None` if it is lost.
    pub fn ack(&mut self, now: Time) -> Option<Time> {
        if lost(&mut self.rng, &self.bottleneck.ack_loss, now) {
            return None;
        }
        let departs = match (&mut self.ack_fifo, self.bottleneck.ack_path) {
            (Some(fifo), Some(path)) => fifo.push(now, path.ack_bytes)?,
            _ => now,
        };
        let arrives = departs + self.bottleneck.delay_at(departs);
        self.last_ack = self.last_ack.max(arrives);
        Some(self.held(self.last_ack))
    }

    /// Returns the end of the holding time that `arrives` falls into.
    pub fn held(&self, arrives: Time) -> Time {
        match nanos(self.bottleneck.ack_hold) {
            0 => arrives,
            hold => Time::from_nanos(arrives.as_nanos().div_ceil(hold).saturating_mul(hold)),
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

    /// Returns when a packet arrives that leaves the queue at `departs`.
    pub(super) fn arrival(&mut self, departs: Time) -> Time {
        let jitter = nanos(self.bottleneck.jitter);
        let shift = if jitter == 0 { 0 } else { self.rng.bits() % (2 * jitter) };
        let stalls = self.bottleneck.stalls.iter();
        let stalled: Duration = stalls.map(|s| s.delay(departs, &mut self.rng)).sum();
        let travel = nanos(self.bottleneck.delay_at(departs))
            .saturating_add(shift)
            .saturating_sub(jitter)
            .saturating_add(nanos(stalled));
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
        assert_eq!(delivery.map(|p| p.arrives.as_nanos()), Some((10_000 + 5_500) * 1_000));
    }

    #[test]
    fn policer_passes_its_rate_and_its_burst() {
        let mut bottleneck = clean(1_000_000_000, 1 << 20);
        bottleneck.policer = Some(Policer { bits_per_second: 1_000_000, burst_bytes: 12_500 });
        let mut queue = BottleneckQueue::new(bottleneck, 0);
        let passed = |queue: &mut BottleneckQueue, ms| {
            (0..100).filter(|_| queue.data(Time::from_nanos(ms * MS), 1_250).is_some()).count()
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
        assert_eq!(queue.ack(Time::from_nanos(6 * MS)), Some(Time::from_nanos(16 * MS)));
        assert_eq!(queue.ack(Time::from_nanos(7 * MS)), Some(Time::from_nanos(24 * MS)));
    }

    #[test]
    fn delay_steps_apply_from_their_time_on_and_keep_the_order() {
        let mut bottleneck = clean(u64::MAX, 10_000);
        let step = |at, delay| (Duration::from_millis(at), Duration::from_millis(delay));
        bottleneck.delay_steps = vec![step(100, 40), step(200, 5)];
        let mut queue = BottleneckQueue::new(bottleneck, 0);
        for (sent, data, ack) in [(0, 10, 10), (99, 109, 109), (100, 140, 140), (199, 239, 239)] {
            let delivery = queue.data(Time::from_nanos(sent * MS), 1_250);
            assert_eq!(delivery.map(|p| p.arrives.as_nanos() / MS), Some(data));
            let arrives = queue.ack(Time::from_nanos(sent * MS));
            assert_eq!(arrives.map(|at| at.as_nanos() / MS), Some(ack));
        }
        // Those on the shorter path wait for those on the longer one.
        for (sent, arrives) in [(200, 239), (233, 239), (240, 245)] {
            let delivery = queue.data(Time::from_nanos(sent * MS), 1_250);
            assert_eq!(delivery.map(|p| p.arrives.as_nanos() / MS), Some(arrives));
            let ack = queue.ack(Time::from_nanos(sent * MS));
            assert_eq!(ack.map(|at| at.as_nanos() / MS), Some(arrives));
        }
    }

    #[test]
    fn slow_ack_path_spaces_acks_and_drops_what_does_not_fit() {
        let mut bottleneck = clean(1_000_000, 10_000);
        // 4 ms for each.
        bottleneck.ack_path =
            Some(AckPath { bits_per_second: 100_000, queue_bytes: 150, ack_bytes: 50 });
        let mut queue = BottleneckQueue::new(bottleneck, 0);
        let arrivals: Vec<_> = (0..5).map(|_| queue.ack(Time::ZERO)).collect();
        let wanted = [14, 18, 22].map(|ms| Some(Time::from_nanos(ms * MS)));
        assert_eq!(arrivals[..3], wanted);
        assert_eq!(arrivals[3..], [None, None]);
        let later = queue.ack(Time::from_nanos(4 * MS));
        assert_eq!(later, Some(Time::from_nanos(26 * MS)));
    }
}
