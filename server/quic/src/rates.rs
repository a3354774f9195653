//! Rates of packets without a connection, as configured.

use sluicegate_base::token_bucket::TokenBucket;
use sluicegate_config::Quic;

/// Limits of the packets that a worker sends without a connection.
#[derive(Debug)]
pub(super) struct Rates {
    pub(super) resets: TokenBucket,
    pub(super) refusals: TokenBucket,
    pub(super) retries: TokenBucket,
}

impl Rates {
    /// Returns the limits of a configuration, which nothing has used yet.
    pub(super) fn new(quic: &Quic) -> Rates {
        let per_second = |rate: u64| {
            let rate = u32::try_from(rate).unwrap_or(u32::MAX);
            TokenBucket::new(rate, rate)
        };
        // A burst of a hundredth of a second: other connections wait for it.
        let evenly = |rate: u64| {
            let rate = u32::try_from(rate).unwrap_or(u32::MAX);
            TokenBucket::new(rate, (rate / 100).max(1))
        };
        Rates {
            resets: per_second(quic.stateless_reset_per_second),
            refusals: per_second(quic.connection_refusals_per_second),
            retries: evenly(quic.retries_per_second),
        }
    }

    /// Limits as another configuration says. What was sent lately still counts.
    pub(super) fn adopt(&mut self, quic: &Quic) {
        let Rates { resets, refusals, retries } = Rates::new(quic);
        self.resets.change_to(resets);
        self.refusals.change_to(refusals);
        self.retries.change_to(retries);
    }
}
