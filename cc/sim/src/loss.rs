//! Random loss: in stretches of time, and in bursts.

use std::time::Duration;

use sluicegate_cc::Time;

use super::Rng;

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

impl LossWindow {
    /// Loss at all times.
    pub const fn always(probability: f64) -> Self {
        Self { from: Duration::ZERO, until: Duration::MAX, probability }
    }

    fn covers(&self, now: Duration) -> bool {
        self.from <= now && now < self.until
    }
}

/// Returns whether one of the windows loses a packet at `now`.
pub(super) fn lost(rng: &mut Rng, windows: &[LossWindow], now: Time) -> bool {
    let now = now.saturating_since(Time::ZERO);
    windows.iter().any(|window| window.covers(now) && rng.chance(window.probability))
}

/// The model of Gilbert and Elliott: a channel with a good and a bad state, each with its loss. The state may change with each
/// packet, so the lengths of both are geometrically distributed.
#[derive(Clone, Copy, Debug)]
pub struct GilbertElliott {
    /// Probability that a packet finds the good state turned bad.
    pub to_bad: f64,
    /// Probability that a packet finds the bad state turned good.
    pub to_good: f64,
    /// Loss probability of a packet in the good state.
    pub loss_good: f64,
    /// Loss probability of a packet in the bad state.
    pub loss_bad: f64,
}

impl GilbertElliott {
    /// Returns a channel that loses nothing in the good state and everything in the bad one: bursts of `burst` packets on
    /// average, each packet in the good state beginning one with probability `begins`.
    pub const fn bursts(begins: f64, burst: f64) -> Self {
        Self { to_bad: begins, to_good: 1.0 / burst, loss_good: 0.0, loss_bad: 1.0 }
    }

    /// Returns the share of packets that is lost in the long run.
    pub fn mean_loss(&self) -> f64 {
        let bad = self.to_bad / (self.to_bad + self.to_good);
        bad * self.loss_bad + (1.0 - bad) * self.loss_good
    }
}

/// A [`GilbertElliott`] channel in one of its states, at first the good one.
#[derive(Debug)]
pub(super) struct Channel {
    model: GilbertElliott,
    bad: bool,
}

impl Channel {
    pub(super) const fn new(model: GilbertElliott) -> Self {
        Self { model, bad: false }
    }

    /// Takes the next packet and returns whether it is lost.
    pub(super) fn loses(&mut self, rng: &mut Rng) -> bool {
        let turns = if self.bad { self.model.to_good } else { self.model.to_bad };
        self.bad ^= rng.chance(turns);
        rng.chance(if self.bad { self.model.loss_bad } else { self.model.loss_good })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_have_their_mean_length_and_share() {
        let model = GilbertElliott::bursts(0.01, 4.0);
        let mut channel = Channel::new(model);
        let mut rng = Rng::new(1);
        let fates: Vec<_> = (0..1_000_000).map(|_| channel.loses(&mut rng)).collect();
        let lost = fates.iter().filter(|lost| **lost).count() as f64;
        let bursts = fates.chunk_by(|a, b| a == b).filter(|run| run[0]).count() as f64;
        assert!((lost / bursts - 4.0).abs() < 0.1, "{}", lost / bursts);
        let share = lost / fates.len() as f64;
        assert!((share / model.mean_loss() - 1.0).abs() < 0.03, "{share}");
    }

    #[test]
    fn states_lose_each_with_its_own_probability() {
        let model =
            GilbertElliott { to_bad: 0.002, to_good: 0.02, loss_good: 0.001, loss_bad: 0.3 };
        let mut channel = Channel::new(model);
        let mut rng = Rng::new(2);
        let (mut packets, mut lost) = ([0.0; 2], [0.0; 2]);
        for _ in 0..2_000_000 {
            let fate = channel.loses(&mut rng);
            packets[usize::from(channel.bad)] += 1.0;
            lost[usize::from(channel.bad)] += f64::from(u8::from(fate));
        }
        assert!((lost[0] / packets[0] / 0.001 - 1.0).abs() < 0.1);
        assert!((lost[1] / packets[1] / 0.3 - 1.0).abs() < 0.02);
        assert!((packets[1] / packets[0] / 0.1 - 1.0).abs() < 0.1);
    }
}
