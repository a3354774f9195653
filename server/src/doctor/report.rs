//! Findings as text, as JSON, and as a script.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::finding::{FindingState, Fix, HostFinding};

/// Exit code if there are warnings.
const EXIT_WARNINGS: u8 = 1;
/// Exit code if the server cannot start with this configuration.
const EXIT_IMPOSSIBLE: u8 = 2;

/// Begins every script.
const HEAD: &str = r#"#!/bin/sh
# Mends what `sluicegate doctor` found. Read it before you run it. A second run changes nothing.
# A command that fails says so, and the next ones run.
set -u

# Sets a parameter of the kernel, now and at each boot.
keep() {
    sysctl -w "$1=$2" &&
        echo "$1 = $2" >"/etc/sysctl.d/91-sluicegate-$1.conf"
}
"#;

/// Returns the exit code.
pub(crate) fn exit_code(findings: &[HostFinding]) -> u8 {
    match findings.iter().map(|finding| finding.state).max() {
        Some(FindingState::Impossible) => EXIT_IMPOSSIBLE,
        Some(FindingState::Warning) => EXIT_WARNINGS,
        _ => 0,
    }
}

fn count(findings: &[HostFinding], state: FindingState) -> usize {
    findings.iter().filter(|finding| finding.state == state).count()
}

/// Returns a block of lines for each finding, the worst ones first, and a line with the count of the others; with `all` these, too.
pub(crate) fn text(findings: &[HostFinding], all: bool) -> String {
    let mut out = String::new();
    let shown = [
        FindingState::Impossible,
        FindingState::Warning,
        FindingState::Unknown,
        FindingState::Fine,
        FindingState::NotApplicable,
    ];
    let shown = shown.iter().filter(|state| all || **state > FindingState::Fine);
    for state in shown {
        for finding in findings.iter().filter(|finding| finding.state == *state) {
            block(&mut out, finding);
        }
    }
    // Writing to a string does not fail.
    let fine = count(findings, FindingState::Fine);
    let _ = write!(out, "{fine} {} fine", if fine == 1 { "check" } else { "checks" });
    for (state, one, several) in [
        (
            FindingState::Impossible,
            "makes this configuration impossible",
            "make this configuration impossible",
        ),
        (FindingState::Warning, "warning", "warnings"),
        (FindingState::Unknown, "could not be looked at", "could not be looked at"),
        (FindingState::NotApplicable, "does not apply", "do not apply"),
    ] {
        let number = count(findings, state);
        if number > 0 {
            let _ = write!(out, ", {number} {}", if number == 1 { one } else { several });
        }
    }
    out.push_str(if all { "\n" } else { " (-v lists them)\n" });
    out
}

/// Returns the words for a state.
fn label(state: FindingState) -> &'static str {
    match state {
        FindingState::NotApplicable => "does not apply",
        FindingState::Fine => "fine",
        FindingState::Unknown => "no result",
        FindingState::Warning => "WARNING",
        FindingState::Impossible => "IMPOSSIBLE",
    }
}

fn block(out: &mut String, finding: &HostFinding) {
    let HostFinding { check, state, found, wanted, fix, .. } = finding;
    let (title, label) = (title(finding), label(*state));
    let (found, wanted) = (one_line(found), one_line(wanted));
    let _ = match fix {
        None if *state == FindingState::Unknown => {
            writeln!(out, "{label}: {title}: {found} (source: {})", check.source)
        }
        None => writeln!(out, "{label}: {title}: {found}"),
        Some(fix) => writeln!(
            out,
            "{label}: {title}\n  found   {found}\n  wanted  {wanted}\n  mend    {}: {}\n  source  {}\n",
            place(fix),
            one_line(&fix.text()),
            check.source
        ),
    };
}

fn title(finding: &HostFinding) -> String {
    let (name, subject) = (finding.check.name, one_line(&finding.subject));
    if subject.is_empty() { name.to_owned() } else { format!("{name} ({subject})") }
}

fn place(fix: &Fix) -> &'static str {
    match fix {
        Fix::Advice(_) => "on the host, by hand",
        Fix::Sysctls(_) | Fix::Host(_) => "on the host",
        Fix::Container(_) => "for the container",
        Fix::Configuration(_) => "in the configuration",
    }
}

