//! The cubic function (RFC 9438 §4.2).

use std::time::Duration;

use crate::loss_based::Credit;

/// Growth per round trip is bounded to this many windows.
const MAX_TARGET: f64 = 1.5;

/// `W(t) = C (t - K)³ + W_max`, in bytes and seconds.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// C, datagrams per cubic second.
    c: f64,
    /// C times the datagram size.
    c_bytes: f64,
    k: f64,
    w_max: f64,
}

impl Curve {
    /// Returns a curve that [`Curve::begin`] has yet to place.
    pub(super) const fn new(c: f64) -> Self {
        Self { c, c_bytes: 0.0, k: 0.0, w_max: 0.0 }
    }

    /// Places the curve at `cwnd` now, with its plateau at `w_max`. If the plateau is not above the window, K is 0.
    pub(super) fn begin(&mut self, w_max: f64, cwnd: u64, mtu: u64) {
        self.c_bytes = self.c * mtu as f64;
        self.w_max = w_max.max(cwnd as f64);
        self.k = ((self.w_max - cwnd as f64) / self.c_bytes).cbrt();
    }

    /// Returns the window, bytes, at `elapsed` since the curve began.
    pub(super) fn window(&self, elapsed: Duration) -> f64 {
        let past_plateau = elapsed.as_secs_f64() - self.k;
        self.c_bytes * past_plateau.powi(3) + self.w_max
    }

    /// Returns the window, bytes, to reach within the next round trip.
    pub(super) fn target(&self, credit: &Credit) -> f64 {
        let cwnd = credit.cwnd as f64;
        let ahead = credit.elapsed.saturating_add(credit.srtt);
        self.window(ahead).clamp(cwnd, MAX_TARGET * cwnd)
    }
}
