//! Connections of the running server, as its operator sees them.

use std::net::SocketAddr;
use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};

use crate::admin::{ADMIN, address, get};
use crate::browser::headless;
use crate::client::{Client, run};
use crate::installed;
use crate::on_auto;
use crate::server::{Folder, PAGE, Server, Setup};
use crate::tcp::raw::Raw;
use crate::tcp::{frames, program};

on_auto!(
    a_stalled_connection_is_found_and_told_in_words,
    clients_over_tcp_that_do_not_read_are_found_and_told_in_words,
);

/// Attempts before a connection must be seen to wait.
const ATTEMPTS: usize = 1000;

fn why(words: &[&str]) -> Output {
    installed::output("why", words)
}

/// Has a browser open the admin address at a connection, once its script has asked for everything.
fn page_shows(folder: &Folder, admin: SocketAddr, (id, client, request): (&str, &str, &str)) {
    found_by_its_first_digits(&admin.to_string(), id);
    let Some(chromium) = program("chromium") else {
        return;
    };
    let mut chromium = headless(chromium, folder);
    let chromium = chromium.args(["--dump-dom", "--virtual-time-budget=7000"]);
    let shown = chromium.arg(format!("http://{admin}/#{id}")).output().unwrap();
    let page = String::from_utf8_lossy(&shown.stdout);
    for part in [
        &format!("Connection {id}"),
        &format!("<td>{client}</td>"),
        request,
        "stream flow control",
        "QUIC connections</span>",
        "<polyline",
        "Details of connection",
    ] {
        assert!(page.contains(part), "{part} is missing in\n{page}");
    }
    assert!(page.contains("role=\"alert\"></span>"), "a problem is shown:\n{page}");
}

/// Lets the server go on before the next look.
fn pause() {
    run(async { tokio::time::sleep(Duration::from_millis(5)).await });
}

/// Waits until a connection has a wait. Returns the list of all.
fn until_one_waits(admin: SocketAddr, wait: &str) -> Value {
    for _ in 0..ATTEMPTS {
        let list = get(admin, "/debug/connections").1;
        let reply: Value = serde_json::from_str(&list).unwrap();
        if !reply["waits"][wait].is_null() {
            return reply;
        }
        pause();
    }
    panic!("no connection has come to wait for {wait}");
}

/// Returns the connection of a protocol in a list.
fn one_of<'a>(list: &'a Value, protocol: &str) -> &'a Value {
    let all = list["connections"].as_array().unwrap();
    all.iter().find(|one| one["protocol"] == protocol).unwrap()
}

