//! The report as one page of HTML, with charts.

use std::fmt::{Display, Write as _};
use std::time::UNIX_EPOCH;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::interval::Interval;
use crate::options::LoadArgs;
use crate::report::Report;
use crate::tally::Samples;
use crate::text::{bytes, decimal, duration};

/// Size of a chart, pixels.
const SIZE: (u32, u32) = (960, 300);

/// Largest number of points of a line: more are not visible.
const MAX_POINTS: usize = 2_000;

/// Length of an axis as a multiple of the highest value.
const ROOM: f64 = 1.05;

const BLUE: RGBColor = RGBColor(31, 119, 180);
const ORANGE: RGBColor = RGBColor(255, 127, 14);
const GREY: RGBColor = RGBColor(127, 127, 127);

/// Percentages that the axis of the percentiles names.
const PERCENTILES: [&str; 7] = ["0", "90", "99", "99.9", "99.99", "99.999", "99.9999"];

const STYLE: &str = "
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse } th { text-align: left; font-weight: 500 }
th, td { padding: .2rem 1.2rem .2rem 0 } td { text-align: right; font-variant-numeric: tabular-nums }
svg { width: 100%; height: auto; background: #fff; border-radius: 6px }
@media (prefers-color-scheme: dark) { svg { filter: invert(.88) hue-rotate(180deg) } }
.warning { color: #c33 } code { overflow-wrap: anywhere }
";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A line of a chart.
struct Line {
    name: &'static str,
    color: RGBColor,
    points: Vec<(f64, f64)>,
}

/// A chart, with the titles of its axes.
struct Chart<'a> {
    title: &'a str,
    x: &'a str,
    y: &'a str,
    x_label: fn(&f64) -> String,
    lines: Vec<Line>,
}

/// Returns the page.
///
/// # Errors
/// A chart cannot be drawn.
pub(crate) fn page(
    args: &LoadArgs,
    report: &Report<'_>,
    intervals: &[Interval],
) -> Result<String, String> {
    let url = args.urls.first().map_or("", String::as_str);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Load test of {url}</title>\n<style>{STYLE}</style>\n\
         <h1>Load test</h1>\n<p><code>{url}</code>{more}; -c {clients} -m {streams} -t {threads}, sluicegate {version}</p>\n",
        url = escaped(url),
        more = match args.urls.len() {
            0 | 1 => String::new(),
            count => format!(" and {} more", count - 1),
        },
        clients = args.clients,
        streams = args.max_concurrent_streams,
        threads = args.threads,
        version = env!("CARGO_PKG_VERSION"),
    );
    for note in report.notes(args).lines() {
        let _ = writeln!(page, "<p class=\"warning\">{}</p>", escaped(note));
    }
    page.push_str(&summary(report, args));
    let seconds = |value: &f64| decimal(*value);
    let over_time = |name, color, of: fn(&Interval) -> f64| Line {
        name,
        color,
        points: intervals.iter().map(|at| (at.end, of(at))).collect(),
    };
    let charts = [
        Chart {
            title: "Throughput",
            x: "time, s",
            y: "requests per second",
            x_label: seconds,
            lines: vec![over_time("requests per second", BLUE, |at| at.rate)],
        },
        Chart {
            title: "Latency",
            x: "time, s",
            y: "ms",
            x_label: seconds,
            lines: vec![
                over_time("max", GREY, |at| at.max * 1e3),
                over_time("p99", ORANGE, |at| at.p99 * 1e3),
                over_time("p50", BLUE, |at| at.p50 * 1e3),
            ],
        },
        Chart {
            title: "Latency by percentile",
            x: "percentile",
            y: "ms",
            x_label: percentile,
            lines: vec![Line {
                name: "all requests",
                color: BLUE,
                points: curve(&report.tally.request),
            }],
        },
    ];
    for chart in charts {
        let _ = writeln!(page, "<h2>{}</h2>\n{}", chart.title, chart.draw()?);
    }
    page.push_str("</html>\n");
    Ok(page)
}

