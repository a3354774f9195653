//! Runs cells: every seed of every chosen scenario with every control, on several threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use sluicegate_sim::{Aqm, Flow, Simulation, Source};
use thiserror::Error;

use super::cell::{Cell, Run};
use super::measure::figure;
use super::plot;
use super::record::Record;
use super::scenario::{CrossTraffic, For, Place, Scenario};
use crate::conventions::{SAMPLE_EVERY, init};
use crate::virtual_net::{self, Control, Download, Server, SimulationError};

/// quiche's own that stand beside ours for comparison.
const REFERENCES: [Control; 2] = [Control::QuicheCubic { idle_fix: true }, Control::QuicheBbr2];

/// Selects the part of the matrix to run, and how to run it.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// One control alone.
    pub control: Option<Control>,
    /// One scenario alone.
    pub scenario: Option<&'a str>,
    /// One place alone.
    pub place: Option<Place>,
    /// One seed instead of each scenario's own.
    pub seed: Option<u64>,
    /// The core alone.
    pub core: bool,
    /// A picture of each cell's first run goes there.
    pub plots: Option<&'a Path>,
    /// Runs at the same time. Figures do not depend on it.
    pub threads: usize,
}

/// Error that kept cells from running.
#[derive(Debug, Error)]
pub enum MatrixError {
    /// An end could not be set up, or broke the protocol.
    #[error("{0}")]
    Simulation(#[from] SimulationError),
    /// A picture could not be drawn.
    #[error("{0}")]
    Plot(#[from] plot::PlotError),
}

/// One run to make.
#[derive(Clone, Copy, Debug)]
struct Job<'a> {
    scenario: &'a Scenario,
    place: Place,
    control: Control,
    seed: u64,
    limit: Duration,
    picture: Option<&'a Path>,
}

/// Runs the chosen cells and returns them in the order of `scenarios`.
///
/// # Errors
///
/// The first error that a thread met. A bound that does not hold is no error.
pub fn cells(scenarios: &[Scenario], choice: &Choice<'_>) -> Result<Vec<Cell>, MatrixError> {
    let jobs = jobs(scenarios, choice);
    let mut runs = BTreeMap::new();
    let done = crate::jobs::run(jobs.len(), choice.threads, |number, _| jobs[number].run())?;
    for (job, run) in jobs.iter().zip(done) {
        let key = (job.scenario.name, job.place, job.control.to_string());
        runs.entry(key).or_insert_with(Vec::new).push(run);
    }
    let mut made = Vec::new();
    for place in Place::ALL {
        for scenario in scenarios {
            let runs_of = |control: Control| {
                let found = runs.get(&(scenario.name, place, control.to_string()));
                found.into_iter().flatten().collect::<Vec<_>>()
            };
            for control in controls(scenario, place, choice.core) {
                let own = runs_of(control);
                let wanted = choice.control.is_none_or(|one| one == control);
                if wanted && !own.is_empty() {
                    made.push(Cell::new(scenario, place, control, &own, runs_of));
                }
            }
        }
    }
    Ok(made)
}

/// Returns the control of that name: of ours with default options or of quiche's, or one with options that a scenario tries.
pub fn control_named(name: &str, scenarios: &[Scenario]) -> Option<Control> {
    let tried = scenarios.iter().filter_map(|scenario| match scenario.tried {
        For::Only(controls) => Some(controls),
        _ => None,
    });
    let mut tried = tried.flatten().copied();
    Control::named(name).or_else(|| tried.find(|control| control.to_string() == name))
}

/// Returns the columns of a scenario in a place. The core is without those that nobody judges.
fn controls(scenario: &Scenario, place: Place, core: bool) -> Vec<Control> {
    let compares = has_references(scenario);
    let mut tried: Vec<_> = match scenario.tried {
        For::Only(controls) => controls.to_vec(),
        For::EveryoneBut(name) => {
            let others = Control::ours().filter(|control| *control != Control::of(name));
            others.collect()
        }
        For::Everyone if place == Place::EndToEnd && !core && compares => {
            Control::ours().chain(REFERENCES).collect()
        }
        For::EveryoneAnd(control) if place == Place::EndToEnd && !core && compares => {
            Control::ours().chain([control]).collect()
        }
        For::Everyone | For::EveryoneAnd(_) => Control::ours().collect(),
    };
    tried.retain(|control| scenario.scalable || !control.is_scalable());
    tried
}

/// Returns whether a bare connection with quiche's own control compares: it has one flow of one body, its client stays where it is,
/// reads and acknowledges every packet at once, and it does not use ECN.
fn has_references(scenario: &Scenario) -> bool {
    let path = &scenario.bottleneck;
    matches!(scenario.cross_traffic, CrossTraffic::Alone(_))
        && scenario.path_changes.is_empty()
        && scenario.receive_window.is_none()
        && scenario.pages.is_none()
        && path.ack_path.is_none()
        && !path.aqm.is_some_and(Aqm::marks)
}

fn jobs<'a>(scenarios: &'a [Scenario], choice: &Choice<'a>) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    for place in Place::ALL {
        if choice.place.is_some_and(|one| one != place) {
            continue;
        }
        for scenario in scenarios {
            if choice.scenario.is_some_and(|one| one != scenario.name) {
                continue;
            }
            let Some(effort) = scenario.effort(place, choice.core) else {
                continue;
            };
            let references = scenario.bounds.iter();
            let references = references.filter_map(|bound| bound.measure.reference());
            let references: Vec<_> = references.collect();
            for control in controls(scenario, place, choice.core) {
                let chosen = choice.control.is_none_or(|one| one == control);
                if !(chosen || references.contains(&control)) {
                    continue;
                }
                let seeds = choice.seed.map_or(0..effort.seeds, |seed| seed..seed + 1);
                jobs.extend(seeds.clone().map(|seed| Job {
                    scenario,
                    place,
                    control,
                    seed,
                    limit: effort.limit,
                    picture: choice.plots.filter(|_| chosen && seed == seeds.start),
                }));
            }
        }
    }
    jobs
}

