//! Tunnels for UDP through the front in memory.

use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use sluicegate_config::{ConnectUdp, UdpHost, UdpTarget};
use tokio::net::UdpSocket;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::timeout;

use super::tunnel::{FREE_OVERHEAD, LARGEST};
use super::*;
use crate::exchange::RequestHead;
use crate::exchange::message::ToFront;
use crate::exchange::test_front::{TestFront, head, pair, request, tunnel};

/// Longest wait for a datagram.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Runs a test on a thread of handlers.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.unwrap(), test);
}

/// Returns settings that allow every port of this host.
fn settings() -> ConnectUdp {
    ConnectUdp {
        targets: vec![UdpTarget {
            host: UdpHost::Network("127.0.0.0/8".parse().unwrap()),
            port: None,
        }],
        idle_timeout: Duration::from_secs(120),
        max_tunnels: 2,
    }
}

/// Begins a request for a path below the route.
fn ask(
    tunnels: &Rc<UdpTunnels>,
    settings: &ConnectUdp,
    rest: &str,
    head: RequestHead,
    credit: u64,
) -> (TestFront, JoinHandle<()>) {
    let (incoming, front) = pair(request(head, None, true), credit);
    let (tunnels, settings) = (Rc::clone(tunnels), settings.clone());
    let rest = rest.to_owned();
    let task = spawn_local(async move {
        let pages = ErrorPages::default();
        serve(&tunnels, (&settings, &pages), &rest, incoming).await;
    });
    (front, task)
}

/// Opens a tunnel to a target.
async fn open(
    tunnels: &Rc<UdpTunnels>,
    settings: &ConnectUdp,
    target: SocketAddr,
    credit: u64,
) -> (TestFront, JoinHandle<()>) {
    let rest = format!("{}/{}/", target.ip(), target.port());
    let asked = ask(tunnels, settings, &rest, udp(), credit);
    let ToFront::Head(head) = asked.0.next().await else {
        panic!("no head");
    };
    assert_eq!((head.status, head.fields.as_slice()), (200, &[CAPSULE_PROTOCOL][..]));
    asked
}

fn udp() -> RequestHead {
    tunnel(Some("connect-udp"))
}

async fn target() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Receives a datagram.
async fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut bytes = vec![0; LARGEST];
    let received = timeout(WAIT_LIMIT, socket.recv_from(&mut bytes)).await;
    let (count, from) = received.unwrap().unwrap();
    bytes.truncate(count);
    (bytes, from)
}