/// Returns the verdict about --slo-p99, if it was given.
fn slo(report: &Report<'_>, args: &LoadArgs) -> Option<String> {
    let limit = duration(args.slo_p99?.as_secs_f64());
    Some(match report.missed_slo(args) {
        Some(_) => format!("<strong class=\"warning\">not met</strong>: above {limit}"),
        None if report.tally.request.len() == 0 => {
            "<strong class=\"warning\">unknown</strong>: no response".into()
        }
        None => format!("met: at most {limit}"),
    })
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Returns the table of what counts.
fn summary(report: &Report<'_>, args: &LoadArgs) -> String {
    let tally = report.tally;
    let times = tally.request.statistics(1e9);
    let [_, _, s2, s3, s4, s5] = tally.status;
    let (rate, byte_rate) = report.rates();
    let date = httpdate::fmt_http_date(UNIX_EPOCH + report.unix);
    let protocol = tally.protocol.as_deref().unwrap_or("none: no connection");
    let rows = [
        ("Date", date),
        ("Generator", escaped(&host_name())),
        ("Protocol", escaped(protocol)),
        ("Time", duration(report.counted.as_secs_f64())),
        ("Requests per second", decimal(rate)),
        ("Received per second", bytes(byte_rate) + "B"),
        ("Requests that succeeded", tally.succeeded.to_string()),
        ("Requests that failed", tally.failed.to_string()),
        ("Responses 2xx, 3xx, 4xx, 5xx", format!("{s2}, {s3}, {s4}, {s5}")),
        ("Latency, median", duration(times.median)),
        ("Latency, 95 %", duration(times.p95)),
        ("Latency, 99 %", duration(times.p99)),
        ("Latency, 99.9 %", duration(times.p999)),
        ("Latency, longest", duration(times.max)),
        ("Connections", tally.connections.to_string()),
    ];
    let verdict = slo(report, args).map(|verdict| ("Verdict of --slo-p99", verdict));
    let rows = rows.into_iter().chain(verdict);
    let rows: String = rows.map(|(name, value)| format!("<tr><th>{name}<td>{value}\n")).collect();
    format!("<table>\n{rows}</table>\n")
}

/// Returns the times by percentile: x is the number of nines, `-log10(1 - quantile)`, and y the time, milliseconds.
#[expect(clippy::cast_precision_loss, reason = "a chart shows few digits")]
fn curve(times: &Samples) -> Vec<(f64, f64)> {
    let steps = times.histogram().iter_quantiles(10);
    let last = PERCENTILES.len() - 1;
    let points = steps.map(|step| {
        let nines = -(1.0 - step.quantile_iterated_to()).log10();
        (nines.min(last as f64), step.value_iterated_to() as f64 / 1e6)
    });
    points.collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the axis has few whole numbers, from 0 on"
)]
fn percentile(nines: &f64) -> String {
    let name = PERCENTILES.get(nines.round() as usize).copied();
    // Between two of them, the axis has no name.
    let name = name.filter(|_| (nines - nines.round()).abs() < 0.01);
    name.map_or_else(String::new, |name| format!("{name} %"))
}

