//! WebSocket between programs that share nothing with the server.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use sluicegate_dataplane::requirements::skip;

use crate::on_auto;
use crate::server::{Folder, Server, Setup};
use crate::transfer::python;

on_auto!(messages_pass_over_http3_to_an_upstream_of_http1);

/// Upstream that echoes messages.
pub(crate) struct Upstream {
    child: Child,
    pub(crate) port: String,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a command that runs the script, or `None`, reported as missing.
fn script() -> Option<Command> {
    let Some(python) = python() else {
        skip("aioquic", &"no Python has it; `make venv` makes one that does");
        return None;
    };
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/websocket.py"));
    Some(command)
}

/// Starts an upstream that speaks a version of HTTP.
pub(crate) fn upstream(version: &str) -> Option<Upstream> {
    let mut script = script()?;
    let mut child = script.args(["serve", version]).stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    let said = child.stdout.take().unwrap();
    BufReader::new(said).read_line(&mut port).unwrap();
    let port = port.trim().to_owned();
    assert!(!port.is_empty(), "the upstream has not started");
    Some(Upstream { child, port })
}

/// Returns a configuration with routes to an upstream.
fn setup(backend: &str, upstream: &str) -> Setup {
    Setup::new(backend)
        .listener("one", "127.0.0.1:0", "cubic")
        .with(&format!(
            "[[route]]\npath = [\"/chat\", \"/no\"]\nproxy.upstreams = \"{upstream}\"\n\
             [[route]]\npath = \"/off\"\nproxy = {{ upstreams = \"{upstream}\", websocket = false }}\n\
             [access_log]\nfile = \"access.log\"\nformat = \"json\"\n"
        ))
}

/// Lets a client open a WebSocket, and returns what it has seen.
pub(crate) fn ask(version: &str, url: &str, folder: &Folder) -> Vec<String> {
    let mut script = script().unwrap();
    script.args(["ask", version, url]).arg(folder.path("cert.pem"));
    let output = script.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().map(str::to_owned).collect()
}

/// Returns the lines of the access log of a server that is stopped.
fn log(mut server: Server, folder: &Folder) -> Vec<Value> {
    server.process.terminate();
    server.process.wait();
    let log = std::fs::read_to_string(folder.path("access.log")).unwrap();
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Has a client use a WebSocket, be refused by the upstream, and by the route, both of these versions of HTTP. Asserts what the access
/// log has of it.
fn messages_pass(backend: &str, client: &str, upstream_version: &str) {
    let folder = Folder::new();
    let Some(upstream) = upstream(upstream_version) else {
        return;
    };
    let scheme = if upstream_version == "2" { "h2c" } else { "http" };
    let address = format!("{scheme}://127.0.0.1:{}", upstream.port);
    let server = Server::start(&setup(backend, &address), &folder);
    let (scheme, first, opened) = match client {
        "1" => ("wss", &[][..], 101),
        _ => ("https", &["extended connect 1"][..], 200),
    };
    let port = server.address().port();
    let url = |path: &str| format!("{scheme}://localhost:{port}{path}");
    let expect = |path: &str, lines: &[&str]| {
        assert_eq!(ask(client, &url(path), &folder), [first, lines].concat());
    };
    let status = format!("{opened} echo");
    let echoed =
        [status.as_str(), "echo True", "echo True", "echo True", "echo True", "closed 4321"];
    expect("/chat", &echoed);
    expect("/no", &["403 not here"]);
    expect("/off", &["501 501 no WebSocket or tunnel on this route"]);
    let lines = log(server, &folder);
    let found: Vec<_> = lines.iter().map(|line| line["status"].as_u64()).collect();
    assert_eq!(found, [Some(opened), Some(403), Some(501)]);
    // Hypercorn closes the connection instead of the stream.
    let outcome = match upstream_version {
        "2" => "reset",
        _ => "complete",
    };
    let method = if client == "1" { "GET" } else { "CONNECT" };
    assert_eq!(
        (&lines[0]["method"], &lines[0]["outcome"]),
        (&method.into(), &outcome.into()),
        "{}",
        lines[0]
    );
    // A mebibyte and 70,000 bytes both ways, with their frames' heads.
    for key in ["bytes_sent", "bytes_received"] {
        let bytes = lines[0][key].as_u64().unwrap();
        assert!((1_118_600..1_120_000).contains(&bytes), "{key}: {bytes}");
    }
}

fn messages_pass_over_http3_to_an_upstream_of_http1(backend: &str) {
    messages_pass(backend, "3", "1");
}

#[test]
fn messages_pass_over_http1_to_an_upstream_of_http1() {
    messages_pass("mio", "1", "1");
}

#[test]
fn messages_pass_over_http2_to_an_upstream_of_http1() {
    messages_pass("mio", "2", "1");
}

/// Takes long where both cores are busy: client and upstream are scripts in Python, which start slowly.
#[test]
fn messages_pass_over_http1_to_an_upstream_of_http2() {
    messages_pass("mio", "1", "2");
}
