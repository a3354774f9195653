//! Messages of quiche's patches, and the reports of those that fix it.

use std::collections::BTreeSet;
use std::path::Path;

use sluicegate_tidy::prose::tests_in_prose;
use sluicegate_tidy::repository::{files, has_test, none, read};

/// Most characters of a subject.
const MAX_SUBJECT: usize = 72;

/// Sections of a report, in their order.
const SECTIONS: [&str; 4] = ["What happens", "Cause", "Proposed change", "Test"];

/// Returns the defect of a patch's header and message, as `git am` takes them.
fn message_defect(patch: &str) -> Option<&'static str> {
    let Some((message, changes)) = patch.split_once("\n---\n") else {
        return Some("no `---` after the message");
    };
    let (header, body) = message.split_once("\n\n").unwrap_or((message, ""));
    let fields: Vec<_> = header.lines().map(|line| line.split_once(": ")).collect();
    let [Some(("From", from)), Some(("Date", _)), Some(("Subject", subject))] = fields[..] else {
        return Some("expected the fields From, Date and Subject");
    };
    if !(from.contains(" <") && from.ends_with('>')) {
        Some("From: expected a name and an address")
    } else if subject.trim().is_empty() || subject.chars().count() > MAX_SUBJECT {
        Some("Subject: none, or too long")
    } else if body.trim().is_empty() {
        Some("no body that says why")
    } else if !changes.starts_with("--- a/src/") {
        Some("no change after the message")
    } else {
        None
    }
}

fn report_defect(report: &str) -> Option<String> {
    let titles = report.lines().filter_map(|line| line.strip_prefix("## "));
    let words = report.split_whitespace().count();
    let tests = tests_in_prose(report);
    let missing = tests.iter().find(|(file, name)| !has_test(file, name));
    if !report.starts_with("# ") || !report.contains("\nVersion: quiche ") {
        Some("expected a title, and a line such as `Version: quiche 0.30.0`".to_owned())
    } else if !titles.eq(SECTIONS) {
        Some(format!("expected the sections {SECTIONS:?}"))
    } else if !(100..=350).contains(&words) {
        Some(format!("{words} words"))
    } else if let Some((file, name)) = missing {
        Some(format!("there is no test {file}::{name}"))
    } else if tests.is_empty() {
        Some("names no test".to_owned())
    } else {
        None
    }
}

/// Returns the names of the files with that ending in a folder, without the ending.
fn names(folder: &str, ending: &str) -> BTreeSet<String> {
    let files = files();
    let names = files.iter().filter_map(|file| {
        let name = file.strip_prefix(folder).ok()?.to_str()?;
        Some(name.strip_suffix(ending)?.to_owned())
    });
    names.collect()
}

#[test]
fn patches_have_messages() {
    let good = "From: A <a@b.c>\nDate: now\nSubject: x: y\n\nWhy.\n---\n--- a/src/lib.rs\n";
    assert_eq!(message_defect(good), None);
    for (part, other) in [
        ("\n---\n", "\n"),
        ("Date: now\n", ""),
        ("<a@b.c>", "a"),
        ("x: y", " "),
        ("x: y", &"x".repeat(MAX_SUBJECT + 1)),
        ("Why.", ""),
        ("--- a/src/", "+++ b/src/"),
    ] {
        let bad = good.replacen(part, other, 1);
        assert!(message_defect(&bad).is_some(), "{bad}");
    }
    let patches = names("cc/quiche/patches", ".patch");
    assert!(patches.len() > 20, "only {} patches", patches.len());
    let defects = patches.iter().filter_map(|name| {
        let file = format!("cc/quiche/patches/{name}.patch");
        message_defect(&read(Path::new(&file))).map(|defect| format!("{file}: {defect}"))
    });
    none(&defects.collect::<Vec<_>>());
}

#[test]
fn each_fix_of_quiche_has_its_report() {
    let (fixes, reports) =
        (names("cc/quiche/patches/fixes", ".patch"), names("cc/quiche/reports", ".md"));
    assert!(!fixes.is_empty());
    let alone = fixes.symmetric_difference(&reports);
    let alone =
        alone.map(|name| format!("{name}: a fix without a report, or a report without a fix"));
    none(&alone.collect::<Vec<_>>());
}

#[test]
fn reports_name_tests_that_exist() {
    let section = "word ".repeat(30);
    let sections = SECTIONS.map(|title| format!("## {title}\n{section}\n"));
    let here = "`benches/tidy/tests/all/patches.rs::reports_name_tests_that_exist`";
    let good = format!("# A\n\nVersion: quiche 1\n{}{here}\n", sections.concat());
    assert_eq!(report_defect(&good), None);
    for (part, other) in [
        ("# A", "A"),
        ("Version", "On"),
        ("## Cause\n", ""),
        (section.as_str(), ""),
        (here, ""),
        ("patches.rs", "gone.rs"),
        ("reports_name", "gone"),
    ] {
        assert!(report_defect(&good.replace(part, other)).is_some(), "{part}");
    }
    let defects = names("cc/quiche/reports", ".md").into_iter().filter_map(|name| {
        let file = format!("cc/quiche/reports/{name}.md");
        report_defect(&read(Path::new(&file))).map(|defect| format!("{file}: {defect}"))
    });
    none(&defects.collect::<Vec<_>>());
}
