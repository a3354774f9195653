//! Upgrades that fail change nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use sluicegate_dataplane::requirements::skip;

use super::{Line, setup};
use crate::client::{Client, run};
use crate::on_auto;
use crate::server::PAGE;

on_auto!(
    a_process_that_cannot_take_over_changes_nothing,
    without_a_state_directory_there_is_no_upgrade,
    connection_ids_of_the_running_server_must_be_read,
    a_process_that_is_killed_before_it_serves_changes_nothing,
);

fn assert_serves(line: &Line) {
    let at = line.server.address();
    run(async {
        let mut session = Client::new(&line.folder).connect(at).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
    });
}

/// Writes a program.
pub(super) fn program(line: &Line, script: &str) -> String {
    let path = line.folder.path("program");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// Returns whether tests may name a program, as only root may.
pub(super) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("root", &"only root may name a program for an upgrade");
    }
    is_root
}

fn a_process_that_cannot_take_over_changes_nothing(backend: &str) {
    if !is_root() {
        return;
    }
    let mut line = Line::start(&setup(backend));
    for (script, part) in [
        ("exit 7", "exit status: 7"),
        ("echo '{}' >&0; exec sleep 60", "cannot be read"),
        ("exec </dev/null; exit 0", "exit status: 0"),
    ] {
        let path = program(&line, script);
        let (code, said) = line.ask(&["--program", &path]);
        assert!(code == Some(2) && said.contains(part), "{script}: {said}");
        assert!(said.contains("goes on as before"), "{said}");
        assert_serves(&line);
    }
    let path = line.folder.path("program");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, said) = line.ask(&["--program", path.to_str().unwrap()]);
    assert!(code == Some(2) && said.contains("cannot start"), "{said}");
    let (code, said) = line.ask(&["--program", "/no/such/program"]);
    assert!(code == Some(1) && said.contains("cannot start /no/such/program"), "{said}");
    for (change, part) in [
        (("name = \"main\"", "name = \"other\""), "reload the configuration first"),
        (("state_dir = \"state\"", "state_dir = \"other\""), "the secrets are not those"),
        (
            ("[server]\n", "[quic.connection_ids]\nformat = \"quic-lb\"\n[server]\n"),
            "does not read the connection IDs",
        ),
        (("cores = [0, 0]", "cores = 7 7"), ""),
    ] {
        line.rewrite(&setup(backend).replace(change.0, change.1));
        let (code, said) = line.ask(&[]);
        assert!(code == Some(2) && said.contains("exit status"), "{said}");
        if !part.is_empty() {
            line.server.process.line_with(&[part]);
        }
        assert_serves(&line);
    }
    line.rewrite(&setup(backend));
    line.upgrade();
    assert_serves(&line);
    line.end();
}

fn connection_ids_of_the_running_server_must_be_read(backend: &str) {
    let table = |config: u8, id: &str| {
        format!(
            "[[quic.connection_ids]]\nformat = \"quic-lb\"\nconfig = {config}\nserver_id = \"{id}\"\nnonce = 8\n"
        )
    };
    let of = |tables: &[String]| setup(backend).with(&tables.concat());
    let mut line = Line::start(&of(&[table(0, "0x0102")]));
    for others in [table(0, "0x0103"), table(1, "0x0102")] {
        line.rewrite(&of(&[others]));
        let (code, said) = line.ask(&[]);
        assert!(code == Some(2) && said.contains("exit status"), "{said}");
        line.server.process.line_with(&["does not read the connection IDs"]);
        assert_serves(&line);
    }
    // A rotation: those of before are read, too.
    line.rewrite(&of(&[table(1, "0x0103"), table(0, "0x0102")]));
    line.upgrade();
    assert_serves(&line);
    line.end();
}

fn without_a_state_directory_there_is_no_upgrade(backend: &str) {
    let setup = setup(backend).replace("state_dir = \"state\"\n", "");
    let mut line = Line::start(&setup);
    line.server.process.signal("USR2");
    line.server.process.line_with(&["no upgrade", "state_dir"]);
    assert_serves(&line);
    line.end();
}

fn a_process_that_is_killed_before_it_serves_changes_nothing(backend: &str) {
    if !is_root() {
        return;
    }
    let mut line = Line::start(&setup(backend));
    // It has the sockets by then, and says nothing.
    let path = program(&line, "sleep 1; kill -KILL $$");
    let (code, said) = line.ask(&["--program", &path]);
    assert!(code == Some(2) && said.contains("signal: 9"), "{said}");
    assert_serves(&line);
    line.server.process.signal("USR2");
    let said = line.server.process.line_with(&["the new process serves", "process="]);
    line.process = crate::server::field(&said, "process");
    assert_serves(&line);
    line.end();
}
