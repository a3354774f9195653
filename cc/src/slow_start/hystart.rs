//! HyStart++: leaves the first slow start before it overflows the queue (RFC 9406).

use std::time::Duration;

/// Bounds of the rise in round-trip time that counts (RFC 9406 §4.3).
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
/// The rise that counts is this part of the last round's smallest sample.
const MIN_RTT_DIVISOR: u32 = 8;
/// Samples before a round is judged.
const N_RTT_SAMPLE: u32 = 8;
/// Conservative slow start grows by this part.
const CSS_GROWTH_DIVISOR: u64 = 4;
/// Rounds of conservative slow start before avoidance.
const CSS_ROUNDS: u32 = 5;
/// Datagrams that one ACK may add where sending is not paced; a paced sender has no such limit.
const UNPACED_ACK_LIMIT: u64 = 8;

/// The detector of one path's first slow start.
#[derive(Clone, Debug)]
pub(crate) struct HyStart {
    paced: bool,
    last_round_min: Option<Duration>,
    round_min: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

/// Slower growth until either the delay falls again or enough rounds confirm it.
#[derive(Clone, Debug)]
struct Conservative {
    baseline: Duration,
    rounds: u32,
    /// Bytes that the divisor has not yet turned into growth.
    carried: u64,
}

impl HyStart {
    /// Returns a detector; `paced` lifts the limit on growth per ACK.
    pub(crate) const fn new(paced: bool) -> Self {
        Self { paced, last_round_min: None, round_min: None, samples: 0, conservative: None }
    }

    /// Returns whether growth is slowed.
    pub(crate) const fn is_conservative(&self) -> bool {
        self.conservative.is_some()
    }

    /// Returns the growth, bytes, that `acked` bytes of one ACK earn.
    pub(crate) fn growth(&mut self, acked: u64, mtu: u64) -> u64 {
        let counted = if self.paced { acked } else { acked.min(UNPACED_ACK_LIMIT * mtu) };
        match &mut self.conservative {
            None => counted,
            Some(css) => {
                let total = counted.saturating_add(css.carried);
                css.carried = total % CSS_GROWTH_DIVISOR;
                total / CSS_GROWTH_DIVISOR
            }
        }
    }

    /// Takes one ACK and returns whether slow start is over.
    pub(crate) fn on_ack(&mut self, sample: Option<Duration>, new_round: bool) -> bool {
        if new_round {
            self.last_round_min = self.round_min.take();
            self.samples = 0;
            if let Some(css) = &mut self.conservative {
                css.rounds += 1;
                if css.rounds >= CSS_ROUNDS {
                    return true;
                }
            }
        }
        if let Some(sample) = sample {
            self.round_min = Some(self.round_min.map_or(sample, |min| min.min(sample)));
            self.samples = self.samples.saturating_add(1);
        }
        if self.samples >= N_RTT_SAMPLE {
            self.judge();
        }
        false
    }

    fn judge(&mut self) {
        let Some(round_min) = self.round_min else {
            return;
        };
        match &self.conservative {
            Some(css) if round_min < css.baseline => self.conservative = None,
            Some(_) => {}
            None => {
                let Some(last) = self.last_round_min else {
                    return;
                };
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if round_min >= last.saturating_add(threshold) {
                    self.conservative =
                        Some(Conservative { baseline: round_min, rounds: 0, carried: 0 });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Feeds a round of `samples` equal samples. Returns whether any of them ends slow start.
    fn round(hystart: &mut HyStart, rtt: Duration, samples: u32) -> bool {
        (0..samples).any(|i| hystart.on_ack(Some(rtt), i == 0))
    }

    #[test]
    fn steady_delay_never_slows_growth() {
        let mut hystart = HyStart::new(true);
        for _ in 0..100 {
            assert!(!round(&mut hystart, ms(40), 20));
            assert!(!hystart.is_conservative());
        }
        assert_eq!(hystart.growth(100_000, 1_200), 100_000);
    }

    #[test]
    fn rise_of_an_eighth_slows_growth_by_four() {
        let mut hystart = HyStart::new(true);
        round(&mut hystart, ms(80), 8);
        round(&mut hystart, ms(89), 8);
        assert!(!hystart.is_conservative());
        round(&mut hystart, ms(101), 8);
        assert!(hystart.is_conservative());
        assert_eq!(hystart.growth(1_201, 1_200), 300);
        assert_eq!(hystart.growth(1_203, 1_200), 301);
    }

    #[test]
    fn threshold_lies_between_4_and_16_ms() {
        for (before, after, slows) in
            [(8, 11, false), (8, 12, true), (400, 415, false), (400, 416, true)]
        {
            let mut hystart = HyStart::new(true);
            round(&mut hystart, ms(before), 8);
            round(&mut hystart, ms(after), 8);
            assert_eq!(hystart.is_conservative(), slows, "{before} -> {after}");
        }
    }

    #[test]
    fn seven_samples_are_too_few() {
        let mut hystart = HyStart::new(true);
        round(&mut hystart, ms(40), 8);
        round(&mut hystart, ms(90), 7);
        assert!(!hystart.is_conservative());
    }

    #[test]
    fn fifth_round_of_conservative_slow_start_is_its_last() {
        let mut hystart = HyStart::new(true);
        round(&mut hystart, ms(40), 8);
        round(&mut hystart, ms(60), 8);
        assert!(hystart.is_conservative());
        for _ in 0..4 {
            assert!(!round(&mut hystart, ms(60), 8));
        }
        assert!(round(&mut hystart, ms(60), 8));
    }

    #[test]
    fn delay_that_falls_again_resumes_slow_start() {
        let mut hystart = HyStart::new(true);
        round(&mut hystart, ms(40), 8);
        round(&mut hystart, ms(60), 8);
        assert!(!round(&mut hystart, ms(59), 8));
        assert!(!hystart.is_conservative());
    }

    #[test]
    fn delay_that_rises_once_more_slows_growth_for_another_five_rounds() {
        let mut hystart = HyStart::new(true);
        round(&mut hystart, ms(40), 8);
        for _ in 0..4 {
            assert!(!round(&mut hystart, ms(60), 8));
        }
        round(&mut hystart, ms(40), 8);
        assert!(!hystart.is_conservative());
        assert!(!round(&mut hystart, ms(60), 8));
        assert!(hystart.is_conservative());
        for _ in 0..4 {
            assert!(!round(&mut hystart, ms(60), 8));
        }
        assert!(round(&mut hystart, ms(60), 8));
    }

    #[test]
    fn rise_is_over_the_round_before_and_not_over_the_first() {
        let mut hystart = HyStart::new(true);
        round(&mut hystart, ms(80), 8);
        round(&mut hystart, ms(40), 8);
        round(&mut hystart, ms(46), 8);
        assert!(hystart.is_conservative());
    }

    #[test]
    fn one_quick_sample_speaks_against_a_rise() {
        let mut hystart = HyStart::new(true);
        round(&mut hystart, ms(40), 8);
        hystart.on_ack(Some(ms(40)), true);
        for _ in 0..20 {
            hystart.on_ack(Some(ms(90)), false);
        }
        assert!(!hystart.is_conservative());
    }

    #[test]
    fn unpaced_growth_is_eight_datagrams_an_ack() {
        assert_eq!(HyStart::new(false).growth(100_000, 1_200), 9_600);
    }
}
