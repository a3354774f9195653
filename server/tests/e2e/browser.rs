//! A browser that nobody here wrote, from its first visit over TCP to HTTP/3.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::spawn;
use std::time::Duration;

use boring::base64::encode_block;
use boring::x509::X509;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::server::{Folder, Server, Setup};
use crate::tcp::program;

/// Longest duration of a visit.
const WAIT_LIMIT: Duration = Duration::from_secs(120);

/// Process that ends with the test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the application that the browser visits; returns the lines that it prints: its port, then reports.
fn application() -> (Ending, Receiver<String>) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser.py");
    let mut python = Command::new("python3");
    let python = python.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = Ending(python.spawn().unwrap());
    let said = BufReader::new(process.0.stdout.take().unwrap());
    let (sender, lines) = channel();
    spawn(move || said.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    (process, lines)
}

/// Returns the hash by which the browser trusts the folder's certificate.
fn key_hash(folder: &Folder) -> String {
    let certificate = X509::from_der(&folder.certificate).unwrap();
    let key = certificate.public_key().unwrap().public_key_to_der().unwrap();
    encode_block(&Sha256::digest(key))
}

/// Returns a browser without a window, which has its settings in the folder.
pub(crate) fn headless(mut browser: Command, folder: &Folder) -> Command {
    let settings = folder.path("profile");
    browser
        .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"])
        .arg(format!("--user-data-dir={}", settings.display()));
    browser
}

/// Starts the browser on a page.
fn browser(browser: Command, options: &[&str], folder: &Folder, url: &str) -> Ending {
    let trusted = key_hash(folder);
    let mut browser = headless(browser, folder);
    let browser = browser
        .arg(format!("--ignore-certificate-errors-spki-list={trusted}"))
        // QUIC takes a root that is not the browser's own for hosts of this list only. No server is at the port, so that the
        // visit itself is not forced to QUIC.
        .arg("--origin-to-force-quic-on=localhost:1")
        // Without it, a WebSocket goes over TCP.
        .arg("--enable-features=EnableWebsocketsOverHttp3")
        // For QUIC, the browser tries a host's first address only.
        .arg("--host-resolver-rules=MAP localhost 127.0.0.1")
        .args(options)
        .arg(url)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.path("browser.log")).unwrap());
    Ending(browser.spawn().unwrap())
}

/// Has a browser with these options visit a page; returns its report and the access log. `keys` are of the listener.
fn visit(chromium: Command, options: &[&str], page: &str, keys: &str) -> (Value, String) {
    let (_application, lines) = application();
    let port = lines.recv_timeout(WAIT_LIMIT).unwrap();
    let folder = Folder::new();
    let setup = Setup::new("mio")
        .listener("main", "127.0.0.1:0", "bbr3")
        .replace("[listener.tls]", &format!("{keys}\n[listener.tls]"))
        .with(&format!(
            "[[route]]\npath = \"/visit\"\nproxy.upstreams = \"127.0.0.1:{port}\"\ncompress = true\n\
             [access_log]\nfile = \"access.log\"\n"
        ));
    let mut server = Server::start(&setup, &folder);
    let url = format!("https://localhost:{}{page}", server.address().port());
    let browser = browser(chromium, options, &folder, &url);
    let report = lines.recv_timeout(WAIT_LIMIT);
    drop(browser);
    server.process.last_words();
    let log = std::fs::read_to_string(folder.path("access.log")).unwrap();
    (serde_json::from_str(&report.expect(&log)).unwrap(), log)
}

/// Asserts that the last request for a path came by a protocol.
fn assert_came_by(protocol: &str, path: &str, log: &str) {
    let path = format!("\"path\":\"{path}\"");
    let last = log.lines().rfind(|line| line.contains(&path));
    let protocol = format!("\"protocol\":\"{protocol}\"");
    assert!(last.is_some_and(|line| line.contains(&protocol)), "{path}: {log}");
}

#[test]
fn a_browser_moves_to_http3_and_finds_all_that_a_page_needs() {
    let Some(chromium) = program("chromium") else {
        return;
    };
    let (report, log) = visit(chromium, &[], "/visit/first", "");
    assert_eq!(report["first"], "h2", "{report}");
    assert_eq!(report["second"], "h3", "{report}");
    assert_eq!(report["style"], "early-hints", "{report}");
    assert_eq!(report["upload"], "7000000", "{report}");
    assert_eq!(report["echo"], "hello", "{report}");
    let (length, encoded) = (&report["text_length"], &report["text_encoded"]);
    assert_eq!(*length, json!(150_000));
    assert!(encoded.as_u64().unwrap() < 10_000, "{report}");
    for (path, protocol) in [
        ("/visit/first", "HTTP/2"),
        ("/visit/second", "HTTP/3"),
        ("/visit/echo", "HTTP/3"),
        ("/visit/upload", "HTTP/3"),
    ] {
        assert_came_by(protocol, path, &log);
    }
}

#[test]
fn a_browser_opens_websockets_over_both_protocols_of_tcp() {
    for (options, protocol) in [(&[][..], "HTTP/2"), (&["--disable-http2"], "HTTP/1.1")] {
        let Some(chromium) = program("chromium") else {
            return;
        };
        let (report, log) = visit(chromium, options, "/visit/socket", "alt_svc = \"0s\"");
        assert_eq!(report["echo"], "hello", "{report}");
        assert_came_by(protocol, "/visit/echo", &log);
    }
}
