//! A cell of the matrix: its figures and whether they keep their bounds.

use std::time::Duration;

use super::bound::{Bound, Limit, Measure};
use super::scenario::{Place, Scenario};
use crate::virtual_net::Control;

/// The figures of one run, in the order of the scenario's bounds.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) seed: u64,
    pub(super) completed: Option<Duration>,
    pub(super) values: Vec<Option<f64>>,
}

/// One control in one scenario in one place, over all its seeds.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The network.
    pub place: Place,
    /// The server's congestion control.
    pub control: Control,
    /// Figures in the order of the scenario's bounds.
    pub figures: Vec<Figure>,
    /// Number of runs.
    pub runs: usize,
    /// Mean time of the runs that ended, where they can end.
    pub mean_done: Option<f64>,
}

/// One figure against its bound.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The bound that it must keep.
    pub bound: Bound,
    /// Value over all seeds; `None` where the control does not show it.
    pub value: Option<f64>,
    /// Mean of the runs, where there are several and the value is that of the worst.
    pub mean: Option<f64>,
    /// Whether the bound is for this control.
    pub judged: bool,
    /// Seeds whose run alone fails the bound, the worst first. Empty where the cell passes, or where only the mean fails.
    pub failing_seeds: Vec<u64>,
}

impl Figure {
    /// Returns whether the bound judges the control and does not hold.
    pub fn fails(&self) -> bool {
        self.judged && self.value.is_none_or(|value| !self.bound.limit.admits(value))
    }
}

impl Cell {
    /// Returns the cell of `own` runs; `runs_of` returns those of another control in the same scenario and place.
    pub(super) fn new<'a>(
        scenario: &Scenario,
        place: Place,
        control: Control,
        own: &[&Run],
        runs_of: impl Fn(Control) -> Vec<&'a Run>,
    ) -> Self {
        let bounds = scenario.bounds.iter().enumerate();
        let figures = bounds.map(|(index, bound)| {
            let values: Vec<_> = own
                .iter()
                .filter_map(|run| Some((run.seed, run.values.get(index).copied().flatten()?)))
                .collect();
            let reference = bound.measure.reference().map(&runs_of);
            let value = fold(index, bound, &values, reference.as_deref());
            let mean = mean_beside_worst(bound, &values);
            let judged = is_judged(bound, control, value);
            let fails = judged && value.is_none_or(|value| !bound.limit.admits(value));
            let mut failing = values.clone();
            failing.retain(|(_, value)| !bound.limit.admits(*value));
            let excess = |value: f64| bound.limit.excess(value);
            failing.sort_by(|(_, a), (_, b)| excess(*b).total_cmp(&excess(*a)));
            Figure {
                bound: *bound,
                value,
                mean,
                judged,
                failing_seeds: if fails && bound.measure.reference().is_none() {
                    failing.into_iter().map(|(seed, _)| seed).collect()
                } else {
                    Vec::new()
                },
            }
        });
        Self {
            scenario: scenario.name,
            place,
            control,
            figures: figures.collect(),
            runs: own.len(),
            mean_done: mean_done(own),
        }
    }
}

/// A growth epoch is not every algorithm's, and quiche's own do not show what they do inside: what cannot be told
/// there is not judged.
fn is_judged(bound: &Bound, control: Control, value: Option<f64>) -> bool {
    let inner = matches!(
        bound.measure,
        Measure::EpochError { .. }
            | Measure::UnexplainedRecoveries
            | Measure::WindowOverInFlight
            | Measure::Burst { .. }
    );
    let tellable = value.is_some() || !inner;
    let bound_by = match control {
        Control::Ours(configured) => bound.who.binds(&configured.to_string()),
        Control::QuicheCubic { .. } => bound.who.binds("cubic"),
        Control::QuicheReno => bound.who.binds("reno"),
        Control::QuicheBbr2 => bound.who.binds("bbr3"),
    };
    tellable && bound_by && bound.limit != Limit::ReportOnly
}

/// Returns the figure of a cell; `index` is that of the bound, and `reference` are the runs that its measure compares with, if it
/// does.
fn fold(
    index: usize,
    bound: &Bound,
    values: &[(u64, f64)],
    reference: Option<&[&Run]>,
) -> Option<f64> {
    let values: Vec<_> = values.iter().map(|(_, value)| *value).collect();
    let mean = mean_of(&values)?;
    if let Some(reference) = reference {
        let others = reference.iter();
        let others = others.filter_map(|run| run.values.get(index).copied().flatten());
        // A run that did not end has no time.
        let others: Vec<_> = others.filter(|value| value.is_finite()).collect();
        let other = mean_of(&others)?;
        return Some(if mean == 0.0 { 0.0 } else { mean / other });
    }
    match (bound.measure, bound.limit) {
        (Measure::NotDone, _) => Some(mean),
        (_, limit) => Some(Limit::fold(limit, &values)),
    }
}

fn mean_of(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the mean to show beside the worst; those that did not end have no time, so they are left out.
fn mean_beside_worst(bound: &Bound, values: &[(u64, f64)]) -> Option<f64> {
    let of_all = bound.measure.reference().is_some() || bound.measure == Measure::NotDone;
    if of_all || matches!(bound.limit, Limit::Near(_) | Limit::ReportOnly) || values.len() < 2 {
        return None;
    }
    let finite = values.iter().map(|(_, value)| *value);
    let finite: Vec<_> = finite.filter(|value| value.is_finite()).collect();
    mean_of(&finite)
}

fn mean_done(runs: &[&Run]) -> Option<f64> {
    let times = runs.iter().filter_map(|run| run.completed);
    let times: Vec<_> = times.map(|time| time.as_secs_f64()).collect();
    mean_of(&times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::table::scenarios;

    fn run(seed: u64, seconds: Option<f64>) -> Run {
        let completed = seconds.map(Duration::from_secs_f64);
        let done = seconds.unwrap_or(f64::INFINITY);
        Run { seed, completed, values: vec![Some(done), Some(done), Some(0.0)] }
    }

    fn collapse(own: &[&Run], reno: &[&Run]) -> Cell {
        let scenarios = scenarios();
        let scenario = scenarios.iter().find(|s| s.name == "collapse");
        let scenario = scenario.expect("in the table");
        Cell::new(scenario, Place::Simulator, Control::of("cubic"), own, |_| reno.to_vec())
    }

    #[test]
    fn one_run_that_does_not_end_fails_the_cell_and_is_named() {
        let (good, bad) = (run(4, Some(3.0)), run(7, None));
        let cell = collapse(&[&good, &bad], &[&good]);
        assert!(cell.figures[0].fails());
        assert_eq!(cell.figures[0].failing_seeds, [7]);
        let slow = run(2, Some(60.0));
        let cell = collapse(&[&slow, &good, &bad], &[&good]);
        assert_eq!(cell.figures[0].failing_seeds, [7, 2], "the worst comes first");
        assert!(cell.figures[1].fails());
        assert!(!cell.figures[2].fails());
    }

    #[test]
    fn time_is_compared_with_that_of_reno() {
        let (cubic, reno) = (run(1, Some(4.0)), run(1, Some(3.0)));
        assert!(collapse(&[&cubic], &[&reno]).figures[1].fails());
        assert!(!collapse(&[&reno], &[&cubic]).figures[1].fails());
        assert_eq!(collapse(&[&cubic], &[&reno]).mean_done, Some(4.0));
    }
}
