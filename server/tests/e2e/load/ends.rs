//! Ends of connections and of runs of `sluicegate load`.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use super::{
    PROTOCOLS, failed, load, load_log, measured, measured_until, server, silent_server, text, url,
};
use crate::server::{Folder, Process, Server, Setup};

#[test]
fn a_closed_port_ends_the_run_with_the_cause() {
    // Nothing listens on a port that was just given back.
    let udp = || UdpSocket::bind("127.0.0.1:0")?.local_addr();
    let tcp = || TcpListener::bind("127.0.0.1:0")?.local_addr();
    let free: [(_, &dyn Fn() -> io::Result<SocketAddr>); 2] =
        [("--h3", &udp), ("--alpn-list=h2", &tcp)];
    for (protocol, port) in free {
        let port = port().unwrap();
        let words = ["-n8", "-c4", "-t2", protocol];
        let cause = format!("4 connections failed: connection refused by {port}: nothing listens");
        let report = failed(&words, &[format!("https://{port}/")], &cause);
        let line =
            "requests: 8 total, 0 started, 0 done, 0 succeeded, 8 failed, 8 errored, 0 timeout";
        assert!(report.contains(line), "{report}");
    }
}

#[test]
fn a_run_that_ends_before_any_handshake_names_the_cause() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let cause = format!("2 connections failed: no response from {address} until the end");
    failed(&["-D1s", "-c2"], &[format!("https://{address}/")], &cause);
}

#[test]
fn other_addresses_of_a_name_are_tried() {
    let folder = Folder::new();
    let server = server(&folder);
    // The system may know ::1 for it, where nothing listens.
    let url = format!("https://localhost:{}/", server.address().port());
    let measured = measured(&["-n20", "-c4"], &[url]);
    assert_eq!(measured["requests"]["succeeded"], 20);
}

#[test]
fn an_output_that_cannot_be_opened_ends_the_run_before_it_begins() {
    let words = ["-n1", "--output-file", "/nowhere/report"];
    let urls = ["https://127.0.0.1:1/".into()];
    let report = failed(&words, &urls, "cannot write /nowhere/report");
    assert_eq!(report, "");
}

#[test]
fn files_that_cannot_be_written_leave_the_report() {
    let folder = Folder::new();
    let server = server(&folder);
    let words = ["-n10", "--log-file=/dev/full", "--output-file=/dev/full"];
    let output = load(&words, &[url(&server, "/")]);
    let (report, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(report.contains("10 succeeded"), "{report}");
    for part in ["cannot write the request log", "cannot write /dev/full"] {
        assert!(said.contains(&format!("error: {part}")), "{said}");
    }
}

/// Each connection ends after twenty requests: by GOAWAY, or by `connection: close`.
#[test]
fn no_request_fails_when_the_server_sends_connections_away() {
    let folder = Folder::new();
    let limits = "[limits]\nrequests_per_connection = 20";
    let setup = Setup::new("mio").with(limits);
    let setup = setup.listener("main", "127.0.0.1:0", "cubic");
    let server = Server::start(&setup, &folder);
    let closed = ["-n400", "-c4", "-m8", "-t2"];
    let open = ["-n400", "-c4", "-m50", "--arrival-rate=1000"];
    for words in [closed, open] {
        for protocol in PROTOCOLS {
            let words = [&words[..], &[protocol]].concat();
            let measured = measured(&words, &[url(&server, "/")]);
            let requests = &measured["requests"];
            assert_eq!(requests["succeeded"], 400, "{words:?}: {measured}");
            assert_eq!(requests["started"], 400, "{words:?}: {measured}");
            let connections = &measured["connections"];
            let established = connections["established"].as_u64();
            assert!(established > Some(4), "{words:?}: {measured}");
            let failed = connections["failed"].as_object().unwrap();
            assert!(failed.is_empty(), "{words:?}: {measured}");
        }
    }
}

#[test]
fn timeouts_of_options_close_connections_without_a_response() {
    let folder = Folder::new();
    let (server, _upstream) = silent_server(&folder);
    for timeout in ["-T300ms", "-N300ms"] {
        // A connection of HTTP/1.1 has one request at a time.
        for protocol in ["--h3", "--alpn-list=h2"] {
            let words = ["-n4", "-c2", "-m2", protocol, timeout];
            let measured = measured_until(1, &words, &[url(&server, "/silent")]);
            let requests = &measured["requests"];
            for key in ["started", "failed", "errored", "timeout"] {
                assert_eq!(requests[key], 4, "{words:?} {key}: {measured}");
            }
            let causes = &measured["connections"]["failed"];
            assert_eq!(causes["closed by -T or -N"], 2, "{words:?}: {measured}");
        }
    }
}

#[test]
fn rps_sends_no_request_early() {
    let folder = Folder::new();
    let server = server(&folder);
    let starts = load_log(&["--rps=100", "-n30", "-m30"], &url(&server, "/"), &folder);
    assert_eq!(starts.len(), 30);
    for (number, start) in (0..).zip(&starts) {
        // Microseconds, rounded.
        assert!(start - starts[0] + 1 >= number * 10_000, "{starts:?}");
    }
}

#[test]
fn a_signal_ends_the_run_with_the_report_so_far() {
    let folder = Folder::new();
    let server = server(&folder);
    let words = ["load", "-n2000000", "-c2", "-m4"];
    let url = url(&server, "/");
    let words = [&words[..], &["--log-file", "log", &url]].concat();
    let mut load = Process::start(&words, &folder.path(""));
    load.line_with(&["starting benchmark"]);
    while std::fs::metadata(folder.path("log")).is_ok_and(|log| log.len() == 0) {
        std::thread::yield_now();
    }
    load.signal("INT");
    assert_eq!(load.wait().code(), Some(0));
    assert!(load.has_said("finished in") && load.has_said("interrupted"));
    assert!(load.has_said(" 0 failed, 0 errored"));
}
