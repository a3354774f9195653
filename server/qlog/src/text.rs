//! Summaries in words, for people.

use std::fmt::Write as _;

use crate::summary::{Firing, Handshake, Spread, Summary, TimeShare};
use crate::verdict::{Severity, Verdict};

/// Rows of states and waits that are shown.
const MAX_ROWS: usize = 6;
/// Verdicts that are shown.
const MAX_VERDICTS: usize = 5;

/// Returns a time in milliseconds as people write it.
pub fn duration(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{ms:.2} ms"),
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 120_000.0 => format!("{:.1} s", ms / 1e3),
        ms if ms < 7.2e6 => format!("{:.0} min", ms / 6e4),
        ms if ms < 1.728e8 => format!("{:.0} h", ms / 3.6e6),
        ms => format!("{:.0} days", ms / 8.64e7),
    }
}

/// Returns a number of bytes as people write it.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1e4 => format!("{bytes:.0} B"),
        bytes if bytes < 1e6 => format!("{:.0} kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.1} GB", bytes / 1e9),
    }
}

/// Returns a text without control characters, which a terminal would obey.
pub fn plain(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// Returns a place in the trace, always in seconds, so that it can be found in a picture.
fn place(ms: f64) -> String {
    format!("{:.3} s", ms / 1e3)
}

fn span(verdict: &Verdict, summary: &Summary) -> String {
    let [from, to] = [verdict.from_ms, verdict.to_ms].map(|ms| place(summary.told(ms)));
    format!("from {from} to {to}")
}

/// Returns a summary as a screen of text.
pub fn story(summary: &Summary) -> String {
    let mut text = format!("{}\n", plain(&summary.file));
    for (place, verdict) in summary.verdicts.iter().take(MAX_VERDICTS).enumerate() {
        let label = if place == 0 { "verdict" } else { "also" };
        line(&mut text, label, &format!("{}, {}", verdict.finding.words(), span(verdict, summary)));
        if !verdict.evidence.is_empty() {
            line(&mut text, "", &verdict.evidence);
        }
    }
    for Firing { trigger, at_ms } in &summary.triggers {
        let at = place(summary.told(*at_ms));
        line(&mut text, "recorded", &format!("{}, at {at}", trigger_words(trigger)));
    }
    for (label, value) in facts(summary) {
        line(&mut text, label, &value);
    }
    for note in &summary.notes {
        line(&mut text, "note", note);
    }
    text
}

/// Returns why a flight recorder wrote a trace.
fn trigger_words(trigger: &str) -> String {
    let words = match trigger {
        "window_floor" => "because the window stayed at its floor although data waited",
        "recovery_without_loss" => "because the controller stayed in recovery without loss",
        "probe_timeouts" => "because of probe timeouts in a row",
        "no_progress" => "because nothing was acknowledged for long although data waited",
        "handshake_failure" => "because the handshake failed",
        "operator" => "on an operator's command",
        other => return format!("because of {}", plain(other)),
    };
    words.to_owned()
}

fn line(text: &mut String, label: &str, value: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{label:<12}{value}");
}

/// Returns the facts, each with its label.
pub(crate) fn facts(summary: &Summary) -> Vec<(&'static str, String)> {
    let traffic = &summary.traffic;
    let mut facts = vec![
        ("written by", written_by(summary)),
        ("duration", lasts(summary)),
        ("handshake", handshake(summary)),
        ("sent", sent(summary)),
        (
            "received",
            format!(
                "{} in {} packets, {} of streams",
                bytes(traffic.bytes_received as f64),
                traffic.packets_received,
                bytes(traffic.stream_bytes_received as f64)
            ),
        ),
    ];
    if let Some(rtt) = summary.rtt_ms {
        facts.push(("RTT", spread(rtt, duration)));
    }
    if let Some(window) = summary.cwnd_bytes {
        let end = format!(", {} at the end", bytes(window.end));
        facts.push(("window", spread(window, bytes) + &end));
    }
    if !summary.states.is_empty() {
        facts.push(("states", shares(&summary.states, summary.duration_ms)));
    }
    if !summary.waits.is_empty() {
        let label = if summary.waits_are_estimates { "waits, est." } else { "waits" };
        facts.push((label, shares(&summary.waits, summary.duration_ms)));
    }
    facts
}

fn written_by(summary: &Summary) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.push(summary.writer.clone().unwrap_or_else(|| "an unknown program".to_owned()));
    parts.extend(summary.vantage_point.as_ref().map(|point| format!("at the {point}")));
    parts.extend(summary.congestion_control.clone());
    parts.extend(summary.qlog.as_ref().map(|qlog| format!("qlog {qlog}")));
    parts.extend(summary.quic_version.as_ref().map(|version| format!("QUIC version {version}")));
    parts.extend(summary.began.clone());
    plain(&parts.join(", "))
}

