//! nginx as an upstream that ends connections after a few requests, is killed, and comes back.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use http::Method;

use crate::admin::{ADMIN, address, metrics};
use crate::client::run;
use crate::fronts::{FRONTS, Outcome};
use crate::nginx;
use crate::server::{Folder, Process, Server, Setup};

/// Length of the file that nginx serves.
const LENGTH: usize = 1_000_000;
/// Upstreams: HTTP/1.1, HTTP/2 without TLS, and HTTP/2 with TLS.
const SCHEMES: [&str; 3] = ["http", "h2c", "https"];

/// nginx on three ports, and a server in front of it.
struct Chain {
    folder: Folder,
    ports: [u16; 3],
    nginx: Process,
    server: Server,
    admin: SocketAddr,
}

/// Starts nginx; it ends a connection after three requests, and sends the file slowly.
fn start_nginx(folder: &Folder, ports: [u16; 3]) -> Option<Process> {
    let [http1, http2, tls] = ports;
    let servers = format!(
        "server {{\nlisten 127.0.0.1:{http1};\nlisten 127.0.0.1:{http2} http2;\n\
         listen 127.0.0.1:{tls} ssl http2;\n\
         ssl_certificate cert.pem;\nssl_certificate_key key.pem;\n\
         keepalive_requests 3;\nroot www;\n\
         location ~ /name$ {{ return 200 $request_uri; }}\n\
         location ~ /nothing$ {{ return 444; }}\n\
         location ~ /file$ {{ limit_rate 20k; try_files /file =404; }}\n}}"
    );
    let is_ready = || TcpStream::connect(("127.0.0.1", tls)).is_ok();
    nginx::start(folder, &servers, is_ready)
}

impl Chain {
    /// Starts both; `None`, reported as missing, where the host does not have nginx.
    fn start() -> Option<Chain> {
        let folder = Folder::new();
        std::fs::create_dir(folder.path("www")).unwrap();
        std::fs::write(folder.path("www/file"), vec![b'.'; LENGTH]).unwrap();
        let free = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = free.map(|listener| listener.local_addr().unwrap().port());
        let nginx = start_nginx(&folder, ports)?;
        let mut setup = Setup::new("mio")
            .with(ADMIN)
            .replace("[[group]]", "[[group]]\ncores = [0]")
            .listener("main", "127.0.0.1:0", "cubic");
        for (scheme, port) in SCHEMES.into_iter().zip(ports) {
            let ca = if scheme == "https" { "tls_ca = \"cert.pem\"\n" } else { "" };
            setup = setup.with(&format!(
                "[[route]]\npath = \"/{scheme}/\"\n[route.proxy]\nmax_fails = 0\n\
                 upstreams = \"{scheme}://127.0.0.1:{port}\"\nkeepalive_timeout = \"1s\"\n{ca}"
            ));
        }
        let mut server = Server::start(&setup, &folder);
        let admin = address(&mut server);
        Some(Chain { folder, ports, nginx, server, admin })
    }

    /// Sends a request to each upstream over each front, all at the same time, and returns what their clients get. Calls
    /// `meanwhile` after it has begun.
    fn ask(&self, method: &Method, page: &str, meanwhile: impl FnOnce()) -> Vec<(String, Outcome)> {
        let (server, folder) = (self.server.address(), &self.folder);
        std::thread::scope(|scope| {
            let asked = FRONTS.map(|front| {
                SCHEMES.map(|scheme| {
                    let path = format!("/{scheme}/{page}");
                    let method = method.clone();
                    scope.spawn(move || {
                        let outcome = front.ask(server, folder, method, &path);
                        (path, outcome)
                    })
                })
            });
            meanwhile();
            let asked = asked.into_iter().flatten();
            asked.map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn assert_names(&self, method: &Method) {
        for (path, outcome) in self.ask(method, "name", || {}) {
            let body = path.clone().into_bytes();
            assert_eq!(outcome, Outcome::Whole(200, None, body), "{path}");
        }
    }

    /// Asserts that all upstreams have failed in this way.
    fn assert_failed(&self, page: &str, error: &str) {
        for (path, outcome) in self.ask(&Method::GET, page, || {}) {
            let Outcome::Whole(502, Some(cause), _) = &outcome else {
                panic!("{path}: {outcome:?}");
            };
            assert_eq!(*cause, format!("sluicegate; error={error}"), "{path}");
        }
    }

    /// Waits until a figure of the metrics has a value.
    fn until(&self, name: &str, is: impl Fn(f64) -> bool) {
        run(async {
            while !metrics(self.admin).get(name).copied().is_some_and(&is) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
}

#[test]
fn nginx_ends_connections_after_three_requests_and_no_request_fails() {
    /// Rounds of nine requests at a time.
    const ROUNDS: usize = 20;
    let Some(chain) = Chain::start() else { return };
    for _ in 0..ROUNDS {
        // Its work must not be done twice, so it is repeated only if nginx has not processed it.
        chain.assert_names(&Method::POST);
    }
    let found = metrics(chain.admin);
    let opened = found["sluicegate_proxy_connections_opened_total"];
    let reused = found["sluicegate_proxy_connections_reused_total"];
    let fewest = (3 * SCHEMES.len() * ROUNDS / 3) as f64;
    assert!(opened >= fewest && reused > 0.0, "{opened} opened, {reused} reused");
}

#[test]
fn nginx_is_killed_within_responses_and_comes_back() {
    let Some(mut chain) = Chain::start() else {
        return;
    };
    chain.assert_names(&Method::GET);
    chain.until("sluicegate_tcp_connections", |open| open == 0.0);
    let descriptors = metrics(chain.admin)["process_open_fds"];
    chain.assert_failed("nothing", "connection_terminated");
    let nginx = chain.nginx.id().to_string();
    let broken = chain.ask(&Method::GET, "file", || {
        let begun = (2 * FRONTS.len() * SCHEMES.len()) as f64;
        chain.until("sluicegate_http_responses_total{code=\"200\"}", |count| count >= begun);
        let killed = std::process::Command::new("kill").args(["-KILL", &nginx]).status();
        assert!(killed.unwrap().success());
    });
    for (path, outcome) in broken {
        assert_eq!(outcome, Outcome::Broken, "{path}");
    }
    chain.assert_failed("name", "connection_refused");
    chain.nginx = start_nginx(&chain.folder, chain.ports).unwrap();
    for _ in 0..2 {
        chain.assert_names(&Method::GET);
    }
    chain.until("sluicegate_origin_exchanges", |left| left == 0.0);
    // The connections to nginx that were idle before are among these.
    chain.until("process_open_fds", |open| open <= descriptors);
}
