//! What the network does wrong stays the network's problem.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sluicegate_dataplane::{Dataplane, DriverOptions, ListenerId, SocketOptions, bind_group};

use crate::rig::{FIRST, Node, each, each_of_sockets, number_of, numbered, to};

#[test]
fn a_closed_port_does_not_break_later_sends_and_receives() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let gone = world.node(&["127.0.0.1:0"]);
        let closed = gone.address();
        drop(gone);
        for number in 0..50 {
            client.send(closed, b"anybody?", 8);
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
        let good = server.address();
        let v6 = "[::1]:9".parse().unwrap();
        let mut next = 0;
        let transmitted = client.driver.transmit(60, |buffer| {
            let mut meta = to(good, 50, 50);
            match next % 6 {
                1 => meta.peer = v6,
                3 => meta.listener = ListenerId(9),
                4 => meta.len = buffer.len() + 1,
                _ => {}
            }
            buffer[..50].copy_from_slice(&numbered(next, 50));
            next += 1;
            Some(meta)
        });
        assert_eq!(transmitted.unwrap().buffers, 60);
        let numbers: Vec<usize> = server
            .collect(30)
            .iter()
            .map(|datagram| number_of(&datagram.bytes))
            .collect();
        let expected: Vec<usize> = (0..60).filter(|n| [0, 2, 5].contains(&(n % 6))).collect();
        assert_eq!(numbers, expected);
        let counters = client.driver.counters();
        assert_eq!((counters.tx_errors, counters.tx_datagrams), (30, 30));
    });
}

#[test]
fn a_train_too_wide_for_the_path_costs_neither_the_socket_nor_gso() {
    each_of_sockets(|backend| {
        let options = SocketOptions::default();
        let bind =
            |address: &str| bind_group(FIRST, address.parse().unwrap(), 1, &options).unwrap();
        let mut client = Node::over(backend, &DriverOptions::default(), bind("[::1]:0"));
        let mut server = Node::over(backend, &DriverOptions::default(), bind("[::1]:0"));
        // Loopback carries 65536 bytes with headers: 65500 bytes of payload don't fit behind those of IPv6.
        client.send(server.address(), &[1; 65_500], 65_500);
        assert_eq!(client.driver.counters().tx_errors, 1);
        client.send(server.address(), &[2; 5000], 1000);
        assert_eq!(server.collect(5).len(), 5);
        assert!(client.driver.caps().gso);
    });
}

#[test]
fn without_gso_and_gro_everything_still_arrives() {
    each_of_sockets(|backend| {
        let options = SocketOptions {
            gso: false,
            gro: false,
            ..SocketOptions::default()
        };
        let bind = || bind_group(FIRST, "127.0.0.1:0".parse().unwrap(), 1, &options).unwrap();
        let mut client = Node::over(backend, &DriverOptions::default(), bind());
        let mut server = Node::over(backend, &DriverOptions::default(), bind());
        assert!(!client.driver.caps().gso && !server.driver.caps().gro);
        let train: Vec<u8> = (0..30).flat_map(|number| numbered(number, 1000)).collect();
        client.send(server.address(), &train, 1000);
        let numbers: Vec<usize> = server
            .collect(30)
            .iter()
            .map(|datagram| number_of(&datagram.bytes))
            .collect();
        assert_eq!(numbers, Vec::from_iter(0..30));
        assert_eq!(client.driver.counters().tx_gso_fallbacks, 1);
        assert_eq!(server.driver.counters().rx_buffers, 30);
    });
}

#[test]
fn a_driver_dropped_under_fire_leaves_memory_alone() {
    each_of_sockets(|backend| {
        let options = SocketOptions::default();
        // No other test binds here, so nobody else can take the port.
        let first = bind_group(FIRST, "127.0.0.78:0".parse().unwrap(), 1, &options).unwrap();
        let address = first[0].local_addr();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let flood = thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            while !stopped.load(Ordering::Relaxed) {
                // Refused between two drivers: that is the point.
                let _ = socket.send_to(&[0xff; 9000], address);
            }
        });
        let mut bound = Some(first);
        for round in 0..150 {
            let bound = bound.take().unwrap_or_else(|| {
                bind_group(FIRST, address, 1, &options).expect("the last driver freed the port")
            });
            let mut node = Node::over(backend, &DriverOptions::default(), bound);
            for _ in 0..round % 4 {
                node.driver.wait(None).unwrap();
                node.receive_once(round % 7, &mut Vec::new());
                node.driver
                    .transmit(3, |buffer| {
                        buffer[..4000].fill(0xff);
                        Some(to(address, 4000, 1000))
                    })
                    .unwrap();
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

/// On a fast loopback nothing ever blocks; the README says how to run this on a slow one.
#[test]
fn a_full_socket_blocks_keeps_the_order_and_loses_nothing() {
    each_of_sockets(|backend| {
        let tight = SocketOptions {
            send_buffer: 256 << 10,
            ..SocketOptions::default()
        };
        let bind = |options| bind_group(FIRST, "127.0.0.1:0".parse().unwrap(), 1, options).unwrap();
        let mut client = Node::over(backend, &DriverOptions::default(), bind(&tight));
        let wide = SocketOptions {
            receive_buffer: 64 << 20,
            ..tight
        };
        let mut server = Node::over(backend, &DriverOptions::default(), bind(&wide));
        let (mut next, mut blocked, mut received) = (0, 0, Vec::new());
        let peer = server.address();
        for _ in 0..20_000 {
            let transmitted = client.driver.transmit(usize::MAX, |buffer| {
                if next == 2000 {
                    return None;
                }
                for part in buffer[..20_000].chunks_mut(1000) {
                    part.copy_from_slice(&numbered(next, 1000));
                    next += 1;
                }
                Some(to(peer, 20_000, 1000))
            });
            if transmitted.unwrap().blocked {
                blocked += 1;
                client.driver.wait(None).unwrap();
            }
            server.receive_once(usize::MAX, &mut received);
            if received.len() >= 2000 {
                break;
            }
            server.driver.wait(Some(Duration::from_millis(1))).unwrap();
        }
        println!("blocked {blocked} times");
        let numbers: Vec<usize> = received
            .iter()
            .map(|datagram| number_of(&datagram.bytes))
            .collect();
        assert_eq!(numbers, Vec::from_iter(0..2000));
        assert_eq!(client.driver.counters().tx_errors, 0);
    });
}
