//! The way back to a rate that the path had before it fell.

use std::time::Duration;

use super::params::scaled;
use crate::Time;

/// Time for which the rate before a fall is aimed at.
const MEMORY: Duration = Duration::from_secs(20);

/// Share of that rate at which it is reached.
const REACHED: f64 = 0.8;

/// Growth of the rounds between two probes, while they find nothing.
const BACKOFF: f64 = 1.5;

/// Probes that come early, and double the rate as Startup does, as long as the path may be as fast as before a fall.
///
/// The wait for the next probe, and its small steps, are there for other flows in the queue (draft-ietf-ccwg-bbr-06
/// §5.3.3.8). They are not in a queue that is empty a round trip after the flow sent less.
#[derive(Debug, Default)]
pub(super) struct Climb {
    /// Rate before the fall, bytes per second; 0 for none.
    target: u64,
    until: Time,
    /// Rounds to wait between two probes.
    wait: f64,
}

impl Climb {
    /// Returns whether a rate is aimed at.
    pub(super) const fn is_on(&self) -> bool {
        self.target > 0
    }

    /// Aims at the rate `before` a fall, or at that before the fall before.
    pub(super) fn aim(&mut self, now: Time, before: u64) {
        self.target = self.target.max(before);
        self.until = now + MEMORY;
        self.wait = 1.0;
    }

    /// Stops if the model's rate is near the target, or if the time is over.
    pub(super) fn forget(&mut self, now: Time, max_bw: u64) {
        if now > self.until || max_bw >= scaled(self.target, REACHED) {
            self.target = 0;
        }
    }

    /// Returns whether the next probe may begin this many rounds after the one before.
    pub(super) fn is_due(&self, rounds: u64) -> bool {
        self.is_on() && rounds as f64 >= self.wait
    }

    /// A probe begins: the wait for the next one is longer.
    pub(super) fn probe(&mut self) {
        self.wait *= BACKOFF;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn climb_lasts_until_the_rate_is_near_the_former_one_or_for_its_time() {
        let start = Time::ZERO + Duration::from_secs(10);
        let mut climb = Climb::default();
        assert!(!climb.is_on());
        climb.aim(start, 1_000);
        climb.forget(start + Duration::from_secs(1), 790);
        assert!(climb.is_on());
        climb.aim(start + Duration::from_secs(2), 500);
        assert_eq!(climb.target, 1_000, "a second fall");
        climb.forget(start + Duration::from_secs(22), 100);
        assert!(climb.is_on());
        climb.forget(start + Duration::from_secs(23), 100);
        assert!(!climb.is_on());
        climb.aim(start, 1_000);
        climb.forget(start, 800);
        assert!(!climb.is_on());
    }

    #[test]
    fn waits_grow_with_each_probe_and_begin_anew_with_a_fall() {
        let mut climb = Climb::default();
        climb.aim(Time::ZERO, 1_000);
        let waits: Vec<_> = (0..4)
            .map(|_| {
                let wait = climb.wait;
                climb.probe();
                wait
            })
            .collect();
        assert!(waits.windows(2).all(|pair| pair[0] < pair[1]), "{waits:?}");
        climb.aim(Time::ZERO, 1_000);
        assert!((climb.wait - 1.0).abs() < f64::EPSILON);
    }
}
