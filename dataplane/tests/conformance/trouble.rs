//! Errors of the network are counted and reported, and stop nothing.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_dataplane::port;
use sluicegate_dataplane::{
    Acquired, Backend, Budget, Dataplane, Driver, DriverOptions, Event, ListenerId, NoRoom,
    SocketOptions, Steering, open_group,
};

use crate::node::{Node, number_of, numbered, to};
use crate::rig::{FIRST, Kind, Role, each};

#[test]
fn a_closed_port_does_not_break_later_sends_and_receives() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        // Nobody listens there.
        let closed = [Role::Server, Role::Client].map(|role| world.at(role, "127.0.0.1:1"));
        for number in 0..50 {
            client.send(closed[0], b"anybody?", 8);
            server.send(closed[1], b"anybody?", 8);
            client.send(server.address(), &numbered(number, 20), 20);
            assert_eq!(number_of(&server.collect(1)[0].bytes), number);
            server.send(client.address(), b"yes", 3);
            assert_eq!(client.collect(1)[0].bytes, b"yes");
        }
    });
}

#[test]
fn what_cannot_be_sent_is_counted_and_the_rest_goes_in_order() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let (good, v6) = (to(server.address()), to("[::1]:9".parse().unwrap()));
        let sent = client.driver.transmit(Budget::of_datagrams(60), |out| {
            for number in 0..60 {
                assert_eq!(out.room(ListenerId(9), 50).unwrap_err(), NoRoom::Unknown);
                out.room(FIRST, 50).unwrap().copy_from_slice(&numbered(number, 50));
                out.commit(50, if number % 2 == 0 { &good } else { &v6 });
            }
        });
        sent.unwrap();
        client.driver.wait(Some(Duration::ZERO)).unwrap();
        let numbers: Vec<usize> =
            server.collect(30).iter().map(|datagram| number_of(&datagram.bytes)).collect();
        let expected: Vec<usize> = (0..60).filter(|n| n % 2 == 0).collect();
        assert_eq!(numbers, expected);
        let counters = client.driver.counters();
        assert_eq!((counters.tx_errors, counters.tx_datagrams), (30, 30));
    });
}

#[test]
fn a_datagram_too_big_for_the_path_is_reported_and_costs_neither_socket_nor_gso() {
    each(|world| {
        let (mut server, mut client) = world.pair("[::1]:0");
        // Loopback carries 65536 bytes with headers: 65500 bytes of payload don't fit behind those of IPv6.
        let size = if world.link.is_some() { 1460 } else { 65_500 };
        client.send(server.address(), &vec![1; size], size);
        assert_eq!(client.driver.counters().tx_errors, 1);
        let too_big = Event::TooBig { listener: FIRST, peer: server.address(), size };
        assert_eq!(client.events(), [too_big]);
        client.send(server.address(), &[2; 5000], 1000);
        assert_eq!(server.collect(5).len(), 5);
        assert_eq!(client.driver.counters().tx_messages, 1, "GSO is on");
    });
}

#[test]
fn a_receive_overflow_is_counted_and_reported() {
    each(|world| {
        let options = SocketOptions { receive_buffer: 64 << 10, ..SocketOptions::default() };
        let mut server = world.server_with(&["127.0.0.1:0"], options);
        let mut client = world.client(&["127.0.0.1:0"]);
        let target = server.address();
        for number in 0..5000 {
            client.send(target, &numbered(number, 900), 900);
        }
        let mut received = server.collect(1).len();
        // The kernel tells with the next datagram that it takes.
        while received < 100_000 && server.driver.counters().rx_overflows == 0 {
            client.send(target, b"next", 4);
            received += server.collect(1).len();
        }
        let lost = server.driver.counters().rx_overflows;
        assert!((1..5000).contains(&lost));
        let mut reported = 0;
        for event in server.events() {
            let Event::ReceiveOverflow { listener, dropped } = event else {
                panic!("{event:?}");
            };
            assert_eq!(listener, FIRST);
            reported += u64::from(dropped);
        }
        assert_eq!(reported, lost);
    });
}

