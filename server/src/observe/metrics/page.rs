//! The text that a scrape answers: Prometheus' exposition format, version 0.0.4.

use std::fmt::{Display, Write as _};

use crate::observe::histogram::Histogram;

/// Media type of a [`Page`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Figures that know their names.
///
/// An implementation takes its struct apart field by field, so that whoever adds one is asked for its text.
pub trait Show {
    /// Adds its families to a page.
    fn show(&self, page: &mut Page);
}

/// Text in the making. Each family stands on it once, with all of its samples.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

impl Page {
    /// A counter without labels; names end in `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.counters(name, help).sample(&[], value);
    }

    /// A gauge without labels.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.gauges(name, help).sample(&[], value);
    }

    /// Counters that differ by labels.
    pub fn counters<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, help, "counter")
    }

    /// Gauges that differ by labels.
    pub fn gauges<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, help, "gauge")
    }

    /// A histogram in seconds.
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        let text = self.family(name, help, "histogram").text;
        for (bound, count) in histogram.cumulative() {
            let bound = bound.as_secs_f64();
            line(
                text,
                format_args!("{name}_bucket{{le=\"{bound}\"}} {count}"),
            );
        }
        let count = histogram.count();
        line(text, format_args!("{name}_bucket{{le=\"+Inf\"}} {count}"));
        let sum = histogram.sum().as_secs_f64();
        line(text, format_args!("{name}_sum {sum}"));
        line(text, format_args!("{name}_count {count}"));
    }

    fn family<'a>(&'a mut self, name: &'a str, help: &str, kind: &str) -> Family<'a> {
        let text = &mut self.text;
        text.push_str("# HELP ");
        text.push_str(name);
        text.push(' ');
        escape(text, help, false);
        text.push('\n');
        line(text, format_args!("# TYPE {name} {kind}"));
        Family { text, name }
    }

    /// The whole.
    pub fn into_text(self) -> String {
        self.text
    }
}

/// Samples of one name.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut String,
    name: &'a str,
}

impl Family<'_> {
    /// A finite number under these labels.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(self.name);
        for (index, (label, content)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            self.text.push_str(label);
            self.text.push_str("=\"");
            escape(self.text, content, true);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        line(self.text, format_args!(" {value}"));
    }
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(content);
    text.push('\n');
}

/// Backslashes and line feeds everywhere, quotes in labels only.
fn escape(text: &mut String, content: &str, quotes: bool) {
    for character in content.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if quotes => text.push_str("\\\""),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn families_read_as_the_format_wants_them() {
        let mut page = Page::default();
        page.counter("a_total", "Of \"a\" and \\ and\na line.", 7_u64);
        page.gauge("b", "Half.", 0.5);
        let mut family = page.counters("c_total", "By label.");
        family.sample(&[("x", "1"), ("y", "say \"hi\\\"\n")], u64::MAX);
        family.sample(&[("x", "2")], 0_u64);
        let expected = "# HELP a_total Of \"a\" and \\\\ and\\na line.\n# TYPE a_total counter\na_total 7\n\
                        # HELP b Half.\n# TYPE b gauge\nb 0.5\n\
                        # HELP c_total By label.\n# TYPE c_total counter\n\
                        c_total{x=\"1\",y=\"say \\\"hi\\\\\\\"\\n\"} 18446744073709551615\nc_total{x=\"2\"} 0\n";
        assert_eq!(page.into_text(), expected);
    }

    #[test]
    fn a_histogram_is_cumulative_and_ends_with_all() {
        let mut histogram = Histogram::default();
        for us in [900, 2500, 70_000_000] {
            histogram.record(Duration::from_micros(us));
        }
        let mut page = Page::default();
        page.histogram("h_seconds", "Times.", &histogram);
        let text = page.into_text();
        for line in [
            "# TYPE h_seconds histogram",
            "h_seconds_bucket{le=\"0.001\"} 1",
            "h_seconds_bucket{le=\"0.0025\"} 2",
            "h_seconds_bucket{le=\"60\"} 2",
            "h_seconds_bucket{le=\"+Inf\"} 3",
            "h_seconds_sum 70.0034",
            "h_seconds_count 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