fn lasts(summary: &Summary) -> String {
    let lasts = format!("{}, {} events", duration(summary.duration_ms), summary.events);
    // Less is no more than the way to the first event.
    match summary.begins_at_ms.filter(|age| *age >= 1.0) {
        Some(age) => format!(
            "{lasts}; begins when the connection is {} old, and times count from its beginning",
            place(age)
        ),
        None => lasts,
    }
}

fn handshake(summary: &Summary) -> String {
    match (summary.handshake, summary.handshake_ms) {
        (Handshake::Complete, Some(ms)) => format!("complete after {}", duration(ms)),
        (Handshake::Complete, None) => "complete".to_owned(),
        (Handshake::Incomplete, _) => "did not complete".to_owned(),
        (Handshake::Earlier, _) => "before the trace".to_owned(),
        (Handshake::Unknown, _) => "not in the trace".to_owned(),
    }
}

fn sent(summary: &Summary) -> String {
    let traffic = &summary.traffic;
    let lost = 100.0 * traffic.packets_lost as f64 / traffic.packets_sent.max(1) as f64;
    format!(
        "{} in {} packets, {} of streams; {} of streams sent again; lost packets: {} ({lost:.2} %), in episodes: {}; probe timeouts: {}",
        bytes(traffic.bytes_sent as f64),
        traffic.packets_sent,
        bytes(traffic.stream_bytes_sent as f64),
        bytes(traffic.bytes_retransmitted as f64),
        traffic.packets_lost,
        summary.loss_episodes,
        summary.probe_timeouts
    )
}

fn spread(spread: Spread, unit: impl Fn(f64) -> String) -> String {
    format!("{} to {}, median {}", unit(spread.min), unit(spread.max), unit(spread.median))
}

fn shares(rows: &[TimeShare], all: f64) -> String {
    let share = |row: &TimeShare| {
        let percent = 100.0 * row.ms / all.max(f64::MIN_POSITIVE);
        let times = if row.times > 1 { format!(", {} times", row.times) } else { String::new() };
        format!("{} {} ({percent:.0} %{times})", plain(&row.name), duration(row.ms))
    };
    let mut shown: Vec<String> = rows.iter().take(MAX_ROWS).map(share).collect();
    if rows.len() > MAX_ROWS {
        shown.push(format!("{} more", rows.len() - MAX_ROWS));
    }
    shown.join(", ")
}

/// Returns the word for how bad a verdict is.
pub fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "critical",
        Severity::Severe => "severe",
        Severity::Warning => "warning",
        Severity::Fine => "fine",
    }
}

/// A line of `top`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct TopLine {
    /// Name of the file.
    pub file: String,
    /// The worst verdict.
    pub verdict: Verdict,
    /// Duration of the trace, ms.
    pub duration_ms: f64,
    /// Share of lost packets, per cent.
    pub lost_percent: f64,
    /// Bytes of packets sent.
    pub bytes_sent: u64,
    /// Median window, bytes.
    pub cwnd_bytes: Option<f64>,
}

impl TopLine {
    /// Returns the line of a trace.
    pub fn new(name: String, summary: Summary) -> Option<TopLine> {
        let traffic = summary.traffic;
        Some(TopLine {
            file: name,
            duration_ms: summary.duration_ms,
            lost_percent: 100.0 * traffic.packets_lost as f64 / traffic.packets_sent.max(1) as f64,
            bytes_sent: traffic.bytes_sent,
            cwnd_bytes: summary.cwnd_bytes.map(|window| window.median),
            verdict: summary.verdicts.into_iter().next()?,
        })
    }

    /// Compares by how bad it is, the worst first.
    pub fn order(&self, other: &TopLine) -> std::cmp::Ordering {
        let (one, two) = (&self.verdict, &other.verdict);
        let by_severity = two.severity.cmp(&one.severity);
        let by_duration = two.duration().total_cmp(&one.duration());
        by_severity.then(by_duration).then_with(|| self.file.cmp(&other.file))
    }
}

