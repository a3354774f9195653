//! The Grafana board and the alerts against the page: what they name exists there. Whether each query has data, the end-to-end tests
//! ask Prometheus.

use std::collections::{BTreeMap, BTreeSet};

use super::golden::page;

const BOARD: &str = include_str!("../../../../../deploy/grafana/sluicegate.json");
const ALERTS: &str = include_str!("../../../../../deploy/prometheus/alerts.yml");
const DOCS: &str = include_str!("../../../../../docs/observe.md");

/// Labels that Prometheus adds.
const OF_PROMETHEUS: [&str; 2] = ["instance", "job"];

/// Returns the queries of the board.
fn queries() -> Vec<String> {
    let board: serde_json::Value = serde_json::from_str(BOARD).unwrap();
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// Returns each metric that a text names, with the matchers behind it.
fn named(text: &str) -> Vec<(&str, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(begin) = rest.find(is_name) {
        rest = &rest[begin..];
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        let matchers = behind.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        if name.starts_with("sluicegate_") || name.starts_with("process_") {
            found.push((name, matchers.map_or("", |(matchers, _)| matchers)));
        }
        rest = behind;
    }
    found
}

/// Returns name, operator and value of each matcher. No value has a comma.
fn matchers(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    text.split(',').filter(|one| !one.is_empty()).map(|one| {
        let end = one.find(['=', '!']).unwrap();
        let (label, rest) = one.split_at(end);
        let quote = rest.find('"').unwrap();
        (label, &rest[..quote], rest[quote..].trim_matches('"'))
    })
}

/// Names of samples with the values of each of their labels.
type Labels = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Returns the names that samples of the page may have, and the labels of those that there are.
fn samples(page: &str) -> Labels {
    let mut all = Labels::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let ends: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            all.extend(ends.iter().map(|end| (format!("{name}{end}"), BTreeMap::new())));
        } else if let Some((name, labels)) = line.split_once('{') {
            let labels = labels.rsplit_once('}').unwrap().0;
            let sample = all.get_mut(name).unwrap();
            for (label, _, value) in matchers(labels) {
                sample.entry(label.to_owned()).or_default().insert(value.to_owned());
            }
        }
    }
    all
}

/// Returns what a text names in vain: a metric, a label of it, or the value of one.
fn unknown(text: &str, samples: &Labels) -> Vec<String> {
    let mut unknown = Vec::new();
    for (name, matched) in named(text) {
        let Some(labels) = samples.get(name) else {
            unknown.push(name.to_owned());
            continue;
        };
        for (label, operator, value) in matchers(matched) {
            let is_known = match labels.get(label) {
                Some(values) => operator != "=" || values.contains(value),
                None => OF_PROMETHEUS.contains(&label),
            };
            if !is_known {
                unknown.push(format!("{name}{{{label}{operator}{value:?}}}"));
            }
        }
    }
    unknown
}

#[test]
fn every_metric_of_the_board_is_on_the_page() {
    let samples = samples(&page());
    let queries = queries();
    assert!(queries.len() > 50, "{}", queries.len());
    for query in queries {
        assert!(!named(&query).is_empty(), "{query}");
        assert_eq!(unknown(&query, &samples), Vec::<String>::new(), "{query}");
    }
}

#[test]
fn every_metric_of_the_alerts_is_on_the_page() {
    let samples = samples(&page());
    assert_eq!(unknown(ALERTS, &samples), Vec::<String>::new());
    let wrong = unknown("sluicegate_phase{phase=\"asleep\",when=\"now\"} sluicegate_x", &samples);
    assert_eq!(wrong.len(), 3, "{wrong:?}");
}

#[test]
fn every_alert_has_a_time_a_severity_a_summary_and_a_line_in_the_docs() {
    let alerts: Vec<&str> = ALERTS.split("- alert: ").skip(1).collect();
    assert!(alerts.len() >= 12, "{}", alerts.len());
    let docs = DOCS.split_once("\n## Alerts\n").unwrap().1;
    for alert in alerts {
        let name = alert.lines().next().unwrap();
        for part in ["\n        for: ", "severity: ", "\n          summary: "] {
            assert!(alert.contains(part), "{name} has no {part:?}");
        }
        assert!(
            alert.contains(&format!("runbook: 'docs/observe.md, \"Alerts\": {name}'")),
            "{name}"
        );
        assert!(docs.contains(&format!("`{name}`")), "{name} is not in docs/observe.md");
    }
}
