//! Losses of one round in Startup (draft-ietf-ccwg-bbr-06 §5.3.1.3).

use super::params::STARTUP_LOSS_RANGES;

/// Losses of a round that began with the first loss (§5.3.1.3).
#[derive(Debug, Default)]
pub(super) struct LossRound {
    /// Separate runs of lost packets.
    ranges: u32,
    last: Option<u64>,
    /// Bytes lost and delivered before the round began.
    lost_before: u64,
    delivered_before: u64,
}

impl LossRound {
    /// Begins a round, before its first loss is counted.
    pub(super) fn begin(&mut self, lost: u64, delivered: u64) {
        *self = Self { lost_before: lost, delivered_before: delivered, ..Self::default() };
    }

    /// Counts a lost packet.
    pub(super) fn on_lost(&mut self, number: u64) {
        if self.last.and_then(|last| last.checked_add(1)) != Some(number) {
            self.ranges = self.ranges.saturating_add(1);
        }
        self.last = Some(number);
    }

    /// Counts packets with CE marks, each as a run of its own.
    pub(super) const fn on_ce_marked(&mut self, packets: u32) {
        self.ranges = self.ranges.saturating_add(packets);
    }

    /// Returns whether more than the `tolerated` share was lost, and in too many separate runs for one burst of losses.
    /// The newest packet's own state does not show that if the application sends in bursts: its losses come before it.
    pub(super) fn is_high(&self, lost: u64, delivered: u64, tolerated: f64) -> bool {
        let lost = lost.saturating_sub(self.lost_before);
        let all = lost.saturating_add(delivered.saturating_sub(self.delivered_before));
        self.ranges >= STARTUP_LOSS_RANGES && lost as f64 > all as f64 * tolerated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_high_by_share_and_by_places() {
        let mut round = LossRound::default();
        round.begin(50_000, 100_000);
        [4, 5, 6, 9, 11, 12, 14].iter().for_each(|n| round.on_lost(*n));
        assert_eq!(round.ranges, 4, "consecutive losses are one range");
        assert!(!round.is_high(60_000, 110_000, 0.02));
        round.on_ce_marked(2);
        assert!(round.is_high(60_000, 110_000, 0.02));
        assert!(!round.is_high(50_200, 110_000, 0.02));
    }
}
