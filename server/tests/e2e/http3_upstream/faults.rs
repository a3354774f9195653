//! Faults of upstreams that speak HTTP/3.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h3::error::Code;
use http::{Request, Response};

use super::edge;
use super::peer::{Peer, PeerStream};
use crate::admin::{ADMIN, address, metrics, until};
use crate::client::{Client, run};
use crate::fronts::{Front, Outcome};
use crate::on_auto;
use crate::server::{Folder, PAGE, Server, Setup};

on_auto!(
    a_fault_of_one_response_is_told_to_its_client_alone,
    what_was_not_processed_goes_to_another_upstream,
    why_there_is_no_connection_is_told,
    an_upstream_that_comes_back_is_used_again,
    a_client_that_leaves_or_stands_still_holds_the_upstream_back,
    health_checks_take_an_upstream_out_and_back,
);

/// Length of a piece of a body.
const PIECE: usize = 16 << 10;

/// Responds as the path says.
async fn misbehave(request: Request<()>, mut stream: PeerStream) {
    let path = request.uri().path().to_owned();
    let head = |status: u16| Response::builder().status(status);
    let sent = match path.as_str() {
        "/reset" => {
            stream.stop_stream(Code::H3_INTERNAL_ERROR);
            return;
        }
        "/fallback" => {
            stream.stop_stream(Code::H3_VERSION_FALLBACK);
            return;
        }
        "/endless" => {
            while stream.send_response(head(103).body(()).unwrap()).await.is_ok() {}
            return;
        }
        "/large" => {
            let head = head(200).header("x-large", "x".repeat(70 << 10));
            stream.send_response(head.body(()).unwrap()).await
        }
        "/connection" => {
            let head = head(200).header("connection", "close");
            stream.send_response(head.body(()).unwrap()).await
        }
        "/cut" => {
            let head = head(200).header("content-length", 2 * PIECE);
            stream.send_response(head.body(()).unwrap()).await.unwrap();
            stream.send_data(Bytes::from(vec![1; PIECE])).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            stream.stop_stream(Code::H3_INTERNAL_ERROR);
            return;
        }
        "/short" | "/long" => {
            let length = if path == "/short" { PIECE + 1 } else { PIECE - 1 };
            let head = head(200).header("content-length", length);
            stream.send_response(head.body(()).unwrap()).await.unwrap();
            stream.send_data(Bytes::from(vec![1; PIECE])).await
        }
        _ => {
            stream.send_response(head(200).body(()).unwrap()).await.unwrap();
            stream.send_data(PAGE.into()).await
        }
    };
    if sent.is_ok() {
        // The proxy may have cancelled.
        let _ = stream.finish().await;
    }
}

fn failed(status: u16, error: &str) -> Outcome {
    let text = match status {
        504 => "504 the upstream took too long\n",
        _ => "502 the upstream failed\n",
    };
    Outcome::Whole(status, Some(format!("sluicegate; error={error}")), text.into())
}

fn a_fault_of_one_response_is_told_to_its_client_alone(backend: &str) {
    let folder = Folder::new();
    let peer = Peer::start(&folder, misbehave);
    let setup = edge(backend, &[peer.address], "retries = 0\nmax_fails = 0\nwebsocket = true");
    let server = Server::start(&setup, &folder);
    for (path, expected) in [
        ("/reset", failed(502, "connection_terminated")),
        ("/fallback", failed(502, "http_protocol_error")),
        ("/endless", failed(502, "http_protocol_error")),
        ("/large", failed(502, "http_response_header_section_size")),
        ("/connection", failed(502, "http_protocol_error")),
        ("/cut", Outcome::Broken),
        ("/short", Outcome::Broken),
        ("/long", Outcome::Broken),
        ("/", Outcome::Whole(200, None, PAGE.into())),
    ] {
        assert_eq!(Front::Http3.get(server.address(), &folder, path), expected, "{path}");
    }
    assert_eq!(peer.connections(), 1, "all came over one connection");
}

fn what_was_not_processed_goes_to_another_upstream(backend: &str) {
    let folder = Folder::new();
    let rejecting = Peer::start(&folder, async |_: Request<()>, mut stream: PeerStream| {
        stream.stop_stream(Code::H3_REQUEST_REJECTED);
    });
    let closing = Peer::serving(
        &folder,
        quinn::TransportConfig::default(),
        async |connection: quinn::Connection| {
            // With the first stream.
            let _ = connection.accept_bi().await;
            connection.close(0x100u32.into(), b"");
        },
    );
    let good = Peer::start(&folder, misbehave);
    for bad in [&rejecting, &closing] {
        let keys = "max_fails = 0\nretry_budget = 100";
        let setup = edge(backend, &[bad.address, good.address], keys);
        let server = Server::start(&setup, &folder);
        for _ in 0..4 {
            let outcome = Front::Http3.get(server.address(), &folder, "/");
            assert_eq!(outcome, Outcome::Whole(200, None, PAGE.into()));
        }
    }
    assert!(rejecting.connections() > 0 && closing.connections() > 0);
    // A request that may have been processed is not repeated, but one that was refused is.
    for (bad, status) in [(&rejecting, 200), (&closing, 502)] {
        let setup = edge(backend, &[bad.address, good.address], "max_fails = 0");
        let server = Server::start(&setup, &folder);
        run(async {
            let client = Client::new(&folder);
            let mut session = client.connect(server.address()).await;
            let request = Request::post("https://localhost/").body(()).unwrap();
            let response = session.try_ask(request).await.unwrap();
            assert_eq!(response.head.status(), status);
        });
    }
}

