//! The parts of a picture, each drawn into a rectangle.

use std::fmt::Write as _;

use super::columns::{Column, Columns, Flow, LEVELS, Level};
use super::scale;

/// Width of a character of the small text, pixels.
const CHARACTER: f64 = 6.3;
/// Width of a character of a title, pixels.
const TITLE_CHARACTER: f64 = 7.5;

/// Place of a panel's data, pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    /// Duration of the time axis, ms.
    pub(super) duration: f64,
}

impl Area {
    pub(super) fn place(&self, ms: f64) -> f64 {
        self.x + self.width * (ms / self.duration).clamp(0.0, 1.0)
    }

    fn bottom(&self) -> f64 {
        self.y + self.height
    }
}

/// What the vertical axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    BytesPerSecond,
    Time,
}

impl Unit {
    fn mark(self, value: f64, largest: f64) -> String {
        match self {
            Unit::Bytes => scale::bytes(value, largest),
            Unit::BytesPerSecond => scale::bytes(value, largest) + "/s",
            Unit::Time => scale::time(value, largest),
        }
    }
}

/// A line of a panel: its values, its class of style and its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) values: Values,
    pub(super) class: &'static str,
    pub(super) name: &'static str,
}

/// Values of a line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Values {
    Level(Level),
    Rate(Flow),
}

impl Values {
    /// Returns the largest value. Rates are means over a few columns: single ones say little.
    pub(super) fn largest(self, columns: &Columns) -> f64 {
        match self {
            Values::Level(level) => columns.largest(level),
            Values::Rate(flow) => rates(columns, flow).into_iter().fold(0.0, f64::max),
        }
    }
}

/// Columns that are averaged for a rate, to each side.
const AROUND: usize = 4;

/// Returns the rate of each column, bytes per second: the mean of those around it.
fn rates(columns: &Columns, flow: Flow) -> Vec<f64> {
    let all = &columns.columns;
    (0..all.len())
        .map(|place| {
            let around = &all[place.saturating_sub(AROUND)..all.len().min(place + AROUND + 1)];
            let bytes: f64 = around.iter().map(|column| column.flows[flow as usize]).sum();
            bytes * 1e3 / (around.len() as f64 * columns.width)
        })
        .collect()
}

