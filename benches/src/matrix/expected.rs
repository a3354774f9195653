//! Bounds that are known not to hold, and why.

use super::cell::{Cell, Figure};
use super::report::{describe, replay};
use super::scenario::Place;
use crate::virtual_net::Control;

/// A bound that does not hold for a reason that is understood.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The scenario's name.
    pub scenario: &'static str,
    /// Where; `None` is both.
    pub place: Option<Place>,
    /// As the controls are written.
    pub controls: &'static [&'static str],
    /// The measure's name.
    pub measure: &'static str,
    /// Least and most of the figure; a figure outside is news.
    pub range: (f64, f64),
    /// Why.
    pub reason: &'static str,
}

/// The known failures. The same list stands in cc/README.md.
pub const EXPECTED: &[Expected] = &[
    entry("rate-fall", None, LOSS_BASED, DRAINED, (3.0, NEVER), FILLS),
    entry("rate-fall", None, BBR3, DRAINED, (8.0, 14.0), REMEMBERS),
    entry(
        "reordering-deep",
        SIMULATOR,
        LOSS_BASED,
        SHARE,
        (0.2, 0.4),
        LATE,
    ),
    entry("reordering-deep", SIMULATOR, BBR3, SHARE, (0.4, 0.85), LATE),
    entry(
        "reordering-deep",
        END_TO_END,
        LOSS_BASED,
        SHARE,
        (0.5, 0.9),
        LATE,
    ),
    entry(
        "loss-0.01",
        END_TO_END,
        &["reno"],
        "mean window",
        (150.0, 170.0),
        FEW,
    ),
];

const LOSS_BASED: &[&str] = &["cubic", "reno"];
const BBR3: &[&str] = &["bbr3"];

const DRAINED: &str = "queue drained";
const SHARE: &str = "of the link";

const SIMULATOR: Option<Place> = Some(Place::Simulator);
const END_TO_END: Option<Place> = Some(Place::EndToEnd);
const NEVER: f64 = f64::INFINITY;

const FILLS: &str = "A loss-based window fills whatever queue there is, at 1 Mbit/s 400 ms of it, and a cut leaves half \
                     of the window or more.";
const REMEMBERS: &str = "The rate is the highest of two probing cycles (draft-ietf-ccwg-bbr-06 §5.5), some ten seconds \
                         here; until then losses hold the short-term rate and the window down, but not the queue.";
const LATE: &str = "A packet later than the transport's threshold counts as lost, and no cut is undone. quiche \
                    raises its threshold after such losses, the simulator does not.";
const FEW: &str = "A minute holds five losses, too few to come down from slow start's window; the simulator runs for five \
                   minutes.";

const fn entry(
    scenario: &'static str,
    place: Option<Place>,
    controls: &'static [&'static str],
    measure: &'static str,
    range: (f64, f64),
    reason: &'static str,
) -> Expected {
    Expected {
        scenario,
        place,
        controls,
        measure,
        range,
        reason,
    }
}

impl Expected {
    fn is_of(&self, cell: &Cell, figure: &Figure) -> bool {
        self.scenario == cell.scenario
            && self.place.is_none_or(|place| place == cell.place)
            && self.controls.contains(&cell.control.to_string().as_str())
            && self.measure == figure.bound.measure.name()
            && figure.judged
    }
}

/// What `expected` does not say: failures that it does not know, and entries that hold by now or whose figure moved
/// out of its range. quiche's own controls are there to be compared with, and surprise nobody.
pub fn surprises(cells: &[Cell], expected: &[Expected]) -> Vec<String> {
    let mut found = Vec::new();
    for cell in cells {
        let reference = !matches!(cell.control, Control::Ours(_));
        for figure in &cell.figures {
            let listed = expected.iter().find(|entry| entry.is_of(cell, figure));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::bound::{Bound, Limit, Measure, Who};

    #[test]
    fn bound_of_another_algorithm_with_the_same_measure_is_not_meant() {
        let figure = |judged, value| Figure {
            bound: Bound {
                who: Who::All,
                measure: Measure::MeanWindow {
                    from: std::time::Duration::ZERO,
                },
                limit: Limit::Near(value),
            },
            value: Some(155.0),
            judged,
            failing_seeds: Vec::new(),
        };
        let cell = Cell {
            scenario: "loss-0.01",
            place: Place::EndToEnd,
            control: Control::Ours("reno"),
            figures: vec![figure(false, 187.0), figure(true, 120.0)],
            runs: 2,
            mean_done: None,
        };
        let found = surprises(std::slice::from_ref(&cell), EXPECTED);
        assert!(found.is_empty(), "{found:?}");
        assert_eq!(surprises(&[cell], &[]).len(), 1);
    }
}