fn why_there_is_no_connection_is_told(backend: &str) {
    let folder = Folder::new();
    let other = Folder::new();
    let untrusted = Peer::start(&other, misbehave);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap();
    drop(closed);
    for (upstream, expected, words) in [
        (port, failed(502, "connection_refused"), "it refused the connection"),
        (silent.local_addr().unwrap(), failed(504, "connection_timeout"), "took too long to open"),
        (untrusted.address, failed(502, "tls_certificate_error"), "no trusted authority"),
    ] {
        let keys = "connect_timeout = \"1s\"\nretries = 0\nmax_fails = 1";
        let mut server = Server::start(&edge(backend, &[upstream], keys), &folder);
        assert_eq!(Front::Http3.get(server.address(), &folder, "/"), expected);
        server.process.line_with(&["WARN", words]);
    }
}

fn an_upstream_that_comes_back_is_used_again(backend: &str) {
    let folder = Folder::new();
    let origin = |address: &str| {
        // By the secrets in the folder, it resets connections of its predecessor.
        let state = "[server]\nstate_dir = \"state\"\n";
        let setup = Setup::new(backend).with(state).listener("origin", address, "cubic");
        Server::start(&setup, &folder)
    };
    let first = origin("127.0.0.1:0");
    let address = first.address();
    let server = Server::start(&edge(backend, &[address], "max_fails = 0"), &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
        drop(first);
        let _second = origin(&address.to_string());
        // The connection of before is reset, or its port was found closed.
        assert_eq!(session.get("/").await.text().await, PAGE);
        assert_eq!(session.get("/").await.text().await, PAGE);
    });
}

fn a_client_that_leaves_or_stands_still_holds_the_upstream_back(backend: &str) {
    let folder = Folder::new();
    let (sent, stopped) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let counters = (Arc::clone(&sent), Arc::clone(&stopped));
    let peer = Peer::start(&folder, move |_: Request<()>, mut stream: PeerStream| {
        let (sent, stopped) = (Arc::clone(&counters.0), Arc::clone(&counters.1));
        async move {
            stream.send_response(Response::new(())).await.unwrap();
            while stream.send_data(Bytes::from(vec![1; PIECE])).await.is_ok() {
                sent.fetch_add(PIECE as u64, Ordering::Relaxed);
            }
            stopped.fetch_add(1, Ordering::Relaxed);
        }
    });
    let server = Server::start(&edge(backend, &[peer.address], ""), &folder);
    run(async {
        let client = Client::new(&folder).taking(64 << 10);
        let mut session = client.connect(server.address()).await;
        let response = session.get("/").await;
        // It stops once every window on the way is full.
        let mut before = u64::MAX;
        while sent.load(Ordering::Relaxed) != before {
            before = sent.load(Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert!(before < 16 << 20, "{before} bytes were sent for a client that reads none");
        response.cancel();
        while stopped.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

fn health_checks_take_an_upstream_out_and_back(backend: &str) {
    let folder = Folder::new();
    let is_well = Arc::new(AtomicU64::new(1));
    let state = Arc::clone(&is_well);
    let peer = Peer::start(&folder, move |_: Request<()>, mut stream: PeerStream| {
        let status = if state.load(Ordering::Relaxed) == 1 { 200 } else { 500 };
        async move {
            let head = Response::builder().status(status).body(()).unwrap();
            stream.send_response(head).await.unwrap();
            stream.finish().await.unwrap();
        }
    });
    let setup =
        Setup::new(backend).with(ADMIN).listener("edge", "127.0.0.1:0", "cubic").with(&format!(
            "[[route]]\npath = \"/app/\"\nproxy.pool = \"app\"\n\
         [[pool]]\nname = \"app\"\nupstreams = \"h3://{}\"\n\
         tls_ca = \"cert.pem\"\ntls_name = \"localhost\"\n\
         [pool.health_check]\npath = \"/health\"\ninterval = \"100ms\"\n",
            peer.address
        ));
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    let label = format!("{{upstream=\"h3://{}\"}}", peer.address);
    let down = format!("sluicegate_upstream_down{label}");
    assert!(metrics(admin).contains_key(&down), "{:?}", metrics(admin).keys());
    is_well.store(0, Ordering::Relaxed);
    until(admin, &down, 1.0);
    is_well.store(1, Ordering::Relaxed);
    until(admin, &down, 0.0);
}
