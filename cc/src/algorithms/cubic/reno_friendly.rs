//! The window that Reno would have (RFC 9438 §4.3).

use crate::loss_based::Credit;

/// W_est: Reno's line, tilted so that a sender with this β takes as much as one with 1/2.
#[derive(Clone, Debug)]
pub(super) struct RenoFriendly {
    alpha: f64,
    w_est: f64,
    prior: f64,
}

impl RenoFriendly {
    pub(super) fn new(beta: f64) -> Self {
        Self {
            alpha: 3.0 * (1.0 - beta) / (1.0 + beta),
            w_est: 0.0,
            prior: 0.0,
        }
    }

    /// Begins avoidance at `cwnd`; above `prior`, the window before the cut, the line is Reno's own.
    pub(super) fn begin(&mut self, cwnd: u64, prior: f64) {
        self.w_est = cwnd as f64;
        self.prior = prior;
    }

    pub(super) fn on_acked(&mut self, credit: &Credit) {
        let alpha = if self.w_est >= self.prior {
            1.0
        } else {
            self.alpha
        };
        self.w_est += alpha * credit.mtu as f64 * credit.bytes as f64 / credit.cwnd.max(1) as f64;
    }

    /// Returns the window of Reno's line, bytes.
    pub(super) const fn window(&self) -> f64 {
        self.w_est
    }
}
