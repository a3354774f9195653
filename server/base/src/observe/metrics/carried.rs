//! Counters that go on from those of processes before this one.

use std::collections::{BTreeMap, HashMap};

/// Families that belong to a process by Prometheus' own rules.
const OF_PROCESS: &str = "process_";

/// Counters and histograms of earlier pages, summed by series.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    families: BTreeMap<String, Family>,
}

/// A family of samples that only grow.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
    /// The lines above its samples.
    pub(super) head: String,
    /// Series with their values, in the order of the first page.
    samples: Vec<(String, String)>,
    places: HashMap<String, usize>,
}

impl Carried {
    /// Adds the counters and histograms of a page. Lines that are none are passed over.
    pub fn add(&mut self, page: &str) {
        let (mut head, mut name) = (String::new(), None);
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let of_process = rest.starts_with(OF_PROCESS);
                name = match rest.split_once(' ') {
                    Some((name, "counter" | "histogram")) if !of_process => Some(name.to_owned()),
                    _ => None,
                };
                let help = std::mem::take(&mut head);
                if let Some(name) = &name {
                    let head = format!("{help}{line}\n");
                    self.families.entry(name.clone()).or_default().head = head;
                }
            } else if line.starts_with('#') {
                (head, name) = (format!("{line}\n"), None);
            } else if let Some(family) = name.as_ref().and_then(|name| self.families.get_mut(name))
                && let Some((series, value)) = line.rsplit_once(' ')
            {
                family.add(series, value);
            }
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// Takes the family of that name.
    pub(super) fn take(&mut self, name: &str) -> Option<Family> {
        self.families.remove(name)
    }

    /// Returns those that nobody has taken.
    pub(super) fn rest(self) -> impl Iterator<Item = Family> {
        self.families.into_values()
    }
}

impl Family {
    fn add(&mut self, series: &str, value: &str) {
        if let Some((_, before)) = self.place(series).and_then(|place| self.samples.get_mut(place))
        {
            *before = sum(before, value);
        } else {
            self.places.insert(series.to_owned(), self.samples.len());
            self.samples.push((series.to_owned(), value.to_owned()));
        }
    }

    fn place(&self, series: &str) -> Option<usize> {
        self.places.get(series).copied()
    }

    /// Returns a sample with what came before it, which is not returned again.
    pub(super) fn and_before(&mut self, series: &str, value: &str) -> String {
        let place = self.places.remove(series);
        let before = place.and_then(|place| self.samples.get_mut(place));
        before.map_or_else(|| value.to_owned(), |(_, before)| sum(before, value))
    }

    /// Returns the samples that were not returned yet.
    pub(super) fn rest(self) -> impl Iterator<Item = (String, String)> {
        let Family { samples, places, .. } = self;
        samples.into_iter().filter(move |(series, _)| places.contains_key(series))
    }
}

/// Returns the sum of two samples. Whole numbers stay exact.
fn sum(one: &str, other: &str) -> String {
    if let (Ok(one), Ok(other)) = (one.parse::<u64>(), other.parse::<u64>()) {
        return one.saturating_add(other).to_string();
    }
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    (number(one).unwrap_or(0.0) + number(other).unwrap_or(0.0)).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::observe::histogram::Histogram;
    use crate::observe::metrics::Page;

    /// Returns a page of a process that has counted so many on path `a`, and one on another path.
    fn page(count: u64, other: &str, carried: Carried) -> String {
        let mut page = Page::over(carried);
        page.family("counter", "requests_total", "By path.");
        page.sample(&[("path", "a b\"c")], count);
        page.sample(&[("path", other)], 1_u64);
        page.family("gauge", "open", "Now.");
        page.sample(&[], count);
        let mut histogram = Histogram::default();
        histogram.record(Duration::from_millis(1500));
        page.family("histogram", "seconds", "Times.");
        page.buckets(&[], &histogram);
        page.family("counter", "process_cpu_seconds_total", "Of the process.");
        page.sample(&[], 3_u64);
        if other == "first" {
            page.family("counter", "only_total", "Of the first alone.");
            page.sample(&[], 0.25);
        }
        page.into_text()
    }

    #[test]
    fn counters_go_on_and_nothing_else_does() {
        let first = page(5, "first", Carried::default());
        let mut carried = Carried::default();
        assert!(carried.is_empty());
        carried.add(&first);
        let second = page(7, "second", carried);
        for line in [
            "requests_total{path=\"a b\\\"c\"} 12",
            "requests_total{path=\"first\"} 1",
            "requests_total{path=\"second\"} 1",
            "open 7",
            "seconds_bucket{le=\"2.5\"} 2",
            "seconds_bucket{le=\"+Inf\"} 2",
            "seconds_sum 3",
            "seconds_count 2",
            "process_cpu_seconds_total 3",
            "# HELP only_total Of the first alone.",
            "# TYPE only_total counter",
            "only_total 0.25",
        ] {
            assert!(second.lines().any(|found| found == line), "{line} in {second}");
        }
        let place = |text: &str| second.find(text).unwrap();
        assert!(place("path=\"first\"") < place("# TYPE open"), "a family stands together");
        assert_eq!(second.matches("# TYPE requests_total").count(), 1);
    }

    #[test]
    fn several_processes_add_up() {
        let mut carried = Carried::default();
        for count in [1, 10, u64::MAX] {
            carried.add(&page(count, "first", Carried::default()));
        }
        let all = page(0, "first", carried);
        assert!(all.contains(&format!("requests_total{{path=\"a b\\\"c\"}} {}\n", u64::MAX)));
        assert!(all.contains("only_total 1\n"), "{all}");
    }

    #[test]
    fn series_end_with_the_configuration_that_names_them() {
        let page = |upstreams: &[&str], carried| {
            let mut page = Page::over(carried);
            page.bounded(|page| {
                for family in ["requests_total", "failures_total"] {
                    page.family("counter", family, "By upstream.");
                    for upstream in upstreams {
                        page.sample(&[("upstream", upstream)], 1_u64);
                    }
                }
            });
            page.family("counter", "responses_total", "By code.");
            page.sample(&[("code", upstreams.first().unwrap_or(&"none"))], 1_u64);
            page.into_text()
        };
        let mut text = String::new();
        for upstreams in [&["a", "b"][..], &["b", "c"], &[], &["c"]] {
            let mut carried = Carried::default();
            carried.add(&text);
            text = page(upstreams, carried);
            if upstreams == ["b", "c"] {
                assert!(text.contains("failures_total{upstream=\"b\"} 2\n"), "{text}");
            }
            assert_eq!(text.matches("{upstream=").count(), 2 * upstreams.len(), "{text}");
        }
        assert!(text.contains("requests_total{upstream=\"c\"} 1\n"), "{text}");
        for code in ["a", "b", "none", "c"] {
            assert!(text.contains(&format!("responses_total{{code=\"{code}\"}} 1\n")), "{text}");
        }
    }

    #[test]
    fn what_is_no_page_is_passed_over() {
        let mut carried = Carried::default();
        carried.add("a_total 5\n# TYPE\n# TYPE x\n# TYPE b_total counter\nb_total\n\n# TYPE c gauge\nc 1\nb_total x\n");
        assert_eq!(Page::over(carried).into_text(), "# TYPE b_total counter\n");
    }
}
