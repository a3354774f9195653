//! HTTP/1.1 and HTTP/2 over TCP, beside HTTP/3: clients that nobody here wrote, and bytes that no client should send.

mod balanced;
mod conformance;
mod drains;
mod early;
mod empty_bodies;
mod endless;
mod fairness;
mod floods;
pub(crate) mod frames;
mod gone;
mod interim;
mod keep_alive;
mod other_protocols;
pub(crate) mod plain;
pub(crate) mod raw;
mod refused;
mod removed;
mod stalled;
mod trailers;
pub(crate) mod tunnels;
mod upgrades;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sha2::{Digest as _, Sha256};
use sluicegate_dataplane::requirements::skip;

use crate::admin::{ADMIN, address, metrics, until};
use crate::client::{Client, generated_sha256, run};
use crate::proxy::Upstream;
use crate::server::{Folder, PAGE, Process, Server, Setup, field, total};
use raw::{Raw, status};

const LENGTH: u64 = 3_000_000;
pub(crate) const PROTOCOLS: [&str; 2] = ["--http1.1", "--http2"];

/// Returns a server with a listener on a free port of both protocols, and further tables.
fn server(folder: &Folder, tables: &str) -> Server {
    let setup = Setup::new("mio").listener("main", "127.0.0.1:0", "cubic").with(tables);
    Server::start(&setup, folder)
}

/// Asserts that a server responds to a request of HTTP/1.1 over TCP.
pub(crate) fn assert_serves(server: SocketAddr) {
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let response = Raw::open_with(server, b"").all(request);
    assert_eq!(status(&response), Some(200));
}

/// Name of the counter of connections over TCP that the server has closed for a reason.
fn closed_for(reason: &str) -> String {
    format!("sluicegate_tcp_connections_closed_total{{reason=\"{reason}\"}}")
}

/// Returns how many connections over TCP the server has closed for a reason.
fn closed(admin: SocketAddr, reason: &str) -> f64 {
    metrics(admin)[&closed_for(reason)]
}

/// Waits until the server has closed so many connections over TCP for a reason.
fn until_closed(admin: SocketAddr, reason: &str, count: usize) {
    until(admin, &closed_for(reason), count as f64);
}

/// Returns a command, or `None`, reported as missing, where the host does not have the program.
pub(crate) fn program(name: &str) -> Option<Command> {
    let found = Command::new(name).arg("--version").output();
    if let Err(error) = found {
        skip(name, &error);
        return None;
    }
    Some(Command::new(name))
}

/// Runs curl with a protocol on a path; returns its output with the heads of all responses in front.
pub(crate) fn curl(
    server: &Server,
    folder: &Folder,
    words: &[&str],
    path: &str,
) -> Option<Vec<u8>> {
    let port = server.address().port();
    let output = program("curl")?
        .args(["--silent", "--show-error", "--max-time", "60", "--cacert"])
        .arg(folder.path("cert.pem"))
        .args(words)
        .arg(format!("https://localhost:{port}{path}"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?} {path}: {errors}");
    Some(output.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the value of a field in curl's output.
pub(crate) fn value<'a>(output: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = output.lines().filter_map(|line| line.split_once(": "));
    let (_, value) = lines.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
    Some(value.trim())
}

#[test]
fn curl_gets_pages_files_and_generated_bytes_over_both_protocols() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("www")).unwrap();
    let content: Vec<u8> = (0_u32..1_000_000).map(|i| (i % 251) as u8).collect();
    std::fs::write(folder.path("www/file.bin"), &content).unwrap();
    let files = "[[route]]\npath = \"/files/\"\n[route.files]\nroot = \"www\"";
    let server = server(&folder, files);
    for protocol in PROTOCOLS {
        let get = |words: &[&str], path: &str| {
            let words = [&[protocol], words].concat();
            curl(&server, &folder, &words, path)
        };
        let Some(page) = get(&["--include"], "/") else {
            return;
        };
        let page = text(&page);
        let expected = format!("h3=\":{}\"; ma=86400", server.address().port());
        assert_eq!(value(&page, "alt-svc"), Some(expected.as_str()));
        assert_eq!(value(&page, "server"), Some("sluicegate"));
        assert!(value(&page, "date").is_some());
        assert!(page.ends_with(PAGE), "{page}");
        assert_eq!(get(&[], "/files/file.bin").unwrap(), content);
        let part = get(&["--range", "100-199"], "/files/file.bin").unwrap();
        assert_eq!(part, content[100..200]);
        let bytes = get(&[], &format!("/bytes/{LENGTH}")).unwrap();
        assert_eq!(hex(&bytes), generated_sha256(LENGTH));
        let head = text(&get(&["--head"], "/files/file.bin").unwrap());
        assert_eq!(value(&head, "content-length"), Some("1000000"));
        let etag = value(&head, "etag").unwrap().to_owned();
        let condition = format!("if-none-match: {etag}");
        let same = text(&get(&["--include", "--header", &condition], "/files/file.bin").unwrap());
        assert!(same.contains(" 304"), "{same}");
        let nothing = text(&get(&["--include"], "/files/no").unwrap());
        assert!(nothing.contains(" 404"), "{nothing}");
    }
}

