//! WebSocket between programs that share nothing with the server.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sluicegate_dataplane::requirements::skip;

use crate::on_every_backend;
use crate::server::{Folder, Server, Setup};
use crate::transfer::python;

on_every_backend!(messages_pass_over_http3_to_an_upstream_of_http1);

/// Upstream that echoes messages.
struct Upstream {
    child: Child,
    port: String,
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
        skip(
            "aioquic",
            &"no Python has it; `make venv` makes one that does",
        );
        return None;
    };
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/websocket.py"));
    Some(command)
}

fn upstream() -> Option<Upstream> {
    let mut script = script()?;
    let mut child = script.arg("serve").stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    let said = child.stdout.take().unwrap();
    BufReader::new(said).read_line(&mut port).unwrap();
    let port = port.trim().to_owned();
    assert!(!port.is_empty(), "the upstream has not started");
    Some(Upstream { child, port })
}

fn setup(backend: &str, upstream: &str) -> Setup {
    Setup::new(backend)
        .listener("one", "127.0.0.1:0", "cubic")
        .with(&format!(
            "[[route]]\npath = [\"/chat\", \"/no\"]\nproxy.upstreams = \"127.0.0.1:{upstream}\"\n\
             [[route]]\npath = \"/off\"\nproxy = {{ upstreams = \"127.0.0.1:{upstream}\", websocket = false }}\n\
             [access_log]\nfile = \"access.log\"\nformat = \"json\"\n"
        ))
}

/// Lets a client open a WebSocket, and returns what it has seen.
fn ask(version: &str, url: &str, folder: &Folder) -> Vec<String> {
    let mut script = script().unwrap();
    script
        .args(["ask", version, url])
        .arg(folder.path("cert.pem"));
    let output = script.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().map(str::to_owned).collect()
}

fn messages_pass_over_http3_to_an_upstream_of_http1(backend: &str) {
    let folder = Folder::new();
    let Some(upstream) = upstream() else {
        return;
    };
    let mut server = Server::start(&setup(backend, &upstream.port), &folder);
    let port = server.address().port();
    let url = |path: &str| format!("https://localhost:{port}{path}");
    let offered = "extended connect 1";
    let echoed = [
        offered,
        "200 echo",
        "echo True",
        "echo True",
        "echo True",
        "echo True",
        "closed 4321",
    ];
    assert_eq!(ask("3", &url("/chat"), &folder), echoed);
    assert_eq!(ask("3", &url("/no"), &folder), [offered, "403 not here"]);
    let off = [offered, "501 501 this route opens no such tunnel"];
    assert_eq!(ask("3", &url("/off"), &folder), off);
    server.process.terminate();
    server.process.wait();
    let log = std::fs::read_to_string(folder.path("access.log")).unwrap();
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let found: Vec<_> = lines.iter().map(|line| line["status"].as_u64()).collect();
    assert_eq!(found, [Some(200), Some(403), Some(501)]);
    // A mebibyte and 70,000 bytes both ways, with their frames' heads.
    for key in ["bytes_sent", "bytes_received"] {
        let bytes = lines[0][key].as_u64().unwrap();
        assert!((1_118_600..1_120_000).contains(&bytes), "{key}: {bytes}");
    }
}