/// Returns an object with every check.
pub(crate) fn json(findings: &[HostFinding]) -> Value {
    let checks = findings.iter().map(|finding| {
        let fix = finding.fix.as_ref();
        let is_command = fix.filter(|fix| !matches!(fix, Fix::Advice(_) | Fix::Configuration(_)));
        let present = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        json!({
            "check": finding.check.name,
            "subject": present(&finding.subject),
            "state": finding.state.name(),
            "found": finding.found,
            "wanted": present(&finding.wanted),
            "remedy": fix.map(Fix::text),
            "command": is_command.map(Fix::text),
            "place": fix.map(Fix::place),
            "source": finding.check.source,
        })
    });
    json!({
        "exit_code": exit_code(findings),
        "unknown": count(findings, FindingState::Unknown),
        "checks": checks.collect::<Vec<_>>(),
    })
}

/// Returns a shell script of all remedies. It leaves those of the container and of the configuration as comments, because no command on
/// the host does them.
pub(crate) fn script(findings: &[HostFinding]) -> String {
    let mut out = HEAD.to_owned();
    let fixes = || findings.iter().filter_map(|f| Some((f, f.fix.as_ref()?)));
    // Groups may want different values; the largest suffices for all.
    let mut sysctls: BTreeMap<&str, (u64, String)> = BTreeMap::new();
    let mut done: Vec<String> = Vec::new();
    let mut host = String::new();
    let mut container = String::new();
    let mut configuration = String::new();
    for (finding, fix) in fixes() {
        let why = format!("\n# {}: {}\n", title(finding), one_line(&finding.found));
        match fix {
            Fix::Sysctls(all) => {
                for (key, value) in all {
                    let number = value.parse().unwrap_or(0);
                    let known = sysctls.entry(key).or_insert_with(|| (number, String::new()));
                    known.0 = known.0.max(number);
                    known.1 += &why;
                }
                continue;
            }
            Fix::Host(command) if done.contains(command) => {}
            Fix::Host(command) => {
                done.push(command.clone());
                let _ = writeln!(host, "{why}{}", one_line(command));
            }
            Fix::Advice(advice) => {
                let _ = writeln!(host, "{why}# By hand: {}", one_line(advice));
            }
            Fix::Container(_) => {
                let _ = writeln!(container, "{why}#   {}", one_line(&fix.text()));
            }
            Fix::Configuration(change) => {
                let _ = writeln!(configuration, "{why}#   {}", one_line(change));
            }
        }
    }
    let kept = sysctls.iter().map(|(key, (value, why))| format!("{why}keep {key} {value}\n"));
    let host = kept.collect::<String>() + &host;
    for (heading, part) in [
        ("The host. Run this part as root on the host, not in a container.", host),
        ("The container. Start it with these options.", container),
        (
            "The configuration. Change it by hand, and let `sluicegate check` read it.",
            configuration,
        ),
    ] {
        if !part.is_empty() {
            let _ = write!(out, "\n# ==== {heading}\n{part}");
        }
    }
    if !findings.iter().any(|finding| finding.fix.is_some()) {
        out.push_str("\n# Nothing is to be mended.\n");
    }
    let unknown = count(findings, FindingState::Unknown);
    if unknown > 0 {
        let _ =
            writeln!(out, "\n# Checks that could not be looked at, and may lack more: {unknown}");
    }
    out
}

