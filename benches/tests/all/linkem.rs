//! Real traffic over the emulated link: UDP and the kernel's TCP between two network namespaces, and UDP through the relay.
//!
//! Times have lower bounds only, because a busy machine may delay anything.
#![expect(clippy::disallowed_methods, reason = "the tests measure time on real sockets")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_benches::linkem::{CLIENT, Emulator, End, Group, Link, Network, SERVER, relay};
use sluicegate_benches::real_net::{Incident, Pair, Sender, coexist};
use sluicegate_benches::unfixed_cubic::UNFIXED_CUBIC;
use sluicegate_dataplane::requirements::skip;
use sluicegate_sim::Bottleneck;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Bound for what must happen at all.
const LONG: Duration = Duration::from_secs(60);

/// Runs the tests below in a user namespace, where whoever runs them may make network namespaces.
#[test]
fn in_a_user_namespace() {
    let trial = "test -w /dev/net/tun && unshare -n ip link set lo up";
    let possible = Command::new("unshare").args(["-r", "sh", "-c", trial]).output();
    if !possible.as_ref().is_ok_and(|output| output.status.success()) {
        let cause = format_args!("no network namespaces and TUN devices here: {possible:?}");
        return skip("namespace", &cause);
    }
    let output = Command::new("unshare")
        .arg("-r")
        .arg(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--test-threads", "1", "linkem::joined::"])
        .output()
        .expect("unshare");
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    assert!(text.contains("6 passed"));
}

/// Returns the socket of a server that returns each datagram, until one is empty.
fn echo(address: (Ipv4Addr, u16)) -> (SocketAddr, thread::JoinHandle<()>) {
    let socket = UdpSocket::bind(address).expect("bound");
    let address = socket.local_addr().expect("an address");
    let server = thread::spawn(move || {
        let mut buffer = [0; 2_000];
        loop {
            let (length, client) = socket.recv_from(&mut buffer).expect("a datagram");
            if length == 0 {
                return;
            }
            socket.send_to(&buffer[..length], client).expect("sent");
        }
    });
    (address, server)
}

/// Sends ten datagrams one after the other and returns the shortest round trip. All come back whole.
fn round_trip(server: SocketAddr, client: Ipv4Addr) -> Duration {
    let socket = UdpSocket::bind((client, 0)).expect("bound");
    socket.connect(server).expect("connected");
    socket.set_read_timeout(Some(LONG)).expect("set");
    let mut buffer = [0; 2_000];
    let trips = (0..10u8).map(|number| {
        let sent = vec![number; 1_000];
        let start = Instant::now();
        socket.send(&sent).expect("sent");
        let length = socket.recv(&mut buffer).expect("returned");
        assert_eq!(buffer[..length], sent);
        start.elapsed()
    });
    let shortest = trips.min().expect("ten");
    socket.send(&[]).expect("sent");
    shortest
}

#[test]
fn relay_passes_datagrams_with_the_delay() {
    let (server, echoing) = echo((Ipv4Addr::LOCALHOST, 0));
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let (listener, upstream) = relay(listen, server).expect("a relay");
    let address = listener.local_addr().expect("an address");
    let path = Bottleneck::unlimited(15 * MS);
    let emulator =
        Emulator::start(Link::new(&path, &path, 1), Box::new(listener), Box::new(upstream));
    let emulator = emulator.expect("a thread");
    assert!(round_trip(address, Ipv4Addr::LOCALHOST) >= 30 * MS);
    echoing.join().expect("ends");
    let ended = emulator.stop().expect("carried");
    assert_eq!(ended.link.towards(End::Server).tally().delivered, 11);
    let down = ended.link.towards(End::Client).tally();
    assert_eq!((down.delivered, down.delivered_bytes), (10, 10_000));
}

/// Tests of the link between two namespaces.
mod joined {
    use super::*;

    fn network(down: &Bottleneck, up: &Bottleneck) -> (Network, Emulator) {
        let mut network = Network::new().expect("namespaces");
        let emulator = network.join(Link::new(down, up, 1)).expect("a thread");
        (network, emulator)
    }

    #[test]
    #[ignore = "run by in_a_user_namespace"]
    fn round_trip_is_never_shorter_than_both_delays() {
        let path = |ms| Bottleneck::unlimited(ms * MS);
        let (network, emulator) = network(&path(20), &path(5));
        let (server, echoing) = network.server.within(|| echo((SERVER, 0))).expect("enter");
        let shortest = network.client.within(|| round_trip(server, CLIENT));
        assert!(shortest.expect("enter") >= 25 * MS);
        echoing.join().expect("ends");
        let ended = emulator.stop().expect("carried");
        let up = ended.link.towards(End::Server).tally();
        // Headers of IP and UDP are part of a packet.
        assert_eq!((up.delivered, up.delivered_bytes), (11, 10 * 1_028 + 28));
        assert_eq!(ended.refused, 0);
    }

    #[test]
    #[ignore = "run by in_a_user_namespace"]
    fn tcp_transfer_is_whole_and_no_faster_than_the_rate() {
        const BYTES: usize = 1_000_000;
        let path = Bottleneck::new(20_000_000, 20 * MS, 1.0);
        let back = Bottleneck::unlimited(10 * MS);
        let (network, emulator) = network(&path, &back);
        let sent: Vec<u8> = (0..=250).cycle().take(BYTES).collect();
        let listener = network.server.within(|| TcpListener::bind((SERVER, 0)));
        let listener = listener.expect("enter").expect("bound");
        let address = listener.local_addr().expect("an address");
        let mut received = Vec::new();
        let time = thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("a client");
                stream.write_all(&sent).expect("sent");
            });
            let client = network.client.within(|| TcpStream::connect(address));
            let mut stream = client.expect("enter").expect("connected");
            let start = Instant::now();
            stream.read_to_end(&mut received).expect("received");
            start.elapsed()
        });
        assert!(received == sent, "{} bytes", received.len());
        // The queue may be full before the client's clock starts.
        let queued = path.queue_bytes as f64;
        let at_rate = (BYTES as f64 - queued) * 8.0 / 20e6;
        assert!(time.as_secs_f64() >= at_rate, "{time:?}");
        let ended = emulator.stop().expect("carried");
        let down = ended.link.towards(End::Client).tally();
        assert!(down.rate() <= 1.01 * 20e6, "{}", down.rate());
        assert!(down.delivered_bytes >= BYTES as u64);
    }

    #[test]
    #[ignore = "run by in_a_user_namespace"]
    fn two_flows_share_no_more_than_the_rate() {
        let pair = Pair {
            rate: 20_000_000,
            rtt: 20 * MS,
            queue_bdp: 1.0,
            judged: Sender::Kernel("reno"),
            beside: "reno",
            length: 2 * SECOND,
        };
        let shared = coexist::run(&pair, Path::new("unused"), 0).expect("runs");
        let both = shared.judged + shared.beside;
        assert!(0.0 < both && both <= 1.01 * 20e6, "{both}");
        let down = shared.ended.link.towards(End::Client).tally();
        assert_eq!(down.flows.len(), 2);
    }

    #[test]
    #[ignore = "run by in_a_user_namespace"]
    fn lost_packets_do_not_arrive() {
        let lossy = Bottleneck {
            loss: vec![sluicegate_sim::LossWindow::always(1.0)],
            ..Bottleneck::unlimited(MS)
        };
        let (network, emulator) = network(&lossy, &Bottleneck::unlimited(MS));
        let (server, echoing) = network.server.within(|| echo((SERVER, 0))).expect("enter");
        let client = network.client.within(|| {
            let socket = UdpSocket::bind((CLIENT, 0)).expect("bound");
            socket.connect(server).expect("connected");
            socket
        });
        let client = client.expect("enter");
        client.send(&[1; 100]).expect("sent");
        client.send(&[]).expect("sent");
        echoing.join().expect("both arrived");
        client.set_read_timeout(Some(50 * MS)).expect("set");
        assert!(client.recv(&mut [0; 100]).is_err());
        let ended = emulator.stop().expect("carried");
        assert_eq!(ended.link.towards(End::Client).dropped(), 1);
    }

    #[test]
    #[ignore = "run by in_a_user_namespace"]
    fn network_is_alone_with_its_two_ends_and_sees_servers_start() {
        let wire = Bottleneck::unlimited(Duration::ZERO);
        let (network, emulator) = network(&wire, &wire);
        assert!(!network.await_server(4433, MS).expect("enter"));
        let bound = network.server.within(|| UdpSocket::bind((SERVER, 4433)));
        let _bound = bound.expect("enter").expect("bound");
        assert!(network.await_server(4433, SECOND).expect("enter"));
        // A second network has the same addresses and does not notice the first.
        let other = Network::new().expect("namespaces");
        assert!(!other.await_server(4433, MS).expect("enter"));
        assert_eq!(network.overflow().expect("counters"), 0);
        drop(emulator);
        let shown = network.client.within(|| {
            let mut command = Command::new("sh");
            command.args(["-c", "! ip link show dev linkem 2>&1"]);
            Group::start(&mut command)
        });
        let gone = shown.expect("enter").expect("sh");
        let status = gone.wait(LONG, || false).expect("waits");
        assert!(status.is_some_and(|status| status.success()));
    }

    /// The product with the algorithm of the incident: the commands name a window that is stuck.
    #[test]
    #[ignore = "run by in_a_user_namespace"]
    fn commands_and_flight_recorder_name_a_window_that_is_stuck() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = Path::new(env!("CARGO_BIN_EXE_unfixed"));
        // Three in five downloads get stuck.
        let stuck = (0..10).find_map(|seed: u64| {
            let folder = folder.path().join(seed.to_string());
            let algorithm = UNFIXED_CUBIC.name;
            let incident = Incident { program, algorithm, seed, core: 0, folder: &folder };
            incident.watch().expect("a network and a server")
        });
        let named = stuck.expect("a download that gets stuck");
        for part in ["the window stays at its floor", "at its floor; cubic-unfixed in state"] {
            assert!(named.story.contains(part), "{part} is missing in\n{}", named.story);
        }
        let pinned = "because the window stayed at its floor although data waited";
        assert!(named.summary.contains("pinned at the floor, from"), "{}", named.summary);
        assert!(named.summary.contains(pinned), "{}", named.summary);
    }
}
