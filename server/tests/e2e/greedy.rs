//! Clients that hold as much as they can, and one beside them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use h3::client::RequestStream;
use h3_quinn::BidiStream;

use crate::admin::{ADMIN, address, metrics, sum};
use crate::client::{Client, Session, run};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};

on_auto!(
    streams_that_take_nothing_leave_other_clients_unharmed,
    streams_to_an_upstream_that_take_nothing_leave_other_clients_unharmed,
    ten_thousand_requests_of_one_client_at_once_are_all_served,
);

/// Connections of each client, and streams of each connection.
const CONNECTIONS: usize = 4;
const STREAMS: usize = 128;
/// Bytes that a stream takes: enough for the server's SETTINGS, and not for the head of a response.
const WINDOW: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);
/// Larger than what is kept in memory.
const LARGE: usize = 1_000_000;

const FILES: &str = "[[route]]\npath = \"/static/\"\n[route.files]\nroot = \"www\"";

/// A connection whose streams take no response.
struct Held {
    session: Session,
    _streams: Vec<RequestStream<BidiStream<Bytes>, Bytes>>,
}

/// Opens connections whose streams ask for the file and have no room for the head of a response. PINGs keep the connections.
async fn attack(folder: &Folder, server: SocketAddr, path: &str) -> Vec<Held> {
    let mut held = Vec::new();
    for client in 2..=9 {
        let client = Client::bound(folder, Ipv4Addr::new(127, 0, 0, client)).taking(WINDOW);
        hold(&client, server, path, &mut held).await;
    }
    held
}

/// Opens the connections of one client.
async fn hold(client: &Client, server: SocketAddr, path: &str, held: &mut Vec<Held>) {
    for _ in 0..CONNECTIONS {
        let mut session = client.connect(server).await;
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            streams.push(session.ask(path).await);
        }
        held.push(Held { session, _streams: streams });
    }
}

/// Fetches the large body from a further address, and checks that the others are connected.
async fn fetch_beside(held: &[Held], folder: &Folder, server: SocketAddr, path: &str) {
    let client = Client::new(folder);
    let mut session = client.connect(server).await;
    for _ in 0..20 {
        let response = session.get(path).await;
        assert_eq!(response.head.status(), 200);
        assert_eq!(response.bytes().await.len(), LARGE);
    }
    let closed = held.iter().filter_map(|held| held.session.connection.close_reason());
    assert_eq!(closed.count(), 0);
}

/// Waits until the server has read so many requests.
async fn until_requested(admin: SocketAddr, count: usize) {
    let requests = "sluicegate_http_requests_total";
    while sum(&metrics(admin), requests) < count as f64 {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the setup of a server with one worker and a route.
fn setup(backend: &str, route: &str) -> Setup {
    Setup::new(backend)
        .with(ADMIN)
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic")
        .with(route)
}

/// Holds the streams of eight clients, fetches the large body from a ninth, and returns the metrics.
async fn attack_and_fetch(
    folder: &Folder,
    server: SocketAddr,
    admin: SocketAddr,
    path: &str,
) -> BTreeMap<String, f64> {
    let held = attack(folder, server, path).await;
    until_requested(admin, 8 * CONNECTIONS * STREAMS).await;
    fetch_beside(&held, folder, server, path).await;
    metrics(admin)
}

fn streams_that_take_nothing_leave_other_clients_unharmed(backend: &str) {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("www")).unwrap();
    fs::write(folder.path("www/large"), vec![7; LARGE]).unwrap();
    let setup = setup(backend, FILES);
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    run(async {
        let found = attack_and_fetch(&folder, server.address(), admin, "/static/large").await;
        assert_eq!(sum(&found, "sluicegate_http_requests_refused_total"), 0.0);
        assert!(sum(&found, "sluicegate_http_responses_aborted_total") > 0.0);
    });
}

/// Sends the large body on each connection, as fast as it is read.
fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {LARGE}\r\nconnection: close\r\n\r\n"
                );
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(&vec![7; LARGE]);
            });
        }
    });
    address.to_string()
}

/// The server has few descriptors, and each request to the upstream holds one.
fn streams_to_an_upstream_that_take_nothing_leave_other_clients_unharmed(backend: &str) {
    let folder = Folder::new();
    let upstream = upstream();
    let route = format!("[[route]]\npath = \"/app/\"\nproxy = {{ upstreams = \"{upstream}\" }}");
    let setup = setup(backend, &route);
    let script = "ulimit -n 600 && exec \"$@\"";
    let mut server = Server::start_within(&["sh", "-c"], script, &setup, &folder);
    let admin = address(&mut server);
    run(async {
        let found = attack_and_fetch(&folder, server.address(), admin, "/app/large").await;
        assert!(sum(&found, "sluicegate_origin_exchanges_revoked_total") > 0.0);
        let failed = "sluicegate_proxy_failures_total";
        assert_eq!(sum(&found, failed), 0.0, "{found:#?}");
    });
}

/// As a load generator sends them: 100 on each of 100 connections, and none is served from memory.
///
/// Takes long: each of the requests opens a file.
fn ten_thousand_requests_of_one_client_at_once_are_all_served(backend: &str) {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("www")).unwrap();
    fs::write(folder.path("www/small"), [7; 1024]).unwrap();
    let setup = setup(backend, FILES).with("[limits]\nfile_cache = 0");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut sessions = Vec::new();
        for _ in 0..100 {
            sessions.push(client.connect(server.address()).await);
        }
        let mut streams = Vec::new();
        for session in &mut sessions {
            for _ in 0..100 {
                streams.push(session.ask("/static/small").await);
            }
        }
        for mut stream in streams {
            let head = stream.recv_response().await.unwrap();
            assert_eq!(head.status(), 200);
        }
        let found = metrics(admin);
        assert_eq!(sum(&found, "sluicegate_origin_exchanges_opened_total"), 10_000.0);
        assert_eq!(sum(&found, "sluicegate_origin_exchanges_refused_total"), 0.0);
    });
}
