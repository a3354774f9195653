//! The share of packets that the path loses while the flow does not probe.

/// Packets after which all counts are halved, so that the share follows the path.
const MEMORY: u32 = 5_000;

/// Packets that a share is of at least: of fewer, two losses say little. One is the tolerated share of the draft, 2 %.
const FEWEST: f64 = 50.0;

/// Packets lost and acknowledged between probes.
#[derive(Debug, Default)]
pub(super) struct LossRate {
    lost: u32,
    acked: u32,
}

impl LossRate {
    /// Counts packets of one event.
    pub(super) fn count(&mut self, lost: usize, acked: usize) {
        let count = |packets: usize| u32::try_from(packets).unwrap_or(u32::MAX);
        self.lost = self.lost.saturating_add(count(lost));
        self.acked = self.acked.saturating_add(count(acked));
        if self.lost.saturating_add(self.acked) > MEMORY {
            self.lost /= 2;
            self.acked /= 2;
        }
    }

    /// Returns the share of packets lost. A single one is at most the tolerated share, `threshold`, and at most a [`FEWEST`]th,
    /// however few are counted.
    pub(super) fn share(&self, threshold: f64) -> f64 {
        let all = f64::from(self.lost.saturating_add(self.acked));
        f64::from(self.lost) / all.max(threshold.recip()).max(FEWEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_loss_among_few_packets_is_the_tolerated_share_or_a_fiftieth() {
        for threshold in [0.005, 0.02, 0.2] {
            let mut rate = LossRate::default();
            assert!(rate.share(threshold).abs() < 1e-9);
            rate.count(1, 4);
            let most: f64 = if threshold > 0.02 { 0.02 } else { threshold };
            assert!((rate.share(threshold) - most).abs() < 1e-9);
        }
    }

    #[test]
    fn share_follows_the_path() {
        let mut rate = LossRate::default();
        for (lost, share) in [(2, 0.02), (5, 0.05), (0, 0.0)] {
            (0..100).for_each(|_| rate.count(lost, 100 - lost));
            let found = rate.share(0.02);
            assert!((found - share).abs() < 0.005, "{found}");
        }
    }

    #[test]
    fn counts_do_not_overflow() {
        let mut rate = LossRate::default();
        (0..3).for_each(|_| rate.count(usize::MAX, usize::MAX));
        assert!(rate.share(0.02) > 0.4);
    }
}