#[test]
fn uploads_and_downloads_pass_a_proxy_over_both_protocols() {
    let folder = Folder::new();
    let upstream = Upstream::start();
    let address = upstream.address;
    let body = folder.path("body.bin");
    let content = vec![7; 5_000_000];
    std::fs::write(&body, &content).unwrap();
    let body = format!("@{}", body.display());
    let server = server(
        &folder,
        &format!(
            "[[route]]\npath = \"/app/\"\nmax_request_body = \"100MiB\"\n\
             [route.proxy]\nupstreams = \"{address}\""
        ),
    );
    for protocol in PROTOCOLS {
        let words = [protocol, "--data-binary", &body];
        let Some(response) = curl(&server, &folder, &words, "/app/up") else {
            return;
        };
        let digest = hex(&content);
        assert_eq!(text(&response), format!("5000000 {digest}"));
        let bytes = curl(&server, &folder, &[protocol], "/app/down").unwrap();
        assert_eq!((bytes.len(), hex(&bytes)), (40_000_000, generated_sha256(40_000_000)));
        // A body that ends early does not look whole.
        let port = server.address().port();
        let cut = { program("curl").unwrap() }
            .args(["--silent", "--insecure", protocol])
            .arg(format!("https://localhost:{port}/app/short"))
            .output()
            .unwrap();
        assert!(!cut.status.success(), "{cut:?}");
    }
}

#[test]
fn http3_and_tcp_count_in_the_same_metrics_and_the_same_log() {
    let folder = Folder::new();
    let log = "[access_log]\nfile = \"access.log\"";
    let mut server = server(&folder, &format!("{ADMIN}\n{log}"));
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let response = session.get("/").await;
        assert_eq!(response.head.headers().get("alt-svc"), None);
        assert_eq!(response.text().await, PAGE);
    });
    for protocol in PROTOCOLS {
        if curl(&server, &folder, &[protocol], "/").is_none() {
            return;
        }
    }
    let found = metrics(admin);
    let get = |name: &str| found.get(name).copied();
    assert_eq!(get("sluicegate_http_requests_total"), Some(3.0));
    assert_eq!(get("sluicegate_http_responses_total{code=\"200\"}"), Some(3.0));
    for protocol in ["http/1", "h2"] {
        let name = format!("sluicegate_tcp_requests_total{{protocol=\"{protocol}\"}}");
        assert_eq!(get(&name), Some(1.0));
    }
    assert_eq!(get("sluicegate_tcp_connections_accepted_total"), Some(2.0));
    let said = server.process.last_words();
    assert_eq!(total(&said, "requests", "requests"), 3);
    let log = std::fs::read_to_string(folder.path("access.log")).unwrap();
    let mut protocols: Vec<&str> = { log.lines() }
        .filter_map(|line| line.split("\"protocol\":\"").nth(1)?.split('"').next())
        .collect();
    protocols.sort_unstable();
    assert_eq!(protocols, ["HTTP/1.1", "HTTP/2", "HTTP/3"]);
}

#[test]
fn pipelined_requests_get_their_responses_in_order() {
    let folder = Folder::new();
    let server = server(&folder, "");
    let get = |path: &str, last: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n{last}\r\n");
    let requests =
        [get("/bytes/3", ""), get("/", ""), get("/no/", "Connection: close\r\n")].concat();
    let responses = text(&Raw::open(&server).all(requests.as_bytes()));
    let lengths: Vec<&str> =
        responses.lines().filter_map(|line| line.strip_prefix("content-length: ")).collect();
    assert_eq!(lengths[..2], ["3", "14"], "{responses}");
    assert_eq!(responses.matches("HTTP/1.1 ").count(), 3);
}

