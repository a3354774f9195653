//! Listeners come and go while clients are served.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use super::{REFUSED, TAKEN};
use crate::client::{Client, Counted, Session, run};
use crate::faults::limit;
use crate::on_every_backend;
use crate::ports;
use crate::server::{Folder, PAGE, Server, Setup, field};
use crate::tcp::assert_serves;

on_every_backend!(
    listeners_are_added_and_removed_while_requests_go_on,
    a_listener_that_cannot_be_bound_refuses_the_whole_configuration,
    a_removed_listener_that_drains_may_come_back,
    workers_without_descriptors_refuse_an_added_listener,
    sockets_of_a_removed_listener_are_closed_once_there_are_descriptors,
);

/// Length of a response that takes longer than a reload.
const LENGTH: u64 = 50_000_000;

/// Descriptors for everything that a server needs here.
const ENOUGH: &str = "1024";

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
    ports::free().local_addr().unwrap()
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
    server.process.line_with(&["sockets of a removed listener closed", &at]);
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
        let at = format!("address={second}");
        let over_tcp = |line: &&String| line.contains("listening over TCP") && line.contains(&at);
        assert_eq!(server.process.said.iter().filter(over_tcp).count(), 1);
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
    let (udp, tcp) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    for taken in [udp.local_addr().unwrap(), tcp.local_addr().unwrap()] {
        let (added, taken) = (free.to_string(), taken.to_string());
        let more = setup(backend, &[one, ("two", &added), ("three", &taken)]);
        let line = server.reload(&more, &folder, REFUSED);
        assert!(line.contains("listener `three`") && line.contains(&taken), "{line}");
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

/// Returns a configuration with many listeners, for whose sockets workers need many descriptors at a reload.
fn many(backend: &str, more: &[(&str, &str)]) -> Setup {
    let names: Vec<String> = (0..8).map(|number| format!("old-{number}")).collect();
    let mut listeners: Vec<_> = names.iter().map(|name| (&**name, "127.0.0.1:0")).collect();
    listeners.extend(more);
    setup(backend, &listeners).replace("[[group]]", "[[group]]\ncores = [0]")
}

/// Leaves the server so many descriptors beside those that it has.
fn leave_descriptors(server: &Server, spare: usize) {
    let id = server.process.id();
    let open = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count();
    limit(&server.process, "nofile", &(open + spare).to_string());
}

fn workers_without_descriptors_refuse_an_added_listener(backend: &str) {
    let folder = Folder::new();
    let at = free();
    let text = at.to_string();
    let both = || many(backend, &[("added", &text)]);
    let mut server = Server::start(&many(backend, &[]), &folder);
    run(async {
        let client = Client::new(&folder);
        let mut old = client.connect(server.address()).await;
        // From too few for reading the file to enough for the listener's own sockets; how many that
        // takes depends on what else the server does, such as a client of TCP that has come.
        let mut spares = 0..12;
        loop {
            leave_descriptors(&server, spares.next().unwrap());
            let line = server.reload(&both(), &folder, REFUSED);
            assert_eq!(old.get("/").await.text().await, PAGE);
            if line.contains("group `default`") {
                assert!(line.contains("raise the limit of open files"), "{line}");
                break;
            }
        }
        limit(&server.process, "nofile", ENOUGH);
        server.reload(&both(), &folder, TAKEN);
        let mut session = connect(&client, at).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
        assert_serves(at);
        assert_eq!(old.get("/").await.text().await, PAGE);
    });
}

/// Takes long: the server tries again to close sockets 5 s after it could not.
fn sockets_of_a_removed_listener_are_closed_once_there_are_descriptors(backend: &str) {
    let folder = Folder::new();
    let at = free();
    let text = at.to_string();
    let both = many(backend, &[("removed", &text)]);
    let mut server = Server::start(&both, &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(at).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
        server.reload(&many(backend, &[]), &folder, TAKEN);
        // Its socket for TCP, whose descriptor would be free later.
        while TcpStream::connect(at).is_ok() {
            std::thread::yield_now();
        }
        leave_descriptors(&server, 6);
        drop(session);
        tokio::time::sleep(CLOSE).await;
        let line = server.process.line_with(&["stay open"]);
        assert!(line.contains("raise the limit of open files"), "{line}");
        assert!(UdpSocket::bind(at).is_err());
        limit(&server.process, "nofile", ENOUGH);
        wait_until_free(&mut server, at);
        server.reload(&both, &folder, TAKEN);
        let mut session = connect(&client, at).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
    });
}
