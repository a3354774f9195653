//! The interoperability tests of gRPC, with the client and the server of grpc-go: over HTTP/2 to this server, and from it over
//! HTTP/2 with TLS and without.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sluicegate_dataplane::requirements::skip;

use crate::installed::installed;
use crate::server::{Folder, Server, Setup};

/// Cases of the client that need no credentials.
const CASES: [&str; 14] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
];

/// Server of grpc-go.
struct Upstream(Child);

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a program of grpc-go that `make grpc` has built, or `None`, reported as missing.
fn program(name: &str) -> Option<PathBuf> {
    let program = installed(Path::new("grpc").join(name));
    if program.is_none() {
        skip("grpc", &"grpc-go's programs are missing; `make grpc` builds them");
    }
    program
}

/// Starts a server of grpc-go on a free port, with the folder's certificate if `tls`.
fn start(folder: &Folder, tls: bool) -> Option<(Upstream, u16)> {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut command = Command::new(program("server")?);
    command.arg(format!("-port={port}")).stderr(Stdio::null());
    if tls {
        let file = |flag: &str, name: &str| format!("-{flag}={}", folder.path(name).display());
        let key = file("tls_key_file", "key.pem");
        command.args(["-use_tls", &file("tls_cert_file", "cert.pem"), &key]);
    }
    let mut child = command.spawn().unwrap();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(child.try_wait().unwrap().is_none(), "the server has ended");
        #[expect(clippy::disallowed_methods, reason = "the server says nothing when it is ready")]
        std::thread::sleep(Duration::from_millis(20));
    }
    Some((Upstream(child), port))
}

#[test]
fn grpc_go_passes_its_interoperability_tests() {
    for tls in [false, true] {
        let folder = Folder::new();
        let (Some(client), Some((_upstream, port))) = (program("client"), start(&folder, tls))
        else {
            return;
        };
        let upstream = if tls {
            format!("upstreams = \"https://localhost:{port}\", tls_ca = \"cert.pem\"")
        } else {
            format!("upstreams = \"h2c://127.0.0.1:{port}\"")
        };
        let setup = Setup::new("mio").listener("main", "127.0.0.1:0", "cubic").with(&format!(
            "[[route]]\npath = \"~ ^/grpc[.]testing[.]\"\nproxy = {{ {upstream} }}"
        ));
        let server = Server::start(&setup, &folder);
        let mut failed = Vec::new();
        for case in CASES {
            let output = Command::new(&client)
                .args(["-use_tls", "-use_test_ca", "-server_host=localhost"])
                .arg(format!("-ca_file={}", folder.path("cert.pem").display()))
                .arg(format!("-server_port={}", server.address().port()))
                .arg(format!("-test_case={case}"))
                .output()
                .unwrap();
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                failed.push((case, said));
            }
        }
        assert!(failed.is_empty(), "TLS {tls}: {failed:#?}");
    }
}
