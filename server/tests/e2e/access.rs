//! The access log, as the server of a folder leaves it behind.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use serde_json::Value;

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, Session, run};
use crate::on_auto;
use crate::server::{Folder, PAGE, Process, Server, Setup};
use crate::tcp::{PROTOCOLS, curl, program};

on_auto!(
    json_lines_tell_of_every_request,
    combined_lines_tell_of_every_request,
    a_renamed_log_is_begun_anew_on_a_signal,
    a_full_disk_stops_no_request,
    requests_that_the_stop_cuts_have_their_lines,
);

/// Quotes, a backslash, and a byte that is not UTF-8.
const AGENT: &[u8] = b"a \"client\" \\ \xff";
/// A path that is refused, and is logged as it was sent.
const REFUSED: &str = "/bytes/\"\\x?y";
/// Target of a download that the client never finishes.
const LONG: &str = "/bytes/50MiB";

fn setup(backend: &str, log: &str) -> Setup {
    Setup::new(backend)
        .with(ADMIN)
        .with(&format!("[access_log]\n{log}"))
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "reno")
}

/// A page, a refusal with a query and a hostile header, and a download that is cancelled.
async fn visit(session: &mut Session) {
    assert_eq!(session.get("/").await.text().await, PAGE);
    let fields = [("user-agent", AGENT), ("referer", b"https://a/?\"")];
    let response = session.get_with(REFUSED, &fields).await;
    assert_eq!(response.head.status(), 400);
    response.text().await;
    let mut response = session.get(LONG).await;
    response.piece().await.unwrap();
    response.cancel();
}

/// Returns the lines that a server wrote to its access log for one visit.
fn lines_after_a_visit(backend: &str, format: &str) -> Vec<String> {
    let folder = Folder::new();
    let log = format!("file = \"access.log\"\nformat = \"{format}\"\nquery = true");
    let mut server = Server::start(&setup(backend, &log), &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        visit(&mut session).await;
        drop(session);
        client.endpoint.wait_idle().await;
    });
    server.process.last_words();
    lines(&folder.path("access.log"))
}

fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(str::to_owned).collect()
}

fn json_lines_tell_of_every_request(backend: &str) {
    let lines = lines_after_a_visit(backend, "json");
    let records = lines.iter().map(|line| serde_json::from_str(line).unwrap());
    let records: Vec<Value> = records.collect();
    let [page, refusal, download] = &records[..] else {
        panic!("{lines:#?}");
    };
    for record in &records {
        let client: SocketAddr = record["client"].as_str().unwrap().parse().unwrap();
        assert!(client.ip().is_loopback() && client.port() > 0);
        for (key, expected) in [
            ("listener", "main"),
            ("method", "GET"),
            ("authority", "localhost"),
            ("protocol", "HTTP/3"),
            ("worker", "default-0"),
            ("congestion_control", "reno"),
        ] {
            assert_eq!(record[key], expected, "{record}");
        }
        assert_eq!(record["connection"], page["connection"]);
        assert!(record["connection"].as_str().unwrap().len() >= 16);
        assert!(record["time"].as_str().unwrap().ends_with('Z'));
        assert!(record["duration_us"].is_u64());
    }
    assert_eq!((&page["path"], &page["status"]), (&"/".into(), &200.into()));
    assert_eq!(page["bytes_sent"], PAGE.len());
    assert_eq!(page["outcome"], "complete");
    assert_eq!(page["user_agent"], Value::Null);
    assert_eq!(refusal["status"], 400);
    assert_eq!(refusal["path"], REFUSED);
    assert_eq!(refusal["user_agent"], *String::from_utf8_lossy(AGENT));
    assert_eq!(refusal["referer"], "https://a/?\"");
    assert_eq!((&download["path"], &download["status"]), (&LONG.into(), &200.into()));
    assert_eq!(download["outcome"], "cancelled");
    assert!(download["bytes_sent"].as_u64().unwrap() > 0);
}

/// The second connection resumes the session of the first.
#[test]
fn lines_tell_of_the_tls_session() {
    let folder = Folder::new();
    let mut server = Server::start(&setup("mio", "file = \"access.log\""), &folder);
    run(async {
        let client = Client::new(&folder);
        for _ in 0..2 {
            let mut session = client.connect(server.address()).await;
            assert_eq!(session.get("/").await.text().await, PAGE);
            drop(session);
            client.endpoint.wait_idle().await;
        }
    });
    server.process.last_words();
    let lines = lines(&folder.path("access.log"));
    assert_eq!(lines.len(), 2, "{lines:#?}");
    for (line, resumed) in lines.iter().zip([false, true]) {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["tls_version"], "TLSv1.3");
        assert!(record["tls_group"].is_string(), "{record}");
        assert_eq!(record["tls_resumed"], resumed, "{record}");
        assert_eq!(record["tls_server_name"], "localhost", "{record}");
        assert!(record["tls_cipher"].is_string(), "{record}");
    }
}