fn clients_over_tcp_that_do_not_read_are_found_and_told_in_words(backend: &str) {
    let folder = Folder::new();
    let tables = "[admin]\naddress = \"127.0.0.1:0\"\nconnections = true\n[access_log]\nfile = \"access.log\"\n\
        [qlog]\ndirectory = \"traces\"";
    let setup = Setup::new(backend).listener("main", "127.0.0.1:0", "bbr3").with(tables);
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    let at = admin.to_string();
    let mut http1 = Raw::open_with(server.address(), b"");
    http1.send(b"GET /bytes/100000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    until_one_waits(admin, "connection_flow_control");
    let mut http2 = frames::http2(server.address());
    http2.send(&frames::get(1, "/bytes/100000000"));
    let list = until_one_waits(admin, "stream_flow_control");
    assert_eq!(list["protocols"], json!({ "h2": 1, "http/1": 1 }), "{list}");
    let system = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    assert_eq!(list["algorithms"][system.trim()], 2, "{list}");
    for (protocol, wait) in [("http/1", "connection_flow_control"), ("h2", "stream_flow_control")] {
        let one = one_of(&list, protocol);
        assert_eq!((&one["wait"], &one["listener"]), (&wait.into(), &"main".into()), "{one}");
        assert_eq!((&one["requests"], &one["open_requests"]), (&1.into(), &1.into()));
        assert!(one["lost_bytes"].is_null() && one["probe_timeouts"].is_null(), "{one}");
        assert!(one["rtt_ms"].is_f64() && one["sent_bytes"].as_u64() > Some(60_000), "{one}");
        let waits = one["waits_ms"].as_object().unwrap();
        let sum: f64 = waits.values().map(|ms| ms.as_f64().unwrap()).sum();
        // Each time is rounded to a microsecond.
        assert!((sum - one["age_ms"].as_f64().unwrap()).abs() < 0.02, "{one}");
        let id = one["id"].as_str().unwrap();
        let told = why(&["--admin", &at, id]);
        let text = String::from_utf8(told.stdout).unwrap();
        for part in [
            &format!("connection {id} ({protocol}), "),
            &format!("waits for  {wait}, for "),
            "the client takes no more data on ",
            "request    1: GET /bytes/100000000, ",
            &format!("old, waits for {wait} ("),
            " again (",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }
    let [client, id] = ["client", "id"].map(|key| one_of(&list, "h2")[key].as_str().unwrap());
    let text = String::from_utf8(why(&["--admin", &at, client]).stdout).unwrap();
    assert!(text.starts_with(&format!("connection {id} (h2), ")), "{text}");
    page_shows(&folder, admin, (id, client, "request 1: GET /bytes/100000000, "));
    for words in [&["switch", id, "cubic", "--admin", &at], &["trace", id, "--admin", &at][..]] {
        let refused = installed::output(words[0], &words[1..]);
        let reason = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success(), "{words:?}");
        assert!(reason.contains("the connection is one over TCP"), "{words:?}: {reason}");
    }
    drop(http2);
    let mut log = String::new();
    for _ in 0..ATTEMPTS {
        log = std::fs::read_to_string(folder.path("access.log")).unwrap_or_default();
        if log.contains(&format!("\"connection\":\"{id}\"")) {
            return;
        }
        pause();
    }
    panic!("no line has the ID {id}:\n{log}");
}

/// As a narrow table shows them.
fn found_by_its_first_digits(at: &str, id: &str) {
    for digits in [12, 15, 16] {
        assert!(
            why(&["--admin", at, &id[..digits.min(id.len())]]).status.success(),
            "{id}, {digits}"
        );
    }
}

fn switch(words: &[&str]) -> Output {
    installed::output("switch", words)
}

fn a_stalled_connection_is_found_and_told_in_words(backend: &str) {
    let folder = Folder::new();
    let setup = Setup::new(backend).listener("main", "127.0.0.1:0", "bbr3").with(ADMIN);
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    let at = admin.to_string();
    let none = why(&["--admin", &at]);
    assert_eq!((none.status.code(), &*none.stdout), (Some(0), &b"no connections\n"[..]));
    assert_eq!(why(&["--admin", &at, "127.0.0.1"]).status.code(), Some(3));
    run(async {
        let client = Client::new(&folder);
        let mut idle = client.connect(server.address()).await;
        assert_eq!(idle.get("/").await.text().await, PAGE);
        let mut stalled = client.connect(server.address()).await;
        // Nobody reads the body.
        let _response = stalled.get("/bytes/100000000").await;
        let mut list = String::new();
        for _ in 0..ATTEMPTS {
            list = get(admin, "/debug/connections").1;
            // The last acknowledgement of the first one may be on its way.
            let waits = ["stream_flow_control", "client"];
            if waits.iter().all(|wait| list.contains(&format!("\"wait\": \"{wait}\""))) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let reply: Value = serde_json::from_str(&list).unwrap();
        assert_eq!(reply["count"], 2, "{list}");
        let [first, second] = [0, 1].map(|place| &reply["connections"][place]);
        assert_eq!(
            (&first["wait"], &second["wait"]),
            (&"stream_flow_control".into(), &"client".into())
        );
        assert_eq!((&first["algorithm"], &first["listener"]), (&"bbr3".into(), &"main".into()));
        assert_eq!(first["requests"], 1);
        let waits = first["waits_ms"].as_object().unwrap();
        let sum: f64 = waits.values().map(|ms| ms.as_f64().unwrap()).sum();
        let age = first["age_ms"].as_f64().unwrap();
        // Each time is rounded to a microsecond.
        assert!((sum - age).abs() < 0.02, "{list}");
        let (id, client) = (first["id"].as_str().unwrap(), first["client"].as_str().unwrap());
        let (status, one) = get(admin, &format!("/debug/connections/{id}"));
        assert_eq!(status, 200);
        assert_eq!(serde_json::from_str::<Value>(&one).unwrap()["id"], *id);
        let told = why(&["--admin", &at, id]);
        let text = String::from_utf8(told.stdout).unwrap();
        assert!(told.status.success(), "{text}");
        assert!(text.contains("waits for  stream_flow_control, for "), "{text}");
        assert!(text.contains("the client takes no more data on its streams"), "{text}");
        assert!(text.contains("old, waits for stream_flow_control ("), "{text}");
        page_shows(&folder, admin, (id, client, "stream 0: request,"));
        // Both connections leave by the client's only socket.
        for words in [vec!["--admin", &at], vec!["--admin", &at, client]] {
            let table = String::from_utf8(why(&words).stdout).unwrap();
            let lines: Vec<&str> = table.lines().collect();
            assert!(lines.len() == 3 && lines[1].starts_with(id), "{table}");
        }
        assert_eq!(why(&["--admin", &at, "ffff00ff00ff"]).status.code(), Some(3));
        let switched = switch(&["--admin", &at, id, "cubic", "-o", "slow_start=search"]);
        let text = String::from_utf8(switched.stdout).unwrap();
        assert!(text.starts_with(&format!("{id}: from bbr3 (")), "{text}");
        assert!(text.contains(" to cubic ("), "{text}");
        let (_, one) = get(admin, &format!("/debug/connections/{id}"));
        assert_eq!(serde_json::from_str::<Value>(&one).unwrap()["algorithm"], "cubic");
        let counted = crate::admin::metrics(admin);
        for algorithm in ["bbr3", "cubic"] {
            let name =
                format!("sluicegate_connections_by_controller_state{{algorithm=\"{algorithm}\"");
            assert_eq!(crate::admin::sum(&counted, &name), 1.0, "{algorithm}");
        }
        let unknown = switch(&["--admin", &at, id, "vegas"]);
        let reason = String::from_utf8(unknown.stderr).unwrap();
        assert!(reason.contains("unknown algorithm `vegas`; there are: "), "{reason}");
        assert_eq!(switch(&["--admin", &at, "ffff00ff00ff", "reno"]).status.code(), Some(3));
    });
}
