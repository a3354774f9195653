//! Plots one run: window and bytes in flight, rates, round-trip time, state.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use plotters::coord::Shift;
use plotters::prelude::*;
use sluicegate_cc::State;
use thiserror::Error;

use super::record::Record;

const SIZE: (u32, u32) = (1_000, 800);
const TITLE: u32 = 30;
const STATES: u32 = 90;

/// Time over which a rate is averaged.
const RATE_WINDOW: Duration = Duration::from_millis(100);

/// Largest number of points of a line: more are not visible.
const MAX_POINTS: usize = 2_000;

/// Length of an axis as a multiple of the highest value.
const ROOM: f64 = 1.05;

const BLUE: RGBColor = RGBColor(31, 119, 180);
const ORANGE: RGBColor = RGBColor(255, 127, 14);
const GREY: RGBColor = RGBColor(127, 127, 127);
const RED: RGBColor = RGBColor(214, 39, 40);
const PALETTE: [RGBColor; 7] = [
    RGBColor(44, 160, 44),
    BLUE,
    ORANGE,
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(23, 190, 207),
    RGBColor(188, 189, 34),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A picture could not be drawn.
#[derive(Debug, Error)]
#[error("cannot draw {path}: {cause}")]
pub struct PlotError {
    path: String,
    cause: String,
}

/// The ends of the axes; what is not given follows from the run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Axes {
    /// End of the time axis, seconds.
    pub(super) time: f64,
    /// End of the window's axis, thousand bytes.
    pub(super) window: Option<f64>,
    /// End of the rates' axis, Mbit/s.
    pub(super) rate: Option<f64>,
    /// End of the round-trip times' axis, milliseconds.
    pub(super) delay: Option<f64>,
}

/// One panel with lines over time.
struct Panel {
    title: &'static str,
    height: Option<f64>,
    lines: Vec<Line>,
}

struct Line {
    name: String,
    color: RGBColor,
    points: Vec<(f64, f64)>,
}

/// Draws a run over `limit`, or as long as it took, into `path`.
pub(super) fn write(
    path: &Path,
    title: &str,
    flows: &[Record],
    limit: Duration,
) -> Result<(), PlotError> {
    let last = flows.iter().filter_map(|flow| flow.points.last()).map(|p| p.at);
    let end = last.max().unwrap_or(limit).min(limit);
    let axes = Axes { time: end.as_secs_f64(), ..Axes::default() };
    write_on(path, title, flows, axes)
}

/// Writes the same plot on given axes, so that runs can be compared.
pub(super) fn write_on(
    path: &Path,
    title: &str,
    flows: &[Record],
    axes: Axes,
) -> Result<(), PlotError> {
    draw(path, title, flows, axes)
        .map_err(|cause| PlotError { path: path.display().to_string(), cause })
}

fn told(error: impl Display) -> String {
    error.to_string()
}

fn draw(path: &Path, title: &str, flows: &[Record], axes: Axes) -> Result<(), String> {
    let Some(first) = flows.first() else {
        return Ok(());
    };
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(told)?;
    let (head, body) = root.split_vertically(TITLE);
    let style = ("sans-serif", 18).into_text_style(&head);
    head.draw_text(title, &style, (12, 8)).map_err(told)?;
    let (charts, states) = body.split_vertically(SIZE.1 - TITLE - STATES);
    let panels = [
        window_panel(first, axes.window),
        rate_panel(flows, axes.rate),
        delay_panel(first, axes.delay),
    ];
    for (area, panel) in charts.split_evenly((3, 1)).iter().zip(&panels) {
        draw_panel(area, panel, axes.time)?;
    }
    draw_states(&states, first, axes.time)?;
    root.present().map_err(told)
}

/// Returns every nth point, so that few enough are left.
fn thinned<T: Copy>(points: impl Iterator<Item = T>, total: usize) -> Vec<T> {
    points.step_by(total.div_ceil(MAX_POINTS).max(1)).collect()
}

fn window_panel(flow: &Record, height: Option<f64>) -> Panel {
    let total = flow.points.len();
    let line = |name: &str, color, bytes: fn(&super::Point) -> u64| {
        let points = flow.points.iter();
        let points = points.map(|p| (p.at.as_secs_f64(), bytes(p) as f64 / 1e3));
        Line { name: name.to_owned(), color, points: thinned(points, total) }
    };
    Panel {
        title: "thousand bytes",
        height,
        lines: vec![line("in flight", ORANGE, |p| p.in_flight), line("window", BLUE, |p| p.cwnd)],
    }
}

