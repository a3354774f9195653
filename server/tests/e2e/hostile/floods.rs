//! Floods beside service: the server has one core, the flood and ten clients that behave have another.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_raw_client::{Client as RawClient, Setup as RawSetup};
use tokio::time::{Instant, sleep};

use super::peers::{Kind, Peers};
use super::{Figures, Honest, connect, number};
use crate::admin::address;
use crate::client::Client;
use crate::on_every_backend;
use crate::server::{Folder, Server};
use crate::skip;

on_every_backend!(
    #[ignore = "long"]
    ten_clients_keep_their_goodput_beside_each_flood,
);

/// Clients that behave.
const CLIENTS: usize = 10;
/// Pause of such a client between two requests: together they leave most of their core to the flood.
const PAUSE: Duration = Duration::from_millis(5);
/// Share of the undisturbed goodput that must stay.
const SHARE: f64 = 0.7;
/// Time after which memory is compared with that at the end.
const WARM: Duration = Duration::from_secs(10);
/// Different Initial packets, sent again and again.
const INITIALS: u64 = 4_000;
/// Addresses that a flood comes from.
const ADDRESSES: u8 = 64;
/// Empty frames of an unknown type in a second.
const FRAMES_PER_SECOND: u64 = 100_000;
/// Connections of a flood of frames.
const CONNECTIONS: usize = 8;

/// A flood.
#[derive(Clone, Copy, Debug)]
enum Flood {
    /// Initial packets that a client could have sent.
    Initials,
    /// Initial packets with a token that nobody issued.
    RetryTokens,
    /// Datagrams of one byte.
    OneByte,
    /// A kind of misbehaviour on established connections.
    Frames(Kind),
}

/// Without those that have their connections closed: they are floods of handshakes, each of which costs the server as much as it
/// costs them.
const FLOODS: [Flood; 9] = [
    Flood::Initials,
    Flood::RetryTokens,
    Flood::OneByte,
    Flood::Frames(Kind::RapidReset),
    Flood::Frames(Kind::Challenges),
    Flood::Frames(Kind::PingFlood),
    Flood::Frames(Kind::StreamCredit),
    Flood::Frames(Kind::UnknownFrames),
    Flood::Frames(Kind::TinyFrames),
];

/// Each flood lasts `SLUICEGATE_SECONDS` seconds, one minute if that is not set.
fn ten_clients_keep_their_goodput_beside_each_flood(backend: &str) {
    // With them, the parsing of frames alone takes half of the server's time; in what users run it takes a few percent.
    if cfg!(debug_assertions) {
        panic!(
            "debug assertions slow the server down: `make floods` judges goodput in the release profile"
        );
    }
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return skip("cores", &"a core for the server and one for the flood are needed");
    }
    let seconds = number("SLUICEGATE_SECONDS", 60);
    let long = Duration::from_secs(seconds);
    change_this_thread("taskset", &["-cp", "1"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let shares = runtime.unwrap().block_on(async {
        let mut shares = Vec::new();
        for flood in FLOODS {
            shares.push((flood, beside(flood, backend, long).await));
        }
        shares
    });
    for (flood, (share, growth)) in &shares {
        println!("{backend}: {flood:?}: {:.0} % of the goodput, {growth:+.1} MB", 100.0 * share);
    }
    for (flood, (share, growth)) in shares {
        assert!(share >= SHARE, "{flood:?} leaves {share}");
        assert!(growth < 16.0, "{flood:?}: {growth} MB more");
    }
}

/// Has a command of util-linux change this thread, and those that it starts.
fn change_this_thread(command: &str, options: &[&str]) {
    let this = std::fs::read_link("/proc/thread-self").unwrap();
    let this = this.file_name().unwrap().to_str().unwrap();
    let output = Command::new(command).args(options).arg(this).output();
    assert!(output.unwrap().status.success());
}

/// Returns the share of the goodput beside a flood, and how much resident memory grew, MB.
async fn beside(flood: Flood, backend: &str, long: Duration) -> (f64, f64) {
    let folder = Folder::new();
    let upstream = super::crowd::silent_upstream().await;
    let setup = super::crowd::setup(backend, upstream);
    let setup = setup.replace("[[group]]", "[[group]]\ncores = [0]");
    let words = ["taskset", "-c", "0", "sh", "-c"];
    let mut server = Server::start_within(&words, "exec \"$@\"", &setup, &folder);
    let admin = address(&mut server);
    let (client, honest) = (Client::new(&folder), Arc::<Honest>::default());
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let session = connect(&client, server.address()).await;
        tasks.push(tokio::spawn(Arc::clone(&honest).run(session, 10_000, PAUSE)));
    }
    let rate = |from: u64, since: Instant| {
        let done = honest.bytes.load(Ordering::Relaxed) - from;
        done as f64 / since.elapsed().as_secs_f64()
    };
    sleep(Duration::from_secs(1)).await;
    let (from, since) = (honest.bytes.load(Ordering::Relaxed), Instant::now());
    sleep(WARM.min(long)).await;
    let undisturbed = rate(from, since);
    let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let thread = {
        let (stop, sent, at) = (Arc::clone(&stop), Arc::clone(&sent), server.address());
        std::thread::spawn(move || run_flood(flood, at, &stop, &sent))
    };
    while sent.load(Ordering::Relaxed) == 0 {
        sleep(PAUSE).await;
    }
    let before = Figures::read(admin);
    let (from, since) = (honest.bytes.load(Ordering::Relaxed), Instant::now());
    sleep(WARM.min(long / 2)).await;
    let warm = Figures::read(admin);
    sleep(long.saturating_sub(since.elapsed())).await;
    let disturbed = rate(from, since);
    let last = Figures::read(admin);
    stop.store(true, Ordering::Relaxed);
    honest.stop.store(true, Ordering::Relaxed);
    println!(
        "{flood:?}: {:.0} a second; {undisturbed:.0} bytes a second undisturbed, {disturbed:.0} beside it",
        sent.load(Ordering::Relaxed) as f64 / since.elapsed().as_secs_f64(),
    );
    println!("    then {}\n    now {}", warm.line(), last.line());
    last.print_counted(&before);
    thread.join().unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(honest.failures.load(Ordering::Relaxed), 0, "{flood:?}");
    (disturbed / undisturbed, (last.resident - warm.resident) / 1e6)
}

