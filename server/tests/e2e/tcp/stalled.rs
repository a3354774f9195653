//! Clients that take little or nothing of their responses.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use super::frames::{DATA, NO_WINDOW, RST_STREAM, begin, get, http2, read_frame, window_update};
use super::raw::{Raw, status};
use super::{server, until_closed};
use crate::admin::{ADMIN, address, metrics, until};
use crate::client::run;
use crate::proxy::Upstream;
use crate::server::{Folder, Server, Setup};

/// Addresses of clients beside that of the others.
const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Block of an upstream that sends little by little.
const BLOCK: [u8; 16_384] = [7; 16_384];

const PAGE: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

pub(super) fn pause(time: Duration) {
    run(async { tokio::time::sleep(time).await });
}

#[test]
fn responses_that_no_window_of_http2_admits_end_with_their_connection() {
    let folder = Folder::new();
    let tables = format!("{ADMIN}\n[limits]\nclient_timeout = \"1s\"");
    let mut server = server(&folder, &tables);
    let admin = address(&mut server);
    let mut client = begin(Raw::open_with(server.address(), b"\x02h2"), &NO_WINDOW);
    client.send(&get(1, "/"));
    client.send(&get(3, "/bytes/1000000"));
    client.rest();
    until_closed(admin, "stalled", 1);
    until(admin, "sluicegate_tcp_connections", 0.0);
}

#[test]
fn a_response_whose_window_stays_shut_is_reset_beside_one_that_goes_on() {
    let folder = Folder::new();
    let upstream = Upstream::start();
    let tables = format!("{ADMIN}\n{}\n[limits]\nclient_timeout = \"1s\"", upstream.route());
    let mut server = server(&folder, &tables);
    let admin = address(&mut server);
    let mut client = http2(server.address());
    client.send(&window_update(0, 1 << 20));
    client.send(&get(1, "/app/late"));
    upstream.wait_for_late();
    client.send(&get(3, "/app/down"));
    until(admin, "sluicegate_tcp_exchanges_opened_total", 2.0);
    let alone = "sluicegate_http_requests_stalled_total{waits_for=\"response\"}";
    until(admin, alone, 1.0);
    // Neither the handler nor its blocks are left.
    until(admin, "sluicegate_tcp_exchanges", 1.0);
    upstream.release_late();
    let mut late = Vec::new();
    while let Some(frame) = read_frame(&mut client) {
        if frame.kind == DATA && frame.stream == 1 {
            late.extend(frame.payload);
        }
    }
    assert_eq!(late, b"late!");
    until(admin, "sluicegate_tcp_reserved_bytes", 0.0);
}

#[test]
fn memory_that_is_taken_for_another_client_is_free() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("www")).unwrap();
    std::fs::write(folder.path("www/file"), vec![7; 60_000]).unwrap();
    let setup = Setup::new("mio")
        .with(ADMIN)
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic")
        .with("[[route]]\npath = \"/static/\"\n[route.files]\nroot = \"www\"")
        .with("[limits]\nworker_buffer = \"1MiB\"\nfile_cache = 0");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    let greedy = Raw::open_from(GREEDY, server.address(), b"\x02h2");
    let mut greedy = begin(greedy, &NO_WINDOW);
    for number in 0..32 {
        greedy.send(&get(2 * number + 1, "/static/file"));
    }
    until(admin, "sluicegate_http_requests_total", 32.0);
    // The handlers have finished: what is left is in the hands of the front.
    pause(Duration::from_millis(200));
    let request = b"GET /static/file HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let response = Raw::open_from(OTHER, server.address(), b"").all(request);
    assert_eq!(status(&response), Some(200));
    assert!(metrics(admin)["sluicegate_tcp_exchanges_revoked_total"] >= 1.0);
    let reset =
        std::iter::from_fn(|| read_frame(&mut greedy)).find(|frame| frame.kind == RST_STREAM);
    assert!(reset.is_some());
}

#[test]
fn a_client_with_all_connections_gives_way_to_another_one() {
    let folder = Folder::new();
    let setup = Setup::new("mio")
        .with(ADMIN)
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic")
        .with("[limits]\nconnections_per_worker = 8");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    let mut held: Vec<Raw> =
        (0..8).map(|_| Raw::open_from(GREEDY, server.address(), b"")).collect();
    until(admin, "sluicegate_tcp_connections", 8.0);
    let response = Raw::open_from(OTHER, server.address(), b"").all(PAGE);
    assert_eq!(status(&response), Some(200));
    until_closed(admin, "connections", 1);
    // The oldest one was idle like all others.
    assert_eq!(held.remove(0).rest(), b"");
    assert_eq!(status(&held.remove(0).all(PAGE)), Some(200));
}

/// Sends blocks of a response one by one, with a pause behind each.
fn trickle(blocks: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let length = blocks * BLOCK.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        let _ = stream.read(&mut [0; 4096]);
        stream.write_all(head.as_bytes()).unwrap();
        for _ in 0..blocks {
            stream.write_all(&BLOCK).unwrap();
            pause(Duration::from_millis(1));
        }
    });
    address
}

#[test]
fn a_slow_client_gets_all_that_an_upstream_sends_block_by_block() {
    const BLOCKS: usize = 800;
    let folder = Folder::new();
    let upstream = trickle(BLOCKS);
    let route = format!("[[route]]\npath = \"/app/\"\nproxy = {{ upstreams = \"{upstream}\" }}");
    let server = server(&folder, &route);
    let mut client = Raw::open(&server);
    client.send(b"GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    // All buffers fill, and the last block of each round finds no room.
    pause(Duration::from_secs(2));
    let all = client.rest();
    let head = all.windows(4).position(|part| part == b"\r\n\r\n");
    assert_eq!(all.len() - head.unwrap() - 4, BLOCKS * BLOCK.len());
}
