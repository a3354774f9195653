//! TLS sessions that `sluicegate load` resumes, and early data.

use std::path::Path;

use serde_json::Value;

use super::{PROTOCOLS, failed, load, measured, text, url};
use crate::server::{Folder, Server, Setup};

/// Options that open one connection after the other, with two requests each.
const IN_TURN: [&str; 6] = ["-n10", "-c5", "-m2", "-r1", "--rate-period", "100ms"];

/// Returns the configuration of a server with an access log, whose tickets another one accepts that starts in the same folder.
fn setup(early_data: bool) -> Setup {
    let tables = format!(
        "[server]\nstate_dir = \"state\"\n[access_log]\nfile = \"access.log\"\n[quic]\nearly_data = {early_data}"
    );
    let setup = Setup::new("mio").with(&tables);
    setup.listener("main", "127.0.0.1:0", "cubic")
}

/// Returns how many requests in the access log came by connections that resumed a session.
fn resumed_requests(server: &mut Server, folder: &Folder) -> usize {
    server.process.last_words();
    let log = std::fs::read_to_string(folder.path("access.log")).unwrap();
    let is_resumed = |line: &&str| {
        let record: Value = serde_json::from_str(line).unwrap();
        record["tls_resumed"] == true
    };
    log.lines().filter(is_resumed).count()
}

/// Returns the numbers of connections: all, those that resumed a session, and those whose early data was accepted or rejected.
fn connections(measured: &Value) -> [u64; 4] {
    let keys = ["established", "resumed", "early_data_accepted", "early_data_rejected"];
    keys.map(|key| measured["connections"][key].as_u64().unwrap())
}

fn words<'a>(parts: &[&[&'a str]]) -> Vec<&'a str> {
    parts.concat()
}

#[test]
fn connections_after_the_first_resume_a_session() {
    for protocol in PROTOCOLS {
        let folder = Folder::new();
        let mut server = Server::start(&setup(false), &folder);
        let urls = [url(&server, "/")];
        let without = measured(&words(&[&IN_TURN, &[protocol]]), &urls);
        assert_eq!(connections(&without), [5, 0, 0, 0], "{protocol}");
        let resuming = words(&[&IN_TURN, &[protocol, "--resume"]]);
        let with = measured(&resuming, &urls);
        assert_eq!(connections(&with), [5, 4, 0, 0], "{protocol}: {with}");
        assert_eq!(with["requests"]["succeeded"], 10, "{with}");
        let report = text(&load(&resuming, &urls).stdout);
        let line = "\nconnections: 5 established, 4 resumed\n";
        assert!(report.contains(line), "{report}");
        assert_eq!(resumed_requests(&mut server, &folder), 16, "{protocol}");
    }
}

#[test]
fn early_data_is_sent_where_a_server_accepts_it() {
    for (accepts, accepted) in [(true, 4), (false, 0)] {
        let folder = Folder::new();
        let server = Server::start(&setup(accepts), &folder);
        let words = words(&[&IN_TURN, &["--resume", "--early-data"]]);
        let measured = measured(&words, &[url(&server, "/")]);
        assert_eq!(connections(&measured), [5, 4, accepted, 0], "{measured}");
        assert_eq!(measured["requests"]["succeeded"], 10, "{measured}");
        assert_eq!(measured["status_codes"]["2xx"], 10, "{measured}");
    }
}

/// The session promises what the server no longer does.
#[test]
fn requests_of_rejected_early_data_are_made_once() {
    let folder = Folder::new();
    let file = folder.path("session.pem");
    let of_file = ["--early-data", "--tls-session-file", name(&file)];
    let mut server = Server::start(&setup(true), &folder);
    let first = measured(&of_file, &[url(&server, "/")]);
    assert_eq!(connections(&first), [1, 0, 0, 0], "{first}");
    server.process.last_words();
    std::fs::remove_file(folder.path("access.log")).unwrap();
    let mut server = Server::start(&setup(false), &folder);
    let words = words(&[&["-n40", "-c4", "-m5", "-t2"], &of_file]);
    let measured = measured(&words, &[url(&server, "/bytes/1000")]);
    let [established, _, accepted, rejected] = connections(&measured);
    assert_eq!([established, accepted, rejected], [4, 0, 4], "{measured}");
    let requests = &measured["requests"];
    for key in ["started", "done", "succeeded"] {
        assert_eq!(requests[key], 40, "{measured}");
    }
    server.process.last_words();
    let log = std::fs::read_to_string(folder.path("access.log")).unwrap();
    assert_eq!(log.lines().count(), 40, "{log}");
}

fn name(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_session_file_serves_all_connections_of_the_next_run() {
    for (protocol, early) in PROTOCOLS.into_iter().zip([3, 0, 0]) {
        let folder = Folder::new();
        let server = Server::start(&setup(true), &folder);
        let file = folder.path("session.pem");
        let urls = [url(&server, "/")];
        let of_file = ["--tls-session-file", name(&file), protocol];
        let first = measured(&of_file, &urls);
        assert_eq!(connections(&first), [1, 0, 0, 0], "{protocol}");
        let pem = std::fs::read_to_string(&file).unwrap();
        assert!(pem.starts_with("-----BEGIN SSL SESSION PARAMETERS-----\n"));
        let words = words(&[&of_file, &["-n3", "-c3", "--early-data"]]);
        let second = measured(&words, &urls);
        assert_eq!(connections(&second), [3, 3, early, 0], "{protocol}: {second}");
        assert_eq!(second["requests"]["succeeded"], 3, "{second}");
        assert_ne!(std::fs::read_to_string(&file).unwrap(), pem);
    }
}

#[test]
fn what_is_no_session_is_refused_or_replaced() {
    let folder = Folder::new();
    let server = Server::start(&setup(false), &folder);
    let urls = [url(&server, "/")];
    let certificate = folder.path("cert.pem");
    let before = std::fs::read(&certificate).unwrap();
    let of_certificate = ["--tls-session-file", name(&certificate)];
    failed(&of_certificate, &urls, "has no TLS session");
    assert_eq!(std::fs::read(&certificate).unwrap(), before);
    let file = folder.path("broken.pem");
    let mut pem = "-----BEGIN SSL SESSION PARAMETERS-----\nMAMCAQE=\n".to_owned();
    for part in
        ["broken or of another TLS library", "the QUIC transport parameters of the session in"]
    {
        std::fs::write(&file, &pem).unwrap();
        let output = load(&["--tls-session-file", name(&file)], &urls);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains(part), "{said}");
        pem = std::fs::read_to_string(&file).unwrap();
        assert!(pem.contains("-----END SSL SESSION PARAMETERS-----"));
        // The next run finds the parameters cut.
        let end = pem.find("-----END QUIC").unwrap();
        pem.truncate(end);
    }
}

#[test]
fn early_data_without_sessions_is_refused() {
    let urls = ["https://127.0.0.1:1/".into()];
    let remedy = "add --resume or --tls-session-file";
    failed(&["--early-data"], &urls, remedy);
}

#[test]
fn rows_of_the_table_have_histograms() {
    let folder = Folder::new();
    let server = Server::start(&setup(false), &folder);
    let output = load(&["-n200", "-c4", "--histogram"], &[url(&server, "/")]);
    let report = text(&output.stdout);
    let row = report.lines().position(|line| line.starts_with("request  "));
    let lines: Vec<_> = report.lines().skip(row.unwrap() + 1).take(10).collect();
    assert!(lines.iter().all(|line| line.contains(" [")), "{report}");
    assert!(lines[9].ends_with("/100.00%)"), "{report}");
}
