//! The scenarios: what every algorithm must show.

mod fairness;
mod faults;
mod plain;
mod terms;

use super::scenario::Scenario;

/// Returns every scenario, in the order of the report.
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
    use crate::matrix::scenario::CrossTraffic;

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
