//! Tunnels that end, or go on, in spite of their client or of their age.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use super::super::frames::{NO_WINDOW, window_update};
use super::super::server;
use super::super::stalled::pause;
use super::{Client, End, WAIT_LIMIT, route, upstream};
use crate::admin::{ADMIN, address, until};
use crate::server::Folder;

#[test]
fn the_end_of_a_tunnel_waits_for_the_window_of_its_client() {
    let folder = Folder::new();
    let (upstream, switched) = upstream();
    let stalls = "[limits]\nclient_timeout = \"1s\"";
    let mut server = server(&folder, &format!("{ADMIN}\n{}\n{stalls}", route(upstream)));
    let admin = address(&mut server);
    let [mut open, closed] = [(); 2].map(|()| {
        let client = Client::open_with(&server, &NO_WINDOW);
        let mut upstream = switched.recv_timeout(WAIT_LIMIT).unwrap();
        // So little that the proxy is rid of it at once.
        upstream.write_all(&[7; 20_000]).unwrap();
        client
    });
    open.raw.send(&window_update(1, 20_000));
    assert_eq!(open.read(20_000), [7; 20_000]);
    assert_eq!(open.end(), End::Whole);
    let stalled = "sluicegate_http_requests_stalled_total{waits_for=\"response\"}";
    until(admin, stalled, 1.0);
    assert_eq!(closed.end(), End::Broken);
}

#[test]
fn a_connection_is_not_too_old_for_its_tunnel() {
    let folder = Folder::new();
    let (address, switched) = upstream();
    let limits = "connection_lifetime = \"1s\"\nconnection_drain_timeout = \"1s\"";
    let tables = format!("{}\n[limits]\nclient_timeout = \"1s\"\n{limits}", route(address));
    let server = server(&folder, &tables);
    let clients = [false, true].map(|is_http2| {
        let client = Client::open(&server, is_http2);
        (client, switched.recv_timeout(WAIT_LIMIT).unwrap())
    });
    pause(Duration::from_secs(4));
    for (mut client, mut upstream) in clients {
        client.send(b"one");
        upstream.read_exact(&mut [0; 3]).unwrap();
        upstream.write_all(b"two").unwrap();
        drop(upstream);
        assert_eq!(client.read(3), b"two");
        assert_eq!(client.end(), End::Whole);
    }
}
