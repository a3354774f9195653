//! Requests of HTTP/1.1 whose body never becomes whole: of hyper's connection nothing is read any more, not even its end.

use std::net::SocketAddr;

use super::raw::{Raw, status};
use super::server;
use crate::admin::{ADMIN, address, until};
use crate::proxy::Upstream;
use crate::server::{Folder, Server};

const HEAD: &str = "POST /app/never HTTP/1.1\r\nHost: a\r\n";

/// Starts a server with a route to an upstream that does not respond; returns its admin address, too.
fn start(folder: &Folder) -> (Server, SocketAddr) {
    let upstream = Upstream::start();
    let mut server = server(folder, &format!("{ADMIN}\n{}", upstream.route()));
    let admin = address(&mut server);
    (server, admin)
}

fn until_nothing_is_left(admin: SocketAddr) {
    for left in ["connections", "exchanges", "reserved_bytes"] {
        until(admin, &format!("sluicegate_tcp_{left}"), 0.0);
    }
}

#[test]
fn a_body_whose_framing_breaks_gets_400_and_leaves_nothing() {
    let folder = Folder::new();
    let (server, admin) = start(&folder);
    for broken in ["x\r\n", "5\r\n123456", "5\n12345"] {
        let mut client = Raw::open(&server);
        client.send(format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n").as_bytes());
        until(admin, "sluicegate_tcp_exchanges", 1.0);
        assert_eq!(status(&client.all(broken.as_bytes())), Some(400), "{broken:?}");
        until_nothing_is_left(admin);
    }
}

#[test]
fn a_client_that_goes_away_within_its_body_leaves_nothing() {
    let folder = Folder::new();
    let (server, admin) = start(&folder);
    for framing in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let mut client = Raw::open(&server);
        client.send(format!("{HEAD}{framing}\r\n\r\n1\r\na\r\n").as_bytes());
        until(admin, "sluicegate_tcp_exchanges", 1.0);
        drop(client);
        until_nothing_is_left(admin);
    }
}
