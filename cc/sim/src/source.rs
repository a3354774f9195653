//! The application that offers data.

use std::time::Duration;

/// Data offered over time, counted from the flow's start. Bytes are rounded up to whole datagrams.
#[derive(Clone, Debug)]
pub enum Source {
    /// Offers this many bytes at the start.
    Bulk(u64),
    /// Always offers more.
    Endless,
    /// Offers the same number of bytes periodically.
    Periodic {
        /// Bytes offered each time.
        bytes: u64,
        /// Time from one offer to the next.
        every: Duration,
        /// Number of offers.
        times: u64,
    },
    /// Offers bytes at these times, ascending.
    Bursts(Vec<(Duration, u64)>),
}

impl Source {
    /// Returns the datagrams of `mtu` bytes offered by `elapsed`, or the bytes if `mtu` is 1.
    pub fn offered(&self, elapsed: Duration, mtu: u64) -> u64 {
        match self {
            Self::Bulk(bytes) => bytes.div_ceil(mtu),
            Self::Endless => u64::MAX,
            Self::Periodic { bytes, every, times } => {
                let periods = elapsed.as_nanos() / every.as_nanos().max(1);
                let so_far = u64::try_from(periods).unwrap_or(u64::MAX).saturating_add(1);
                so_far.min(*times) * bytes.div_ceil(mtu)
            }
            Self::Bursts(bursts) => {
                let so_far = bursts.iter().take_while(|(at, _)| *at <= elapsed);
                so_far.map(|(_, bytes)| bytes.div_ceil(mtu)).sum()
            }
        }
    }

    /// Returns the datagrams of `mtu` bytes offered in total; `None` if the offer never ends.
    pub fn total(&self, mtu: u64) -> Option<u64> {
        match self {
            Self::Endless => None,
            _ => Some(self.offered(Duration::MAX, mtu)),
        }
    }

    /// Returns the time of the next offer after `elapsed`.
    pub fn next_offer(&self, elapsed: Duration) -> Option<Duration> {
        match self {
            Self::Bulk(_) | Self::Endless => None,
            Self::Periodic { every, times, .. } => {
                let periods = elapsed.as_nanos() / every.as_nanos().max(1) + 1;
                let periods = u32::try_from(periods).ok()?;
                (u64::from(periods) < *times).then(|| every.saturating_mul(periods))
            }
            Self::Bursts(bursts) => bursts.iter().map(|(at, _)| *at).find(|at| *at > elapsed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn periodic_offers_at_each_period_and_then_ends() {
        let source = Source::Periodic { bytes: 2_500, every: ms(100), times: 3 };
        assert_eq!(source.offered(ms(0), 1_250), 2);
        assert_eq!(source.offered(ms(100), 1_250), 4);
        assert_eq!(source.next_offer(ms(100)), Some(ms(200)));
        assert_eq!(source.next_offer(ms(200)), None);
        assert_eq!(source.total(1_250), Some(6));
    }

    #[test]
    fn bursts_offer_at_their_times() {
        let source = Source::Bursts(vec![(ms(0), 1), (ms(50), 1_251)]);
        assert_eq!(source.offered(ms(49), 1_250), 1);
        assert_eq!(source.next_offer(ms(0)), Some(ms(50)));
        assert_eq!(source.total(1_250), Some(3));
    }
}
