//! The draft's constants (draft-ietf-ccwg-bbr-06 §2) and the options that operators may set.

use std::time::Duration;

use crate::rounding::whole;
use crate::{OptionKind, OptionSpec, Options, Unit};

/// No bound: the draft's "Infinity" for rates and bytes in flight.
pub(super) const UNBOUNDED: u64 = u64::MAX;

/// 4 ln 2: the smallest gain that lets the rate double each round (§2.5).
pub(super) const STARTUP_PACING_GAIN: f64 = 2.77;
/// Pacing gain in Drain (§2.5).
pub(super) const DRAIN_PACING_GAIN: f64 = 0.5;
/// Pacing gain in ProbeBW_DOWN (§5.3.3.1).
pub(super) const DOWN_PACING_GAIN: f64 = 0.9;
/// Pacing gain in ProbeBW_UP (§5.3.3.5).
pub(super) const UP_PACING_GAIN: f64 = 1.25;
/// Window gain in most states (§2.6).
pub(super) const DEFAULT_CWND_GAIN: f64 = 2.0;
/// Window gain in ProbeBW_UP (§5.3.3.5).
pub(super) const UP_CWND_GAIN: f64 = 2.25;
/// Window gain in ProbeRTT (§2.16.2).
pub(super) const PROBE_RTT_CWND_GAIN: f64 = 0.5;
/// Pacing stays 1 % below the rate (§2.5).
pub(super) const PACING_MARGIN: f64 = 0.99;
/// Smallest part of a bound that a round with loss leaves (§2.8).
pub(super) const BETA: f64 = 0.7;
/// Part of the long-term bound that is left to other flows (§2.8).
pub(super) const HEADROOM: f64 = 0.15;
/// Growth of the rate, per round, below which the pipe counts as full (§5.3.1.2).
pub(super) const FULL_BW_GROWTH: f64 = 1.25;
/// Rounds without such growth (§5.3.1.2).
pub(super) const FULL_BW_ROUNDS: u32 = 3;
/// Standard deviations of the number of lost packets that chance may add to the tolerated share.
pub(super) const CHANCE_DEVIATIONS: f64 = 2.0;
/// Separate runs of lost packets in a round that end Startup (§5.3.1.3).
pub(super) const STARTUP_LOSS_RANGES: u32 = 6;
/// Rounds after which Drain ends whatever is in flight (§5.3.2).
pub(super) const DRAIN_ROUNDS: u64 = 3;
/// Rounds that the filter of extra acknowledged data remembers (§2.12).
pub(super) const EXTRA_ACKED_ROUNDS: usize = 10;
/// Most rounds between two probes for bandwidth (§5.3.3.8.3).
pub(super) const MAX_PROBE_ROUNDS: u64 = 63;
/// Default of the option `host_delay`: a scheduler's time slice, ms.
const TIME_SLICE_MS: u64 = 4;
/// Length of the filter of minimum round trips (§2.16.1).
pub(super) const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
/// Shortest stay in ProbeRTT with few bytes in flight (§2.16.2).
pub(super) const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// Round trip assumed before the first sample (§5.6.2).
pub(super) const NOMINAL_RTT: Duration = Duration::from_millis(1);

pub(super) const HOST_DELAY: OptionSpec = OptionSpec {
    name: "host_delay",
    kind: OptionKind::Integer { default: TIME_SLICE_MS, min: 0, max: 100 },
    unit: Unit::Milliseconds,
    summary: "Largest delay within the hosts (scheduling, overloaded CPUs, batched ACKs) that a larger window makes up \
              for. Without it, such delay limits the rate of paths that are much shorter than it. It is measured while few bytes are \
              in flight, every probe_rtt_interval. Raise it in clusters whose machines are overcommitted; 0 never makes up for any. \
              The rules that keep queues short on paths below 4 ms do not depend on it.",
};
pub(super) const MIN_WINDOW: OptionSpec = OptionSpec {
    name: "min_window",
    kind: OptionKind::Integer { default: 4, min: 2, max: 64 },
    unit: Unit::Packets,
    summary: "Smallest window. The draft's 4 keep data moving while the receiver acknowledges every second packet. A \
              larger value keeps a flow moving on very short paths, but queues more packets. While BBR measures the round \
              trip of the empty path, the window may fall to two packets.",
};
pub(super) const LOSS_THRESHOLD: OptionSpec = OptionSpec {
    name: "loss_threshold",
    kind: OptionKind::Number { default: 0.02, min: 0.005, max: 0.2 },
    unit: Unit::None,
    summary: "Share of a round trip's packets above which losses end a probe for bandwidth; a path that also loses \
              packets between probes is allowed more. Raise it on links that lose packets without load; lower it \
              where queues are very short.",
};
pub(super) const PROBE_RTT_INTERVAL: OptionSpec = OptionSpec {
    name: "probe_rtt_interval",
    kind: OptionKind::Integer { default: 5_000, min: 2_000, max: 60_000 },
    unit: Unit::Milliseconds,
    summary: "Interval of ProbeRTT: if a busy flow measures no lower round-trip time for so long, it sends less for \
              200 ms, to measure the path without its own queue. Keep the draft's 5000 if other BBR flows share the path: the queue empties only \
              if all do so together.",
};

/// Values of the options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    pub(super) min_window_packets: u64,
    pub(super) loss_threshold: f64,
    pub(super) probe_rtt_interval: Duration,
    pub(super) host_delay: Duration,
}

impl Params {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            min_window_packets: options.integer(MIN_WINDOW.name),
            loss_threshold: options.number(LOSS_THRESHOLD.name),
            probe_rtt_interval: Duration::from_millis(options.integer(PROBE_RTT_INTERVAL.name)),
            host_delay: Duration::from_millis(options.integer(HOST_DELAY.name)),
        }
    }

    /// Returns whether a path's round trip is shorter than a time slice of the scheduler or `host_delay`: then long round trips may
    /// come from late hosts, not from a queue.
    pub(super) fn is_short(&self, path: Duration) -> bool {
        path < self.host_delay.max(Duration::from_millis(TIME_SLICE_MS))
    }
}

/// Returns `factor` times a rate or an amount of bytes; [`UNBOUNDED`] stays so.
pub(super) fn scaled(amount: u64, factor: f64) -> u64 {
    if amount == UNBOUNDED {
        return UNBOUNDED;
    }
    whole(amount as f64 * factor)
}

/// Returns the amount, or `None` for [`UNBOUNDED`].
pub(super) fn bounded(amount: u64) -> Option<u64> {
    (amount != UNBOUNDED).then_some(amount)
}