/// Returns a text without line breaks and other control characters, which would end a comment, or move the cursor of a terminal.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::HostCheck;

    const CHECK: HostCheck = HostCheck { name: "a_check", source: "a page" };

    fn findings() -> Vec<HostFinding> {
        let sysctl = |value: &str| Fix::Sysctls(vec![("net.core.rmem_max", value.to_owned())]);
        vec![
            CHECK.fine("", "well"),
            CHECK.skipped("", "nothing"),
            CHECK.warning("group one", "small\nrm -rf /", "large", sysctl("8388608")),
            CHECK.warning("group two", "small", "larger", sysctl("16777216")),
            CHECK.warning("", "old", "new", Fix::Host("echo 1 >/sys/x".to_owned())),
            CHECK.warning("again", "old", "new", Fix::Host("echo 1 >/sys/x".to_owned())),
            CHECK.warning("", "few", "many", Fix::Container("--cpus=2".to_owned())),
            CHECK.warning("", "bbr3", "cubic", Fix::Configuration("cubic".to_owned())),
            CHECK.warning("", "stolen", "none", Fix::Advice("ask".to_owned())),
            CHECK.unknown("", "silent"),
        ]
    }

    #[test]
    fn exit_code_is_that_of_the_worst() {
        let mut all = findings();
        assert_eq!(exit_code(&all), 1);
        all.push(CHECK.impossible("", "broken", "whole", Fix::Advice("mend".to_owned())));
        assert_eq!(exit_code(&all), 2);
        let fine = vec![CHECK.fine("", ""), CHECK.unknown("", ""), CHECK.skipped("", "")];
        assert_eq!((exit_code(&fine), exit_code(&[])), (0, 0));
    }

    #[test]
    fn text_has_what_is_to_be_mended_and_the_count_of_the_rest() {
        let short = text(&findings(), false);
        assert!(short.contains("WARNING: a_check (group one)\n  found   small"), "{short}");
        assert!(
            short.contains("mend    on the host: sysctl -w net.core.rmem_max=8388608\n"),
            "{short}"
        );
        assert!(short.contains("mend    for the container: docker run --cpus=2 ...\n"), "{short}");
        assert!(
            short.ends_with(
                "1 check fine, 7 warnings, 1 could not be looked at, 1 does not apply (-v lists them)\n"
            ),
            "{short}"
        );
        assert!(!short.contains("well") && !short.contains("nothing"), "{short}");
        let long = text(&findings(), true);
        assert!(
            long.contains("fine: a_check: well\n")
                && long.contains("does not apply: a_check: nothing\n")
        );
    }

    #[test]
    fn control_characters_are_neither_shown_nor_run() {
        let fix = Fix::Host("ethtool \u{1b}[2J".to_owned());
        let all = [CHECK.warning("a\nreboot\u{1b}", "b\u{1b}\nreboot", "c\nreboot", fix)];
        for out in [text(&all, true), script(&all)] {
            assert!(!out.contains('\u{1b}') && !out.contains("\nreboot"), "{out}");
        }
    }

    #[test]
    fn json_has_the_same_keys_for_every_check() {
        let all = json(&findings());
        let checks = all["checks"].as_array().unwrap();
        assert_eq!((checks.len(), &all["exit_code"]), (findings().len(), &json!(1)));
        assert_eq!(all["unknown"], 1);
        for check in checks {
            let mut keys: Vec<&String> = check.as_object().unwrap().keys().collect();
            keys.sort();
            assert_eq!(
                keys,
                [
                    "check", "command", "found", "place", "remedy", "source", "state", "subject",
                    "wanted"
                ]
            );
        }
        assert_eq!(checks[2]["command"], "sysctl -w net.core.rmem_max=8388608");
        assert_eq!((&checks[8]["command"], &checks[8]["remedy"]), (&Value::Null, &json!("ask")));
    }

    #[test]
    fn script_has_each_command_once_under_its_place() {
        let script = script(&findings());
        let lines: Vec<&str> = script.lines().collect();
        let count = |line: &str| lines.iter().filter(|one| **one == line).count();
        assert_eq!(count("keep net.core.rmem_max 16777216"), 1, "{script}");
        assert_eq!(count("echo 1 >/sys/x"), 1);
        let place = |part: &str| script.find(part).unwrap();
        assert!(
            place("==== The host") < place("echo 1")
                && place("echo 1") < place("==== The container")
        );
        assert!(place("==== The container") < place("#   docker run --cpus=2"));
        assert!(place("==== The configuration") < place("#   cubic"));
        // What was found stays a comment.
        assert!(lines.iter().all(|line| !line.starts_with("rm")), "{script}");
        assert!(script.ends_with("\n# Checks that could not be looked at, and may lack more: 1\n"));
        assert!(super::script(&[]).contains("# Nothing is to be mended."));
    }
}