/// Floods until it is stopped, and counts datagrams, requests or frames in `sent`.
fn run_flood(flood: Flood, server: SocketAddr, stop: &AtomicBool, sent: &AtomicU64) {
    // It takes what the clients that behave leave of the core, so that only the server can slow them down.
    change_this_thread("chrt", &["--idle", "-p", "0"]);
    let initials = |token: &[u8]| -> Vec<Vec<u8>> {
        let first = |number| {
            let mut setup = RawSetup::new(number);
            setup.token = token.to_vec();
            RawClient::new(setup).take_datagrams().remove(0)
        };
        (0..INITIALS).map(first).collect()
    };
    match flood {
        Flood::Initials => send_all(&initials(&[]), server, stop, sent),
        Flood::RetryTokens => send_all(&initials(&[0x5a; 64]), server, stop, sent),
        Flood::OneByte => send_all(&[vec![0x40]], server, stop, sent),
        Flood::Frames(kind) => send_frames(kind, server, stop, sent),
    }
}

/// Sends the datagrams in turn, from many addresses, as fast as the core allows.
fn send_all(datagrams: &[Vec<u8>], server: SocketAddr, stop: &AtomicBool, sent: &AtomicU64) {
    let sockets: Vec<UdpSocket> = (1..=ADDRESSES)
        .map(|host| {
            let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 3, host), 0)).unwrap();
            socket.connect(server).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        })
        .collect();
    let turns = datagrams.iter().cycle().zip(sockets.iter().cycle());
    for (count, (datagram, socket)) in turns.enumerate() {
        if count % 64 == 0 {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            sent.fetch_add(64, Ordering::Relaxed);
        }
        let _ = socket.send(datagram);
    }
}

/// Misbehaves on a few connections as fast as the core allows, or as fast as [`FRAMES_PER_SECOND`] says.
fn send_frames(kind: Kind, server: SocketAddr, stop: &AtomicBool, sent: &AtomicU64) {
    let mut peers = Peers::new(Ipv4Addr::new(127, 0, 3, 1), server, 0);
    (0..CONNECTIONS).for_each(|_| peers.add(kind));
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let due = began.elapsed().as_millis() * u128::from(FRAMES_PER_SECOND) / 1000;
        if kind == Kind::UnknownFrames && u128::from(sent.load(Ordering::Relaxed)) > due {
            std::thread::park_timeout(Duration::from_millis(1));
            peers.exchange();
            continue;
        }
        peers.step();
        let steps = peers.established() as u64;
        sent.fetch_add(steps * kind.weight(), Ordering::Relaxed);
    }
    println!("    {} connections of the flood were closed", peers.closed);
    peers.close();
}