#[test]
fn lines_tell_of_the_tls_session_over_tcp() {
    let folder = Folder::new();
    let mut server = Server::start(&setup("mio", "file = \"access.log\""), &folder);
    let tls12 = ["--http1.1", "--tls-max", "1.2", "--ciphers"];
    let tls12 = [&tls12[..], &["ECDHE-ECDSA-AES128-GCM-SHA256"]].concat();
    for words in [&tls12[..], &["--http2"]] {
        if curl(&server, &folder, words, "/").is_none() {
            return;
        }
    }
    server.process.last_words();
    let lines = lines(&folder.path("access.log"));
    let expected =
        [("TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"), ("TLSv1.3", "TLS_AES_")];
    assert_eq!(lines.len(), 2, "{lines:#?}");
    for (line, (version, cipher)) in lines.iter().zip(expected) {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["tls_version"], version);
        let named = record["tls_cipher"].as_str().unwrap();
        assert!(named.starts_with(cipher), "{record}");
        assert!(record["tls_group"].is_string(), "{record}");
        assert_eq!(record["tls_resumed"], false, "{record}");
        assert_eq!(record["tls_server_name"], "localhost", "{record}");
    }
}

fn combined_lines_tell_of_every_request(backend: &str) {
    let lines = lines_after_a_visit(backend, "combined");
    let [page, refusal, download] = &lines[..] else {
        panic!("{lines:#?}");
    };
    assert!(lines.iter().all(|line| line.starts_with("127.0.0.1 - - [")));
    let length = PAGE.len();
    let end = format!(" +0000] \"GET / HTTP/3\" 200 {length} \"-\" \"-\"");
    assert!(page.ends_with(&end), "{page}");
    let (_, request) = refusal.split_once("] ").unwrap();
    let expected = "\"GET /bytes/\\x22\\x5Cx?y HTTP/3\" 400 ";
    assert!(request.starts_with(expected), "{refusal}");
    let expected = "\"https://a/?\\x22\" \"a \\x22client\\x22 \\x5C \\xFF\"";
    assert!(request.ends_with(expected), "{refusal}");
    let expected = format!("\"GET {LONG} HTTP/3\" 200 ");
    assert!(download.contains(&expected), "{download}");
}

fn a_renamed_log_is_begun_anew_on_a_signal(backend: &str) {
    let folder = Folder::new();
    let mut server = Server::start(&setup(backend, "file = \"access.log\"\nquery = true"), &folder);
    let (current, old) = (folder.path("access.log"), folder.path("access.log.1"));
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        session.get("/?before").await.text().await;
        // The line is in the file once it is counted.
        let admin = address(&mut server);
        written(admin, 1.0);
        std::fs::rename(&current, &old).unwrap();
        session.get("/?between").await.text().await;
        written(admin, 2.0);
        server.process.signal("USR1");
        server.process.line_with(&["access log reopened"]);
        session.get("/?after").await.text().await;
        drop(session);
        client.endpoint.wait_idle().await;
    });
    server.process.last_words();
    let paths = |file: &Path| {
        let lines = lines(file);
        let path = |line: &String| {
            let record: Value = serde_json::from_str(line).unwrap();
            record["path"].as_str().unwrap().to_owned()
        };
        lines.iter().map(path).collect::<Vec<_>>()
    };
    assert_eq!(paths(&old), ["/?before", "/?between"]);
    assert_eq!(paths(&current), ["/?after"]);
}

/// Waits until so many lines are in the file.
fn written(admin: SocketAddr, lines: f64) {
    counted(admin, "sluicegate_access_log_records_written_total", lines);
}

fn counted(admin: SocketAddr, name: &str, expected: f64) {
    // Each scrape takes its time.
    for _ in 0..10_000 {
        if metrics(admin)[name] >= expected {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{name} does not reach {expected}");
}

fn a_full_disk_stops_no_request(backend: &str) {
    const REQUESTS: u32 = 50;
    let folder = Folder::new();
    let mut server = Server::start(&setup(backend, "file = \"/dev/full\""), &folder);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        for _ in 0..REQUESTS {
            assert_eq!(session.get("/").await.text().await, PAGE);
        }
        drop(session);
        client.endpoint.wait_idle().await;
    });
    let dropped = "sluicegate_access_log_records_dropped_total{reason=\"disk\"}";
    counted(admin, dropped, REQUESTS.into());
    let found = metrics(admin);
    assert_eq!(found["sluicegate_access_log_records_written_total"], 0.0);
    assert!(found["sluicegate_access_log_disk_errors_total"] > 0.0);
    let said = server.process.last_words();
    let told = said.iter().filter(|line| line.contains("cannot write to /dev/full"));
    assert_eq!(told.count(), 1, "{said:#?}");
}

