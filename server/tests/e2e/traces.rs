//! Traces that an operator asks for.

use std::net::SocketAddr;
use std::process::Output;
use std::time::Duration;

use crate::admin::{ADMIN, address, get};
use crate::client::{Client, run};
use crate::installed;
use crate::on_auto;
use crate::server::{Folder, PAGE, Server, Setup};

on_auto!(
    running_and_next_connections_are_traced_on_request,
    recorded_events_are_written_at_an_operators_command,
    trace_without_a_folder_says_which_key_to_set,
);

/// Attempts before a file must be there.
const ATTEMPTS: usize = 1000;

fn trace(words: &[&str]) -> Output {
    installed::output("trace", words)
}

/// Waits until a trace contains all these parts.
async fn contains(folder: &Folder, file: &str, parts: &[&str]) {
    let path = folder.path(file);
    let mut text = String::new();
    for _ in 0..ATTEMPTS {
        text = std::fs::read_to_string(&path).unwrap_or_default();
        if parts.iter().all(|part| text.contains(part)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{}: {parts:?} are missing in\n{text}", path.display());
}

/// Returns a server with a folder for traces, and its admin address.
fn traced(backend: &str, folder: &Folder) -> (Server, SocketAddr) {
    let setup = Setup::new(backend)
        .listener("main", "127.0.0.1:0", "bbr3")
        .with(ADMIN)
        .with("[qlog]\ndirectory = \"traces\"");
    let mut server = Server::start(&setup, folder);
    let admin = address(&mut server);
    (server, admin)
}

fn running_and_next_connections_are_traced_on_request(backend: &str) {
    let folder = Folder::new();
    let (server, admin) = traced(backend, &folder);
    let at = admin.to_string();
    assert_eq!(trace(&["--admin", &at, "ffff00ff00ff"]).status.code(), Some(3));
    run(async {
        let client = Client::new(&folder);
        let mut stalled = client.connect(server.address()).await;
        // Nobody reads the body.
        let _response = stalled.get("/bytes/100000000").await;
        let mut list = String::new();
        for _ in 0..ATTEMPTS {
            list = get(admin, "/debug/connections?wait=stream_flow_control").1;
            if list.contains("\"count\": 1") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let reply: serde_json::Value = serde_json::from_str(&list).unwrap();
        let id = reply["connections"][0]["id"].as_str().unwrap();
        let told = trace(&["--admin", &at, id]);
        let text = String::from_utf8(told.stdout).unwrap();
        assert!(told.status.success(), "{text}");
        let (start, file) = text.trim_end().rsplit_once('/').unwrap();
        assert!(start.starts_with(&format!("{id}  127.0.0.1:")), "{text}");
        assert!(file.starts_with(&format!("{id}_main_bbr3_from-")), "{text}");
        // It waits, and writes nothing more.
        let state = [
            "congestion_window",
            "\"name\":\"quic:connection_data_blocked_updated\",\"data\":{\"new\":\"blocked\",\"reason\":\"stream_flow_control\"",
            "\"name\":\"quic:stream_data_blocked_updated\"",
            "connection_state",
        ];
        contains(&folder, &format!("traces/{file}"), &state).await;
        let again = trace(&["--admin", &at, "127.0.0.0/8", "--json"]);
        let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!(again["connections"][0]["file"], *file, "{again}");
        assert_eq!(
            (&again["connections"][0]["begun"], &again["next"]["count"]),
            (&false.into(), &10.into())
        );
        let mut next = client.connect(server.address()).await;
        assert_eq!(next.get("/").await.text().await, PAGE);
    });
    let counted = crate::admin::metrics(admin);
    assert_eq!(counted["sluicegate_qlog_traces_started_total"], 2.0);
    let named = trace(&["--admin", &at, "--sni", "localhost", "--for", "5s", "--count", "1"]);
    let text = String::from_utf8(named.stdout).unwrap();
    assert!(text.starts_with("the next connections, up to 1, within 5.0 s: "), "{text}");
}

fn recorded_events_are_written_at_an_operators_command(backend: &str) {
    let folder = Folder::new();
    let (server, admin) = traced(backend, &folder);
    let at = admin.to_string();
    assert_eq!(trace(&["--admin", &at, "--recorder", "ffff00ff00ff"]).status.code(), Some(3));
    run(async {
        let client = Client::new(&folder);
        let mut stalled = client.connect(server.address()).await;
        // Nobody reads the body.
        let _response = stalled.get("/bytes/100000000").await;
        for _ in 0..ATTEMPTS {
            let list = get(admin, "/debug/connections?wait=stream_flow_control").1;
            if list.contains("\"count\": 1") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let told = trace(&["--admin", &at, "127.0.0.1", "--recorder"]);
        let text = String::from_utf8(told.stdout).unwrap();
        assert!(told.status.success(), "{text}");
        let (start, file) = text.trim_end().rsplit_once('/').unwrap();
        let (id, _) = start.split_once("  127.0.0.1:").unwrap();
        assert!(file.starts_with(&format!("{id}_main_bbr3_recorder-")), "{text}");
        let written = ["sluicegate:trigger", "sluicegate:packets", "stream_flow_control"];
        contains(&folder, &format!("traces/{file}"), &written).await;
        let path = format!("traces/{file}");
        let summary = installed::output_in(&folder.path(""), "qlog", &["summary", &path]);
        let story = String::from_utf8(summary.stdout).unwrap();
        assert!(story.contains("recorded    on an operator's command, at "), "{story}");
        assert!(story.contains("bbr3") && story.contains("stream_flow_control"), "{story}");
    });
    let counted = crate::admin::metrics(admin);
    let operator = counted.iter().find(|(name, _)| {
        name.starts_with("sluicegate_recorder_files_total") && name.contains("operator")
    });
    assert_eq!(operator.map(|(_, count)| *count), Some(1.0));
    let wrong = trace(&["--admin", &at, "--sni", "a", "--recorder"]);
    assert_eq!(wrong.status.code(), Some(2));
}

fn trace_without_a_folder_says_which_key_to_set(backend: &str) {
    let folder = Folder::new();
    let setup = Setup::new(backend).listener("main", "127.0.0.1:0", "cubic").with(ADMIN);
    let mut server = Server::start(&setup, &folder);
    let at = address(&mut server).to_string();
    let refused = trace(&["--admin", &at, "127.0.0.1"]);
    let reason = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(reason.contains("set `directory` in [qlog]"), "{reason}");
    let wrong = trace(&["--admin", &at, "somebody"]);
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("neither a connection ID"));
}
