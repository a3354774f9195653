//! `sluicegate doctor`.

use std::process::{Command, Output};

use serde_json::Value;

use crate::admin::{ADMIN, address};
use crate::client::{Client, run};
use crate::installed;
use crate::on_auto;
use crate::server::{Folder, PAGE, Server, Setup};

on_auto!(round_trip_times_of_the_running_server_are_judged);

const KEYS: [&str; 9] =
    ["check", "subject", "state", "found", "wanted", "remedy", "command", "place", "source"];

/// A group that no host can serve: a build without DPDK, or one with it that finds no such interface.
const IMPOSSIBLE: &str = "[[group]]\nname = \"g\"\nbackend = \"dpdk\"\ncores = [0]\n[group.dpdk]\ndevice = \"af_xdp:nowhere0\"\n\
    addresses = [\"192.0.2.1/24\"]\n[[listener]]\nname = \"l\"\ngroup = \"g\"\naddress = \"192.0.2.1:4433\"\n\
    tls = \"self-signed\"\n[[route]]\npath = \"/\"\nfixed = {}\n";

fn doctor(folder: &Folder, words: &[&str]) -> Output {
    installed::output_in(&folder.path(""), "doctor", words)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Returns the checks of a JSON output with its exit code.
fn checks(output: &Output) -> (i64, Vec<Value>) {
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    (all["exit_code"].as_i64().unwrap(), all["checks"].as_array().unwrap().clone())
}

/// Runs the script's syntax through the shell that it names.
fn is_shell(folder: &Folder, script: &[u8]) -> bool {
    let file = folder.path("mend.sh");
    std::fs::write(&file, script).unwrap();
    let checked = Command::new("sh").arg("-n").arg(file).status();
    checked.unwrap().success()
}

#[test]
fn default_configuration_can_be_served_here() {
    let folder = Folder::new();
    let output = doctor(&folder, &["--json"]);
    let (code, found) = checks(&output);
    assert_eq!(output.status.code().map(i64::from), Some(code), "{output:?}");
    for check in &found {
        let keys = check.as_object().unwrap();
        assert!(keys.len() == KEYS.len() && KEYS.iter().all(|key| keys.contains_key(*key)));
        assert_ne!(check["state"], "impossible", "{check}");
        let is_finding = check["state"] == "warning";
        assert_eq!(
            check["remedy"].is_string() && check["place"].is_string(),
            is_finding,
            "{check}"
        );
    }
    for name in ["kernel", "socket_buffers", "udp_gso", "udp_gro", "open_files", "cpu_quota"] {
        assert!(found.iter().any(|check| check["check"] == name), "{name}: {found:?}");
    }
    let fine = found.iter().filter(|check| check["state"] == "fine").count();
    let shown = doctor(&folder, &[]);
    assert!(text(&shown.stdout).contains(" fine"), "{shown:?}");
    let every = doctor(&folder, &["-v"]);
    let lines = text(&every.stdout).lines().filter(|line| line.starts_with("fine: ")).count();
    // The traffic of other tests may overflow a socket meanwhile.
    assert!(lines.abs_diff(fine) <= 1, "{every:?}");
    assert!(is_shell(&folder, &doctor(&folder, &["--fix-script"]).stdout));
}

#[test]
fn device_that_is_not_there_is_impossible() {
    let folder = Folder::new();
    std::fs::write(folder.path("port.toml"), IMPOSSIBLE).unwrap();
    let output = doctor(&folder, &["-c", "port.toml", "--json"]);
    let (code, found) = checks(&output);
    assert_eq!((output.status.code(), code), (Some(2), 2), "{output:?}");
    let port = found.iter().find(|check| check["check"] == "dpdk_port").unwrap();
    assert_eq!(port["state"], "impossible");
    let shown = doctor(&folder, &["port.toml"]);
    assert_eq!(shown.status.code(), Some(2));
    assert!(text(&shown.stdout).starts_with("IMPOSSIBLE: dpdk_port"), "{shown:?}");
    let script = doctor(&folder, &["port.toml", "--fix-script"]);
    assert!(is_shell(&folder, &script.stdout), "{script:?}");
}

#[test]
fn wrong_configuration_is_told_as_by_check() {
    let folder = Folder::new();
    std::fs::write(folder.path("wrong.toml"), "surprise = 1\n").unwrap();
    for words in [&["wrong.toml"][..], &["-c", "wrong.toml", "--json"], &["none.toml"]] {
        let output = doctor(&folder, words);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{output:?}");
        assert!(text(&output.stderr).contains(".toml:"), "{output:?}");
    }
    let both = doctor(&folder, &["--json", "--fix-script"]);
    assert!(text(&both.stderr).contains("cannot be used with"), "{both:?}");
}

fn round_trip_times_of_the_running_server_are_judged(backend: &str) {
    let folder = Folder::new();
    let setup = Setup::new(backend).listener("main", "127.0.0.1:0", "bbr3").with(ADMIN);
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    let found = |at: &str| {
        let text = format!(
            "[[listener]]\nname = \"main\"\naddress = \"127.0.0.1:0\"\ntls = \"self-signed\"\ncongestion_control = \"bbr3\"\n\
             [[route]]\npath = \"/\"\nfixed = {{}}\n[admin]\naddress = \"{at}\"\n"
        );
        std::fs::write(folder.path("asked.toml"), text).unwrap();
        let output = doctor(&folder, &["asked.toml", "--json"]);
        let (_, found) = checks(&output);
        found.into_iter().find(|check| check["check"] == "bbr_short_paths").unwrap()
    };
    let silent = found("127.0.0.1:1");
    assert_eq!(silent["state"], "unknown");
    assert!(silent["found"].as_str().unwrap().contains("no running server replies at 127.0.0.1:1"));
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
        let check = found(&admin.to_string());
        // A busy machine may need longer over loopback.
        assert!(check["state"] == "warning" || check["state"] == "fine", "{check}");
        assert!(check["found"].as_str().unwrap().contains("connections with bbr3"), "{check}");
    });
}