#[test]
fn a_log_that_cannot_be_opened_is_named() {
    let folder = Folder::new();
    let text = "[access_log]\nfile = \"nowhere/access.log\"\n\
                [[listener]]\nname = \"main\"\naddress = \"127.0.0.1:0\"\ntls = \"self-signed\"\n";
    std::fs::write(folder.path("refused.toml"), text).unwrap();
    let mut process = Process::start(&["run", "-c", "refused.toml"], &folder.path(""));
    assert_eq!(process.wait().code(), Some(1));
    let said = &process.said;
    assert_eq!(said.len(), 1, "{said:?}");
    for part in ["`access_log.file`", "nowhere/access.log", "No such file"] {
        assert!(said[0].contains(part), "{said:?}");
    }
}

/// One listener trusts its client as a proxy, the other one does not. No upstream is there.
#[test]
fn lines_name_the_client_behind_a_trusted_proxy_and_the_cause_of_a_502() {
    let folder = Folder::new();
    let setup = setup("mio", "file = \"access.log\"")
        .replace("[[listener]]", "[[listener]]\ntrusted_proxies = \"127.0.0.0/8\"")
        .listener("stranger", "127.0.0.1:0", "reno")
        .with("[[route]]\npath = \"/gone/\"\nproxy = { upstreams = \"127.0.0.1:1\" }");
    let mut server = Server::start(&setup, &folder);
    let addresses = ["main", "stranger"].map(|name| server.listener(name).0);
    run(async {
        for address in addresses {
            let client = Client::new(&folder);
            let mut session = client.connect(address).await;
            let fields = [("x-forwarded-for", &b"198.51.100.1"[..])];
            let response = session.get_with("/gone/x", &fields).await;
            assert_eq!(response.head.status(), 502);
            response.text().await;
            drop(session);
            client.endpoint.wait_idle().await;
        }
    });
    server.process.last_words();
    let lines = lines(&folder.path("access.log"));
    let records: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [trusted, stranger] = &records[..] else {
        panic!("{lines:#?}");
    };
    assert_eq!(trusted["client"], "198.51.100.1");
    let is_loopback = |value: &Value| value.as_str().unwrap().starts_with("127.0.0.1:");
    assert!(is_loopback(&trusted["proxy"]), "{trusted}");
    assert!(is_loopback(&stranger["client"]), "{stranger}");
    assert_eq!(stranger["proxy"], Value::Null);
    for record in &records {
        assert_eq!(record["cause"], "refused", "{record}");
        assert_eq!(record["upstream"], "127.0.0.1:1");
        assert_eq!(record["attempts"], 2);
        assert_eq!(record["upstream_us"], Value::Null);
    }
}

/// The upstream takes requests over all protocols and never responds.
fn requests_that_the_stop_cuts_have_their_lines(backend: &str) {
    let folder = Folder::new();
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let route = format!(
        "[server]\ndrain_timeout = \"100ms\"\n\
         [[route]]\npath = \"/app/\"\nproxy.upstreams = \"{}\"",
        upstream.local_addr().unwrap()
    );
    let setup = setup(backend, "file = \"access.log\"").with(&route);
    let mut server = Server::start(&setup, &folder);
    let accepted = std::thread::spawn(move || {
        let open: Vec<_> = (0..3).map(|_| upstream.accept().unwrap().0).collect();
        // Held until the test is over.
        (open, upstream)
    });
    let mut clients = Vec::new();
    for protocol in PROTOCOLS {
        let Some(mut curl) = program("curl") else {
            return;
        };
        let url = format!("https://localhost:{}/app/{protocol}", server.address().port());
        curl.args(["--silent", "--insecure", protocol, &url]);
        clients.push(curl.spawn().unwrap());
    }
    let _held = run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let _open = session.ask("/app/--http3").await;
        let held = tokio::task::spawn_blocking(|| accepted.join().unwrap());
        let held = held.await.unwrap();
        server.process.terminate();
        server.process.last_words();
        held
    });
    for mut client in clients {
        assert!(!client.wait().unwrap().success());
    }
    let log = std::fs::read_to_string(folder.path("access.log")).unwrap();
    for protocol in ["--http1.1", "--http2", "--http3"] {
        let target = format!("/app/{protocol}");
        assert_eq!(log.matches(&target).count(), 1, "{log}");
    }
}
