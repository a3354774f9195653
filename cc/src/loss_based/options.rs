//! Options of every loss-based algorithm, which lists each among its own.

use crate::{OptionKind, OptionSpec, Unit, slow_start};

pub(crate) const MIN_WINDOW: OptionSpec = OptionSpec {
    name: "min_window",
    kind: OptionKind::Integer { default: 2, min: 2, max: 64 },
    unit: Unit::Packets,
    summary: "Smallest window after a cut; RFC 9002 §7.2 recommends 2. A larger value keeps a flow moving through \
              bursts of loss, but queues more packets.",
};
pub(crate) const PACING: OptionSpec = OptionSpec {
    name: "pacing",
    kind: OptionKind::Boolean { default: true },
    unit: Unit::None,
    summary: "Whether packets are spread over the round trip instead of sent in bursts. Turn it off only if the host's \
              queue discipline or network card paces them.",
};
pub(crate) const PACING_GAIN: OptionSpec = OptionSpec {
    name: "pacing_gain",
    kind: OptionKind::Number { default: 1.25, min: 1.0, max: 4.0 },
    unit: Unit::None,
    summary: "Pacing rate outside slow start, in windows per round trip. Nearer to 1 sends more evenly; a larger value \
              fills the window sooner.",
};
pub(crate) const SLOW_START: OptionSpec = OptionSpec {
    name: "slow_start",
    kind: OptionKind::Choice { default: slow_start::HYSTART, among: slow_start::WORDS },
    unit: Unit::None,
    summary: "What ends the first slow start besides a congestion signal. `hystart++` (RFC 9406): a rise of the round-trip \
              time. `search` (draft-chung-ccwg-search-09): a path that delivers clearly less than was sent a round trip \
              before; for links whose delay varies without load, such as some radio links, and whose queues are long. \
              `standard` (RFC 9002): nothing.",
};