fn rate_panel(flows: &[Record], height: Option<f64>) -> Panel {
    let mut lines = Vec::new();
    if let Some(flow) = flows.first() {
        let paced = flow
            .points
            .iter()
            .filter_map(|p| Some((p.at.as_secs_f64(), p.pacing_rate? as f64 * 8.0 / 1e6)));
        lines.push(Line {
            name: "pacing".to_owned(),
            color: GREY,
            points: thinned(paced, flow.points.len()),
        });
    }
    for (index, flow) in flows.iter().enumerate() {
        let color = if index == 0 { BLUE } else { PALETTE[(index + 1) % PALETTE.len()] };
        let name = if index == 0 { "delivered".to_owned() } else { format!("flow {}", index + 1) };
        lines.push(Line { name, color, points: rates(flow) });
    }
    // A pacing rate far above what gets through would hide everything else.
    let delivered = lines.iter().skip(1).flat_map(|line| &line.points);
    let highest = delivered.map(|point| point.1).fold(0.0, f64::max);
    Panel { title: "Mbit/s", height: height.or((highest > 0.0).then_some(1.5 * highest)), lines }
}

fn rates(flow: &Record) -> Vec<(f64, f64)> {
    let end = flow.points.last().map_or(Duration::ZERO, |p| p.at);
    let starts = std::iter::successors(Some(Duration::ZERO), |at| Some(*at + RATE_WINDOW));
    let starts = starts.take_while(|at| *at + RATE_WINDOW <= end);
    let count = end.as_nanos() / RATE_WINDOW.as_nanos().max(1);
    let rate = |from: Duration| {
        let until = from + RATE_WINDOW;
        (until.as_secs_f64(), flow.throughput(from, until) / 1e6)
    };
    thinned(starts.map(rate), usize::try_from(count).unwrap_or(usize::MAX))
}

fn delay_panel(flow: &Record, height: Option<f64>) -> Panel {
    let points =
        flow.points.iter().filter_map(|p| Some((p.at.as_secs_f64(), p.srtt?.as_secs_f64() * 1e3)));
    Panel {
        title: "ms",
        height,
        lines: vec![Line {
            name: "srtt".to_owned(),
            color: BLUE,
            points: thinned(points, flow.points.len()),
        }],
    }
}

impl Panel {
    fn highest(&self) -> f64 {
        let values = self.lines.iter().flat_map(|line| &line.points);
        values.map(|point| point.1).fold(0.0, f64::max)
    }
}

fn draw_panel(area: &Area<'_>, panel: &Panel, end: f64) -> Result<(), String> {
    let top = panel.height.unwrap_or(ROOM * panel.highest()).max(1e-3);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(20)
        .x_label_area_size(22)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end.max(1e-3), 0.0..top)
        .map_err(told)?;
    chart
        .configure_mesh()
        .y_desc(panel.title)
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|seconds| format!("{seconds} s"))
        .draw()
        .map_err(told)?;
    for line in &panel.lines {
        let color = line.color;
        let inside = line.points.iter().map(|&(x, y)| (x, y.min(top)));
        chart
            .draw_series(LineSeries::new(inside, color.stroke_width(1)))
            .map_err(told)?
            .label(line.name.as_str())
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .draw()
        .map_err(told)
}

/// Draws a strip in the colour of the state, and a legend of the colours. Recovery is red in every picture.
fn draw_states(area: &Area<'_>, flow: &Record, end: f64) -> Result<(), String> {
    let mut names: Vec<&str> = Vec::new();
    for name in flow.points.iter().filter_map(|point| point.state) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let color = |name: &str| {
        if name == State::Recovery.name() {
            return RED;
        }
        let others = names.iter().filter(|&&name| name != State::Recovery.name());
        let place = others.take_while(|known| **known != name).count();
        PALETTE[place % PALETTE.len()]
    };
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(20)
        .x_label_area_size(0)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end.max(1e-3), 0.0..3.0)
        .map_err(told)?;
    let mut strips = Vec::new();
    for stretch in flow.points.chunk_by(|a, b| a.state == b.state) {
        let (Some(first), Some(last)) = (stretch.first(), stretch.last()) else {
            continue;
        };
        let next = flow.points.partition_point(|point| point.at <= last.at);
        let until = flow.points.get(next).unwrap_or(last).at.as_secs_f64();
        if let Some(name) = first.state {
            let corners = [(first.at.as_secs_f64(), 2.0), (until, 3.0)];
            strips.push(Rectangle::new(corners, color(name).filled()));
        }
    }
    chart.draw_series(strips).map_err(told)?;
    let style = ("sans-serif", 13).into_text_style(area);
    for (number, name) in (0..).zip(&names) {
        let (x, y) = (72 + 215 * (number % 4), 40 + 20 * (number / 4));
        let swatch = Rectangle::new([(x, y), (x + 12, y + 12)], color(name).filled());
        area.draw(&swatch).map_err(told)?;
        area.draw_text(name, &style, (x + 18, y)).map_err(told)?;
    }
    Ok(())
}

/// Returns the highest values of a run, to find axes that fit several.
pub(super) fn reach(flow: &Record) -> Axes {
    let highest = |panel: &Panel| ROOM * panel.highest();
    let delivered = ROOM * rates(flow).iter().map(|point| point.1).fold(0.0, f64::max);
    Axes {
        time: flow.points.last().map_or(0.0, |p| p.at.as_secs_f64()),
        window: Some(highest(&window_panel(flow, None))),
        rate: Some(delivered),
        delay: Some(highest(&delay_panel(flow, None))),
    }
}