impl Job<'_> {
    fn run(&self) -> Result<Run, MatrixError> {
        let scenario = &self.scenario.drawn(self.seed, self.limit);
        let flows = record(scenario, self.place, self.control, self.seed, self.limit)?;
        if let Some(folder) = self.picture {
            let name = format!("{}-{}-{}.svg", self.scenario.name, self.control, self.place.name());
            let title = format!(
                "{}: {} ({}), seed {}",
                self.control,
                self.scenario.name,
                self.place.name(),
                self.seed
            );
            plot::write(&folder.join(name), &title, &flows, self.limit)?;
        }
        let bounds = self.scenario.bounds.iter();
        let values = bounds.map(|bound| figure(bound.measure, scenario, &flows));
        Ok(Run {
            seed: self.seed,
            completed: flows.first().and_then(|flow| flow.completed),
            values: values.collect(),
        })
    }
}

/// Runs a scenario once; the flow that is judged comes first.
///
/// # Errors
///
/// A connection could not be set up, or the simulator does not have that control.
pub fn record(
    scenario: &Scenario,
    place: Place,
    control: Control,
    seed: u64,
    limit: Duration,
) -> Result<Vec<Record>, MatrixError> {
    match place {
        Place::Simulator => simulate(scenario, control, seed, limit),
        Place::EndToEnd => connect(scenario, control, seed, limit),
    }
}

fn connect(
    scenario: &Scenario,
    control: Control,
    seed: u64,
    limit: Duration,
) -> Result<Vec<Record>, MatrixError> {
    let server = if control.is_ours() { Server::default() } else { Server::Bare };
    let flows = (0..).zip(flows(scenario, control, limit));
    let downloads = flows.map(|(number, (start, source, control))| Download {
        start,
        path_changes: scenario.path_changes.clone(),
        receive_window: scenario.receive_window.filter(|_| number == 0),
        pages: scenario.pages.filter(|_| number == 0),
        ..Download::new(control, source)
    });
    let (downloads, path) = (downloads.collect(), &scenario.bottleneck);
    let scenario = virtual_net::Scenario::new(server, downloads, path, limit, seed);
    Ok(virtual_net::run(&scenario)?.into_iter().map(Record::from).collect())
}

fn simulate(
    scenario: &Scenario,
    control: Control,
    seed: u64,
    limit: Duration,
) -> Result<Vec<Record>, MatrixError> {
    let mut simulation =
        Simulation::new(scenario.bottleneck.clone(), seed).sampled_every(SAMPLE_EVERY);
    for (number, (start, source, control)) in (0..).zip(flows(scenario, control, limit)) {
        let (algorithm, options) = control.find()?;
        let mut flow = Flow {
            start,
            path_changes: scenario.path_changes.clone(),
            ..Flow::new(source).marked_for(&algorithm)
        };
        if number == 0 {
            flow.receive_window = scenario.receive_window;
            flow.pages = scenario.pages.map(|load| load.pages);
        }
        let init = init(seed.wrapping_add(number));
        simulation = simulation.with(flow, algorithm.controller(&init, &options));
    }
    let outcomes = simulation.run(limit);
    Ok(outcomes.into_iter().map(Record::from).collect())
}

/// Returns the flows of a scenario, the judged one first, each with its start, its data and its control.
fn flows(
    scenario: &Scenario,
    control: Control,
    limit: Duration,
) -> Vec<(Duration, Source, Control)> {
    let at_once = |source| (Duration::ZERO, source, control);
    match &scenario.cross_traffic {
        CrossTraffic::Alone(source) => vec![at_once(source.clone())],
        CrossTraffic::SameAlgorithm { flows, apart } => {
            let starts = (0..*flows).map(|i| *apart * u32::try_from(i).unwrap_or(u32::MAX));
            starts.map(|start| (start, Source::Endless, control)).collect()
        }
        CrossTraffic::Incast { flows, bytes } => {
            (0..*flows).map(|_| at_once(Source::Bulk(*bytes))).collect()
        }
        CrossTraffic::Cubic => {
            vec![at_once(Source::Endless), (Duration::ZERO, Source::Endless, Control::of("cubic"))]
        }
        CrossTraffic::ComingAndGoing => {
            let often = visits(limit, 20, 60, 30_000_000);
            let seldom = visits(limit, 35, 90, 5_000_000);
            [Source::Endless, often, seldom].map(at_once).to_vec()
        }
    }
}

/// Returns a source that sends the same number of bytes again and again, from `first` seconds on.
fn visits(limit: Duration, first: u64, every: u64, bytes: u64) -> Source {
    let times = std::iter::successors(Some(first), |at| Some(at + every));
    let times = times.map(Duration::from_secs).take_while(|at| *at < limit);
    Source::Bursts(times.map(|at| (at, bytes)).collect())
}
