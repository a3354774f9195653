use std::net::SocketAddr;

use sluicegate_base::entropy::Entropy;
use sluicegate_dataplane::memory::Memory;
use sluicegate_dataplane::{Budget, Ecn, ListenerId, RxMeta, TxMeta, memory};
use sluicegate_quic::cid::CidSchemes;

use super::super::mailbox::mailbox;
use super::super::misrouted::misrouted;
use super::*;
use crate::snapshot::plain_settings;

const FAR: &str = "192.0.2.1:5000";
const NEAR: &str = "192.0.2.2:443";

/// A worker of a group of two, its neighbour's ends, and a client.
struct Rig {
    worker: Worker,
    neighbour: Misrouted,
    own: MailboxSender,
    client: Memory,
    generation: u8,
}

impl Rig {
    fn new() -> Rig {
        let [far, near] = [FAR, NEAR].map(|a| a.parse().unwrap());
        let (client, server) = memory::pair(far, near);
        let settings = plain_settings(0, 2);
        let generation = settings.secrets.generation();
        let ((own, inbox), (other, _)) = (mailbox(), mailbox());
        let mut ends = misrouted(2);
        let neighbour = ends.pop().unwrap();
        let worker = Worker::new(
            Driver::Memory(server),
            Endpoint::new(settings, clock::now()),
            inbox,
            Arc::new(vec![own.clone(), other]),
            ends.pop().unwrap(),
            Polling::default(),
            true,
        );
        Rig { worker, neighbour, own, client, generation }
    }

    /// Returns a short header of an unknown connection of `worker`.
    fn packet(&self, worker: u8) -> Vec<u8> {
        let mut packet = vec![0x40; 100];
        let mut scheme = CidSchemes::plain().scheme();
        let cid = scheme.generate(worker, self.generation, &mut Entropy::new());
        packet[1..=scheme.cid_len()].copy_from_slice(cid.as_bytes());
        packet
    }

    /// Sends a packet of the neighbour's connection to the worker.
    fn send_misrouted(&mut self) {
        let packet = self.packet(1);
        self.send(&packet, NEAR.parse().unwrap());
    }

    /// Sends a packet of the client.
    fn send(&mut self, packet: &[u8], peer: SocketAddr) {
        let meta = TxMeta { peer, local: None, ecn: Ecn::NotCapable, departure: None };
        let sent = self.client.transmit(Budget::UNLIMITED, |out| {
            let room = out.room(ListenerId(0), packet.len()).unwrap();
            room.copy_from_slice(packet);
            out.commit(packet.len(), &meta);
        });
        sent.unwrap();
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.worker.endpoint.counters.dropped[reason]
    }
}

fn meta() -> RxMeta {
    let address: SocketAddr = NEAR.parse().unwrap();
    RxMeta { listener: ListenerId(0), peer: address, local: address, ecn: Ecn::NotCapable }
}

#[test]
fn a_misrouted_datagram_reaches_the_worker_of_its_connection() {
    let mut rig = Rig::new();
    rig.send_misrouted();
    rig.worker.receive(clock::now()).unwrap();
    assert_eq!(rig.worker.endpoint.counters.misrouted, 1);
    let mut seen = Vec::new();
    rig.neighbour.receive(9, |_, datagram| seen.push(datagram.to_vec()));
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].len(), seen[0][1]), (100, 1));
}

#[test]
fn a_misrouted_datagram_that_a_full_ring_refuses_is_counted() {
    let mut rig = Rig::new();
    for _ in 0..2000 {
        rig.send_misrouted();
        rig.worker.receive(clock::now()).unwrap();
    }
    let refused = rig.dropped(DropReason::MisroutedFull);
    assert!((1..2000).contains(&refused), "{refused}");
    assert_eq!(rig.worker.endpoint.counters.misrouted, 2000);
}

