//! The story of the collapse in three pictures on the same axes: CUBIC that comes back, Reno that does, and a CUBIC
//! that never leaves recovery.

use std::path::{Path, PathBuf};

use sluicegate_cc::State;

use super::plot::{self, Axes};
use super::run::{MatrixError, record};
use super::scenario::{Place, Scenario};
use super::table::scenarios;
use crate::virtual_net::Control;

const CONTROLS: [Control; 3] =
    [Control::of("cubic"), Control::of("reno"), Control::QuicheCubic { idle_fix: false }];

/// Seeds that are tried for one with which quiche's CUBIC without its fix fails.
const TRIED: u64 = 50;

/// Draws the story into `folder`, with `seed` or the first that shows the defect; returns what was drawn.
///
/// # Errors
///
/// A connection could not be set up, or a picture not be drawn.
pub fn tell(folder: &Path, seed: Option<u64>) -> Result<Vec<(PathBuf, String)>, MatrixError> {
    let all = scenarios();
    let Some(collapse) = all.iter().find(|scenario| scenario.name == "collapse-open") else {
        return Ok(Vec::new());
    };
    let seed = match seed {
        Some(seed) => seed,
        None => first_stuck(collapse)?,
    };
    let mut runs = Vec::new();
    for control in CONTROLS {
        runs.push((control, run(collapse, control, seed)?));
    }
    let axes = runs.iter().map(|(_, flow)| plot::reach(flow));
    let axes = axes.fold(Axes::default(), |all, one| Axes {
        time: all.time.max(one.time),
        window: higher(all.window, one.window),
        rate: higher(all.rate, one.rate),
        delay: higher(all.delay, one.delay),
    });
    let mut drawn = Vec::new();
    for (control, flow) in runs {
        let outcome = match flow.completed {
            Some(time) => format!("done after {:.2} s", time.as_secs_f64()),
            None => "never done".to_owned(),
        };
        let recovery = flow.time_in(State::Recovery.name()).as_secs_f64();
        let window = flow.points.last().map_or(0, |point| point.cwnd);
        let title = format!(
            "{control}, 10 MB, 10 ms, 30 % loss for 2 s, seed {seed}: {outcome}, {recovery:.1} s in recovery, window \
             {window} bytes in the end"
        );
        let path = folder.join(format!("story-{control}.svg"));
        plot::write_on(&path, &title, &[flow], axes)?;
        drawn.push((path, title));
    }
    Ok(drawn)
}

fn higher(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

fn run(scenario: &Scenario, control: Control, seed: u64) -> Result<super::Record, MatrixError> {
    let effort = scenario.effort(Place::EndToEnd, false);
    let limit = effort.map_or_else(Default::default, |effort| effort.limit);
    let mut flows = record(scenario, Place::EndToEnd, control, seed, limit)?;
    Ok(flows.remove(0))
}

fn first_stuck(scenario: &Scenario) -> Result<u64, MatrixError> {
    for seed in 0..TRIED {
        let flow = run(scenario, Control::QuicheCubic { idle_fix: false }, seed)?;
        if flow.completed.is_none() {
            return Ok(seed);
        }
    }
    Ok(0)
}
