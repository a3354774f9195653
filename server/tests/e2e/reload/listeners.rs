//! Listeners come and go while clients are served.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use super::{REFUSED, TAKEN};
use crate::client::{Client, Counted, Session, run};
use crate::on_every_backend;
use crate::server::{Folder, PAGE, Server, Setup, field};
use crate::tcp::assert_serves;

on_every_backend!(
    listeners_are_added_and_removed_while_requests_go_on,
    a_listener_that_cannot_be_bound_refuses_the_whole_configuration,
    a_removed_listener_that_drains_may_come_back,
);

/// Length of a response that takes longer than a reload.
const LENGTH: u64 = 50_000_000;

/// Time in which the client's endpoint sends CONNECTION_CLOSE.
const CLOSE: Duration = Duration::from_millis(100);

/// Returns a configuration with these listeners.
fn setup(backend: &str, listeners: &[(&str, &str)]) -> Setup {
    let setup = Setup::new(backend);
    let add = |setup: Setup, (name, address): &(&str, &str)| setup.listener(name, address, "cubic");
    listeners.iter().fold(setup, add)
}

/// Returns the address at which a listener was opened last.
fn address(server: &Server, name: &str) -> SocketAddr {
    let name = format!("listener={name}");
    let mut lines = server.process.said.iter().rev();
    let line = lines.find(|line| {
        line.contains(&name) && line.contains("listening ") && !line.contains("over TCP")
    });
    field(line.unwrap(), "address").parse().unwrap()
}

/// Returns an address that nobody has.
fn free() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap()
}

/// Connects to a listener that a reload has added, for which each worker opens its sockets by itself.
async fn connect(client: &Client, address: SocketAddr) -> Session {
    loop {
        if let Some(session) = client.try_connect(address).await {
            return session;
        }
    }
}

/// Waits until connections to a removed listener are refused by all workers.
async fn wait_until_refused(client: &Client, address: SocketAddr) {
    let mut refused = 0;
    while refused < 10 {
        let is_refused = client.try_connect(address).await.is_none();
        refused = if is_refused { refused + 1 } else { 0 };
    }
}

/// Waits until the server has closed the sockets of a removed listener, and asserts that the port is free.
fn wait_until_free(server: &mut Server, address: SocketAddr) {
    let at = format!("address={address}");
    server
        .process
        .line_with(&["sockets of a removed listener closed", &at]);
    // The workers do so by themselves.
    while UdpSocket::bind(address).is_err() {
        std::thread::yield_now();
    }
    assert!(TcpStream::connect(address).is_err());
}

fn listeners_are_added_and_removed_while_requests_go_on(backend: &str) {
    let folder = Folder::new();
    let one = ("one", "127.0.0.1:0");
    let mut server = Server::start(&setup(backend, &[one]), &folder);
    let first = server.address();
    run(async {
        let client = Client::new(&folder);
        let mut old = client.connect(first).await;
        let both = setup(backend, &[one, ("two", "127.0.0.1:0")]);
        server.reload(&both, &folder, TAKEN);
        let second = address(&server, "two");
        for at in [first, second] {
            let mut session = connect(&client, at).await;
            assert_eq!(session.get("/").await.text().await, PAGE);
            assert_serves(at);
        }
        // It begins before its listener is removed, and ends afterwards.
        let mut response = old.get(&format!("/bytes/{LENGTH}")).await;
        let mut counted = Counted::default();
        response.count(&mut counted, 1).await;
        let two = setup(backend, &[("two", &second.to_string())]);
        server.reload(&two, &folder, TAKEN);
        wait_until_refused(&client, first).await;
        assert_serves(second);
        let mut session = connect(&client, second).await;
        response.count(&mut counted, LENGTH).await;
        assert_eq!(counted.bytes, LENGTH);
        drop((response, old));
        tokio::time::sleep(CLOSE).await;
        wait_until_free(&mut server, first);
        assert_eq!(session.get("/").await.text().await, PAGE);
    });
}

fn a_listener_that_cannot_be_bound_refuses_the_whole_configuration(backend: &str) {
    let folder = Folder::new();
    let one = ("one", "127.0.0.1:0");
    let mut server = Server::start(&setup(backend, &[one]), &folder);
    let free = free();
    let (udp, tcp) = (
        UdpSocket::bind("127.0.0.1:0").unwrap(),
        TcpListener::bind("127.0.0.1:0").unwrap(),
    );
    for taken in [udp.local_addr().unwrap(), tcp.local_addr().unwrap()] {
        let (added, taken) = (free.to_string(), taken.to_string());
        let more = setup(backend, &[one, ("two", &added), ("three", &taken)]);
        let line = server.reload(&more, &folder, REFUSED);
        assert!(
            line.contains("listener `three`") && line.contains(&taken),
            "{line}"
        );
        // What was bound before it is closed again.
        drop(UdpSocket::bind(free).unwrap());
        assert!(TcpStream::connect(free).is_err());
    }
    let idle = "[[group]]\nname = \"idle\"\n";
    let elsewhere =
        setup(backend, &[one]).replace("name = \"one\"", "name = \"one\"\ngroup = \"idle\"");
    let line = server.reload(&elsewhere.with(idle), &folder, REFUSED);
    assert!(line.contains("names of [[group]]"), "{line}");
    assert_serves(server.address());
}

fn a_removed_listener_that_drains_may_come_back(backend: &str) {
    let folder = Folder::new();
    let at = free();
    let (text, other) = (at.to_string(), ("other", "127.0.0.1:0"));
    let mut server = Server::start(&setup(backend, &[("one", &text), other]), &folder);
    run(async {
        let client = Client::new(&folder);
        let mut old = client.connect(at).await;
        let mut response = old.get(&format!("/bytes/{LENGTH}")).await;
        let mut counted = Counted::default();
        response.count(&mut counted, 1).await;
        server.reload(&setup(backend, &[other]), &folder, TAKEN);
        wait_until_refused(&client, at).await;
        // Its sockets are still open.
        server.reload(&setup(backend, &[other, ("again", &text)]), &folder, TAKEN);
        assert_eq!(address(&server, "again"), at);
        let mut session = connect(&client, at).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
        assert_serves(at);
        response.count(&mut counted, LENGTH).await;
        assert_eq!(counted.bytes, LENGTH);
        server.reload(&setup(backend, &[other]), &folder, TAKEN);
        drop((session, response, old));
        tokio::time::sleep(CLOSE).await;
        wait_until_free(&mut server, at);
    });
}
