//! A balancer with sockets, in front of servers that a test plays.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use sluicegate_base::clock;
use sluicegate_cid::{Lengths, QuicLb, SelfLength};

use super::*;
use crate::counters::Counters;
use crate::settings::{HealthSettings, ServerSettings};
use crate::socket::ReceivedBatch;

const LENGTHS: Lengths = Lengths { server_id: 2, nonce: 4 };
/// Wait for a datagram that must come.
const LIMIT: Duration = Duration::from_secs(60);

/// A balancer on a thread, with the handles of its signals.
struct Running {
    address: SocketAddr,
    thread: JoinHandle<(Counters, usize)>,
    stop: UnixStream,
    reload: UnixStream,
    /// Notes that a reload has been applied.
    reloaded: Receiver<()>,
}

impl Running {
    fn start(
        listen: &str,
        settings: BalancerSettings,
        mut later: Vec<BalancerSettings>,
    ) -> Running {
        let listen = [listen.parse().unwrap()];
        let (stop, stopping) = UnixStream::pair().unwrap();
        let (reload, reloading) = UnixStream::pair().unwrap();
        let ((send_address, address), (note, reloaded)) = (channel(), channel());
        let thread = std::thread::spawn(move || {
            let signals = Signals { stop: stopping, reload: reloading };
            let mut process = Process::open(&listen, settings, &signals, clock::now()).unwrap();
            send_address.send(process.listeners[0].local).unwrap();
            let reload = || {
                note.send(()).unwrap();
                later.pop()
            };
            process.turns(&signals, clock::now, reload).unwrap();
            (*process.balancer.counters(), process.balancer.flows())
        });
        Running { address: address.recv().unwrap(), thread, stop, reload, reloaded }
    }

    fn reload(&mut self) {
        self.reload.write_all(b"x").unwrap();
        self.reloaded.recv().unwrap();
    }

    fn end(mut self) -> (Counters, usize) {
        self.stop.write_all(b"x").unwrap();
        self.thread.join().unwrap()
    }
}

