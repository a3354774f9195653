//! The scenarios: what every algorithm must show.

mod applications;
mod cells;
mod fairness;
mod faults;
mod l4s;
mod managed;
mod moves;
mod paths;
mod plain;
mod slow_start;
mod terms;

use super::scenario::Scenario;

/// Returns every scenario, in the order of the report.
pub fn scenarios() -> Vec<Scenario> {
    let parts = [
        plain::collapse(),
        plain::pauses(),
        plain::ramps().into(),
        plain::buffers(),
        plain::low_rtt(),
        slow_start::slow_start(),
        faults::random_loss(),
        faults::changes(),
        faults::policer(),
        faults::disorder(),
        paths::burst_loss(),
        paths::slow_acks(),
        paths::geostationary(),
        paths::low_orbit(),
        paths::bufferbloat(),
        managed::one_flow(),
        managed::fair_queueing(),
        l4s::l4s(),
        cells::cellular(),
        cells::extremes(),
        cells::incast(),
        moves::moves(),
        applications::applications(),
        fairness::fairness(),
    ];
    parts.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::matrix::bound::{Bound, Limit, Who};
    use crate::matrix::control_named;
    use crate::matrix::scenario::{CrossTraffic, For};

    #[test]
    fn names_are_distinct_and_every_scenario_runs_somewhere_and_judges() {
        let all = scenarios();
        let names: BTreeSet<_> = all.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), all.len());
        for scenario in &all {
            let name = scenario.name;
            assert!(scenario.simulator.or(scenario.end_to_end).is_some(), "{name}");
            let judges = |bound: &Bound| bound.limit != Limit::ReportOnly;
            assert!(scenario.bounds.iter().any(judges), "{name}");
            for bound in &scenario.bounds {
                if let Who::Only(names) | Who::Except(names) = bound.who {
                    let known = |name: &&str| control_named(name, &all).is_some();
                    assert!(names.iter().all(known), "{name}: {names:?}");
                }
            }
            let single = matches!(scenario.cross_traffic, CrossTraffic::Alone(_));
            let of_quiche = matches!(scenario.tried, For::Only(controls) if controls.iter().any(|one| !one.is_ours()));
            assert!(single || !of_quiche, "{name}: one bare connection at a time");
            assert!(!scenario.source.is_empty(), "{name}: bounds from nowhere");
        }
    }
}
