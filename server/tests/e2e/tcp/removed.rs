//! A reload removes a listener that has connections over TCP, or the server stops.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::frames::{HEADERS, begin, get, read_frame};
use super::plain::{self, plain_address};
use super::raw::{Raw, status};
use super::{text, value};
use crate::admin::{ADMIN, address, until};
use crate::client::run;
use crate::faults::{limit, lowest_free};
use crate::proxy::Upstream;
use crate::server::{Folder, PAGE, Server, Setup};

/// Kind of the frame by which a server takes no further streams.
const GOAWAY: u8 = 7;
const OPEN: &str = "sluicegate_tcp_connections";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Waits until no front listens at an address. Each closes its sockets by itself.
fn wait_until_refused(address: SocketAddr) {
    run(async {
        while TcpStream::connect(address).is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

/// Asserts that a response is the page, and the last one of its connection.
fn assert_last(response: &[u8]) {
    let response = text(response);
    assert_eq!(status(response.as_bytes()), Some(200), "{response}");
    assert_eq!(value(&response, "connection"), Some("close"), "{response}");
    assert!(response.ends_with(PAGE), "{response}");
}

#[test]
fn connections_over_tcp_of_a_removed_listener_finish_their_requests() {
    let folder = Folder::new();
    let upstream = Upstream::start();
    let setup = |name| {
        let setup = Setup::new("mio").listener(name, "127.0.0.1:0", "cubic");
        setup.with(&upstream.route())
    };
    let mut server = Server::start(&setup("one"), &folder);
    let removed = server.address();
    let mut waiting = Raw::open(&server);
    waiting.send(b"GET /app/late HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut idle = Raw::open(&server);
    idle.send(REQUEST);
    idle.read_past(PAGE.as_bytes());
    upstream.wait_for_late();
    server.reload(&setup("two"), &folder, "reloaded");
    assert_eq!(idle.rest(), b"");
    wait_until_refused(removed);
    upstream.release_late();
    let response = text(&waiting.rest());
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(value(&response, "connection") == Some("close"), "{response}");
}

#[test]
fn handshakes_that_have_begun_when_their_listener_is_removed_get_a_response() {
    let folder = Folder::new();
    let setup = |name| {
        let setup = Setup::new("mio").listener(name, "127.0.0.1:0", "cubic");
        setup.with(ADMIN)
    };
    let mut server = Server::start(&setup("one"), &folder);
    let (removed, admin) = (server.address(), address(&mut server));
    let begun = [(); 2].map(|()| TcpStream::connect(removed).unwrap());
    until(admin, OPEN, 2.0);
    server.reload(&setup("two"), &folder, "reloaded");
    wait_until_refused(removed);
    let [http1, http2] = begun;
    let http1 = Raw::try_over(http1, b"").expect("a handshake");
    assert!(http1.presents(&folder));
    assert_last(&http1.all(REQUEST));
    let http2 = Raw::try_over(http2, b"\x02h2").expect("a handshake");
    let mut http2 = begin(http2, &[]);
    http2.send(&get(1, "/"));
    let mut kinds = Vec::new();
    while !(kinds.contains(&HEADERS) && kinds.contains(&GOAWAY)) {
        kinds.push(read_frame(&mut http2).expect("GOAWAY and a response").kind);
    }
    drop(http2);
    until(admin, OPEN, 0.0);
}

#[test]
fn a_connection_that_has_sent_nothing_when_the_server_stops_gets_a_response() {
    let folder = Folder::new();
    let setup = plain::setup("http = \"serve\"").with(ADMIN);
    let mut server = Server::start(&setup, &folder);
    let (http, admin) = (plain_address(&mut server), address(&mut server));
    let [mut asking, mut silent] = [(); 2].map(|()| TcpStream::connect(http).unwrap());
    until(admin, OPEN, 2.0);
    server.process.terminate();
    wait_until_refused(http);
    asking.write_all(REQUEST).unwrap();
    let mut response = Vec::new();
    asking.read_to_end(&mut response).unwrap();
    assert_last(&response);
    // One that stays silent does not hold the drain up.
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    assert_eq!(server.process.wait().code(), Some(0));
}

#[test]
fn connections_that_wait_for_descriptors_when_the_server_stops_get_a_response() {
    let folder = Folder::new();
    let setup = plain::setup("http = \"serve\"")
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .with("[log]\nlevel = \"debug\"");
    let mut server = Server::start(&setup, &folder);
    let http = plain_address(&mut server);
    let none = lowest_free(&server.process).to_string();
    limit(&server.process, "nofile", &none);
    let mut waiting = [(); 3].map(|()| TcpStream::connect(http).unwrap());
    for stream in &mut waiting {
        stream.write_all(REQUEST).unwrap();
    }
    server.process.line_with(&["a connection was not accepted"]);
    server.process.terminate();
    server.process.line_with(&["draining"]);
    limit(&server.process, "nofile", "1024");
    for mut stream in waiting {
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        assert_last(&response);
    }
    assert_eq!(server.process.wait().code(), Some(0));
}

#[test]
fn a_silent_handshake_does_not_outlast_the_drain() {
    let folder = Folder::new();
    let setup = Setup::new("mio")
        .listener("main", "127.0.0.1:0", "cubic")
        .with(ADMIN)
        .with("[limits]\nhandshake_timeout = \"300s\"\n[server]\ndrain_timeout = \"1s\"");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    let mut silent = TcpStream::connect(server.address()).unwrap();
    until(admin, OPEN, 1.0);
    server.process.terminate();
    assert_eq!(server.process.wait().code(), Some(0));
    assert!(matches!(silent.read(&mut [0]), Ok(0) | Err(_)));
}