/// An inherited socket whose descriptor is replaced under the driver, as by a bug elsewhere in the process.
#[test]
fn a_broken_socket_is_reported_and_does_not_stop_the_others() {
    // io_uring keeps the file itself, which nobody can take away.
    let backend = Backend::Mio;
    let inherited = UdpSocket::bind("127.0.0.1:0").unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&inherited);
    let acquired = vec![
        Acquired::inherit(FIRST, vec![inherited.into()], 1).unwrap(),
        Acquired::bind(ListenerId(1), "127.0.0.1:0".parse().unwrap(), 1).unwrap(),
    ];
    let (socket, driver) = (SocketOptions::default(), DriverOptions::default());
    let mut group = open_group(backend, acquired, 1, Steering::Hash, &socket, driver).unwrap();
    let addresses: Vec<_> = group.listeners.iter().map(|facts| facts.address).collect();
    let driver = group.seeds.remove(0).open().unwrap().driver;
    let mut server = Node::new(Kind::Mio, driver, addresses.clone(), None);
    let client = Acquired::bind(FIRST, "127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let at = client.local_addr();
    let group =
        open_group(backend, vec![client], 1, Steering::Hash, &socket, DriverOptions::default());
    let client = group.unwrap().seeds.remove(0).open().unwrap().driver;
    let mut client = Node::new(Kind::Mio, client, vec![at], None);
    server.send(client.address(), b"well", 4);
    assert_eq!(client.collect(1).len(), 1);
    break_descriptor(fd);
    for _ in 0..3 {
        server.send(client.address(), b"lost", 4);
        server.send_with(ListenerId(1), &to(client.address()), b"well", 4);
        assert_eq!(client.collect(1)[0].meta.peer, addresses[1]);
        client.send(addresses[1], b"hello", 5);
        assert_eq!(server.collect(1)[0].meta.listener, ListenerId(1));
    }
    assert_eq!(server.events(), [Event::PortDown { listener: FIRST }]);
    assert_eq!(server.driver.counters().tx_errors, 3);
}

/// Puts something that is no socket in the place of a descriptor.
#[expect(unsafe_code, reason = "dup2 has no safe wrapper in std")]
fn break_descriptor(fd: std::os::fd::RawFd) {
    let null = std::fs::File::open("/dev/null").unwrap();
    // SAFETY: takes no pointers; the driver that owns the descriptor only makes system calls on it.
    let result = unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&null), fd) };
    assert_eq!(result, fd);
}

#[test]
fn without_gso_and_gro_everything_still_arrives() {
    each(|world| {
        let options = SocketOptions { gso: false, gro: false, ..SocketOptions::default() };
        let mut client = world.client_with(&["127.0.0.1:0"], options);
        let mut server = world.server_with(&["127.0.0.1:0"], options);
        let bytes: Vec<u8> = (0..30).flat_map(|number| numbered(number, 1000)).collect();
        client.send(server.address(), &bytes, 1000);
        let numbers: Vec<usize> =
            server.collect(30).iter().map(|datagram| number_of(&datagram.bytes)).collect();
        assert_eq!(numbers, Vec::from_iter(0..30));
        let counters = client.driver.counters();
        assert_eq!((counters.tx_messages, counters.tx_gso_fallbacks), (30, 0));
        assert_eq!(server.driver.counters().rx_messages, 30);
    });
}

#[test]
fn features_name_the_offloads_in_use() {
    each(|world| {
        for on in [true, false] {
            let options =
                SocketOptions { gso: on, gro: on, busy_poll: 50, ..SocketOptions::default() };
            let node = world.server_with(&["127.0.0.1:0"], options);
            let features = node.driver.features();
            assert_eq!((features.gso, features.gro), (on, on));
            // Only io_uring has it, and only on newer kernels.
            assert!(!features.napi || world.kind != Kind::Mio);
        }
        let idle = world.server(&["127.0.0.1:0"]);
        assert!(!idle.driver.features().napi);
    });
}

