//! Response to a congestion signal (RFC 9438 §4.6, §4.7).

use crate::rounding::whole;

/// The multiplicative decrease with its state.
#[derive(Clone, Debug)]
pub(super) struct Decrease {
    beta: f64,
    fast_convergence: bool,
    /// Plateau of the curve, bytes; 0 before the first signal.
    w_max: f64,
    /// Window at the latest signal, bytes; 0 before the first, so that W_est grows as fast as Reno until then.
    prior: f64,
}

impl Decrease {
    pub(super) const fn new(beta: f64, fast_convergence: bool) -> Self {
        Self { beta, fast_convergence, w_max: 0.0, prior: 0.0 }
    }

    /// Returns the window to continue with after a signal at window `cwnd`. Fast convergence lowers the plateau alone; the
    /// cut applies to `cwnd`.
    pub(super) fn cut(&mut self, cwnd: u64) -> u64 {
        let cwnd = cwnd as f64;
        self.prior = cwnd;
        self.w_max = if self.fast_convergence && cwnd < self.w_max {
            cwnd * (1.0 + self.beta) / 2.0
        } else {
            cwnd
        };
        whole(cwnd * self.beta)
    }

    /// Makes `cwnd` the plateau: slow start ended there without a signal (RFC 9438 §4.8, §4.10). The window at the latest
    /// signal stays.
    pub(super) fn level(&mut self, cwnd: u64) {
        self.w_max = cwnd as f64;
    }

    pub(super) const fn w_max(&self) -> f64 {
        self.w_max
    }

    pub(super) const fn prior(&self) -> f64 {
        self.prior
    }
}
