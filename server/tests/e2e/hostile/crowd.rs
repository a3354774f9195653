//! Many connections of which every tenth misbehaves: nothing grows, and everybody else is served.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep};

use super::peers::{Kind, Peers};
use super::{Figures, Honest, connect, number};
use crate::admin::{ADMIN, address};
use crate::client::Client;
use crate::on_every_backend;
use crate::server::{Folder, Server, Setup};

on_every_backend!(
    every_tenth_of_some_connections_misbehaves_and_all_others_are_served,
    #[ignore = "long"]
    every_tenth_of_many_connections_misbehaves_and_nothing_grows,
);

/// Connections that share a client's address.
const PER_ADDRESS: u64 = 100;
/// Misbehaving clients that share a socket.
const PER_SOCKET: u64 = 10;
/// Time between two steps of a misbehaving client.
const STEP: Duration = Duration::from_secs(1);
/// Time between two looks at the sockets.
const LOOK: Duration = Duration::from_millis(20);
/// Time between two readings of the server's figures.
const SAMPLE: Duration = Duration::from_secs(10);
/// Steps after which a client that the server may have forgotten opens a new connection.
const RENEWAL: u64 = 90;

/// Sizes of a run.
struct Sizes {
    connections: u64,
    seconds: u64,
    pause: Duration,
    /// Time after which the server forgets a silent connection, seconds.
    idle: u64,
}

/// Takes more than 10 s: at the end it waits until the server has forgotten connections that their clients did not close.
fn every_tenth_of_some_connections_misbehaves_and_all_others_are_served(backend: &str) {
    let sizes = Sizes { connections: 200, seconds: 4, pause: Duration::from_millis(500), idle: 15 };
    run(backend, &sizes);
}

/// `SLUICEGATE_CROWD` connections for `SLUICEGATE_SECONDS` seconds: 10,000 for 600 are the proof of a release.
fn every_tenth_of_many_connections_misbehaves_and_nothing_grows(backend: &str) {
    let sizes = Sizes {
        connections: number("SLUICEGATE_CROWD", 2_000),
        seconds: number("SLUICEGATE_SECONDS", 60),
        pause: Duration::from_secs(5),
        idle: 30,
    };
    run(backend, &sizes);
}

/// Reads whatever comes, and never responds.
pub(super) async fn silent_upstream() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {}
                let _ = stream.shutdown().await;
            });
        }
    });
    address
}

/// Returns a configuration with a page, bytes and that upstream.
pub(super) fn setup(backend: &str, upstream: SocketAddr) -> Setup {
    Setup::new(backend)
        .with(ADMIN)
        .listener("main", "127.0.0.1:0", "cubic")
        .with(&format!("[[route]]\npath = \"/app/\"\nproxy = {{ upstreams = \"{upstream}\" }}"))
}

fn run(backend: &str, sizes: &Sizes) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(async {
        let folder = Folder::new();
        let upstream = silent_upstream().await;
        let idle = format!("[quic]\nidle_timeout = \"{}s\"", sizes.idle);
        let mut server = Server::start(&setup(backend, upstream).with(&idle), &folder);
        let admin = address(&mut server);
        let started = Figures::read(admin);
        let crowd = sizes.connections / 10;
        let (honest, served) = gather(&folder, server.address(), sizes).await;
        let (stop, closed) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let peers = {
            let (stop, closed, at) = (Arc::clone(&stop), Arc::clone(&closed), server.address());
            std::thread::spawn(move || misbehave(crowd, at, &stop, &closed))
        };
        sleep(Duration::from_secs(sizes.seconds / 4 + 2)).await;
        let mut seen = vec![Figures::read(admin)];
        println!("{backend}, after the start: {}", seen[0].line());
        let end = Instant::now() + Duration::from_secs(sizes.seconds);
        while Instant::now() < end {
            sleep(SAMPLE.min(end - Instant::now())).await;
            let figures = Figures::read(admin);
            println!("{}", figures.line());
            seen.push(figures);
        }
        seen[seen.len() - 1].print_counted(&started);
        stop.store(true, Ordering::Relaxed);
        honest.stop.store(true, Ordering::Relaxed);
        peers.join().unwrap();
        for task in served {
            task.await.unwrap();
        }
        let (responses, failures) =
            (honest.responses.load(Ordering::Relaxed), honest.failures.load(Ordering::Relaxed));
        println!(
            "{responses} responses, {failures} failures; {} misbehaving connections were closed",
            closed.load(Ordering::Relaxed)
        );
        assert!(responses > sizes.connections, "{responses}");
        assert_eq!(failures, 0);
        check(&seen, sizes.connections);
        // Nothing of it stays.
        loop {
            let left = Figures::read(admin);
            if left.connections + left.exchanges + left.reserved == 0.0 {
                println!("at the end: {}", left.line());
                return assert!(left.descriptors <= started.descriptors + 16.0, "{left:?}");
            }
            sleep(STEP).await;
        }
    });
}