impl Chart<'_> {
    /// Returns the chart as an SVG element.
    fn draw(&self) -> Result<String, String> {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            self.draw_on(&area)?;
            area.present().map_err(told)?;
        }
        // What precedes the element belongs to a file of its own.
        let at = svg.find("<svg").unwrap_or_default();
        Ok(svg.split_off(at))
    }

    fn draw_on(&self, area: &Area<'_>) -> Result<(), String> {
        area.fill(&WHITE).map_err(told)?;
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let end = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(f64::MIN_POSITIVE, f64::max);
        let (right, top) = (end(|point| point.0), end(|point| point.1) * ROOM);
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .margin_right(48)
            .x_label_area_size(42)
            .y_label_area_size(72)
            .build_cartesian_2d(0.0..right, 0.0..top)
            .map_err(told)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc(self.x)
            .y_desc(self.y)
            .x_label_formatter(&self.x_label)
            .y_label_formatter(&|value| {
                if top < 20.0 { decimal(*value) } else { format!("{value:.0}") }
            })
            .label_style(("sans-serif", 13))
            .draw()
            .map_err(told)?;
        for line in &self.lines {
            let step = line.points.len().div_ceil(MAX_POINTS).max(1);
            let points = line.points.iter().copied().step_by(step);
            let color = line.color;
            chart
                .draw_series(LineSeries::new(points, color.stroke_width(2)))
                .map_err(told)?
                .label(line.name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2))
                });
        }
        // The axis names a line that is alone.
        if self.lines.len() == 1 {
            return Ok(());
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE)
            .draw()
            .map_err(told)
    }
}

fn told(error: impl Display) -> String {
    error.to_string()
}

/// Returns a text without characters that HTML takes for its own.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::options;
    use crate::tally::Tally;

    fn report(tally: &Tally) -> Report<'_> {
        Report {
            tally,
            is_quic: true,
            unix: Duration::from_secs(1_700_000_000),
            wall: Duration::from_secs(3),
            counted: Duration::from_secs(3),
            verdict: Some("the <generator> was slow".into()),
        }
    }

    #[test]
    fn texts_from_outside_are_no_elements() {
        let args = options::parse(&["https://a/<script>\"&'", "https://a/b"]).unwrap();
        let page = page(&args, &report(&Tally::default()), &[]).unwrap();
        assert!(
            page.contains("https://a/&lt;script&gt;&quot;&amp;&#39;</code> and 1 more"),
            "{page}"
        );
        assert!(page.contains("the &lt;generator&gt; was slow"), "{page}");
        assert!(!page.contains("<script"), "{page}");
    }

    #[test]
    fn a_page_says_when_where_and_how_and_whether_it_was_fast_enough() {
        let mut tally = Tally { protocol: Some("h2<".into()), ..Tally::default() };
        let page = |tally: &Tally, words: &[&str]| {
            let args = options::parse(&[words, &["https://a/"]].concat()).unwrap();
            page(&args, &report(tally), &[]).unwrap()
        };
        let text = page(&tally, &["--slo-p99", "5ms"]);
        for part in ["Tue, 14 Nov 2023 22:13:20 GMT", "<td>h2&lt;", "unknown</strong>"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains(&format!("<th>Generator<td>{}", escaped(&host_name()))), "{text}");
        tally.request.add(10_000_000);
        assert!(page(&tally, &["--slo-p99", "5ms"]).contains("not met</strong>: above 5.00ms"));
        assert!(page(&tally, &["--slo-p99", "20ms"]).contains("met: at most 20.00ms"));
        assert!(!page(&tally, &[]).contains("slo-p99"));
    }

    #[test]
    fn charts_have_a_line_for_each_figure() {
        let mut tally = Tally::default();
        for millis in 1..=1000 {
            tally.request.add(millis * 1_000_000);
        }
        let interval = |end| Interval {
            end,
            rate: 100.0 * end,
            byte_rate: 1e6,
            p50: 0.01,
            p99: 0.02,
            max: 0.03,
            failed: 0,
            connections: 1,
        };
        let args = options::parse(&["https://a/"]).unwrap();
        let intervals = [1.0, 2.0, 3.0].map(interval);
        let page = page(&args, &report(&tally), &intervals).unwrap();
        assert_eq!(page.matches("<svg").count(), 3);
        for text in ["requests per second", "p50", "p99", "max", "99.9 %", "percentile", "time, s"]
        {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(page.matches("<polyline").count() >= 5, "{page}");
        assert!(!page.contains("all requests"), "{page}");
    }
}
