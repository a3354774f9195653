//! The whole picture, as SVG: one trace, or two beside each other on the same scales.

use std::fmt::Write as _;

use super::Picture;
use super::columns::{Flow, Level, MAX_STATES};
use super::panel::{self, Area, Line, Unit, Values, escaped};
use super::scale;
use crate::event::Word;
use crate::text::plain;
use crate::verdict::Severity;
use crate::wait::SenderWait;

const STYLE: &str = include_str!("style.css");
/// Width of a picture, pixels; of two, each.
const WIDTH: f64 = 1200.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 58.0;
const RIBBON: f64 = 16.0;
/// Space above each panel, for its legend.
const GAP: f64 = 30.0;
const BOTTOM: f64 = 28.0;

/// A panel: title, height, unit and lines.
struct Panel {
    title: &'static str,
    height: f64,
    unit: Unit,
    lines: &'static [Line],
}

const fn level(level: Level, class: &'static str, name: &'static str) -> Line {
    Line { values: Values::Level(level), class, name }
}

const fn rate(flow: Flow, class: &'static str, name: &'static str) -> Line {
    Line { values: Values::Rate(flow), class, name }
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "Window",
        height: 210.0,
        unit: Unit::Bytes,
        lines: &[
            level(Level::InFlight, "flight", "bytes in flight"),
            level(Level::Threshold, "ssthresh", "ssthresh"),
            level(Level::Window, "cwnd", "cwnd"),
        ],
    },
    Panel {
        title: "Round-trip time",
        height: 110.0,
        unit: Unit::Time,
        lines: &[
            level(Level::LatestRtt, "latest", "latest"),
            level(Level::SmoothedRtt, "srtt", "smoothed"),
            level(Level::MinRtt, "minrtt", "least"),
        ],
    },
    Panel {
        title: "Rate",
        height: 110.0,
        unit: Unit::BytesPerSecond,
        lines: &[
            rate(Flow::Sent, "sent", "sent"),
            rate(Flow::Delivered, "delivered", "delivered"),
            rate(Flow::Received, "received", "received"),
        ],
    },
    Panel {
        title: "Streams",
        height: 90.0,
        unit: Unit::Bytes,
        lines: &[
            level(Level::StreamsSent, "sent", "bytes sent"),
            level(Level::StreamsReceived, "received", "bytes received"),
        ],
    },
];

/// Class of style of each wait.
fn wait_class(wait: usize) -> String {
    // Those without a cause are quiet.
    let class = match SenderWait::ALL.get(wait) {
        Some(SenderWait::Application) => 8,
        Some(SenderWait::Nothing) | None => 9,
        Some(SenderWait::Congestion) => 2,
        Some(SenderWait::Pacing) => 6,
        Some(SenderWait::Handshake) => 0,
        Some(SenderWait::Amplification) => 7,
        Some(SenderWait::ConnectionFlow) => 3,
        Some(SenderWait::StreamFlow) => 5,
        Some(SenderWait::StreamId) => 4,
        Some(SenderWait::Scheduling) => 1,
    };
    format!("k{class}")
}

/// Returns the class of style of each state: the usual ones always look the same.
fn state_classes(states: &[Word]) -> Vec<String> {
    let usual = |name: &str| match name.to_ascii_lowercase() {
        name if name.contains("recovery") => Some(2),
        name if name.contains("avoidance") => Some(1),
        name if name.contains("slow") || name.contains("startup") => Some(0),
        name if name.contains("limited") => Some(8),
        _ => None,
    };
    let mut free = [3, 4, 5, 6, 7, 1, 0, 2].into_iter().cycle();
    let mut used = Vec::new();
    for state in states {
        let class = usual(state.as_str()).filter(|class| !used.contains(class));
        let class = class.or_else(|| free.by_ref().take(8).find(|class| !used.contains(class)));
        used.push(class.unwrap_or(8));
    }
    used.resize(MAX_STATES, 8);
    used.push(9);
    used.iter().map(|class| format!("k{class}")).collect()
}

/// Draws traces beside each other, each under its name.
pub fn draw(pictures: &[(&str, &Picture)]) -> String {
    let count = pictures.len().max(1) as f64;
    let width = if pictures.len() > 1 { count * 0.75 * WIDTH } else { WIDTH };
    let each = width / count;
    let panels: f64 = PANELS.iter().map(|panel| panel.height + GAP).sum();
    let height = TOP + 2.0 * (RIBBON + GAP) + panels + BOTTOM;
    let mut out = String::new();
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" role="img">"#
    );
    let names: Vec<String> = pictures.iter().map(|(name, _)| escaped(&plain(name))).collect();
    let _ = writeln!(out, "<title>{}</title>\n<style>\n{STYLE}</style>", names.join(", "));
    let _ = writeln!(out, r#"<rect class="paper" width="100%" height="100%"/>"#);
    let ends = pictures.iter().map(|(_, picture)| picture.columns.end);
    let duration = ends.fold(0.0, f64::max).max(1e-3);
    for (place, (name, picture)) in pictures.iter().enumerate() {
        let area = Area {
            x: place as f64 * each + LEFT,
            y: TOP,
            width: each - LEFT - RIGHT,
            height,
            duration,
        };
        one(&mut out, area, name, picture, pictures);
    }
    out.push_str("</svg>\n");
    out
}

