//! The share of packets that the path loses while the flow does not probe.

/// Packets after which all counts are halved, so that the share follows the path.
const MEMORY: u32 = 5_000;

/// Packets below which a share would say little.
const FEWEST: u32 = 50;

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

    /// Returns the share of packets lost; low as long as few are counted.
    pub(super) fn share(&self) -> f64 {
        let all = self.lost.saturating_add(self.acked).max(FEWEST);
        f64::from(self.lost) / f64::from(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_loss_among_few_packets_is_a_small_share() {
        let mut rate = LossRate::default();
        assert!(rate.share().abs() < 1e-9);
        rate.count(1, 4);
        assert!((rate.share() - 0.02).abs() < 1e-9);
    }

    #[test]
    fn share_follows_the_path() {
        let mut rate = LossRate::default();
        for (lost, share) in [(2, 0.02), (5, 0.05), (0, 0.0)] {
            (0..100).for_each(|_| rate.count(lost, 100 - lost));
            assert!((rate.share() - share).abs() < 0.005, "{}", rate.share());
        }
    }

    #[test]
    fn counts_do_not_overflow() {
        let mut rate = LossRate::default();
        (0..3).for_each(|_| rate.count(usize::MAX, usize::MAX));
        assert!(rate.share() > 0.4);
    }
}
