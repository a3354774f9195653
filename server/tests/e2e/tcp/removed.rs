//! A reload removes a listener that has connections over TCP.

use std::net::TcpStream;

use super::raw::Raw;
use super::{text, value};
use crate::proxy::Upstream;
use crate::server::{Folder, PAGE, Server, Setup};

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
    idle.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    idle.read_past(PAGE.as_bytes());
    upstream.wait_for_late();
    server.reload(&setup("two"), &folder, "reloaded");
    assert_eq!(idle.rest(), b"");
    // Each front closes its sockets by itself.
    while TcpStream::connect(removed).is_ok() {
        std::thread::yield_now();
    }
    upstream.release_late();
    let response = text(&waiting.rest());
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(
        value(&response, "connection") == Some("close"),
        "{response}"
    );
}
