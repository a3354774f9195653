//! NewReno (RFC 9002 §7): one datagram more per window acknowledged, half the window at a signal.

use crate::loss_based::{
    Credit, LossBased, MIN_WINDOW, PACING, PACING_GAIN, SLOW_START, Start, WindowLaw,
};
use crate::rounding::whole;
use crate::{Algorithm, OptionKind, OptionSpec, Unit};

/// The algorithm as the registry lists it.
pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "reno",
    summary: "NewReno (RFC 9002): simple and well understood, but slow to use paths of high rate and long delay.",
    options: &[BETA, MIN_WINDOW, PACING, PACING_GAIN, SLOW_START],
    model_based: false,
    has_window_law: true,
    scalable: false,
    build: |init, options| {
        let law = Reno { beta: options.number(BETA.name), carried: 0 };
        Box::new(LossBased::new(law, init, options))
    },
};

const BETA: OptionSpec = OptionSpec {
    name: "beta",
    kind: OptionKind::Number { default: 0.5, min: 0.3, max: 0.9 },
    unit: Unit::None,
    summary: "Part of the window that remains after a congestion signal (RFC 9002 §7.3.2). A value above 0.5 takes \
              more than a fair share.",
};

/// Additive increase, multiplicative decrease.
#[derive(Clone, Debug)]
struct Reno {
    beta: f64,
    /// Products of bytes and datagram size that did not yet make a byte of growth.
    carried: u128,
}

impl WindowLaw for Reno {
    fn cut(&mut self, cwnd: u64) -> u64 {
        whole(cwnd as f64 * self.beta)
    }

    fn begin(&mut self, _start: Start, _cwnd: u64, _mtu: u64) {
        self.carried = 0;
    }

    fn grow(&mut self, credit: &Credit) -> u64 {
        let cwnd = u128::from(credit.cwnd.max(1));
        let total = self.carried + u128::from(credit.bytes) * u128::from(credit.mtu);
        self.carried = total % cwnd;
        u64::try_from(total / cwnd).unwrap_or(u64::MAX)
    }
}