fn socket(at: &str) -> UdpSocket {
    let socket = UdpSocket::bind(at).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

fn settings(servers: &[&UdpSocket]) -> BalancerSettings {
    let ids = vec![QuicLb::new(0, LENGTHS, None).unwrap()];
    let (second, one) = (Duration::from_secs(1), 1);
    let health = HealthSettings { interval: second, timeout: second, rises: one, falls: one };
    let servers = (0..).zip(servers).map(|(number, server)| ServerSettings {
        name: number.to_string(),
        address: server.local_addr().unwrap(),
        ids: vec![vec![0, number]],
        health: None,
        drain: false,
    });
    BalancerSettings {
        servers: servers.collect(),
        ids,
        idle_timeout: LIMIT,
        max_flows: 800,
        new_flows_per_second: 100,
        health,
    }
}

/// Returns a datagram to a server.
fn to(server: u8, text: &str) -> Vec<u8> {
    let mut datagram = vec![0x41; 8];
    let mut format = QuicLb::new(0, LENGTHS, None).unwrap();
    let id = &mut datagram[1..];
    format.encode(SelfLength::Of(7), &[0, server], &[9; 4], id).unwrap();
    datagram.extend(text.as_bytes());
    datagram
}

/// Returns the next datagram, and who has sent it.
fn next(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut room = [0; 2048];
    let (length, from) = socket.recv_from(&mut room).unwrap();
    (room[..length].to_vec(), from)
}

#[test]
fn datagrams_pass_in_both_directions_over_both_families() {
    for (listen, client_at, server_at) in [
        ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"),
        ("[::1]:0", "[::1]:0", "127.0.0.1:0"),
        ("0.0.0.0:0", "127.0.0.1:0", "[::1]:0"),
    ] {
        let servers = [socket(server_at), socket(server_at)];
        let running = Running::start(listen, settings(&[&servers[0], &servers[1]]), Vec::new());
        let client = socket(client_at);
        let ip = client.local_addr().unwrap().ip();
        let balancer = SocketAddr::new(ip, running.address.port());
        for (number, server) in (0..).zip(&servers) {
            client.send_to(&to(number, "asks"), balancer).unwrap();
            let (received, flow) = next(server);
            assert_eq!(received, to(number, "asks"));
            server.send_to(b"responds", flow).unwrap();
            // From the address that the client has sent to.
            assert_eq!(next(&client), (b"responds".to_vec(), balancer));
        }
        let (counters, flows) = running.end();
        assert_eq!((counters.by_id, counters.from_servers, flows), (2, 2, 2));
    }
}

#[test]
fn a_batch_goes_to_the_servers_of_its_datagrams_in_order() {
    let servers = [socket("127.0.0.1:0"), socket("127.0.0.1:0")];
    let running = Running::start("127.0.0.1:0", settings(&[&servers[0], &servers[1]]), Vec::new());
    let mut client = DatagramSocket::connect(running.address).unwrap();
    let order = [0, 0, 1, 1, 1, 0, 1];
    let datagrams = (10..).zip(order).map(|(number, server)| to(server, &number.to_string()));
    let bytes: Vec<u8> = datagrams.flatten().collect();
    let size = to(0, "10").len();
    let received =
        ReceivedBatch { bytes: &bytes, size, ecn: None, peer: running.address, local: None };
    client.send(&received, Way { to: running.address, from: None }, &mut Counters::default());
    for (number, server) in (10..).zip(order) {
        let (received, _) = next(&servers[usize::from(server)]);
        assert_eq!(received, to(server, &number.to_string()));
    }
    assert_eq!(running.end().0.opened, 2);
}

#[test]
fn a_server_whose_port_is_closed_for_a_while_ends_nothing() {
    let server = socket("127.0.0.1:0");
    let running = Running::start("127.0.0.1:0", settings(&[&server]), Vec::new());
    let client = socket("127.0.0.1:0");
    client.send_to(&to(0, "one"), running.address).unwrap();
    let (_, flow) = next(&server);
    let address = server.local_addr().unwrap();
    drop(server);
    for _ in 0..3 {
        client.send_to(&to(0, "lost"), running.address).unwrap();
    }
    let server = socket(&address.to_string());
    client.send_to(&to(0, "two"), running.address).unwrap();
    loop {
        let (received, from) = next(&server);
        assert_eq!(from, flow);
        if received == to(0, "two") {
            break;
        }
    }
    assert_eq!(running.end().1, 1);
}

#[test]
fn a_reload_takes_effect_and_one_that_is_refused_changes_nothing() {
    let (server, other) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
    let new = settings(&[&other]);
    let mut running = Running::start("127.0.0.1:0", settings(&[&server]), vec![new]);
    let client = socket("127.0.0.1:0");
    client.send_to(&to(0, "one"), running.address).unwrap();
    assert_eq!(next(&server).0, to(0, "one"));
    running.reload();
    client.send_to(&to(0, "two"), running.address).unwrap();
    assert_eq!(next(&other).0, to(0, "two"));
    running.reload();
    client.send_to(&to(0, "three"), running.address).unwrap();
    assert_eq!(next(&other).0, to(0, "three"));
    assert_eq!(running.end().1, 2);
}

#[test]
fn what_nobody_could_answer_is_dropped_and_counted() {
    let server = socket("127.0.0.1:0");
    let (signals, now) = (UnixStream::pair().unwrap(), clock::now());
    let signals = Signals { stop: signals.0, reload: signals.1 };
    let listen = ["127.0.0.1:0".parse().unwrap()];
    let mut process = Process::open(&listen, settings(&[&server]), &signals, now).unwrap();
    let client: SocketAddr = "127.0.0.1:1000".parse().unwrap();
    let (without_port, local) = ("127.0.0.1:0".parse().unwrap(), process.listeners[0].local);
    let (to_all, to_some) = ((Ipv4Addr::BROADCAST, 443).into(), "[ff02::1]:443".parse().unwrap());
    for (client, local) in [(without_port, local), (client, to_all), (client, to_some)] {
        let Process { balancer, flows, poller, is_warned, .. } = &mut process;
        let mut forwarder =
            Forwarder { balancer, flows, poller, listener: 0, is_warned, now, run: None };
        let bytes = to(0, "x");
        let (size, ecn) = (bytes.len() - 1, None);
        let received = ReceivedBatch { bytes: &bytes, size, ecn, peer: client, local: None };
        forwarder.forward(&received, Tuple { client, local });
    }
    assert_eq!((process.balancer.counters().unanswerable, process.balancer.flows()), (6, 0));
}

#[test]
fn new_clients_go_to_the_servers_that_can_be_connected_to() {
    let servers = [socket("127.0.0.1:0"), socket("127.0.0.1:0")];
    let lives = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = settings(&[&servers[0], &servers[1]]);
    settings.health.interval = Duration::from_millis(10);
    settings.servers[0].health = Some(lives.local_addr().unwrap());
    // Nothing listens at a port that has been given back.
    let ended = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    settings.servers[1].health = Some(ended);
    let running = Running::start("127.0.0.1:0", settings, Vec::new());
    // A check of both has begun after this one of the first.
    for _ in 0..3 {
        lives.accept().unwrap();
    }
    let foreign = [&[0xc1, 0, 0, 0, 1, 8], &[0xff; 40][..]].concat();
    for _ in 0..20 {
        socket("127.0.0.1:0").send_to(&foreign, running.address).unwrap();
        assert_eq!(next(&servers[0]).0, foreign);
    }
    assert_eq!(running.end().0.by_hash, 20);
}
