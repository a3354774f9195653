//! Connections that come and go for a long time, over a port of DPDK: every buffer comes back.

use std::cell::Cell;
use std::net::SocketAddr;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::{Instant, sleep};

use super::network::{CLIENT, CLIENT_V6, Network};
use super::on_a_port::{V4, V6, setup, start};
use crate::admin::{self, ADMIN, sum};
use crate::client::{Client, Session};
use crate::hostile::number;
use crate::server::{Folder, PAGE};

/// Connections that are open at a time.
const CLIENTS: u64 = 24;
/// Requests of each connection.
const REQUESTS: u64 = 12;
/// Time between two requests of a connection.
const PAUSE: Duration = Duration::from_millis(500);
/// Time between two readings of the server's figures, seconds.
const SAMPLE: u64 = 30;
/// Longest time until a server has forgotten the last connections.
const FORGETS: Duration = Duration::from_secs(60);

#[test]
#[ignore = "long"]
fn every_buffer_of_af_packet_comes_back() {
    soak("af_packet");
}

#[test]
#[ignore = "long"]
fn every_buffer_of_af_xdp_comes_back() {
    soak("af_xdp");
}

/// Lasts `SLUICEGATE_SECONDS` seconds, one minute if that is not set: 3,600 are the proof of a release.
fn soak(driver: &str) {
    // The names of the interfaces are free in a namespace of the test's own.
    if number("SLUICEGATE_IN_NAMESPACE", 0) == 0 {
        let test = format!("dpdk::soak::every_buffer_of_{driver}_comes_back");
        let status = Command::new("unshare")
            .arg("-n")
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--nocapture", "--exact", &test])
            .env("SLUICEGATE_IN_NAMESPACE", "1")
            .status();
        return assert!(status.unwrap().success());
    }
    let length = Duration::from_secs(number("SLUICEGATE_SECONDS", 60));
    let network = Network::new(2);
    let folder = Folder::new();
    let setup = setup(&format!("{driver}:sga"), 2).with(ADMIN);
    let mut server = start(&network, &setup, &folder);
    let admin = admin::address(&mut server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(LocalSet::new().run_until(async {
        let started = Figures::read(&network, admin);
        println!("{driver}, before the first connection: {started:?}");
        let end = Instant::now() + length;
        let counts = Rc::<Counts>::default();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|index| {
                let (from, to) =
                    if index % 3 == 0 { (CLIENT_V6.into(), V6) } else { (CLIENT.into(), V4) };
                let client = Client::at(&folder, SocketAddr::new(from, 0));
                tokio::task::spawn_local(come_and_go(client, to, end, Rc::clone(&counts)))
            })
            .collect();
        let mut highest = 0.0_f64;
        while Instant::now() < end {
            sleep(Duration::from_secs(SAMPLE).min(end - Instant::now())).await;
            let figures = Figures::read(&network, admin);
            highest = highest.max(figures.allocated);
            println!(
                "{driver}: {} connections, {} responses; {figures:?}",
                counts.connections.get(),
                counts.responses.get(),
            );
        }
        for client in clients {
            client.await.unwrap();
        }
        let forgotten = Instant::now() + FORGETS;
        let ended = loop {
            let figures = Figures::read(&network, admin);
            if figures.connections == 0.0 && figures.buffers <= started.buffers {
                break figures;
            }
            assert!(Instant::now() < forgotten, "{started:?}, then {figures:?}");
            sleep(Duration::from_millis(200)).await;
        };
        println!(
            "{driver}: {} connections, {} responses, at most {highest} bytes; at the end {ended:?}",
            counts.connections.get(),
            counts.responses.get(),
        );
        assert!(counts.responses.get() > CLIENTS * REQUESTS);
    }));
}

/// Totals of all clients.
#[derive(Default)]
struct Counts {
    connections: Cell<u64>,
    responses: Cell<u64>,
}

/// Figures of the server that must return to where they began.
#[derive(Debug)]
struct Figures {
    /// Buffers in use, over both workers.
    buffers: f64,
    connections: f64,
    /// Bytes that the server's allocator has handed out.
    allocated: f64,
}

impl Figures {
    fn read(network: &Network, admin: SocketAddr) -> Figures {
        let found = network.within(|| admin::metrics(admin));
        Figures {
            buffers: sum(&found, "sluicegate_port_buffers_in_use"),
            connections: found["sluicegate_connections"],
            allocated: found["sluicegate_allocator_allocated_bytes"],
        }
    }
}

/// Opens one connection after another until `end`.
async fn come_and_go(client: Client, server: SocketAddr, end: Instant, counts: Rc<Counts>) {
    while Instant::now() < end {
        let session = client.connect(server).await;
        counts.connections.set(counts.connections.get() + 1);
        let responses = requests(session).await;
        counts.responses.set(counts.responses.get() + responses);
    }
    client.endpoint.wait_idle().await;
}

/// Makes a connection's requests, each with a longer response. Returns their number.
async fn requests(mut session: Session) -> u64 {
    for request in 0..REQUESTS {
        assert_eq!(session.get("/").await.text().await, PAGE);
        let length = 4_u64.pow(u32::try_from(request).unwrap() / 2 + 4);
        let response = session.get(&format!("/bytes/{length}")).await;
        assert_eq!(response.bytes().await.len() as u64, length);
        sleep(PAUSE).await;
    }
    // This request is cancelled before its response ends.
    session.get("/bytes/1000000").await.cancel();
    2 * REQUESTS
}
