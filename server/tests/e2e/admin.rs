//! The admin address, asked while the server works.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::client::{Client, Counted, run};
use crate::server::{Folder, PAGE, Process, Server, Setup, field};
use crate::{on_auto, on_every_backend};

on_every_backend!(metrics_tell_of_real_requests);
on_auto!(readiness_ends_with_the_order_to_stop, a_reload_moves_the_admin_address,);

/// Asks for a free port.
pub(crate) const ADMIN: &str = "[admin]\naddress = \"127.0.0.1:0\"";

/// Attempts before [`until`] fails.
const ATTEMPTS: usize = 4000;

/// Longest wait for more of a reply.
const REPLY_LIMIT: Duration = Duration::from_secs(90);

/// Returns the admin address that a server with [`ADMIN`] logged.
pub(crate) fn address(server: &mut Server) -> SocketAddr {
    let line = server.process.line_with(&["health checks and metrics"]);
    field(&line, "address").parse().unwrap()
}

/// Returns status and content of a page.
pub(crate) fn get(admin: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.set_read_timeout(Some(REPLY_LIMIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, content) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap();
    (status.parse().unwrap(), content.to_owned())
}

/// Returns every sample of `/metrics`.
pub(crate) fn metrics(admin: SocketAddr) -> BTreeMap<String, f64> {
    let (status, page) = get(admin, "/metrics");
    assert_eq!(status, 200);
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    let pair = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    samples.map(pair).collect()
}

/// Waits until a figure of the metrics has a value. A client may see the end of its connection before the server has counted it.
pub(crate) fn until(admin: SocketAddr, name: &str, value: f64) {
    let reached = run(async {
        for _ in 0..ATTEMPTS {
            if metrics(admin)[name] == value {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    });
    let found = metrics(admin)[name];
    assert!(reached, "{name} is {found}, not {value}");
}

/// Returns the sum of all samples whose name and labels begin so.
pub(crate) fn sum(found: &BTreeMap<String, f64>, start: &str) -> f64 {
    let fitting = found.iter().filter(|(name, _)| name.starts_with(start));
    fitting.map(|(_, value)| value).sum()
}

fn metrics_tell_of_real_requests(backend: &str) {
    const BYTES: u64 = 1 << 20;
    let folder = Folder::new();
    let setup = Setup::new(backend)
        .with(ADMIN)
        .with("[qlog]\nsample_rate = 1.0\ndirectory = \"traces\"")
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("first", "127.0.0.1:0", "cubic")
        .listener("second", "127.0.0.1:0", "bbr3");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut first = client.connect(server.listener("first").0).await;
        for _ in 0..3 {
            assert_eq!(first.get("/").await.text().await, PAGE);
        }
        assert_eq!(first.get("/bytes/nonsense").await.head.status(), 404);
        let mut second = client.connect(server.listener("second").0).await;
        let mut response = second.get(&format!("/bytes/{BYTES}")).await;
        response.count_to_the_end(&mut Counted::default(), BYTES).await;
        let found = metrics(admin);
        let up = "sluicegate_worker_up{group=\"default\",worker=\"0\"}";
        for (name, expected) in [
            (up, 1.0),
            ("sluicegate_phase{phase=\"serving\"}", 1.0),
            ("sluicegate_connections", 2.0),
            ("sluicegate_connections_handshaking", 0.0),
            ("sluicegate_connections_accepted_total", 2.0),
            ("sluicegate_connections_established_total", 2.0),
            ("sluicegate_handshakes_failed_total{reason=\"tls\"}", 0.0),
            ("sluicegate_connections_by_algorithm_total{algorithm=\"bbr3\"}", 1.0),
            ("sluicegate_http_requests_total", 5.0),
            ("sluicegate_http_responses_total{code=\"200\"}", 4.0),
            ("sluicegate_http_responses_total{code=\"404\"}", 1.0),
            ("sluicegate_qlog_traces_started_total", 2.0),
        ] {
            assert_eq!(found.get(name), Some(&expected), "{name} in {found:#?}");
        }
        let latency = "sluicegate_http_request_duration_seconds";
        assert_eq!(found[&format!("{latency}_count")], 5.0);
        assert_eq!(found[&format!("{latency}_bucket{{le=\"+Inf\"}}")], 5.0);
        for algorithm in ["cubic", "bbr3"] {
            let start = "sluicegate_connections_by_controller_state{algorithm=";
            let count = sum(&found, &format!("{start}\"{algorithm}\",state=\""));
            assert_eq!(count, 1.0, "{algorithm} in {found:#?}");
        }
        let own = format!("{{group=\"default\",worker=\"0\",backend=\"{backend}\"}}");
        let sent = found[&format!("sluicegate_sent_bytes_total{own}")];
        assert!(sent > f64::from(1 << 20), "{sent}");
        assert!(found["sluicegate_http_response_body_bytes_total"] > f64::from(1 << 20));
        assert!(found["sluicegate_allocator_allocated_bytes"] > 0.0);
        assert!(found["process_open_fds"] > 5.0);
    });
}

/// And the server goes on telling that it is alive, and what it does.
fn readiness_ends_with_the_order_to_stop(backend: &str) {
    const LENGTH: u64 = 20_000_000;
    let folder = Folder::new();
    let setup = Setup::new(backend).listener("main", "127.0.0.1:0", "cubic");
    let setup = setup.with(ADMIN).with("[server]\nshutdown_delay = \"1h\"");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    assert_eq!(get(admin, "/readyz"), (200, "ready\n".to_owned()));
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let mut response = session.get(&format!("/bytes/{LENGTH}")).await;
        let mut counted = Counted::default();
        // Flow control holds the rest back until it is read.
        response.count(&mut counted, LENGTH / 10).await;
        server.process.terminate();
        server.process.line_with(&["leaving"]);
        let (status, reason) = get(admin, "/readyz");
        assert!(status == 503 && reason.starts_with("leaving"), "{reason}");
        let mut late = client.connect(server.address()).await;
        assert_eq!(late.get("/").await.text().await, PAGE);
        drop(late);
        server.process.terminate();
        server.process.line_with(&["draining"]);
        let (status, reason) = get(admin, "/readyz");
        assert!(status == 503 && reason.starts_with("draining"), "{reason}");
        assert_eq!(get(admin, "/healthz"), (200, "ok\n".to_owned()));
        assert_eq!(metrics(admin)["sluicegate_phase{phase=\"draining\"}"], 1.0);
        response.count_to_the_end(&mut counted, LENGTH).await;
        drop((session, response));
        client.endpoint.wait_idle().await;
    });
    assert_eq!(server.process.wait().code(), Some(0));
}

