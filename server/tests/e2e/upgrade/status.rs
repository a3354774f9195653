//! `sluicegate status` names the processes of the server.

use std::time::Duration;

use serde_json::Value;

use super::{Line, said, setup};
use crate::client::{Client, run};
use crate::on_auto;

on_auto!(
    a_status_names_the_process_that_serves_and_those_that_drain,
    a_process_that_was_told_to_stop_is_shown_as_long_as_it_drains,
);

/// Asks for the status.
fn status(line: &Line, arguments: &[&str]) -> String {
    let (code, said) = said(line.command("status", arguments));
    assert_eq!(code, Some(0), "{said}");
    said
}

/// Asks until a process drains, which takes a moment to say so.
pub(super) fn with_draining(line: &Line) -> Value {
    loop {
        let status: Value = serde_json::from_str(&status(line, &["--json"])).unwrap();
        if status["draining"] != Value::Array(Vec::new()) {
            return status;
        }
    }
}

fn a_status_names_the_process_that_serves_and_those_that_drain(backend: &str) {
    let mut line = Line::start(&setup(backend));
    let (first, at) = (line.process.clone(), line.server.address());
    let alone: Value = serde_json::from_str(&status(&line, &["--json"])).unwrap();
    assert_eq!(alone["draining"], Value::Array(Vec::new()));
    assert_eq!((&alone["phase"], alone["process"].to_string()), (&"serving".into(), first.clone()));
    run(async {
        let long = line.download().await;
        line.upgrade();
        let _other = Client::new(&line.folder).connect(at).await;
        let both = with_draining(&line);
        assert_eq!(both["process"].to_string(), line.process);
        assert_ne!(both["generation"], alone["generation"]);
        assert_eq!(both["quic_connections"], 1);
        let listener = &both["listeners"][0];
        assert_eq!((&listener["name"], &listener["quic_connections"]), (&"main".into(), &1.into()));
        let draining = &both["draining"][0];
        assert_eq!(draining["process"].to_string(), first);
        assert_eq!(
            (&draining["generation"], &draining["connections"]),
            (&alone["generation"], &1.into())
        );
        let text = status(&line, &[]);
        assert!(text.contains(&format!("process {}, version", line.process)), "{text}");
        assert!(text.contains(&format!("process {first}: draining, generation")), "{text}");
        let newer = line.process.clone();
        line.back_to(&first);
        let back = with_draining(&line);
        assert_eq!(back["process"].to_string(), first);
        assert_eq!(back["draining"][0]["process"].to_string(), newer);
        long.end().await;
    });
    line.end();
}

fn a_process_that_was_told_to_stop_is_shown_as_long_as_it_drains(backend: &str) {
    let mut line = Line::start(&setup(backend));
    let first = line.process.clone();
    run(async {
        let long = line.upgrade_and_stop_the_former().await;
        // What it has said before that is forgotten by then.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let status: Value = serde_json::from_str(&status(&line, &["--json"])).unwrap();
        assert_eq!(status["draining"][0]["process"].to_string(), first, "{status}");
        long.end().await;
    });
    line.end();
}
