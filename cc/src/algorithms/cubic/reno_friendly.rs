//! The window that Reno would have (RFC 9438 §4.3).

use crate::loss_based::Credit;

/// W_est: the window of an AIMD sender with this β, whose α is chosen so that it gets the throughput of Reno.
#[derive(Clone, Debug)]
pub(super) struct RenoFriendly {
    alpha: f64,
    w_est: f64,
    prior: f64,
}

impl RenoFriendly {
    pub(super) fn new(beta: f64) -> Self {
        Self { alpha: 3.0 * (1.0 - beta) / (1.0 + beta), w_est: 0.0, prior: 0.0 }
    }

    /// Begins avoidance at `cwnd`. Above `prior`, the window before the cut, W_est grows as fast as Reno.
    pub(super) fn begin(&mut self, cwnd: u64, prior: f64) {
        self.w_est = cwnd as f64;
        self.prior = prior;
    }

    pub(super) fn on_acked(&mut self, credit: &Credit) {
        let alpha = if self.w_est >= self.prior { 1.0 } else { self.alpha };
        self.w_est += alpha * credit.mtu as f64 * credit.bytes as f64 / credit.cwnd.max(1) as f64;
    }

    /// Returns W_est, bytes.
    pub(super) const fn window(&self) -> f64 {
        self.w_est
    }
}
