//! Results that differ from the known failures.

use super::cell::{Cell, Figure};
use super::expected::Expected;
use super::report::{describe, replay};
use crate::virtual_net::Control;

/// Returns what `expected` does not list: unknown failures, and entries that hold by now or whose figure moved out of its
/// range. quiche's own controls are references, and never reported.
pub fn surprises(cells: &[Cell], expected: &[Expected]) -> Vec<String> {
    let mut found = Vec::new();
    for cell in cells {
        let reference = !matches!(cell.control, Control::Ours(_));
        for figure in &cell.figures {
            let listed = expected.iter().find(|entry| is_of(entry, cell, figure));
            let value = figure.value.unwrap_or(f64::NAN);
            match listed {
                None if figure.fails() && !(reference && cell.scenario != "the-bug") => {
                    found.push(format!(
                        "{} fails; replay: {}",
                        describe(cell, figure),
                        replay(cell, figure)
                    ));
                }
                Some(entry) if !figure.fails() => found.push(format!(
                    "{} holds by now, but is listed as failing: {}",
                    describe(cell, figure),
                    entry.reason
                )),
                Some(Expected { range, .. }) if !(range.0..=range.1).contains(&value) => {
                    found.push(format!(
                        "{} fails otherwise than expected, {} to {}; replay: {}",
                        describe(cell, figure),
                        figure.bound.measure.show(range.0),
                        figure.bound.measure.show(range.1),
                        replay(cell, figure)
                    ));
                }
                _ => {}
            }
        }
    }
    found
}

/// Returns whether the entry is about this figure.
fn is_of(entry: &Expected, cell: &Cell, figure: &Figure) -> bool {
    entry.scenario == cell.scenario
        && entry.place.is_none_or(|place| place == cell.place)
        && entry.controls.contains(&cell.control.to_string().as_str())
        && entry.measure == figure.bound.measure.name()
        && figure.judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::bound::{Bound, Limit, Measure, Who};
    use crate::matrix::expected::EXPECTED;
    use crate::matrix::scenario::Place;

    #[test]
    fn bound_of_another_algorithm_with_the_same_measure_is_not_meant() {
        let figure = |judged, value| Figure {
            bound: Bound {
                who: Who::All,
                measure: Measure::MeanWindow { from: std::time::Duration::ZERO },
                limit: Limit::Near(value),
            },
            value: Some(155.0),
            mean: None,
            judged,
            failing_seeds: Vec::new(),
        };
        let cell = Cell {
            scenario: "loss-0.01",
            place: Place::EndToEnd,
            control: Control::of("reno"),
            figures: vec![figure(false, 187.0), figure(true, 120.0)],
            runs: 2,
            mean_done: None,
        };
        let found = surprises(std::slice::from_ref(&cell), EXPECTED);
        assert!(found.is_empty(), "{found:?}");
        assert_eq!(surprises(&[cell], &[]).len(), 1);
    }
}