/// Returns lines of traces as a table.
pub fn table(lines: &[TopLine]) -> String {
    let head = ["SEVERITY", "VERDICT", "FOR", "OF", "SENT", "LOST", "WINDOW", "TRACE"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(lines.iter().map(|line| {
        [
            severity(line.verdict.severity).to_owned(),
            line.verdict.finding.words().to_owned(),
            duration(line.verdict.duration()),
            duration(line.duration_ms),
            bytes(line.bytes_sent as f64),
            format!("{:.1} %", line.lost_percent),
            line.cwnd_bytes.map_or_else(|| "-".to_owned(), bytes),
            plain(&line.file),
        ]
    }));
    columns(&rows)
}

/// Returns two summaries beside each other, with what differs.
pub fn comparison(names: [&str; 2], summaries: [&Summary; 2]) -> String {
    let mut rows = vec![["".to_owned(), plain(names[0]), plain(names[1]), "DIFFERENCE".to_owned()]];
    let verdict = |summary: &Summary| {
        let first = summary.verdicts.first();
        first.map_or_else(String::new, |verdict| verdict.finding.words().to_owned())
    };
    let [one, two] = summaries.map(verdict);
    rows.push(["verdict".to_owned(), one, two, String::new()]);
    let when = |summary: &Summary| {
        let first = summary.verdicts.first();
        first.map_or_else(String::new, |verdict| span(verdict, summary))
    };
    let [one, two] = summaries.map(when);
    rows.push([String::new(), one, two, String::new()]);
    let [one, two] = summaries
        .map(|summary| summary.congestion_control.as_deref().map_or_else(|| "-".to_owned(), plain));
    rows.push(["algorithm".to_owned(), one, two, String::new()]);
    for (label, value, unit) in FIGURES {
        let [one, two] = summaries.map(value);
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), unit);
        let difference = one.zip(two).map_or_else(String::new, |(one, two)| difference(one, two));
        rows.push([(*label).to_owned(), shown(one), shown(two), difference]);
    }
    for name in names_of(summaries, |summary| &summary.states) {
        rows.push(share_row(&format!("state {name}"), &name, summaries, |summary| &summary.states));
    }
    for name in names_of(summaries, |summary| &summary.waits) {
        rows.push(share_row(&format!("wait {name}"), &name, summaries, |summary| &summary.waits));
    }
    columns(&rows)
}

type Figure = (&'static str, fn(&Summary) -> Option<f64>, fn(f64) -> String);

const FIGURES: &[Figure] = &[
    ("duration", |s| Some(s.duration_ms), duration),
    ("handshake", |s| s.handshake_ms, duration),
    ("sent", |s| Some(s.traffic.bytes_sent as f64), bytes),
    ("received", |s| Some(s.traffic.bytes_received as f64), bytes),
    ("acknowledged", |s| Some(s.traffic.bytes_acknowledged as f64), bytes),
    ("delivered/s", |s| rate(s), bytes),
    ("packets sent", |s| Some(s.traffic.packets_sent as f64), count),
    ("packets lost", |s| Some(s.traffic.packets_lost as f64), count),
    ("sent again", |s| Some(s.traffic.bytes_retransmitted as f64), bytes),
    ("loss episodes", |s| Some(s.loss_episodes as f64), count),
    ("probe timeouts", |s| Some(s.probe_timeouts as f64), count),
    ("RTT, least", |s| s.rtt_ms.map(|rtt| rtt.min), duration),
    ("RTT, median", |s| s.rtt_ms.map(|rtt| rtt.median), duration),
    ("RTT, largest", |s| s.rtt_ms.map(|rtt| rtt.max), duration),
    ("window, least", |s| s.cwnd_bytes.map(|window| window.min), bytes),
    ("window, median", |s| s.cwnd_bytes.map(|window| window.median), bytes),
    ("window, largest", |s| s.cwnd_bytes.map(|window| window.max), bytes),
    ("window, end", |s| s.cwnd_bytes.map(|window| window.end), bytes),
];

fn rate(summary: &Summary) -> Option<f64> {
    let rate = summary.traffic.bytes_acknowledged as f64 / (summary.duration_ms / 1e3);
    rate.is_finite().then_some(rate)
}

fn count(count: f64) -> String {
    format!("{count:.0}")
}

fn difference(one: f64, two: f64) -> String {
    if one.max(two) <= 0.0 || (one - two).abs() < 1e-9 {
        return String::new();
    }
    if one <= 0.0 {
        return "+".to_owned();
    }
    let ratio = two / one;
    if (0.5..2.0).contains(&ratio) {
        format!("{:+.0} %", 100.0 * (ratio - 1.0))
    } else if ratio >= 10.0 {
        format!("{ratio:.0} times")
    } else {
        format!("{ratio:.2} times")
    }
}

fn names_of(summaries: [&Summary; 2], rows: impl Fn(&Summary) -> &Vec<TimeShare>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in summaries.iter().flat_map(|summary| rows(summary).iter().take(MAX_ROWS)) {
        if !names.contains(&row.name) {
            names.push(row.name.clone());
        }
    }
    names
}

fn share_row(
    label: &str,
    name: &str,
    summaries: [&Summary; 2],
    rows: impl Fn(&Summary) -> &Vec<TimeShare>,
) -> [String; 4] {
    let [one, two] = summaries.map(|summary| {
        let row = rows(summary).iter().find(|row| row.name == name);
        row.map_or_else(
            || "-".to_owned(),
            |row| {
                let percent = 100.0 * row.ms / summary.duration_ms.max(f64::MIN_POSITIVE);
                format!("{} ({percent:.0} %)", duration(row.ms))
            },
        )
    });
    [plain(label), one, two, String::new()]
}

/// Returns rows with each column as wide as it needs.
fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
