//! Clients that hold, send or keep as much as they can over TCP, and others beside them.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;

use tokio::net::TcpSocket;

use super::frames::{begin, frame, get, http2, window_update};
use super::raw::Raw;
use super::{assert_serves, closed_for, until_closed};
use crate::admin::{ADMIN, address, metrics, sum};
use crate::client::run;
use crate::server::{Folder, Server, Setup};

const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// Connections of a client that takes nothing, and streams of each.
const CONNECTIONS: usize = 8;
const STREAMS: u32 = 100;
/// SETTINGS_INITIAL_WINDOW_SIZE of 2^31 - 1.
const ALL: [u8; 6] = [0, 4, 0x7f, 0xff, 0xff, 0xff];
const FILES: &str = "[[route]]\npath = \"/static/\"\n[route.files]\nroot = \"www\"";
/// Larger than what is kept in memory.
const LARGE: usize = 2_000_000;

/// Returns the setup of a server with one worker.
fn setup(tables: &str) -> Setup {
    Setup::new("mio")
        .with(ADMIN)
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic")
        .with(tables)
}

/// Opens connections of HTTP/2 whose windows are as large as they can be, asks for a path on many streams, and reads nothing.
fn hold(server: SocketAddr, path: &str) -> Vec<Raw> {
    let open = || {
        let mut client = begin(Raw::open_from(GREEDY, server, b"\x02h2"), &ALL);
        client.send(&window_update(0, i32::MAX.unsigned_abs() - 65_535));
        let requests = (0..STREAMS).flat_map(|number| get(2 * number + 1, path));
        client.send(&requests.collect::<Vec<_>>());
        client
    };
    (0..CONNECTIONS).map(|_| open()).collect()
}

/// Waits until the server has read so many requests.
fn until_requested(admin: SocketAddr, count: usize) {
    run(async {
        while sum(&metrics(admin), "sluicegate_http_requests_total") < count as f64 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
}

#[test]
fn responses_that_a_client_of_http2_does_not_read_hold_little_memory() {
    let folder = Folder::new();
    let mut server = Server::start(&setup(""), &folder);
    let admin = address(&mut server);
    assert_serves(server.address());
    let before = server.process.anonymous_kib();
    let held = hold(server.address(), "/bytes/10000000");
    until_requested(admin, CONNECTIONS * STREAMS as usize);
    assert_serves(server.address());
    let more = server.process.anonymous_kib().saturating_sub(before);
    // 4 KiB of each stream, 256 KiB of each connection, and TLS.
    assert!(more < 16 << 10, "{more} KiB");
    assert_eq!(held.len(), CONNECTIONS);
}

#[test]
fn requests_of_others_are_served_beside_streams_that_hold_all_that_they_can() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("www")).unwrap();
    fs::write(folder.path("www/large"), vec![7; LARGE]).unwrap();
    let memory = "[server]\nmemory_limit = \"96MiB\"";
    let mut server = Server::start(&setup(&format!("{memory}\n{FILES}")), &folder);
    let admin = address(&mut server);
    let held = hold(server.address(), "/static/large");
    until_requested(admin, CONNECTIONS * STREAMS as usize);
    for _ in 0..20 {
        let request = b"GET /static/large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let response = Raw::open_with(server.address(), b"").all(request);
        assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"));
        assert!(response.len() > LARGE);
    }
    let found = metrics(admin);
    assert_eq!(found["sluicegate_memory_shortages_total"], 0.0);
    assert_eq!(held.len(), CONNECTIONS);
}

/// Takes about 20 s: each connection is closed after pauses of about six seconds in all, and there are three.
#[test]
fn clients_whose_frames_achieve_nothing_are_slowed_and_closed_and_others_served() {
    let folder = Folder::new();
    let mut server = Server::start(&setup("[limits]\noverload_above = 1"), &folder);
    let admin = address(&mut server);
    let priority = frame(2, 0, 1001, &[0, 0, 0, 0, 15]);
    let unknown = frame(0xfa, 0, 0, &[]);
    for (ended, what) in [window_update(0, 1), priority, unknown].iter().enumerate() {
        let flood = what.repeat(500);
        let mut client = http2(server.address());
        // Blocks while the server reads nothing, and fails when it has closed the connection.
        let flood = thread::spawn(move || while client.try_send(&flood).is_ok() {});
        assert_serves(server.address());
        flood.join().unwrap();
        until_closed(admin, "no_progress", ended + 1);
    }
}

/// Connects from an address of this host.
fn connect(client: Ipv4Addr, server: SocketAddr) -> TcpStream {
    run(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((client, 0).into()).unwrap();
        socket.connect(server).await.unwrap().into_std().unwrap()
    })
}

/// The server has few descriptors, and so few connections.
#[test]
fn connections_that_bring_nothing_give_way_to_those_of_newcomers() {
    let folder = Folder::new();
    let script = "ulimit -n 600 && exec \"$@\"";
    let mut server = Server::start_within(&["sh", "-c"], script, &setup(""), &folder);
    let admin = address(&mut server);
    // Nothing, and the beginning of a TLS record.
    for (network, first) in [(1, &b""[..]), (2, b"\x16\x03\x01")] {
        let mut held = Vec::new();
        for number in 0..300_u16 {
            let [high, low] = number.to_be_bytes();
            let client = Ipv4Addr::new(127, network, high, low.max(1));
            let mut stream = connect(client, server.address());
            // It may have given way already.
            let _ = stream.write_all(first);
            held.push(stream);
            if number % 10 == 0 {
                assert_serves(server.address());
            }
        }
    }
    let found = metrics(admin);
    let refused = "sluicegate_tcp_connections_refused_total";
    assert_eq!(sum(&found, refused), 0.0);
    assert!(found[&closed_for("unfinished")] > 300.0);
}