#[test]
fn a_driver_dropped_under_fire_leaves_memory_alone() {
    each(|world| {
        // A device takes some time to open.
        let rounds = if world.kind.is_dpdk() { 20 } else { 150 };
        // No other test binds here, so nobody else can take the port.
        let first = world.server(&["127.0.0.78:0"]);
        let address = first.address();
        let again = format!("127.0.0.78:{}", address.port());
        let size = world.largest(28).min(9000);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let source = world.at(Role::Client, "127.0.0.1:0");
        let socket = world.within(Role::Client, || UdpSocket::bind(source).unwrap());
        let flood = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // Refused between two drivers: that is the point.
                let _ = socket.send_to(&vec![0xff; size], address);
            }
        });
        let mut first = Some(first);
        for round in 0..rounds {
            let mut node = first.take().unwrap_or_else(|| world.server(&[&again]));
            for _ in 0..round % 4 {
                node.driver.wait(None).unwrap();
                node.receive_once(Budget::of_datagrams(round % 7), &mut Vec::new());
                node.send(address, &[0xff; 12_000], 1000);
            }
            drop(node);
            // As large as what the driver had, so likely in the same place; nobody may write to it now.
            let canary = vec![0x55u8; 5 << 20];
            thread::yield_now();
            assert!(canary.iter().all(|byte| *byte == 0x55), "round {round}");
        }
        stop.store(true, Ordering::Relaxed);
        flood.join().unwrap();
    });
}

#[test]
fn a_link_that_goes_down_is_reported_for_each_listener_and_comes_back() {
    each(|world| {
        let listeners = [(FIRST, "10.0.0.1:1"), (ListenerId(1), "10.0.0.1:2")];
        let listeners = listeners.map(|(id, address)| (id, address.parse().unwrap()));
        let mut group = port::open_group(&world.switch, &listeners, 1).unwrap();
        let driver = group.seeds.remove(0).open();
        let mut server = Node::new(Kind::Port, Driver::Port(driver), group.addresses, None);
        let mut client = world.client(&["10.0.0.2:0"]);
        world.switch.set_link(group.port, false);
        server.driver.wait(Some(Duration::ZERO)).unwrap();
        let down = [0, 1].map(|id| Event::PortDown { listener: ListenerId(id) });
        assert_eq!(server.events(), down);
        server.send(client.address(), b"lost", 4);
        assert_eq!(server.driver.counters().tx_errors, 1);
        world.switch.set_link(group.port, true);
        server.driver.wait(Some(Duration::ZERO)).unwrap();
        server.send(client.address(), b"well", 4);
        assert_eq!(client.collect(1)[0].bytes, b"well");
        assert_eq!(server.events(), []);
    });
}

#[test]
fn a_timed_departure_is_not_early() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let departure = Instant::now() + Duration::from_millis(3);
        let mut timed = to(server.address());
        timed.departure = Some(departure);
        client.send_with(FIRST, &timed, b"later", 5);
        client.send(server.address(), b"now", 3);
        // A thread that was suspended may have sent both.
        let in_time = Instant::now() < departure;
        let mut received = server.collect(1);
        if in_time {
            assert_eq!(received[0].bytes, b"now");
        }
        if received.len() == 1 {
            client.driver.wait(Some(Duration::from_millis(4))).unwrap();
            received.extend(server.collect(1));
        }
        assert_eq!(received.len(), 2);
        assert!(received.iter().any(|datagram| datagram.bytes == b"later"));
        assert!(Instant::now() >= departure);
    });
}

#[test]
fn exhausted_buffers_block_until_some_come_back() {
    each(|world| {
        let mut servers: Vec<_> = (0..4).map(|_| world.server(&["127.0.0.1:0"])).collect();
        let mut client = world.client(&["127.0.0.1:0"]);
        let targets: Vec<_> = servers.iter().map(|s| to(s.address())).collect();
        let mut sent = 0;
        let refused = client.driver.transmit(Budget::UNLIMITED, |out| {
            loop {
                match out.room(FIRST, 100) {
                    Ok(room) => room.copy_from_slice(&numbered(sent, 100)),
                    Err(reason) => return reason,
                }
                out.commit(100, &targets[sent % 4]);
                sent += 1;
            }
        });
        assert_eq!(refused.unwrap(), NoRoom::Blocked);
        let mut received: usize = servers.iter_mut().map(|s| s.collect(1).len()).sum();
        client.driver.wait(None).unwrap();
        client.send(servers[0].address(), b"room again", 10);
        received += servers[0].collect(1).len();
        assert_eq!(received, sent + 1);
    });
}
