//! Prometheus itself reads the metrics page, the alerts and the Grafana board. `make prometheus` installs it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::park_timeout;
use std::time::Duration;

use serde_json::Value;
use sluicegate_dataplane::requirements::skip;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::admin::{ADMIN, address, get};
use crate::client::{Client, Session};
use crate::fronts::{FRONTS, Outcome};
use crate::ports::free;
use crate::server::{Folder, Process, Server, Setup};
use crate::{on_auto, upstream};

on_auto!(page_alerts_and_board_are_as_prometheus_wants_them, queries_of_the_board_have_data);

/// Rounds of traffic within which every query must have had data once.
const ROUNDS: usize = 60;

/// Returns the path of a program of Prometheus; `None`, reported as missing, if this host does not have it.
fn program(name: &str) -> Option<PathBuf> {
    let found = crate::installed::installed(Path::new("prometheus").join(name));
    if found.is_none() {
        skip("prometheus", &"`make prometheus` installs it, if there is Go");
    }
    found
}

fn deployed(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path)
}

/// Starts a server with two listeners, an upstream that responds and one that does not. Returns it with its admin address.
fn start(backend: &str, folder: &Folder) -> (Server, SocketAddr) {
    let upstream = upstream::start(|mut stream| async move {
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).await;
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\na";
        let _ = stream.write_all(response).await;
    });
    let nobody = free().local_addr().unwrap();
    let setup = Setup::new(backend)
        .with(ADMIN)
        .with(&format!(
            "[[route]]\npath = \"/app\"\nproxy.pool = \"app\"\n\
             [[route]]\npath = \"/down\"\nproxy.upstreams = \"{nobody}\"\n\
             [[pool]]\nname = \"app\"\nupstreams = \"{upstream}\"\n\
             [pool.health_check]\npath = \"/\"\ninterval = \"100ms\""
        ))
        .listener("first", "127.0.0.1:0", "cubic")
        .listener("second", "127.0.0.1:0", "bbr3");
    let mut server = Server::start(&setup, folder);
    let admin = address(&mut server);
    (server, admin)
}

/// Fetches something of each kind over each protocol.
fn traffic(server: &Server, folder: &Folder) {
    for listener in ["first", "second"] {
        for (path, status) in [("/", 200), ("/bytes/100000", 200), ("/app", 200), ("/down", 502)] {
            for front in FRONTS {
                match front.get(server.listener(listener).0, folder, path) {
                    Outcome::Whole(found, ..) => assert_eq!(found, status, "{front:?} {path}"),
                    Outcome::Broken => panic!("{front:?} {path}"),
                }
            }
        }
    }
}

/// Keeps a connection to each listener, since a board also shows open ones.
async fn connect(server: &Server, folder: &Folder) -> Vec<Session> {
    let mut sessions = Vec::new();
    for listener in ["first", "second"] {
        let client = Client::new(folder);
        let mut session = client.connect(server.listener(listener).0).await;
        session.get("/").await.text().await;
        sessions.push(session);
    }
    sessions
}

fn page_alerts_and_board_are_as_prometheus_wants_them(backend: &str) {
    let Some(promtool) = program("promtool") else {
        return;
    };
    let folder = Folder::new();
    let (server, admin) = start(backend, &folder);
    traffic(&server, &folder);
    let page = folder.path("page");
    let (status, content) = get(admin, "/metrics");
    assert_eq!(status, 200);
    std::fs::write(&page, content).unwrap();
    let check = |words: &[&str], input: Stdio| {
        let mut command = Command::new(&promtool);
        let output = command.args(words).current_dir(deployed("prometheus")).stdin(input).output();
        let output = output.unwrap();
        // What it finds fault with, but can read, is on standard error alone.
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    };
    check(&["check", "metrics"], std::fs::File::open(&page).unwrap().into());
    check(&["check", "rules", "alerts.yml"], Stdio::null());
    check(&["check", "config", "prometheus.yml"], Stdio::null());
    check(&["test", "rules", "alerts_test.yml"], Stdio::null());
}

/// Asks Prometheus and returns its data.
fn ask(prometheus: SocketAddr, path: &str, query: &str) -> Option<Value> {
    let output = Command::new("curl")
        .args(["--silent", "--get", "--data-urlencode"])
        .arg(format!("query={query}"))
        .arg(format!("http://{prometheus}/api/v1/{path}"))
        .output();
    let reply: Value = serde_json::from_slice(&output.unwrap().stdout).ok()?;
    assert_eq!(reply["status"], "success", "{query}: {reply}");
    Some(reply["data"].clone())
}

/// Returns whether a query has a finite value.
fn has_data(prometheus: SocketAddr, query: &str) -> bool {
    let data = ask(prometheus, "query", query);
    let results = data.as_ref().and_then(|data| data["result"].as_array());
    let mut values = results.into_iter().flatten().filter_map(|one| one["value"][1].as_str());
    values.any(|value| value.parse().is_ok_and(f64::is_finite))
}

/// Returns the queries of the board, with values for its variables.
fn queries() -> Vec<String> {
    let board = std::fs::read_to_string(deployed("grafana/sluicegate.json")).unwrap();
    let board: Value = serde_json::from_str(&board).unwrap();
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let query = |target: &Value| {
        let query = target["expr"].as_str().unwrap().replace("$instance", ".*");
        query.replace("$__rate_interval", "1m")
    };
    targets.map(query).collect()
}

fn queries_of_the_board_have_data(backend: &str) {
    let Some(program) = program("prometheus") else {
        return;
    };
    let folder = Folder::new();
    let (server, admin) = start(backend, &folder);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.unwrap();
    let sessions = runtime.block_on(connect(&server, &folder));
    let here: SocketAddr = ([127, 0, 0, 1], free().local_addr().unwrap().port()).into();
    let config = folder.path("prometheus.yml");
    let alerts = deployed("prometheus/alerts.yml");
    let text = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{alerts:?}]\n\
         scrape_configs: [{{ job_name: sluicegate, static_configs: [{{ targets: [\"{admin}\"] }}] }}]\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(program);
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path("tsdb").display()))
        .arg(format!("--web.listen-address={here}"))
        .stdin(Stdio::null());
    let _prometheus = Process::spawn(command, config.parent().unwrap());
    let mut open = queries();
    for _ in 0..ROUNDS {
        traffic(&server, &folder);
        park_timeout(Duration::from_secs(1));
        open.retain(|query| !has_data(here, query));
        if open.is_empty() {
            break;
        }
    }
    assert!(open.is_empty(), "no data: {open:#?}");
    let rules = ask(here, "rules", "").unwrap();
    for rule in rules["groups"][0]["rules"].as_array().unwrap() {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    drop(sessions);
}
