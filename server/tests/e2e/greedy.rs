//! Clients that hold as much as they can, and one beside them.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use h3::client::RequestStream;
use h3_quinn::BidiStream;

use crate::admin::{ADMIN, address, metrics, sum};
use crate::client::{Client, Session, run};
use crate::on_every_backend;
use crate::server::{Folder, Server, Setup};

on_every_backend!(streams_that_take_nothing_leave_other_clients_unharmed);

/// Connections of each client, and streams of each connection.
const CONNECTIONS: usize = 4;
const STREAMS: usize = 128;
/// Bytes that a stream takes: enough for the server's SETTINGS, and not for the head of a response.
const WINDOW: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);
/// Larger than what is kept in memory.
const LARGE: usize = 1_000_000;

/// A connection whose streams take no response.
struct Held {
    session: Session,
    _streams: Vec<RequestStream<BidiStream<Bytes>, Bytes>>,
}

/// Opens connections whose streams ask for the file and have no room for the head of a response. PINGs keep the connections.
async fn attack(folder: &Folder, from: Ipv4Addr, server: SocketAddr) -> Vec<Held> {
    let client = Client::bound(folder, from).taking(WINDOW);
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut session = client.connect(server).await;
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            streams.push(session.ask("/static/large").await);
        }
        held.push(Held {
            session,
            _streams: streams,
        });
    }
    held
}

fn streams_that_take_nothing_leave_other_clients_unharmed(backend: &str) {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("www")).unwrap();
    fs::write(folder.path("www/large"), vec![7; LARGE]).unwrap();
    let setup = Setup::new(backend)
        .with(ADMIN)
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic")
        .with("[[route]]\npath = \"/static/\"\n[route.files]\nroot = \"www\"");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    run(async {
        let mut held = Vec::new();
        for client in 2..=9 {
            let from = Ipv4Addr::new(127, 0, 0, client);
            held.extend(attack(&folder, from, server.address()).await);
        }
        let opened = "sluicegate_origin_exchanges_opened_total";
        while sum(&metrics(admin), opened) < (8 * CONNECTIONS * STREAMS) as f64 {
            tokio::time::sleep(PAUSE).await;
        }
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        for _ in 0..20 {
            let response = session.get("/static/large").await;
            assert_eq!(response.head.status(), 200);
            assert_eq!(response.bytes().await.len(), LARGE);
        }
        // All others are still there.
        let closed = { held.iter() }.filter_map(|held| held.session.connection.close_reason());
        assert_eq!(closed.count(), 0);
        let found = metrics(admin);
        assert_eq!(sum(&found, "sluicegate_http_requests_refused_total"), 0.0);
        assert!(sum(&found, "sluicegate_http_responses_aborted_total") > 0.0);
    });
}
