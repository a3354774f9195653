//! Counters of responses by status.

use sluicegate_base::observe::metrics::{Figure, Labels, Page};
use sluicegate_base::observe::sum::Sum;

/// Lowest and highest status (RFC 9110 §15).
const RANGE: std::ops::RangeInclusive<u16> = 100..=599;

/// Numbers of response heads by status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(Box<[u64]>);

impl Default for Statuses {
    fn default() -> Self {
        Self(vec![0; RANGE.len()].into_boxed_slice())
    }
}

impl Statuses {
    /// Counts a head. A number outside of the range counts as the nearest status.
    pub fn record(&mut self, status: u16) {
        self.0[index(status)] += 1;
    }

    /// Returns the number of heads with this status.
    pub fn of(&self, status: u16) -> u64 {
        self.0[index(status)]
    }

    /// Returns the number of heads whose status begins with this digit.
    pub fn class(&self, digit: u16) -> u64 {
        let all = self.seen().filter(|(status, _)| status / 100 == digit);
        all.map(|(_, count)| count).sum()
    }

    /// Returns every status that was sent, and how often.
    pub fn seen(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let counts = RANGE.zip(self.0.iter().copied());
        counts.filter(|(_, count)| *count > 0)
    }
}

fn index(status: u16) -> usize {
    usize::from(status.clamp(*RANGE.start(), *RANGE.end()) - RANGE.start())
}

impl Sum for Statuses {
    fn add_up(&mut self, more: &Self) {
        self.0.add_up(&more.0);
    }
}

/// Writes a sample for each status that was sent.
impl Figure for Statuses {
    fn samples(&self, labels: &Labels<'_>, own: &[&'static str], page: &mut Page) {
        for (status, count) in self.seen() {
            let status = status.to_string();
            let mut labels = labels.clone();
            labels.extend(own.iter().map(|name| (*name, status.as_str())));
            page.sample(&labels, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_own_count() {
        let mut statuses = Statuses::default();
        for status in [0, 100, 200, 204, 200, 599, u16::MAX] {
            statuses.record(status);
        }
        let seen: Vec<_> = statuses.seen().collect();
        assert_eq!(seen, [(100, 2), (200, 2), (204, 1), (599, 2)]);
        assert_eq!((statuses.class(2), statuses.class(4)), (3, 0));
        let sum = {
            let mut sum = statuses.clone();
            sum.add_up(&statuses);
            sum
        };
        assert_eq!((sum.of(200), sum.of(201)), (4, 0));
    }
}
