//! The scenarios: what every algorithm must show.

mod fairness;
mod faults;
mod plain;

use std::time::Duration;

use sluicegate_cc::sim::{Bottleneck, Source};

use super::bound::{Bound, Limit, Measure, Who};
use super::scenario::{CrossTraffic, Effort, Efforts, For, Scenario};

const MBIT: u64 = 1_000_000;
const ZERO: Duration = Duration::ZERO;
const END: Duration = Duration::MAX;

const BBR: Who = Who::Only(&["bbr3"]);
const OTHERS: Who = Who::Except(&["bbr3"]);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const fn bound(who: Who, measure: Measure, limit: Limit) -> Bound {
    Bound {
        who,
        measure,
        limit,
    }
}

const fn least(who: Who, measure: Measure, value: f64) -> Bound {
    bound(who, measure, Limit::AtLeast(value))
}

const fn most(who: Who, measure: Measure, value: f64) -> Bound {
    bound(who, measure, Limit::AtMost(value))
}

const fn share(from: Duration, until: Duration) -> Measure {
    Measure::Share { from, until }
}

const fn stretch(length: Duration, skip_first: bool) -> Measure {
    Measure::WorstStretch { length, skip_first }
}

/// The same seeds and limit whole and in the core.
const fn always(seeds: u64, limit: Duration) -> Option<Efforts> {
    let effort = Effort { seeds, limit };
    Some(Efforts {
        whole: effort,
        core: Some(effort),
    })
}

/// No part of the core.
const fn long(seeds: u64, limit: Duration) -> Option<Efforts> {
    Some(Efforts {
        whole: Effort { seeds, limit },
        core: None,
    })
}

/// Fewer seeds in the core.
const fn shorter(seeds: u64, core: u64, limit: Duration) -> Option<Efforts> {
    Some(Efforts {
        whole: Effort { seeds, limit },
        core: Some(Effort { seeds: core, limit }),
    })
}

fn alone(
    name: &'static str,
    parameters: &'static str,
    bottleneck: Bottleneck,
    source: Source,
) -> Scenario {
    Scenario {
        name,
        parameters,
        bottleneck,
        cross_traffic: CrossTraffic::Alone(source),
        tried: For::Everyone,
        simulator: None,
        end_to_end: None,
        bounds: Vec::new(),
    }
}

/// Every scenario, in the order of the report.
pub fn scenarios() -> Vec<Scenario> {
    let parts = [
        plain::collapse(),
        plain::pauses(),
        plain::buffers(),
        plain::low_rtt(),
        faults::random_loss(),
        faults::changes(),
        faults::policer(),
        faults::disorder(),
        fairness::fairness(),
    ];
    parts.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_distinct_and_every_scenario_runs_somewhere_and_judges() {
        let all = scenarios();
        let names: BTreeSet<_> = all.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), all.len());
        for scenario in &all {
            let name = scenario.name;
            assert!(
                scenario.simulator.or(scenario.end_to_end).is_some(),
                "{name}"
            );
            assert!(!scenario.bounds.is_empty(), "{name}");
            let single = matches!(scenario.cross_traffic, CrossTraffic::Alone(_));
            assert!(
                single || scenario.end_to_end.is_none(),
                "{name}: one connection at a time"
            );
        }
    }
}