#[test]
fn a_client_that_does_not_finish_its_head_or_its_body_is_left() {
    let folder = Folder::new();
    let mut server = server(&folder, &format!("{ADMIN}\n[limits]\nclient_timeout = \"1s\""));
    let admin = address(&mut server);
    let head = Raw::open(&server).all(b"GET / HTTP/1.1\r\nHost: a\r\n");
    assert_eq!(status(&head), None);
    let body = Raw::open(&server).all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx");
    assert_eq!(status(&body), Some(408));
    let found = metrics(admin);
    let stalled =
        |by: &str| found[&format!("sluicegate_http_requests_stalled_total{{waits_for=\"{by}\"}}")];
    assert_eq!((stalled("head"), stalled("body")), (1.0, 1.0));
}

#[test]
fn a_reload_changes_the_certificate_of_new_connections_over_tcp() {
    let (folder, other) = (Folder::new(), Folder::new());
    let setup = Setup::new("mio").listener("main", "127.0.0.1:0", "cubic");
    let mut server = Server::start(&setup, &folder);
    assert!(Raw::open(&server).presents(&folder));
    for name in ["cert.pem", "key.pem"] {
        std::fs::copy(other.path(name), folder.path(name)).unwrap();
    }
    server.reload(&setup, &folder, "reloaded");
    // Each front takes the certificate when its thread next runs.
    assert!((0..100).any(|_| Raw::open(&server).presents(&other)));
}

/// Runs h2load against a server's page until it is killed or has its requests.
fn h2load(server: &Server, words: &[&str]) -> Option<Child> {
    let port = server.address().port();
    let mut command = program("h2load")?;
    command.args(words).arg(format!("https://localhost:{port}/bytes/1000"));
    Some(command.stdout(Stdio::piped()).spawn().unwrap())
}

/// Returns what h2load says of its requests.
fn requests(load: Child) -> String {
    let output = text(&load.wait_with_output().unwrap().stdout);
    let line = output.lines().find(|line| line.starts_with("requests: "));
    line.unwrap_or_else(|| panic!("{output}")).to_owned()
}

#[test]
fn h2load_gets_every_response_over_http2_while_the_configuration_changes() {
    let folder = Folder::new();
    let setup = Setup::new("mio").listener("main", "127.0.0.1:0", "cubic");
    let mut server = Server::start(&setup, &folder);
    let Some(load) = h2load(&server, &["-n20000", "-c10", "-m20"]) else {
        return;
    };
    for _ in 0..5 {
        server.reload(&setup, &folder, "reloaded");
    }
    let said = requests(load);
    assert!(said.contains("20000 succeeded, 0 failed, 0 errored, 0 timeout"), "{said}");
}

#[test]
fn a_drain_finishes_the_requests_over_tcp_and_then_ends() {
    let folder = Folder::new();
    let upstream = Upstream::start();
    // With one worker, both connections hear of the stop at the same time.
    let setup = Setup::new("mio")
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic")
        .with(&upstream.route());
    let mut server = Server::start(&setup, &folder);
    let mut waiting = Raw::open(&server);
    waiting.send(b"GET /app/late HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut idle = Raw::open(&server);
    idle.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    idle.read_past(PAGE.as_bytes());
    upstream.wait_for_late();
    server.process.terminate();
    server.process.line_with(&["draining"]);
    assert_eq!(idle.rest(), b"");
    upstream.release_late();
    let response = text(&waiting.rest());
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(value(&response, "connection") == Some("close"), "{response}");
    assert_eq!(server.process.wait().code(), Some(0));
}

#[test]
fn a_port_that_is_taken_for_tcp_is_named_with_its_remedy() {
    let folder = Folder::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let setup = Setup::new("mio").listener("main", &address, "cubic");
    let start = |setup: &Setup| {
        let file = Server::write(setup, &folder);
        Process::start(&["run", "-c", &file], Path::new(&folder.path("")))
    };
    let mut refused = start(&setup);
    let line = refused.line_with(&["for TCP"]);
    assert!(line.contains(&address) && line.contains("`tcp = false`"), "{line}");
    assert_ne!(refused.wait().code(), Some(0));
    // Without TCP, the port of UDP is enough.
    let setup = setup.replace("[listener.tls]", "tcp = false\n[listener.tls]");
    let mut served = start(&setup);
    let line = served.line_with(&["listening", "address="]);
    assert_eq!(field(&line, "address"), address);
}
