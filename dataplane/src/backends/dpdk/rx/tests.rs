//! Frames of the slow path through a port that returns what it sends.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use sluicegate_dpdk::{Batch, Device, Eal, EalOptions, Port, PortOptions};
use sluicegate_frames::{MacAddr, PortConfig};

use super::*;
use crate::backends::dpdk::driver::now;
use crate::backends::dpdk::shared::Shared;
use crate::event::{Event, Quote};
use crate::meta::ListenerId;

const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const LISTENER: ListenerId = ListenerId(3);
const BUFFERS: u32 = 1023;

/// Returns the first worker of a port.
fn core(name: &str) -> Core {
    let options = EalOptions { memory: 64, hugepages: false, pci: Vec::new() };
    // The environment ends with its last handle, for good.
    static EAL: OnceLock<Eal> = OnceLock::new();
    let eal = EAL.get_or_init(|| Eal::start(&options).unwrap());
    let options = PortOptions {
        devices: vec![Device::Virtual {
            name: format!("net_ring_{name}"),
            arguments: String::new(),
        }],
        xdp: None,
        queues: 1,
        rx_descriptors: 64,
        tx_descriptors: 64,
        buffers: BUFFERS,
        kept: 0,
        room: 2048,
        mtu: None,
        multicast: false,
    };
    let (_, mut queues) = Port::open(eal, &options).unwrap();
    let config = PortConfig {
        mac: MacAddr(OWN_MAC),
        vlan: None,
        mtu: 1500,
        addresses: vec![(IpAddr::V4(OWN), 24)],
        gateways: Vec::new(),
        neighbors: Vec::new(),
        scope_id: 1,
    };
    let listeners = vec![(LISTENER, SocketAddr::new(OWN.into(), 443))];
    let shared = Shared::new(config, None, listeners, false, None, now());
    let mut core = Core::new(queues.remove(0).open().unwrap(), Arc::new(shared), 0, now());
    // What announces the port.
    core.housekeep(now());
    sent(&mut core);
    core
}

/// Returns a question of the host for the port's Ethernet address.
fn arp_request() -> Vec<u8> {
    let mut frame = [[0xff; 6], HOST_MAC].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(HOST_MAC);
    frame.extend(HOST.octets());
    frame.extend([0; 6]);
    frame.extend(OWN.octets());
    frame
}

fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks_exact(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (!u16::try_from(folded).unwrap()).to_be_bytes()
}

/// Returns an ICMP message of the host without data.
fn icmp(kind: u8) -> Vec<u8> {
    icmp_with(&[kind, 0, 0, 0, 0, 1, 0, 1])
}

fn icmp_with(message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum);
    let len = u8::try_from(20 + message.len()).unwrap();
    let mut ip = vec![0x45, 0, 0, len, 0, 0, 0, 0, 64, 1, 0, 0];
    ip.extend(HOST.octets());
    ip.extend(OWN.octets());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum);
    [&OWN_MAC[..], &HOST_MAC, &[8, 0], &ip, &message].concat()
}

/// Has frames arrive at the port.
fn arrive<'a>(core: &mut Core, frames: impl IntoIterator<Item = &'a [u8]>) {
    for frame in frames {
        core.outgoing.copy(&mut core.queue, frame);
    }
    core.flush();
}

fn receive(core: &mut Core) {
    core.receive(Budget::UNLIMITED, now(), |meta, _| panic!("{meta:?}"));
}

/// Takes the EtherTypes of the frames that the port sent.
fn sent(core: &mut Core) -> Vec<[u8; 2]> {
    core.flush();
    let mut types = Vec::new();
    loop {
        let mut batch = Batch::default();
        core.queue.receive(&mut batch);
        if batch.is_empty() {
            return types;
        }
        while let Some(mut mbuf) = batch.pop() {
            types.push([mbuf.bytes()[12], mbuf.bytes()[13]]);
        }
    }
}

fn dropped(core: &Core, reason: &str) -> u64 {
    let mut counts = core.frames.dropped();
    counts.find(|(name, _)| *name == reason).unwrap().1
}

const ARP: [u8; 2] = [8, 6];
const IPV4: [u8; 2] = [8, 0];

#[test]
fn a_flood_of_icmp_does_not_keep_a_neighbour_waiting() {
    let mut core = core("flood");
    let (echo, timestamp, arp) = (icmp(8), icmp(13), arp_request());
    let flood = [&echo, &timestamp].into_iter().cycle().take(80);
    arrive(&mut core, flood.chain([&arp]).map(Vec::as_slice));
    receive(&mut core);
    let replies = sent(&mut core);
    assert_eq!(replies.iter().filter(|kind| **kind == IPV4).count(), 16);
    assert_eq!(replies.iter().filter(|kind| **kind == ARP).count(), 1);
    assert_eq!(dropped(&core, "icmp_type"), 40);
    assert_eq!(dropped(&core, "slow_path_busy"), 40 - 16);
}

#[test]
fn neighbours_are_answered_once_the_stack_is_free() {
    let mut core = core("busy");
    let (arp, echo) = (arp_request(), icmp(8));
    let shared = Arc::clone(&core.shared);
    shared.stack().unwrap().while_in_use(|| {
        let frames = std::iter::repeat_n(&arp, KEPT + 3).chain([&echo]);
        arrive(&mut core, frames.map(Vec::as_slice));
        receive(&mut core);
        core.housekeep(now());
        assert_eq!(sent(&mut core), [[0; 2]; 0]);
    });
    assert_eq!(dropped(&core, "slow_path_busy"), 3 + 1);
    core.housekeep(now());
    assert_eq!(sent(&mut core), [ARP; KEPT]);
}

#[test]
fn neighbours_are_answered_once_there_are_buffers() {
    let mut core = core("buffers");
    arrive(&mut core, [arp_request().as_slice()]);
    let mut all: Vec<_> = std::iter::from_fn(|| core.queue.allocate()).collect();
    receive(&mut core);
    assert_eq!(dropped(&core, "slow_path_busy"), 0);
    all.truncate(100);
    core.housekeep(now());
    assert_eq!(sent(&mut core), [ARP]);
}

#[test]
fn a_report_of_a_packet_too_big_is_passed_on_with_what_it_quotes() {
    let mut core = core("too_big");
    let peer = SocketAddr::from(([198, 51, 100, 7], 5000));
    // "Fragmentation needed", the next hop's MTU, and a datagram of 1,472 bytes from `port`.
    let report = |port: u16| {
        let mut message = vec![3, 4, 0, 0, 0, 0, 5, 120];
        message.extend([0x45, 0, 5, 220, 0, 0, 0x40, 0, 60, 17, 0, 0]);
        message.extend(OWN.octets());
        message.extend([198, 51, 100, 7]);
        message.extend([port.to_be_bytes(), 5000_u16.to_be_bytes()].concat());
        message.extend([5, 200, 0, 0, 0x40, 1, 2, 3]);
        icmp_with(&message)
    };
    let (other, ours) = (report(444), report(443));
    arrive(&mut core, [other.as_slice(), &ours]);
    receive(&mut core);
    core.housekeep(now());
    let expected = Event::TooBigReport {
        listener: LISTENER,
        peer,
        size: 1472,
        quote: Quote::new(&[0x40, 1, 2, 3]),
    };
    assert_eq!(core.events.take(), Some(expected));
    assert_eq!(core.events.take(), None, "nobody listens at that port");
}
