//! The end of the environment, which a process sees once.
#![cfg(feature = "libdpdk")]

use sluicegate_dpdk::{Device, Eal, EalOptions, Port, PortOptions};

#[test]
fn the_environment_ends_after_the_last_port_queue_and_buffer() {
    let environment = EalOptions { memory: 64, hugepages: false, pci: Vec::new() };
    let options = PortOptions {
        devices: vec![Device::Virtual {
            name: "net_ring_end".to_owned(),
            arguments: String::new(),
        }],
        xdp: None,
        queues: 1,
        rx_descriptors: 64,
        tx_descriptors: 64,
        buffers: 255,
        kept: 0,
        room: 2048,
        mtu: None,
        multicast: false,
    };
    let (port, mut queues) = Port::open(&Eal::start(&environment).unwrap(), &options).unwrap();
    let mut queue = queues.remove(0).open().unwrap();
    let mut mbuf = queue.allocate().unwrap();
    drop(port);
    assert!(Eal::start(&environment).is_ok(), "the queue needs it");
    drop(queue);
    assert!(Eal::start(&environment).is_ok(), "the buffer needs it");
    mbuf.bytes().fill(1);
    drop(mbuf);
    let ended = Eal::start(&environment).unwrap_err();
    assert!(ended.to_string().contains("it has ended"), "{ended}");
}
