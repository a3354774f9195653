//! The round-trip estimate (RFC 9002 §5).

use std::time::Duration;

use sluicegate_cc::Rtt;

const INITIAL: Duration = Duration::from_millis(333);
const GRANULARITY: Duration = Duration::from_millis(1);

/// The estimator of one path.
#[derive(Debug)]
pub(super) struct Estimator {
    rtt: Rtt,
}

impl Estimator {
    pub(super) const fn new(max_ack_delay: Duration) -> Self {
        Self {
            rtt: Rtt {
                latest: Duration::ZERO,
                smoothed: INITIAL,
                var: Duration::from_nanos(166_500_000),
                min: None,
                max_ack_delay,
            },
        }
    }

    pub(super) fn on_sample(&mut self, latest: Duration, ack_delay: Duration) {
        let rtt = &mut self.rtt;
        rtt.latest = latest;
        let Some(min) = rtt.min else {
            rtt.min = Some(latest);
            rtt.smoothed = latest;
            rtt.var = latest / 2;
            return;
        };
        let min = min.min(latest);
        rtt.min = Some(min);
        let ack_delay = ack_delay.min(rtt.max_ack_delay);
        let adjusted = if latest >= min + ack_delay { latest - ack_delay } else { latest };
        rtt.var = (rtt.var * 3 + rtt.smoothed.abs_diff(adjusted)) / 4;
        rtt.smoothed = (rtt.smoothed * 7 + adjusted) / 8;
    }

    pub(super) const fn rtt(&self) -> Rtt {
        self.rtt
    }

    /// Returns the probe timeout before any backoff.
    pub(super) fn pto(&self) -> Duration {
        self.rtt.smoothed + (self.rtt.var * 4).max(GRANULARITY) + self.rtt.max_ack_delay
    }

    /// Returns the time threshold of loss detection (RFC 9002 §6.1.2), longer on a path that is known to reorder.
    pub(super) fn loss_delay(&self, reorders: bool) -> Duration {
        let rtt = self.rtt.smoothed.max(self.rtt.latest);
        let delay = if reorders { rtt * 5 / 4 } else { rtt * 9 / 8 };
        delay.max(GRANULARITY)
    }
}
