//! A client that opens many responses and takes little of them, and others beside it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use sluicegate_raw_client::{Setup as RawSetup, Socket, http3};

use crate::admin::{ADMIN, address, metrics, sum};
use crate::client::{Client, run};
use crate::on_every_backend;
use crate::server::{Folder, Server, Setup};
use crate::tcp::assert_serves;

on_every_backend!(responses_that_one_client_does_not_take_cost_others_no_request);

/// Address of the client that takes nothing, its connections, and the streams of each.
const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
const CONNECTIONS: u64 = 16;
const STREAMS: u64 = 128;
/// Requests that the client sends in one go.
const AT_ONCE: u64 = 8;
/// Larger than what is kept in memory.
const LARGE: usize = 2_000_000;
/// Times that each connection receives what it gets.
const ROUNDS: usize = 10;
/// Time without a datagram after which the server has sent what it sends at once.
const REST: Duration = Duration::from_millis(20);

/// Opens a connection with the largest windows, and asks for the file on many streams. The client acknowledges nothing, or everything
/// but the packets with one of the first bytes of each response.
fn hold(server: SocketAddr, number: u64, acks: bool) -> Socket {
    let mut socket = Socket::open((GREEDY, 0).into(), server, RawSetup::new(number)).unwrap();
    assert!(socket.establish());
    let client = &mut socket.client;
    client.write(http3::CONTROL, &http3::control(&[]), false);
    client.policy.acks = acks;
    client.withheld = Some(1000);
    let request = http3::get("/static/large", &[]);
    for stream in 0..STREAMS {
        socket.client.write(4 * stream, &request, true);
        if stream % AT_ONCE == AT_ONCE - 1 {
            socket.exchange(Duration::from_millis(1));
        }
    }
    socket.exchange(REST);
    socket
}

/// Takes long: thousands of responses are opened, and each connection receives until the server sends nothing more.
fn responses_that_one_client_does_not_take_cost_others_no_request(backend: &str) {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("www")).unwrap();
    fs::write(folder.path("www/large"), vec![7; LARGE]).unwrap();
    let setup = Setup::new(backend)
        .with(ADMIN)
        .with("[server]\nmemory_limit = \"160MiB\"")
        .with("[[route]]\npath = \"/static/\"\n[route.files]\nroot = \"www\"")
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    let mut held: Vec<Socket> =
        (1..=CONNECTIONS).map(|number| hold(server.address(), number, number % 2 == 0)).collect();
    for _ in 0..ROUNDS {
        for socket in &mut held {
            socket.exchange(REST);
        }
    }
    let requests = sum(&metrics(admin), "sluicegate_http_requests_total");
    assert!(requests >= (CONNECTIONS * STREAMS / 2) as f64, "{requests} requests");
    let arrived = held.iter().flat_map(|socket| socket.client.streams.values());
    let arrived: usize = arrived.map(|stream| stream.bytes.len()).sum();
    println!(
        "{backend}: {requests} requests, {arrived} bytes arrived, {} KiB held",
        server.process.anonymous_kib()
    );
    run(async {
        let client = Client::new(&folder);
        for _ in 0..20 {
            let mut session = client.connect(server.address()).await;
            let response = session.get("/static/large").await;
            assert_eq!(response.head.status(), 200);
            assert_eq!(response.bytes().await.len(), LARGE);
        }
    });
    assert_serves(server.address());
    let found = metrics(admin);
    assert_eq!(found["sluicegate_memory_shortages_total"], 0.0);
    assert_eq!(found["sluicegate_connections_closed_for_memory_total"], 0.0);
    assert_eq!(held.len() as u64, CONNECTIONS);
}
