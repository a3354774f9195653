//! CUBIC (RFC 9438): the window follows a cubic function of the time since the last cut, or an estimate of Reno's window
//! (W_est) where that is larger.

mod curve;
mod decrease;
mod reno_friendly;
#[cfg(test)]
mod tests;

use curve::Curve;
use decrease::Decrease;
use reno_friendly::RenoFriendly;

use crate::loss_based::{
    Credit, LossBased, MIN_WINDOW, PACING, PACING_GAIN, SLOW_START, Start, WindowLaw,
};
use crate::rounding::whole;
use crate::{Algorithm, OptionKind, OptionSpec, Options, Unit};

/// The algorithm as the registry lists it.
pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "cubic",
    summary: "CUBIC (RFC 9438), also the default of Linux: uses paths of high rate and long delay well, and shares \
              them fairly with other CUBIC flows.",
    options: &[BETA, C, FAST_CONVERGENCE, MIN_WINDOW, PACING, PACING_GAIN, SLOW_START],
    model_based: false,
    has_window_law: true,
    scalable: false,
    build: |init, options| Box::new(LossBased::new(Cubic::new(options), init, options)),
};

pub(super) const BETA: OptionSpec = OptionSpec {
    name: "beta",
    kind: OptionKind::Number { default: 0.7, min: 0.3, max: 0.95 },
    unit: Unit::None,
    summary: "Part of the window that remains after a congestion signal (RFC 9438 §4.6). A larger value takes more \
              from other flows.",
};
pub(super) const C: OptionSpec = OptionSpec {
    name: "c",
    kind: OptionKind::Number { default: 0.4, min: 0.01, max: 10.0 },
    unit: Unit::None,
    summary: "Steepness of the window's growth, in datagrams per cubic second (RFC 9438 §5.1). A larger value takes \
              more from other flows on long paths.",
};
pub(super) const FAST_CONVERGENCE: OptionSpec = OptionSpec {
    name: "fast_convergence",
    kind: OptionKind::Boolean { default: true },
    unit: Unit::None,
    summary: "Whether a flow yields more bandwidth when a congestion signal comes at a smaller window than the one \
              before, so that new flows get their share sooner (RFC 9438 §4.7). Turn it off only for flows that have \
              the path to themselves.",
};

/// CUBIC's window law: its cut, and its growth in congestion avoidance.
#[derive(Clone, Debug)]
pub(super) struct Cubic {
    decrease: Decrease,
    curve: Curve,
    reno: RenoFriendly,
    /// Fraction of a byte of growth, carried to the next ACK.
    carried: f64,
}

impl Cubic {
    pub(super) fn new(options: &Options) -> Self {
        let beta = options.number(BETA.name);
        Self {
            decrease: Decrease::new(beta, options.boolean(FAST_CONVERGENCE.name)),
            curve: Curve::new(options.number(C.name)),
            reno: RenoFriendly::new(beta),
            carried: 0.0,
        }
    }
}

impl WindowLaw for Cubic {
    fn cut(&mut self, cwnd: u64) -> u64 {
        self.decrease.cut(cwnd)
    }

    fn begin(&mut self, start: Start, cwnd: u64, mtu: u64) {
        self.carried = 0.0;
        if start == Start::SlowStart {
            self.decrease.level(cwnd);
        }
        self.curve.begin(self.decrease.w_max(), cwnd, mtu);
        self.reno.begin(cwnd, self.decrease.prior());
    }

    fn grow(&mut self, credit: &Credit) -> u64 {
        let cwnd = credit.cwnd as f64;
        self.reno.on_acked(credit);
        let reno = self.reno.window();
        let cubic = (self.curve.target(credit) - cwnd) * credit.bytes as f64 / cwnd + self.carried;
        let total =
            if self.curve.window(credit.elapsed) < reno { cubic.max(reno - cwnd) } else { cubic };
        self.carried = total.fract();
        whole(total)
    }
}
