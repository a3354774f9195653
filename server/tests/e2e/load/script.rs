//! Requests of `sluicegate load` at the times of a script.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{PROTOCOLS, failed, load_log, measured, server, text, url};
use crate::installed;
use crate::server::{Folder, Server, Setup};

/// Writes a script with these offsets, milliseconds, and paths.
fn script(folder: &Folder, server: &Server, lines: &[(&str, &str)]) -> PathBuf {
    let line = |(offset, path): &(&str, &str)| format!("{offset}\t{}\n", url(server, path));
    let path = folder.path("script");
    std::fs::write(&path, lines.iter().map(line).collect::<String>()).unwrap();
    path
}

fn option(path: &Path) -> [&str; 2] {
    ["--timing-script-file", path.to_str().unwrap()]
}

#[test]
fn no_request_of_a_script_is_early() {
    let folder = Folder::new();
    let server = server(&folder);
    let lines = [("0", "/"), ("20", "/"), ("20", "/"), ("70.5", "/")];
    let script = script(&folder, &server, &lines);
    // URLs of the command line are ignored.
    let other = "https://ignored.example/";
    let starts = load_log(&option(&script), other, &folder);
    assert_eq!(starts.len(), 4);
    for (start, offset) in starts.iter().zip([0, 20_000, 20_000, 70_500]) {
        // Microseconds, rounded.
        assert!(start - starts[0] + 1 >= offset, "{starts:?}");
    }
}

#[test]
fn each_connection_makes_the_requests_of_the_script_in_their_order() {
    let folder = Folder::new();
    let server = server(&folder);
    let lines = [("0", "/"), ("1", "/"), ("2", "/missing"), ("3", "/missing")];
    let script = script(&folder, &server, &lines);
    for protocol in PROTOCOLS {
        // All lines, as many as there are, or the first three.
        for (count, found, missing) in [("-c3", 6, 6), ("-n9", 2, 2), ("-n3", 2, 1)] {
            let words = [&option(&script)[..], &[count, protocol]].concat();
            let measured = measured(&words, &[]);
            let status = &measured["status_codes"];
            assert_eq!(status["2xx"], found, "{words:?}: {measured}");
            assert_eq!(status["4xx"], missing, "{words:?}: {measured}");
            assert_eq!(measured["requests"]["total"], found + missing);
        }
    }
}

/// Each connection ends after two requests.
#[test]
fn connections_that_replace_others_go_on_with_the_script() {
    let folder = Folder::new();
    let setup = Setup::new("mio").with(
        "[limits]\nrequests_per_connection = 2\n\
         [[route]]\npath = \"/missing\"\n[route.fixed]\nstatus = 404\nbody = \"none\"",
    );
    let setup = setup.listener("main", "127.0.0.1:0", "cubic");
    let server = Server::start(&setup, &folder);
    let offsets = ["0", "10", "20", "30", "40", "50"];
    let paths = ["/", "/", "/missing", "/missing", "/missing", "/missing"];
    let lines: Vec<_> = offsets.into_iter().zip(paths).collect();
    let script = script(&folder, &server, &lines);
    for protocol in PROTOCOLS {
        let words = [&option(&script)[..], &["-c2", protocol]].concat();
        let measured = measured(&words, &[]);
        let status = &measured["status_codes"];
        assert_eq!(status["2xx"], 4, "{protocol}: {measured}");
        assert_eq!(status["4xx"], 8, "{protocol}: {measured}");
        assert_eq!(measured["requests"]["errored"], 0, "{measured}");
    }
}

#[test]
fn a_script_comes_from_standard_input_and_its_mistakes_have_lines() {
    let folder = Folder::new();
    let server = server(&folder);
    let script = script(&folder, &server, &[("0", "/"), ("ten", "/")]);
    let cause = "script, line 2: `ten` is no offset";
    failed(&option(&script), &[], cause);
    let mut command = Command::new(installed::server());
    let command = command.args(["load", "-n1", "--timing-script-file", "-"]);
    let good = std::fs::read_to_string(&script).unwrap();
    std::fs::write(&script, good.replace("ten", "10")).unwrap();
    let output = command.stdin(File::open(&script).unwrap()).output();
    let report = text(&output.unwrap().stdout);
    assert!(report.contains("requests: 1 total, 1 started"), "{report}");
}
