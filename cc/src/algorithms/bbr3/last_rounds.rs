//! What the last ten rounds had in common: a queue that stayed, and pauses of the ACKs.

use std::time::Duration;

use super::params::EXTRA_ACKED_ROUNDS;
use crate::Time;

/// Step in which times are kept, so that an idle path needs little memory; the longest is 262 ms.
const STEP: Duration = Duration::from_micros(4);

/// Extremes of one round, in steps.
#[derive(Clone, Copy, Debug, Default)]
struct Extremes {
    /// Shortest round trip; zero without a sample.
    rtt: u16,
    /// Longest time between two ACKs.
    gap: u16,
}

/// The last rounds, as many as the filter of aggregation remembers.
#[derive(Debug, Default)]
pub(super) struct LastRounds {
    rounds: [Extremes; EXTRA_ACKED_ROUNDS],
    oldest: u8,
    present: Extremes,
    /// Zero before the first. Its gap is too long, but only the shortest of ten rounds counts.
    latest_ack: Time,
}

impl LastRounds {
    /// Takes an ACK, with its round trip if it has one; `starts_round` if it is the first of a round.
    pub(super) fn on_ack(&mut self, now: Time, rtt: Option<Duration>, starts_round: bool) {
        if starts_round {
            let round = std::mem::take(&mut self.present);
            if let Some(oldest) = self.rounds.get_mut(usize::from(self.oldest)) {
                *oldest = round;
            }
            let is_last = usize::from(self.oldest) + 1 == self.rounds.len();
            self.oldest = if is_last { 0 } else { self.oldest + 1 };
        }
        let Extremes { rtt: least, gap } = &mut self.present;
        *gap = steps(now.saturating_since(self.latest_ack)).max(*gap);
        self.latest_ack = now;
        if let Some(rtt) = rtt.map(steps)
            && (*least == 0 || rtt < *least)
        {
            *least = rtt;
        }
    }

    /// Returns the shortest round trip of all rounds; zero before there were as many.
    pub(super) fn rtt(&self) -> Duration {
        let rtts = self.rounds.iter().map(|round| round.rtt);
        STEP * rtts.min().unwrap_or_default().into()
    }

    /// Returns the pause of the ACKs that each of the rounds had; zero before there were as many.
    pub(super) fn gap(&self) -> Duration {
        let gaps = self.rounds.iter().map(|round| round.gap);
        STEP * gaps.min().unwrap_or_default().into()
    }
}

/// Returns the whole steps, at most `u16::MAX`.
fn steps(time: Duration) -> u16 {
    u16::try_from(time.as_micros() / STEP.as_micros()).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Takes rounds of three ACKs, 1, 2 and `last` milliseconds apart.
    fn take(rounds: &mut LastRounds, now: &mut Time, count: u32, (rtt, last): (u32, u32)) {
        for _ in 0..count {
            for (after, starts) in [(1, true), (2, false), (last, false)] {
                *now = *now + MS * after;
                rounds.on_ack(*now, Some(MS * (rtt + after)), starts);
            }
        }
    }

    #[test]
    fn only_what_every_round_had_counts() {
        let (mut rounds, mut now) = (LastRounds::default(), Time::ZERO);
        take(&mut rounds, &mut now, 10, (5, 4));
        assert_eq!((rounds.rtt(), rounds.gap()), (Duration::ZERO, Duration::ZERO));
        take(&mut rounds, &mut now, 1, (5, 4));
        assert_eq!((rounds.rtt(), rounds.gap()), (MS * 6, MS * 4));
        take(&mut rounds, &mut now, 1, (1, 1));
        take(&mut rounds, &mut now, 10, (5, 4));
        assert_eq!((rounds.rtt(), rounds.gap()), (MS * 2, MS * 2));
        take(&mut rounds, &mut now, 1, (5, 4));
        assert_eq!((rounds.rtt(), rounds.gap()), (MS * 6, MS * 4));
    }
}