/// Draws the frame, the marks of both axes and the grid.
pub(super) fn frame(out: &mut String, area: Area, unit: Unit, marks: &[f64]) {
    let largest = marks.last().copied().unwrap_or(1.0).max(f64::MIN_POSITIVE);
    for mark in marks {
        let y = area.bottom() - area.height * mark / largest;
        let _ =
            writeln!(out, r#"<path class="grid" d="M{:.1} {y:.1}h{:.1}"/>"#, area.x, area.width);
        let text = unit.mark(*mark, largest);
        let _ = writeln!(
            out,
            r#"<text class="mark end" x="{:.1}" y="{:.1}">{text}</text>"#,
            area.x - 6.0,
            y + 3.5
        );
    }
    let times = scale::marks(area.duration, 8.0 * area.width / 1000.0);
    for mark in times.iter().filter(|mark| **mark <= area.duration) {
        let x = area.place(*mark);
        let _ =
            writeln!(out, r#"<path class="grid" d="M{x:.1} {:.1}v{:.1}"/>"#, area.y, area.height);
    }
}

/// Draws the marks of the time axis, which begins at `from`, ms.
pub(super) fn times(out: &mut String, area: Area, from: f64) {
    let to = from + area.duration;
    let times = scale::times(from, to, 8.0 * area.width / 1000.0);
    for mark in times {
        let text = scale::time(mark, to);
        let _ = writeln!(
            out,
            r#"<text class="mark middle" x="{:.1}" y="{:.1}">{text}</text>"#,
            area.place(mark - from),
            area.bottom() + 15.0
        );
    }
}

/// Draws the names of a panel: its title, then a swatch and a name for each class.
pub(super) fn legend<'a>(
    out: &mut String,
    area: Area,
    title: &str,
    names: impl Iterator<Item = (String, &'a str)>,
) {
    let y = area.y - 7.0;
    let _ = writeln!(out, r#"<text class="title" x="{:.1}" y="{y:.1}">{title}</text>"#, area.x);
    let mut x = area.x + TITLE_CHARACTER * title.chars().count() as f64 + 14.0;
    for (class, name) in names {
        let width = 32.0 + CHARACTER * name.chars().count() as f64;
        if x + width > area.x + area.width {
            let _ = writeln!(out, r#"<text class="mark" x="{x:.1}" y="{y:.1}">…</text>"#);
            return;
        }
        let _ = writeln!(
            out,
            r#"<path class="swatch {class}" d="M{x:.1} {:.1}h14"/><text class="mark" x="{:.1}" y="{y:.1}">{}</text>"#,
            y - 3.5,
            x + 18.0,
            escaped(name)
        );
        x += width;
    }
}

/// Draws a line. A level goes by steps, and covers the whole range of each column.
pub(super) fn line(out: &mut String, area: Area, columns: &Columns, line: Line, largest: f64) {
    let y = |value: f64| area.bottom() - area.height * (value / largest).clamp(0.0, 1.0);
    let middle = |place: usize| area.place((place as f64 + 0.5) * columns.width);
    let mut path = String::new();
    match line.values {
        Values::Rate(flow) => {
            for (place, rate) in rates(columns, flow).into_iter().enumerate() {
                let command = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{command}{:.1} {:.1}", middle(place), y(rate));
            }
        }
        Values::Level(level) => {
            debug_assert!((level as usize) < LEVELS);
            for (place, column) in columns.columns.iter().enumerate() {
                let Some(range) = column.levels[level as usize] else {
                    continue;
                };
                let x = middle(place);
                if path.is_empty() {
                    let _ = write!(path, "M{x:.1} {:.1}", y(range.first));
                } else {
                    let _ = write!(path, "H{x:.1}");
                }
                let [first, min, max, last] =
                    [range.first, range.min, range.max, range.last].map(y);
                for value in [first, min, max, last] {
                    let _ = write!(path, "V{value:.1}");
                }
            }
            if !path.is_empty() {
                let _ = write!(path, "H{:.1}", area.place(columns.end));
            }
        }
    }
    if !path.is_empty() {
        let _ = writeln!(out, r#"<path class="line {}" d="{path}"/>"#, line.class);
    }
}

/// Draws losses at the bottom and probe timeouts at the top.
pub(super) fn marks(out: &mut String, area: Area, columns: &Columns) {
    let (mut losses, mut timeouts) = (String::new(), String::new());
    for (place, column) in columns.columns.iter().enumerate() {
        let x = area.place((place as f64 + 0.5) * columns.width);
        if column.losses > 0 {
            let height = 6.0 + 4.0 * (column.losses as f64).log2().min(5.0);
            let _ = write!(losses, "M{x:.1} {:.1}v-{height:.1}", area.bottom());
        }
        if column.timeouts > 0 {
            let _ = write!(timeouts, "M{:.1} {:.1}h8l-4 7z", x - 4.0, area.y + 1.0);
        }
    }
    if !losses.is_empty() {
        let _ = writeln!(out, r#"<path class="loss" d="{losses}"/>"#);
    }
    if !timeouts.is_empty() {
        let _ = writeln!(out, r#"<path class="pto" d="{timeouts}"/>"#);
    }
}

/// Says that a trace does not have what a ribbon would show.
pub(super) fn absent(out: &mut String, area: Area) {
    let y = area.y + 12.0;
    let _ =
        writeln!(out, r#"<text class="mark" x="{:.1}" y="{y:.1}">not in the trace</text>"#, area.x);
}

/// Draws a ribbon: in each column, each class has as much of the height as it has of the time.
pub(super) fn ribbon(
    out: &mut String,
    area: Area,
    columns: &Columns,
    shares: impl Fn(&Column) -> &[f64],
    class: impl Fn(usize) -> String,
) {
    let count = columns.columns.first().map_or(0, |column| shares(column).len());
    let mut paths = vec![String::new(); count];
    let mut run: Option<(usize, f64)> = None;
    for (place, column) in columns.columns.iter().enumerate() {
        let from = area.place(place as f64 * columns.width);
        let to = area.place(((place + 1) as f64 * columns.width).min(columns.end));
        let shares = shares(column);
        let sum: f64 = shares.iter().sum();
        let only = shares.iter().position(|share| *share > 0.999 * sum && sum > 0.0);
        if let Some((class, begin)) = run.filter(|(class, _)| only != Some(*class)) {
            rectangle(&mut paths[class], (begin, from), (area.y, area.height));
            run = None;
        }
        if let Some(class) = only {
            run = run.or(Some((class, from)));
            continue;
        }
        let mut y = area.bottom();
        for (path, share) in paths.iter_mut().zip(shares).filter(|(_, share)| **share > 0.0) {
            let height = area.height * share / sum;
            y -= height;
            rectangle(path, (from, to), (y, height));
        }
    }
    if let Some((class, begin)) = run {
        rectangle(&mut paths[class], (begin, area.place(columns.end)), (area.y, area.height));
    }
    for (place, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let _ = writeln!(out, r#"<path class="fill {}" d="{path}"/>"#, class(place));
    }
}

fn rectangle(path: &mut String, (from, to): (f64, f64), (y, height): (f64, f64)) {
    // By their edges, not by their widths: neighbours must meet.
    let (to, bottom) = (to.max(from + 0.3), y + height);
    let _ = write!(path, "M{from:.2} {y:.1}H{to:.2}V{bottom:.1}H{from:.2}z");
}

/// Returns a text that stands for itself in XML.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
