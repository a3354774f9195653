//! The delay that hosts, not the path, add to round trips.

use std::time::Duration;

/// Differences that a visit to ProbeRTT must show to count.
const LEAST_DIFFERENCES: u32 = 4;

/// Range of uniformly distributed delays over the mean difference between two of them.
const RANGE: u32 = 3;

/// Estimate of the range of the hosts' delays, from how much consecutive round trips differ in ProbeRTT (as the jitter of
/// RFC 3550 §6.4.1).
///
/// A scheduler's time slices make round trips differ from one ACK to the next, however few bytes are in flight. A queue
/// changes slowly, and that of other flows of BBR is empty when all are in ProbeRTT. Round trips outside of it tell less:
/// where many packets are in flight, late hosts delay all of them by nearly the same time, as a full queue does.
#[derive(Debug, Default)]
pub(super) struct HostDelay {
    /// Round trip, µs.
    latest: Option<u32>,
    /// Sum of the differences, µs.
    sum: u32,
    count: u32,
    /// Microseconds.
    range: Option<u32>,
    has_ended: bool,
}

impl HostDelay {
    /// Returns the range; `None` before a visit to ProbeRTT measured it.
    pub(super) fn get(&self) -> Option<Duration> {
        let micros = self.range?;
        Some(Duration::from_micros(micros.into()))
    }

    /// Takes a round trip measured with few bytes in flight.
    pub(super) fn on_sample(&mut self, rtt: Duration) {
        let rtt = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
        if let Some(latest) = self.latest.replace(rtt) {
            self.sum = self.sum.saturating_add(rtt.abs_diff(latest));
            self.count += 1;
        }
    }

    /// Forgets the samples of the present visit: too many bytes are in flight, and the round trips before and after that differ
    /// by a queue.
    pub(super) const fn suspend_visit(&mut self) {
        (self.latest, self.sum, self.count) = (None, 0, 0);
    }

    /// Ends a visit to ProbeRTT. One with too few samples measures nothing: the former range stays.
    pub(super) fn end_visit(&mut self) {
        let Self { sum, count, .. } = *self;
        let range = (count >= LEAST_DIFFERENCES).then(|| (sum / count).saturating_mul(RANGE));
        *self = Self { range: range.or(self.range), has_ended: true, ..Self::default() };
    }

    /// Returns whether there was a visit.
    pub(super) const fn has_ended_visit(&self) -> bool {
        self.has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(samples: impl IntoIterator<Item = u64>) -> HostDelay {
        let mut delay = HostDelay::default();
        for micros in samples {
            delay.on_sample(Duration::from_micros(micros));
        }
        delay.end_visit();
        delay
    }

    #[test]
    fn range_is_that_of_late_hosts_and_not_a_standing_queue() {
        let late = after([200, 1_700, 3_200, 1_700, 200, 1_700]);
        assert_eq!(late.get(), Some(Duration::from_micros(4_500)));
        let queued = after([2_000; 20]);
        assert_eq!(queued.get(), Some(Duration::ZERO));
        let drained = after((0..100).map(|n| 2_000 - 10 * n));
        assert_eq!(drained.get(), Some(Duration::from_micros(30)));
    }

    #[test]
    fn visit_that_is_suspended_begins_again() {
        let mut delay = HostDelay::default();
        let take = |delay: &mut HostDelay, millis: u64| {
            (0..5).for_each(|_| delay.on_sample(Duration::from_millis(millis)));
        };
        take(&mut delay, 400);
        delay.suspend_visit();
        take(&mut delay, 40);
        delay.end_visit();
        assert_eq!(delay.get(), Some(Duration::ZERO));
    }

    #[test]
    fn visit_with_few_samples_keeps_the_estimate() {
        assert_eq!(HostDelay::default().get(), None);
        let mut delay = after([200, 1_200, 200, 1_200, 200]);
        let range = Some(Duration::from_millis(3));
        assert_eq!(delay.get(), range);
        delay.on_sample(Duration::from_micros(200));
        delay.end_visit();
        assert_eq!(delay.get(), range);
        assert!(!HostDelay::default().has_ended_visit());
        let first = after([200]);
        assert_eq!((first.get(), first.has_ended_visit()), (None, true));
    }
}