#[test]
fn datagrams_pass_both_ways_until_the_client_ends_the_tunnel() {
    run(async {
        let tunnels = Rc::<UdpTunnels>::default();
        let (target, address) = target().await;
        let (front, task) = open(&tunnels, &settings(), address, 1 << 20).await;
        // A capsule in pieces, with one behind it, and an empty datagram.
        front.data(b"\x00\x04\x00o");
        front.data(b"ne\x00\x01\x00");
        let (bytes, client) = receive(&target).await;
        assert_eq!(bytes, b"one");
        assert_eq!(receive(&target).await.0, b"");
        target.send_to(b"two", client).await.unwrap();
        assert!(matches!(front.next().await, ToFront::Credit(_) | ToFront::Data(_)));
        let received = loop {
            match front.try_next() {
                Some(ToFront::Data(block)) => break block,
                Some(_) => {}
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!(received, b"\x00\x04\x00two"[..]);
        // Nobody else reaches the client.
        let (stranger, _) = self::target().await;
        stranger.send_to(b"forged", client).await.unwrap();
        assert_eq!(tunnels.counters().open, 1);
        front.end(None);
        assert!(front.response().await.complete);
        task.await.unwrap();
        let counters = tunnels.counters();
        assert_eq!((counters.open, counters.opened), (0, 1));
        assert_eq!((counters.to_targets, counters.to_clients), (2, 1));
    });
}

#[test]
fn requests_that_get_no_tunnel_have_their_status() {
    run(async {
        let tunnels = Rc::<UdpTunnels>::default();
        let (_target, address) = target().await;
        let allowed = format!("127.0.0.1/{}/", address.port());
        let websocket = tunnel(Some("websocket"));
        for (rest, head, status, refusal) in [
            (&*allowed, head("GET", "/", &[]), 405, TunnelRefusal::Method),
            (&allowed, websocket, 405, TunnelRefusal::Method),
            ("127.0.0.1/0/", udp(), 400, TunnelRefusal::Malformed),
            ("", udp(), 400, TunnelRefusal::Malformed),
            ("192.0.2.1/53/", udp(), 403, TunnelRefusal::Denied),
            ("localhost/53/", udp(), 403, TunnelRefusal::Denied),
        ] {
            let (front, task) = ask(&tunnels, &settings(), rest, head, 1 << 20);
            let received = front.response().await;
            assert_eq!(received.head.unwrap().status, status, "{rest}");
            assert!(received.complete);
            task.await.unwrap();
            assert!(tunnels.counters().refused[refusal] > 0);
        }
        let full = ConnectUdp { max_tunnels: 4, ..settings() };
        let _open = [
            open(&tunnels, &full, address, 1 << 20).await,
            open(&tunnels, &full, address, 1 << 20).await,
        ];
        let (front, _task) = ask(&tunnels, &full, &allowed, udp(), 1 << 20);
        let received = front.response().await;
        assert_eq!(received.head.unwrap().status, 503);
        assert_eq!(received.report.cause, Some("no_room"));
        assert_eq!(tunnels.counters().open, 2);
    });
}

#[test]
fn a_tunnel_that_breaks_or_is_cancelled_frees_its_place() {
    run(async {
        let tunnels = Rc::<UdpTunnels>::default();
        let (_target, address) = target().await;
        let (front, task) = open(&tunnels, &settings(), address, 1 << 20).await;
        front.data(b"\x00\x80\x01\x00\x08");
        let received = front.response().await;
        assert!(!received.complete);
        assert_eq!(received.report.cause, Some("capsule"));
        task.await.unwrap();
        assert_eq!(tunnels.counters().malformed, 1);
        let (front, task) = open(&tunnels, &settings(), address, 1 << 20).await;
        front.cancel();
        task.await.unwrap();
        let (_front, task) = open(&tunnels, &settings(), address, 1 << 20).await;
        task.abort();
        assert!(task.await.is_err());
        assert_eq!(tunnels.counters().open, 0);
    });
}

/// Sends a capsule over and over until the tunnel has taken this many bytes, or has ended. Returns whether it is open.
async fn flood(front: &TestFront, task: &JoinHandle<()>, capsule: &[u8], bytes: u64) -> bool {
    let block: &'static [u8] = capsule.repeat(1000).leak();
    let mut sent = 0;
    while sent < bytes && !task.is_finished() {
        front.data(block);
        sent += block.len() as u64;
        while let Some(message) = front.try_next() {
            drop(message);
        }
        tokio::task::yield_now().await;
    }
    !task.is_finished()
}

#[test]
fn capsules_without_payload_reset_their_tunnel_and_small_datagrams_do_not() {
    run(async {
        let tunnels = Rc::<UdpTunnels>::default();
        let (_target, address) = target().await;
        // Empty datagrams, unknown capsules and unknown contexts.
        for capsule in [&b"\x00\x01\x00"[..], b"\x17\x00", b"\x00\x02\x01x"] {
            let (front, task) = open(&tunnels, &settings(), address, 1 << 20).await;
            assert!(!flood(&front, &task, capsule, 8 * FREE_OVERHEAD).await);
            task.await.unwrap();
        }
        assert_eq!(tunnels.counters().malformed, 3);
        let (front, task) = open(&tunnels, &settings(), address, 1 << 20).await;
        assert!(flood(&front, &task, b"\x00\x02\x00x", 2 * FREE_OVERHEAD).await);
        // What is left of the allowance is for those without payload.
        assert!(flood(&front, &task, b"\x17\x00", FREE_OVERHEAD / 2).await);
        front.end(None);
        task.await.unwrap();
        assert_eq!(tunnels.counters().malformed, 3);
    });
}

#[test]
fn an_idle_tunnel_ends_after_its_timeout_and_never_before() {
    run(async {
        let tunnels = Rc::<UdpTunnels>::default();
        let (target, address) = target().await;
        let (front, task) = open(&tunnels, &settings(), address, 1 << 20).await;
        for _ in 0..3 {
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(119)).await;
            tokio::time::resume();
            front.data(b"\x00\x02\x00x");
            receive(&target).await;
        }
        assert_eq!(tunnels.counters().open, 1);
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(121)).await;
        assert!(front.response().await.complete);
        task.await.unwrap();
        assert_eq!(tunnels.counters().open, 0);
    });
}

#[test]
fn a_target_that_floods_takes_no_more_memory_than_the_client_has_credit_for() {
    run(async {
        let tunnels = Rc::<UdpTunnels>::default();
        let (target, address) = target().await;
        let (front, task) = open(&tunnels, &settings(), address, 10_000).await;
        front.data(b"\x00\x02\x00x");
        let (_, client) = receive(&target).await;
        for _ in 0..2000 {
            target.send_to(&[7; 1000], client).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut blocks = 0;
        while let Some(message) = front.try_next() {
            blocks += usize::from(matches!(message, ToFront::Data(_)));
        }
        assert!((1..12).contains(&blocks), "{blocks}");
        task.abort();
    });
}