/// Connects the clients that behave, and lets them begin.
async fn gather(
    folder: &Folder,
    server: SocketAddr,
    sizes: &Sizes,
) -> (Arc<Honest>, Vec<tokio::task::JoinHandle<()>>) {
    let honest = Arc::<Honest>::default();
    let count = sizes.connections - sizes.connections / 10;
    let mut served = Vec::new();
    for first in (0..count).step_by(usize::try_from(PER_ADDRESS).unwrap()) {
        let host = u8::try_from(first / PER_ADDRESS + 1).unwrap();
        let client = Client::bound(folder, Ipv4Addr::new(127, 0, 1, host)).quiet();
        for _ in first..count.min(first + PER_ADDRESS) {
            let session = connect(&client, server).await;
            let honest = Arc::clone(&honest);
            served.push(tokio::spawn(honest.run(session, 10_000, sizes.pause)));
        }
    }
    (honest, served)
}

/// Misbehaves in each way with as many clients, until it is stopped.
fn misbehave(count: u64, server: SocketAddr, stop: &AtomicBool, closed: &AtomicU64) {
    let mut kinds = Kind::ALL.into_iter().cycle();
    let sockets = count.div_ceil(PER_SOCKET);
    let mut all: Vec<Peers> = (0..sockets)
        .map(|index| {
            let host = u8::try_from(index % 250 + 1).unwrap();
            Peers::new(Ipv4Addr::new(127, 0, 2, host), server, index << 32)
        })
        .collect();
    for index in 0..count {
        let socket = usize::try_from(index % sockets).unwrap();
        all[socket].add(kinds.next().unwrap());
    }
    let looks = u64::try_from(STEP.as_millis() / LOOK.as_millis()).unwrap();
    let mut look = 0;
    while !stop.load(Ordering::Relaxed) {
        look += 1;
        for (index, peers) in all.iter_mut().enumerate() {
            let turn = look + index as u64;
            if turn.is_multiple_of(looks) {
                peers.step();
            } else {
                peers.exchange();
            }
            // Not all at once.
            for (number, kind) in Kind::ALL.into_iter().enumerate() {
                let is_kept = matches!(kind, Kind::Ping | Kind::Drip);
                if turn % (RENEWAL * looks) == 3 * number as u64 && !is_kept {
                    peers.renew(kind);
                }
            }
        }
        std::thread::park_timeout(LOOK);
    }
    let (open, gone) = all.iter_mut().fold((0, 0), |(open, gone), peers| {
        let counts = (open + peers.established(), gone + peers.closed);
        peers.close();
        counts
    });
    println!("{open} misbehaving connections were open at the end");
    assert!(open > 0);
    closed.store(gone, Ordering::Relaxed);
}

/// A value's name, how to read it, and by how much it may differ.
type Measure = (&'static str, fn(&Figures) -> f64, f64);

/// Checks that nothing grew: the largest values of the first period against those of the last one. In a period each client that
/// is renewed was open once, so a run of less than two compares its first value with its last, with more tolerance.
fn check(seen: &[Figures], connections: u64) {
    let period = usize::try_from(RENEWAL / SAMPLE.as_secs()).unwrap() + 1;
    let whole = seen.len() >= 2 * period;
    let length = if whole { period } else { 1 };
    let (first, last) = (&seen[..length], &seen[seen.len() - length..]);
    let connections = connections as f64;
    let (ratio, room) = if whole { (1.05, 1.0) } else { (1.1, connections) };
    let measures: [Measure; 4] = [
        ("allocated", |seen| seen.allocated, 4e6 + 4e3 * room),
        ("resident", |seen| seen.resident, 16e6 + 8e3 * room),
        ("descriptors", |seen| seen.descriptors, 32.0 + 0.1 * room),
        ("exchanges", |seen| seen.exchanges, 32.0 + room),
    ];
    for (name, measure, room) in measures {
        let largest = |seen: &[Figures]| seen.iter().map(measure).fold(0.0, f64::max);
        let (before, after) = (largest(first), largest(last));
        println!("largest {name}: {before} in the first period, {after} in the last");
        assert!(after <= before * ratio + room, "{name} grew");
    }
    // Connections that clients have replaced are forgotten after their idle timeout.
    let open = last[length - 1].connections;
    assert!(open <= 1.5 * connections, "{open}");
}
