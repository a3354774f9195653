//! Frames through a port that returns what it sends. Needs libdpdk and no rights.
#![cfg(feature = "libdpdk")]
#![expect(clippy::unwrap_used, reason = "what can't be set up fails the test")]

use std::sync::OnceLock;

use sluicegate_dpdk::{Batch, Checksum, Device, Eal, EalOptions, Mbuf, Port, PortOptions, Queue};

const BUFFERS: u32 = 1023;

fn options() -> EalOptions {
    EalOptions { memory: 64, hugepages: false, pci: Vec::new() }
}

/// Returns a handle of the environment, which ends with the last one.
fn eal() -> &'static Eal {
    static EAL: OnceLock<Eal> = OnceLock::new();
    EAL.get_or_init(|| Eal::start(&options()).unwrap())
}

fn open(name: &str) -> (Port, Queue) {
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
    let (port, mut queues) = Port::open(eal(), &options).unwrap();
    (port, queues.remove(0).open().unwrap())
}

fn frame(queue: &mut Queue, number: u8) -> Mbuf {
    let mut mbuf = queue.allocate().unwrap();
    assert_eq!(mbuf.bytes().len(), 2048);
    mbuf.bytes()[..60].fill(number);
    mbuf.truncate(60);
    mbuf.prepend(9);
    mbuf.bytes()[5..9].copy_from_slice(b"head");
    mbuf.skip(5);
    mbuf
}

#[test]
fn sent_frames_come_back_whole_and_in_order_and_all_buffers_return() {
    let (port, mut queue) = open("order");
    let (mut out, mut back) = (Batch::default(), Batch::default());
    for round in 0..50u8 {
        for number in 0..40 {
            let mbuf = frame(&mut queue, round ^ number);
            assert!(out.push(mbuf).is_none());
        }
        assert_eq!(queue.send(&mut out), 40);
        assert!(out.is_empty());
        queue.receive(&mut back);
        assert_eq!(back.len(), 40);
        for number in 0..40 {
            let mut mbuf = back.pop().unwrap();
            assert_eq!(mbuf.checksums(), (Checksum::Unknown, Checksum::Unknown));
            assert_eq!(&mbuf.bytes()[..4], b"head");
            assert_eq!(mbuf.bytes()[4..], [round ^ number; 60]);
        }
    }
    assert_eq!(queue.stats().sent, 2000);
    let Err(port) = port.close() else {
        panic!("a queue is open");
    };
    drop((queue, out, back));
    assert_eq!(port.close().unwrap(), 0);
}

#[test]
fn buffers_run_out_and_come_back() {
    let (port, mut queue) = open("out");
    let mut taken: Vec<Mbuf> = std::iter::from_fn(|| queue.allocate()).collect();
    assert_eq!(taken.len(), BUFFERS as usize);
    taken.truncate(10);
    let again: Vec<Mbuf> = std::iter::from_fn(|| queue.allocate()).collect();
    assert_eq!(again.len(), BUFFERS as usize - 10);
    drop((again, queue));
    let Err(port) = port.close() else {
        panic!("ten buffers are still here");
    };
    taken[0].bytes().fill(1);
    drop(taken);
    assert_eq!(port.close().unwrap(), 0);
}

#[test]
fn a_full_batch_returns_the_buffer() {
    let (port, mut queue) = open("full");
    let mut batch = Batch::default();
    while !batch.is_full() {
        assert!(batch.push(queue.allocate().unwrap()).is_none());
    }
    drop(batch.pop());
    assert!(batch.push(queue.allocate().unwrap()).is_none());
    assert!(batch.push(queue.allocate().unwrap()).is_some());
    drop((batch, queue));
    assert_eq!(port.close().unwrap(), 0);
}

#[test]
fn buffers_of_two_ports_are_not_mixed() {
    let (_one, mut first) = open("first");
    let (_other, mut second) = open("second");
    let mut batch = Batch::default();
    assert!(batch.push(first.allocate().unwrap()).is_none());
    assert!(batch.push(second.allocate().unwrap()).is_some());
    let sent = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| second.send(&mut batch)));
    assert!(sent.is_err(), "sent by a port that may outlive the buffers");
    assert_eq!(first.send(&mut batch), 1);
    assert!(batch.push(second.allocate().unwrap()).is_none());
}

#[test]
fn a_device_is_opened_once() {
    let (port, mut queue) = open("once");
    // The library has a port of this name, as it has of each PCI device.
    let again = PortOptions {
        devices: vec![Device::Pci("net_ring_once".to_owned())],
        queues: 1,
        rx_descriptors: 64,
        tx_descriptors: 64,
        buffers: 100,
        kept: 0,
        room: 2048,
        mtu: None,
        multicast: false,
        xdp: None,
    };
    let refused = Port::open(eal(), &again).unwrap_err().to_string();
    assert!(refused.contains("another port of this process"), "{refused}");
    let (mut out, mut back) = (Batch::default(), Batch::default());
    assert!(out.push(frame(&mut queue, 7)).is_none());
    assert_eq!(queue.send(&mut out), 1);
    queue.receive(&mut back);
    assert_eq!(back.len(), 1, "the first goes on");
    drop((queue, out, back));
    assert_eq!(port.close().unwrap(), 0);
}

#[test]
fn errors_name_step_and_cause() {
    eal();
    let other = Eal::start(&EalOptions::default()).unwrap_err();
    assert!(other.to_string().contains("other options"), "{other}");
    let open = |name: &str, arguments: &str, queues, buffers| {
        let options = PortOptions {
            devices: vec![Device::Virtual {
                name: name.to_owned(),
                arguments: arguments.to_owned(),
            }],
            xdp: None,
            queues,
            rx_descriptors: 64,
            tx_descriptors: 64,
            buffers,
            kept: 0,
            room: 2048,
            mtu: None,
            multicast: false,
        };
        Port::open(eal(), &options).unwrap_err().to_string()
    };
    let missing = open("net_af_packet_none", ",iface=nowhere", 1, 100);
    assert!(missing.starts_with("open net_af_packet_none: "), "{missing}");
    let queues = open("net_ring_queues", "", 20, 64);
    assert!(queues.starts_with("queues of the port: it has "), "{queues}");
    let memory = open("net_ring_memory", "", 1, 10_000_000);
    assert!(memory.starts_with("make 10000000 buffers"), "{memory}");
    for line in [missing, queues, memory] {
        assert!(!line.contains('\n'), "{line}");
    }
}

#[test]
fn no_thread_is_pinned() {
    let before = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    eal();
    let after = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let cores = |status: &str| {
        let list = status.lines().find(|line| line.starts_with("Cpus_allowed:"));
        list.map(str::to_owned)
    };
    assert_eq!(cores(&before), cores(&after));
}