#[test]
fn commands_pass_a_flood_of_misrouted_datagrams() {
    let mut rig = Rig::new();
    let packet = rig.packet(0);
    while rig.neighbour.send(0, &meta(), &packet) {}
    assert!(rig.own.send(Command::Stop));
    rig.worker.turn().unwrap();
    assert!(rig.worker.stopping);
    // Within the budget of a turn, and each is handed over once.
    let taken = rig.dropped(DropReason::UnknownConnection);
    assert_eq!(taken, MISROUTED_BUDGET as u64);
}

/// Returns a client that has asked nothing yet.
fn client() -> quiche::Connection {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    let protocols = quiche::h3::APPLICATION_PROTOCOL;
    config.set_application_protos(protocols).unwrap();
    config.verify_peer(false);
    // For HTTP/3's control stream and QPACK's two.
    config.set_initial_max_streams_uni(3);
    config.set_initial_max_stream_data_uni(1024);
    config.set_initial_max_data(4096);
    let [far, near] = [FAR, NEAR].map(|a| a.parse().unwrap());
    let id = quiche::ConnectionId::from_ref(&[7; 16]);
    quiche::connect(None, &id, far, near, &mut config).unwrap()
}

#[test]
fn a_connection_searches_below_the_size_of_a_datagram_that_the_host_refuses() {
    let mut rig = Rig::new();
    let Driver::Memory(driver) = &mut rig.worker.driver else {
        panic!("another driver");
    };
    driver.limit_datagrams(1300);
    let mut client = client();
    let mut largest = 0;
    let mut packet = [0; 1500];
    for _ in 0..2000 {
        // Pacing holds probes back.
        std::thread::park_timeout(Duration::from_millis(1));
        while let Ok((len, info)) = client.send(&mut packet) {
            rig.send(&packet[..len], info.to);
        }
        rig.worker.turn().unwrap();
        let received = rig.client.receive(Budget::UNLIMITED, |meta, datagram| {
            largest = largest.max(datagram.len());
            let info = quiche::RecvInfo { from: meta.peer, to: meta.local };
            client.recv(datagram, info).unwrap();
        });
        received.unwrap();
        if largest == 1300 {
            break;
        }
    }
    assert_eq!(largest, 1300);
    // 1472, 1336 and 1302 bytes, each once: a probe that only gets lost is repeated twice.
    assert_eq!(rig.worker.driver.counters().tx_errors, 3);
}

#[test]
fn a_turn_receives_no_more_than_its_budget() {
    let mut rig = Rig::new();
    for _ in 0..2048 {
        rig.send_misrouted();
    }
    rig.worker.turn().unwrap();
    let received = rig.worker.driver.counters().rx_datagrams;
    assert_eq!(received, RECEIVE_BUDGET.datagrams as u64);
}

#[test]
fn packets_are_stamped_when_the_phases_before_emission_are_over() {
    let mut rig = Rig::new();
    let packet = rig.packet(0);
    while rig.neighbour.send(0, &meta(), &packet) {}
    let began = clock::now();
    rig.worker.turn().unwrap();
    let times = &rig.worker.times;
    let before = [&times.receive, &times.timers, &times.mailbox, &times.origin, &times.service];
    let before: Duration = before.iter().map(|phase| phase.sum()).sum();
    assert!(quiche::clock::now() >= began + before);
}

#[test]
fn a_flood_of_unknown_versions_gets_an_eighth_of_a_turns_datagrams() {
    let mut rig = Rig::new();
    let mut packet = vec![0; 1200];
    packet[..6].copy_from_slice(&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8]);
    for _ in 0..1000 {
        rig.worker.endpoint.ingest(&meta(), &mut packet, clock::now(), Duration::ZERO);
    }
    rig.worker.turn().unwrap();
    let sent = rig.worker.driver.counters().tx_datagrams + rig.worker.driver.counters().tx_errors;
    assert_eq!(sent * 8, TRANSMIT_BUDGET.datagrams as u64);
}
