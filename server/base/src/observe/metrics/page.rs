//! Prometheus' text exposition format, version 0.0.4.

use std::fmt::{Display, Write as _};

use super::carried::{Carried, Family};
use crate::observe::distribution::{Bounds, Distribution};
use crate::observe::histogram::Histogram;

/// Media type of a [`Page`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Figures that know their families.
pub trait Show {
    /// Adds the families to a page.
    fn show(&self, page: &mut Page);
}

/// Builds a page. Each family occurs on it once, with all of its samples.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
    /// Name of the last family.
    name: String,
    /// Values of its samples on earlier pages.
    before: Option<Family>,
    carried: Carried,
    /// Families that begin now have the series of this page alone.
    is_bounded: bool,
    /// The last family has.
    has_no_others: bool,
}

impl Page {
    /// Begins a page whose counters and histograms go on from earlier ones.
    pub fn over(carried: Carried) -> Page {
        Page { carried, ..Page::default() }
    }

    /// Begins a family of samples. `kind` is `counter`, `gauge` or `histogram`; names of counters end in `_total`.
    pub fn family(&mut self, kind: &str, name: &str, help: &str) {
        self.end_family();
        name.clone_into(&mut self.name);
        self.before = self.carried.take(name);
        self.has_no_others = self.is_bounded;
        self.text.push_str("# HELP ");
        self.text.push_str(name);
        self.text.push(' ');
        escape(&mut self.text, help, false);
        self.text.push('\n');
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// Adds families whose labels come from the configuration, such as names of upstreams: series that only earlier pages have are dropped,
    /// or those of each configuration that there ever was would stay.
    pub fn bounded(&mut self, families: impl FnOnce(&mut Page)) {
        self.is_bounded = true;
        families(self);
        self.is_bounded = false;
    }

    /// Adds a sample, a finite number, to the last family.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.suffixed("", labels, value);
    }

    /// Adds the samples of a histogram, in seconds, to the last family.
    pub fn buckets(&mut self, labels: &[(&str, &str)], histogram: &Histogram) {
        let buckets = histogram.cumulative().map(|(bound, count)| (bound.as_secs_f64(), count));
        self.histogram(labels, buckets, histogram.sum().as_secs_f64(), histogram.count());
    }

    /// Adds the samples of a distribution to the last family.
    pub fn distribution<B: Bounds>(
        &mut self,
        labels: &[(&str, &str)],
        distribution: &Distribution<B>,
    ) {
        let buckets = distribution.cumulative();
        self.histogram(labels, buckets, distribution.sum(), distribution.count());
    }

    /// Returns the text.
    pub fn into_text(mut self) -> String {
        self.end_family();
        for family in std::mem::take(&mut self.carried).rest() {
            self.text.push_str(&family.head);
            self.before = Some(family);
            self.has_no_others = false;
            self.end_family();
        }
        self.text
    }

    /// Adds the samples of the last family that only earlier pages have.
    fn end_family(&mut self) {
        let before = self.before.take().filter(|_| !self.has_no_others);
        for (series, value) in before.into_iter().flat_map(Family::rest) {
            self.line(format_args!("{series} {value}"));
        }
    }

    fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        buckets: impl Iterator<Item = (f64, u64)>,
        sum: f64,
        count: u64,
    ) {
        for (bound, count) in buckets {
            self.bucket(labels, &bound.to_string(), count);
        }
        self.bucket(labels, "+Inf", count);
        self.suffixed("_sum", labels, sum);
        self.suffixed("_count", labels, count);
    }

    fn bucket(&mut self, labels: &[(&str, &str)], bound: &str, count: u64) {
        let mut labels = labels.to_vec();
        labels.push(("le", bound));
        self.suffixed("_bucket", &labels, count);
    }

    fn suffixed(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let begin = self.text.len();
        self.text.push_str(&self.name);
        self.text.push_str(suffix);
        for (index, (label, content)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            self.text.push_str(label);
            self.text.push_str("=\"");
            escape(&mut self.text, content, true);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        if let Some(before) = &mut self.before {
            let all =
                before.and_before(self.text.get(begin..).unwrap_or_default(), &value.to_string());
            self.line(format_args!(" {all}"));
        } else {
            self.line(format_args!(" {value}"));
        }
    }

    fn line(&mut self, content: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(content);
        self.text.push('\n');
    }
}

/// Escapes backslashes and line feeds, and quotes where `quotes` says so: in labels, not in help.
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
        page.family("counter", "a_total", "Of \"a\" and \\ and\na line.");
        page.sample(&[], 7_u64);
        page.family("gauge", "b", "Half.");
        page.sample(&[], 0.5);
        page.family("counter", "c_total", "By label.");
        page.sample(&[("x", "1"), ("y", "say \"hi\\\"\n")], u64::MAX);
        page.sample(&[("x", "2")], 0_u64);
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
        page.family("histogram", "h_seconds", "Times.");
        page.buckets(&[], &histogram);
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