/// Draws one trace. The scales fit all.
fn one(out: &mut String, whole: Area, name: &str, picture: &Picture, all: &[(&str, &Picture)]) {
    head(out, whole, name, picture);
    let columns = &picture.columns;
    let mut area = Area { y: whole.y + GAP, height: RIBBON, ..whole };
    band(out, Area { height: whole.height - whole.y - GAP - BOTTOM, ..area }, picture);
    let classes = state_classes(&columns.states);
    let class = |state: usize| classes.get(state).cloned().unwrap_or_default();
    let states = columns.states.iter().enumerate();
    let names = states.map(|(state, name)| (class(state), name.as_str()));
    let has_more = columns.columns.iter().any(|column| column.states[MAX_STATES] > 0.0);
    let more = has_more.then(|| (class(MAX_STATES), "others"));
    panel::legend(out, area, "State", names.chain(more));
    if columns.states.is_empty() {
        panel::absent(out, area);
    }
    panel::ribbon(out, area, columns, |column| &column.states, class);
    area.y += RIBBON + GAP;
    let time_in =
        |wait: usize| columns.columns.iter().map(|column| column.waits[wait]).sum::<f64>();
    let is_there = |wait: &usize| time_in(*wait) > 1e-3 * columns.end;
    let waits = (0..SenderWait::ALL.len()).filter(is_there);
    let names = waits.map(|wait| (wait_class(wait), SenderWait::ALL[wait].name()));
    let estimated = picture.summary.waits_are_estimates;
    let title = if estimated { "Waits for (estimated)" } else { "Waits for" };
    panel::legend(out, area, title, names);
    panel::ribbon(out, area, columns, |column| &column.waits, wait_class);
    area.y += RIBBON + GAP;
    for (place, panel) in PANELS.iter().enumerate() {
        area.height = panel.height;
        draw_panel(out, area, panel, picture, all);
        if place == 0 {
            panel::marks(out, area, columns);
        }
        if place + 1 == PANELS.len() {
            panel::times(out, area, picture.summary.told(0.0));
        }
        area.y += panel.height + GAP;
    }
}

fn head(out: &mut String, area: Area, name: &str, picture: &Picture) {
    let verdict = picture.summary.verdicts.first();
    let words = verdict.map_or("", |verdict| verdict.finding.words());
    let evidence = verdict.map_or("", |verdict| verdict.evidence.as_str());
    let algorithm = picture.summary.congestion_control.as_deref();
    let algorithm = algorithm.map_or_else(String::new, |name| format!(" ({name})"));
    let title = format!("{name}{algorithm}: {words}");
    for (class, y, character, text) in
        [("head", 26, 9.4, title.as_str()), ("sub", 46, 6.9, evidence)]
    {
        let text = cut(text, area.width / character);
        let _ = writeln!(out, r#"<text class="{class}" x="{:.1}" y="{y}">{text}</text>"#, area.x);
    }
}

/// Returns a text of at most so many characters.
fn cut(text: &str, room: f64) -> String {
    let room = usize::try_from(crate::number::whole(room)).unwrap_or(usize::MAX);
    if text.chars().count() <= room {
        return escaped(&plain(text));
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    escaped(&plain(&kept)) + "…"
}

/// Shades the time of the worst verdict.
fn band(out: &mut String, area: Area, picture: &Picture) {
    let worst = picture.summary.verdicts.first();
    let Some(verdict) = worst.filter(|verdict| verdict.severity > Severity::Fine) else {
        return;
    };
    let (from, to) = (area.place(verdict.from_ms), area.place(verdict.to_ms));
    let _ = writeln!(
        out,
        r#"<rect class="band" x="{from:.1}" y="{:.1}" width="{:.1}" height="{:.1}"/>"#,
        area.y,
        (to - from).max(1.0),
        area.height
    );
}

fn draw_panel(
    out: &mut String,
    area: Area,
    panel: &Panel,
    picture: &Picture,
    all: &[(&str, &Picture)],
) {
    let columns = &picture.columns;
    let largest = |line: &Line| {
        all.iter().map(|(_, picture)| line.values.largest(&picture.columns)).fold(0.0, f64::max)
    };
    let largest = panel.lines.iter().map(largest).fold(0.0, f64::max);
    let marks =
        scale::marks((1.04 * largest).max(1e-3), if panel.height > 150.0 { 5.0 } else { 3.0 });
    let top = marks.last().copied().unwrap_or(1.0);
    panel::frame(out, area, panel.unit, &marks);
    // What lies on the axis beside other lines only confuses.
    let is_window = panel.title == "Window";
    let own = panel.lines.iter().map(|line| line.values.largest(columns)).fold(0.0, f64::max);
    let least = if panel.unit == Unit::Time || is_window { 0.0 } else { 0.03 * own };
    let is_there = |line: &&Line| line.values.largest(columns) > least;
    let lines = panel.lines.iter().filter(is_there);
    let names = lines.clone().map(|line| (line.class.to_owned(), line.name));
    let marked = |class: &str, name: &'static str, is_there: bool| {
        (is_window && is_there).then(|| (class.to_owned(), name))
    };
    let floor = picture.floor.filter(|_| is_window && columns.largest(Level::Window) > 0.0);
    let has_losses = columns.columns.iter().any(|column| column.losses > 0);
    let has_timeouts = columns.columns.iter().any(|column| column.timeouts > 0);
    let names = names
        .chain(floor.map(|_| ("floor".to_owned(), "floor")))
        .chain(marked("loss", "lost packets", has_losses))
        .chain(marked("pto", "probe timeouts", has_timeouts));
    panel::legend(out, area, panel.title, names);
    for line in lines {
        panel::line(out, area, columns, *line, top);
    }
    if let Some(floor) = floor {
        let y = area.y + area.height * (1.0 - (floor / top).clamp(0.0, 1.0));
        let _ = writeln!(
            out,
            r#"<path class="line floor" d="M{:.1} {y:.1}h{:.1}"/>"#,
            area.x, area.width
        );
    }
}
