//! Paths so short that a model of them is wrong.

use super::facts::HostFacts;
use super::finding::{Fix, HostCheck, HostFinding};

const SHORT: HostCheck = HostCheck {
    name: "bbr_short_paths",
    source: "docs/congestion-control.md; config/example.toml, low_rtt_guard",
};
/// Round-trip time below which delays within the hosts distort what a model measures, ms.
const SHORT_MS: f64 = 1.0;

pub(super) fn check(facts: &HostFacts<'_>) -> Vec<HostFinding> {
    if facts.needs.model_based.is_empty() {
        return vec![SHORT.skipped("", "no listener uses bbr3")];
    }
    let mut found = Vec::new();
    for used in &facts.needs.model_based {
        let (listener, algorithm) = (used.listener.as_str(), used.algorithm.as_str());
        if used.is_guarded {
            found.push(SHORT.skipped(listener, "`low_rtt_guard` of the listener sees to it"));
            continue;
        }
        let paths = match &facts.paths {
            Ok(paths) => paths,
            Err(cause) => {
                let found_here =
                    format!("round-trip times to clients of {algorithm} are not measured: {cause}");
                found.push(SHORT.unknown(listener, found_here));
                continue;
            }
        };
        let mut own = 0;
        let mut short = 0;
        for path in paths.iter().filter(|p| p.listener == listener && p.algorithm == algorithm) {
            own += 1;
            short += usize::from(path.min_rtt_ms < SHORT_MS);
        }
        found.push(if short > 0 {
            let mend = format!("low_rtt_guard = \"1ms\" in the listener {listener}, or congestion_control = \"cubic\"");
            SHORT.warning(
                listener,
                format!(
                    "{short} of {own} connections with {algorithm} have a round-trip time below 1 ms, where delays within the hosts \
                     distort what {algorithm} measures, and downloads may be slow"
                ),
                "another algorithm, such as cubic, on such short paths",
                Fix::Configuration(mend),
            )
        } else if own > 0 {
            let all = format!("the round-trip time of all {own} connections with {algorithm} is 1 ms or more");
            SHORT.fine(listener, all)
        } else {
            SHORT.unknown(listener, format!("no client of {algorithm} is connected, so no round-trip time is known"))
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::MeasuredPath;
    use crate::doctor::finding::FindingState::{Fine, NotApplicable, Unknown, Warning};
    use crate::doctor::scratch::{BBR, Scratch};

    fn path(listener: &str, algorithm: &str, min_rtt_ms: f64) -> MeasuredPath {
        MeasuredPath { listener: listener.to_owned(), algorithm: algorithm.to_owned(), min_rtt_ms }
    }

    #[test]
    fn short_paths_of_a_model_are_counted() {
        for (paths, expected) in [
            (Err("no server".to_owned()), Unknown),
            (Ok(vec![]), Unknown),
            (Ok(vec![path("l", "cubic", 0.1), path("other", "bbr3", 0.1)]), Unknown),
            (Ok(vec![path("l", "bbr3", 20.0), path("l", "bbr3", f64::INFINITY)]), Fine),
            (Ok(vec![path("l", "bbr3", 20.0), path("l", "bbr3", 0.1)]), Warning),
        ] {
            let host = Scratch::new();
            let found = host.with(BBR, |facts| {
                facts.paths = paths.clone();
                check(facts).remove(0)
            });
            assert_eq!(found.state, expected, "{found:?}");
        }
        let host = Scratch::new();
        assert_eq!(host.with("", |facts| check(facts)[0].state), NotApplicable);
        let guarded = host.with(BBR, |facts| {
            facts.needs.model_based[0].is_guarded = true;
            check(facts)[0].state
        });
        assert_eq!(guarded, NotApplicable);
    }
}
