//! A reload every two seconds with other routes, certificates, upstreams and listeners, while clients of all three versions of HTTP have load on
//! the server.

use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluicegate_dataplane::requirements::skip;

use super::TAKEN;
use crate::admin::{ADMIN, address, metrics, sum};
use crate::hostile::number;
use crate::on_every_backend;
use crate::server::{Folder, PAGE, Server, Setup};
use crate::tcp::program;
use crate::transfer::python;
use crate::upstream;

on_every_backend!(
    no_request_fails_over_any_version_of_http_while_all_is_reloaded,
    #[ignore = "long"]
    no_request_fails_in_ten_minutes_of_reloads,
);

/// Time between two reloads.
const PAUSE: Duration = Duration::from_secs(2);
const RELOADS: u64 = 5;
/// Ten minutes of them, if the environment does not say otherwise.
const LONG_SECONDS: u64 = 600;
/// Paths that every configuration serves.
const PATHS: [&str; 4] = ["/", "/bytes/1000", "/app/a", "/turns/3000"];
/// Requests of one run of h2load, which begins with new connections.
const REQUESTS: u64 = 2000;

/// Starts an upstream that responds with a few bytes to everything, over HTTP/1.1 or over HTTP/2.
fn upstream(is_http2: bool) -> SocketAddr {
    let respond = |_| async {
        Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from_static(&[7; 100]))))
    };
    upstream::start(move |stream| async move {
        let (stream, service) = (TokioIo::new(stream), service_fn(respond));
        // The load ends its connections as it likes.
        if is_http2 {
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(stream, service).await;
        } else {
            let builder = hyper::server::conn::http1::Builder::new();
            let _ = builder.serve_connection(stream, service).await;
        }
    })
}

/// Returns the configuration of a round. Its page, the members of its pool and the handler of /turns/ are other ones than before.
fn setup(backend: &str, upstreams: &[String], round: usize) -> Setup {
    // Each stays for two rounds.
    let members = [round, round + 1].map(|index| &upstreams[index % upstreams.len()]);
    let turns =
        if round.is_multiple_of(2) { "generate = {}" } else { "proxy = { pool = \"app\" }" };
    // A listener that comes and goes beside the one under load.
    let extra = format!("extra-{}", round / 2);
    let setup = Setup::new(backend).with(ADMIN).listener("main", "127.0.0.1:0", "cubic");
    let setup = match round % 2 {
        0 => setup,
        _ => setup.listener(&extra, "127.0.0.1:0", "cubic"),
    };
    setup.replace(&format!("{PAGE:?}"), &format!("{:?}", format!("page {round}"))).with(&format!(
        "[[pool]]\nname = \"app\"\nupstreams = {members:?}\n\
             [[route]]\npath = \"/app/\"\nproxy = {{ pool = \"app\" }}\n\
             [[route]]\npath = \"/turns/\"\n{turns}\n\
             [[route]]\npath = \"/round-{round}\"\nfixed = {{}}"
    ))
}

/// Runs h2load again and again until `stop`; returns the number of responses. Every request must succeed.
fn load_by_h2load(options: &'static [&str], port: u16, stop: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let mut responses = 0;
        while !stop.load(Ordering::Relaxed) {
            let urls = PATHS.map(|path| format!("https://localhost:{port}{path}"));
            let ran = Command::new("h2load")
                .args(options)
                .args(["-c8", &format!("-n{REQUESTS}")])
                .args(urls)
                .output();
            let said = String::from_utf8(ran.unwrap().stdout).unwrap();
            let all = format!(
                "{REQUESTS} total, {REQUESTS} started, {REQUESTS} done, {REQUESTS} succeeded, 0 failed, 0 errored, 0 timeout"
            );
            assert!(said.contains(&all), "{options:?} after {responses} responses: {said}");
            responses += REQUESTS;
        }
        responses
    })
}

/// Starts aioquic, which makes requests until its input is closed.
fn load_by_aioquic(python: &Path, port: u16) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/aioquic_load.py");
    let urls = PATHS.map(|path| format!("https://localhost:{port}{path}"));
    let mut command = Command::new(python);
    command.arg(script).args(urls);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Takes more than 10 s: there are five reloads, two seconds apart, so that each meets requests of all clients.
fn no_request_fails_over_any_version_of_http_while_all_is_reloaded(backend: &str) {
    reload_under_load(backend, RELOADS);
}

fn no_request_fails_in_ten_minutes_of_reloads(backend: &str) {
    let seconds = number("SLUICEGATE_SECONDS", LONG_SECONDS);
    reload_under_load(backend, seconds / PAUSE.as_secs());
}

fn reload_under_load(backend: &str, reloads: u64) {
    let Some(python) = python() else {
        return skip("aioquic", &"no Python has it; `make venv` makes one that does");
    };
    if program("h2load").is_none() {
        return;
    }
    let folder = Folder::new();
    let certificates = [(); 3].map(|()| Folder::new());
    let upstreams = [
        upstream(false).to_string(),
        format!("h2c://{}", upstream(true)),
        upstream(false).to_string(),
    ];
    let mut server = Server::start(&setup(backend, &upstreams, 0), &folder);
    let (admin, port) = (address(&mut server), server.address().port());
    let stop = Arc::<AtomicBool>::default();
    let mut over_http3 = load_by_aioquic(&python, port);
    let loads = [load_by_h2load(&["--h1"], port, &stop), load_by_h2load(&["-m8"], port, &stop)];
    for round in (1..).take(usize::try_from(reloads).unwrap()) {
        std::thread::park_timeout(PAUSE);
        assert!(!loads.iter().any(JoinHandle::is_finished), "a load failed");
        assert_eq!(over_http3.try_wait().unwrap(), None, "a load failed");
        let other = &certificates[round % certificates.len()];
        for name in ["cert.pem", "key.pem"] {
            std::fs::copy(other.path(name), folder.path(name)).unwrap();
        }
        server.reload(&setup(backend, &upstreams, round), &folder, TAKEN);
    }
    stop.store(true, Ordering::Relaxed);
    drop(over_http3.stdin.take());
    let [http1, http2] = loads.map(|load| load.join().unwrap());
    assert!(over_http3.wait().unwrap().success());
    let mut count = String::new();
    let mut said = BufReader::new(over_http3.stdout.take().unwrap());
    said.read_line(&mut count).unwrap();
    let http3: u64 = count.trim().parse().unwrap();
    let found = metrics(admin);
    println!("{backend}: {reloads} reloads, {http1}, {http2} and {http3} responses");
    // The server has seen the same requests, and nothing else.
    let all = (http1 + http2 + http3) as f64;
    let is_whole = |name: &str| sum(&found, name) == all;
    assert!(is_whole("sluicegate_http_requests_total"), "{found:#?}");
    assert!(is_whole("sluicegate_http_responses_total{code=\"200\"}"), "{found:#?}");
    assert!(is_whole("sluicegate_http_responses_total"), "{found:#?}");
    let taken = found["sluicegate_config_reloads_total{result=\"taken\"}"];
    assert_eq!(taken, reloads as f64);
}
