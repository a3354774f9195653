//! The terms in which scenarios are written.

use std::time::Duration;

use sluicegate_sim::{Bottleneck, Source};

use crate::matrix::bound::{Bound, Limit, Measure, Who};
use crate::matrix::scenario::{CrossTraffic, Effort, Efforts, For, Scenario};

pub(super) const MBIT: u64 = 1_000_000;
pub(super) const ZERO: Duration = Duration::ZERO;
pub(super) const END: Duration = Duration::MAX;

pub(super) const RENO: Who = Who::Only(&["reno"]);
pub(super) const CUBIC: Who = Who::Only(&["cubic"]);
pub(super) const BBR: Who = Who::Only(&["bbr3"]);
pub(super) const PRAGUE: Who = Who::Only(&["prague"]);
pub(super) const OTHERS: Who = Who::Except(&["bbr3"]);

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(super) const fn bound(who: Who, measure: Measure, limit: Limit) -> Bound {
    Bound { who, measure, limit }
}

pub(super) const fn least(who: Who, measure: Measure, value: f64) -> Bound {
    bound(who, measure, Limit::AtLeast(value))
}

pub(super) const fn most(who: Who, measure: Measure, value: f64) -> Bound {
    bound(who, measure, Limit::AtMost(value))
}

pub(super) const fn share(from: Duration, until: Duration) -> Measure {
    Measure::Share { from, until }
}

pub(super) const fn stretch(length: Duration, skip_first: bool) -> Measure {
    Measure::WorstStretch { length, skip_first }
}

/// Uses the same seeds and limit whole and in the core.
pub(super) const fn always(seeds: u64, limit: Duration) -> Option<Efforts> {
    let effort = Effort { seeds, limit };
    Some(Efforts { whole: effort, core: Some(effort) })
}

/// No part of the core.
pub(super) const fn long(seeds: u64, limit: Duration) -> Option<Efforts> {
    Some(Efforts { whole: Effort { seeds, limit }, core: None })
}

/// Fewer seeds in the core.
pub(super) const fn shorter(seeds: u64, core: u64, limit: Duration) -> Option<Efforts> {
    Some(Efforts { whole: Effort { seeds, limit }, core: Some(Effort { seeds: core, limit }) })
}

pub(super) fn alone(
    name: &'static str,
    parameters: &'static str,
    bottleneck: Bottleneck,
    source: Source,
) -> Scenario {
    Scenario {
        name,
        parameters,
        bottleneck,
        cellular: None,
        cross_traffic: CrossTraffic::Alone(source),
        path_changes: Vec::new(),
        receive_window: None,
        pages: None,
        tried: For::Everyone,
        scalable: false,
        simulator: None,
        end_to_end: None,
        bounds: Vec::new(),
        source: "",
    }
}
