//! Packets that the link holds up.

use std::time::Duration;

use sluicegate_cc::Time;

use super::Rng;

/// A time in which the link holds random packets up, as a fading radio link that transmits them again and again. Packets keep
/// their order, so those behind wait too.
#[derive(Clone, Copy, Debug)]
pub struct Stalls {
    /// Start of the time.
    pub from: Duration,
    /// End of the time, not included.
    pub until: Duration,
    /// Probability that a packet is held up.
    pub probability: f64,
    /// Mean number of steps that it is held up for; the numbers are Poisson-distributed.
    pub steps: f64,
    /// Length of a step.
    pub step: Duration,
}

impl Stalls {
    /// Returns the time for which a packet that departs at `departs` is held up.
    pub(super) fn delay(&self, departs: Time, rng: &mut Rng) -> Duration {
        let departs = departs.saturating_since(Time::ZERO);
        let within = self.from <= departs && departs < self.until;
        if !(within && rng.chance(self.probability)) {
            return Duration::ZERO;
        }
        self.step * rng.poisson(self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bottleneck, BottleneckQueue};

    #[test]
    fn stalled_packets_delay_those_behind_and_none_outside_the_time() {
        let bottleneck = Bottleneck {
            stalls: vec![Stalls {
                from: Duration::from_millis(20),
                until: Duration::from_millis(40),
                probability: 0.5,
                steps: 12.0,
                step: Duration::from_millis(1),
            }],
            ..Bottleneck::unlimited(Duration::from_millis(5))
        };
        let mut queue = BottleneckQueue::new(bottleneck, 1);
        let mut delays = (0..60).map(|ms| {
            let at = Time::ZERO + Duration::from_millis(ms);
            let arrives = queue.data(at, 1_200).expect("no loss").arrives;
            arrives.saturating_since(at).as_millis()
        });
        assert!(delays.by_ref().take(20).all(|delay| delay == 5));
        let stalled: Vec<_> = delays.by_ref().take(20).collect();
        assert!(stalled.iter().filter(|delay| **delay > 10).count() > 10, "{stalled:?}");
        assert_eq!(delays.last(), Some(5));
    }
}