#[test]
fn a_taken_admin_address_is_named() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = format!(
        "[admin]\naddress = \"{address}\"\n\
         [[listener]]\nname = \"main\"\naddress = \"127.0.0.1:0\"\ntls = \"self-signed\"\n"
    );
    std::fs::write(folder.path("refused.toml"), text).unwrap();
    let mut process = Process::start(&["run", "-c", "refused.toml"], &folder.path(""));
    assert_eq!(process.wait().code(), Some(1));
    let said = &process.said;
    assert_eq!(said.len(), 1, "{said:?}");
    for part in ["`admin.address`", &address, "already in use", "choose another"] {
        assert!(said[0].contains(part), "{said:?}");
    }
}

fn a_reload_moves_the_admin_address(backend: &str) {
    let folder = Folder::new();
    let with = |tables: &str| {
        let setup = Setup::new(backend).listener("main", "127.0.0.1:0", "cubic");
        setup.with(tables)
    };
    let mut server = Server::start(&with(ADMIN), &folder);
    let first = address(&mut server);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = |address: SocketAddr| with(&format!("[admin]\naddress = \"{address}\""));
    let line = server.reload(&at(taken.local_addr().unwrap()), &folder, "refused");
    assert!(line.contains("`admin.address`"), "{line}");
    assert_eq!(get(first, "/readyz").0, 200);
    let second = taken.local_addr().unwrap();
    drop(taken);
    server.reload(&at(second), &folder, "reloaded");
    assert_eq!(get(second, "/readyz").0, 200);
    while TcpStream::connect(first).is_ok() {
        std::thread::yield_now();
    }
    server.reload(&with(""), &folder, "reloaded");
    while TcpStream::connect(second).is_ok() {
        std::thread::yield_now();
    }
    server.process.last_words();
}
