//! Datagrams arrive whole, in order and no faster than asked for.

use std::time::Duration;

use sluicegate_dataplane::{Dataplane, DriverOptions, ListenerId, SocketOptions, bind_group};

use crate::rig::{Kind, Node, each, each_of_sockets, number_of, numbered, to};

#[test]
fn a_train_arrives_whole_and_in_order() {
    each(|world| {
        for bound in ["127.0.0.1:0", "[::1]:0"] {
            let (mut server, mut client) = world.pair(bound);
            let mut train = Vec::new();
            for number in 0..41 {
                train.extend(numbered(number, if number == 40 { 700 } else { 1200 }));
            }
            client.send(server.address(), &train, 1200);
            let datagrams = server.collect(41);
            assert_eq!(datagrams.len(), 41);
            for (number, datagram) in datagrams.iter().enumerate() {
                let len = if number == 40 { 700 } else { 1200 };
                assert_eq!(datagram.bytes, numbered(number, len));
            }
            let counters = server.driver.counters();
            assert_eq!(counters.rx_datagrams, 41);
            assert_eq!(counters.rx_bytes, train.len() as u64);
            assert!(server.driver.caps().gro && client.driver.caps().gso);
            assert_eq!(counters.rx_buffers, 1, "GRO kept the train together");
            let counters = client.driver.counters();
            assert_eq!((counters.tx_datagrams, counters.tx_buffers), (41, 1));
            assert_eq!((counters.tx_gso_fallbacks, counters.tx_errors), (0, 0));
        }
    });
}

#[test]
fn more_datagrams_than_the_kernel_takes_at_once_arrive_in_order() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let train: Vec<u8> = (0..200).flat_map(|number| numbered(number, 100)).collect();
        client.send(server.address(), &train, 100);
        let numbers: Vec<usize> = server
            .collect(200)
            .iter()
            .map(|datagram| number_of(&datagram.bytes))
            .collect();
        assert_eq!(numbers, Vec::from_iter(0..200));
    });
}

#[test]
fn an_empty_datagram_arrives() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        client.send(server.address(), b"", 0);
        client.send(server.address(), b"after", 5);
        let datagrams = server.collect(2);
        assert_eq!((datagrams[0].bytes.len(), datagrams[0].meta.stride), (0, 0));
        assert_eq!(datagrams[0].meta.peer, client.address());
        assert_eq!(datagrams[1].bytes, b"after");
        assert_eq!(server.driver.counters().rx_datagrams, 2);
    });
}

#[test]
fn the_largest_datagram_arrives() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let largest = client.driver.caps().max_transmit;
        assert_eq!(largest, 65_507);
        let bytes = numbered(9, largest);
        client.send(server.address(), &bytes, largest);
        assert!(server.collect(1)[0].bytes == bytes);
    });
}

#[test]
fn order_is_kept_over_many_buffers_of_every_shape() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let mut next = 0;
        let mut expected = 0;
        while next < 4000 {
            let peer = server.address();
            let transmitted = client.driver.transmit(24, |buffer| {
                if next >= 4000 {
                    return None;
                }
                let (count, size) = (1 + next % 13, 40 + next % 1100);
                for part in buffer[..count * size].chunks_mut(size) {
                    part.copy_from_slice(&numbered(next, size));
                    next += 1;
                }
                Some(to(peer, count * size, size))
            });
            transmitted.unwrap();
            for datagram in server.collect(next - expected) {
                assert_eq!(number_of(&datagram.bytes), expected);
                expected += 1;
            }
        }
        assert_eq!(expected, next);
        assert_eq!(client.driver.counters().tx_datagrams, next as u64);
    });
}

#[test]
fn budgets_are_kept() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let peer = server.address();
        let mut sent = 0;
        for budget in [0, 1, 4, 20, 50] {
            let mut calls = 0;
            let transmitted = client.driver.transmit(budget, |buffer| {
                calls += 1;
                buffer[..64].copy_from_slice(&numbered(sent, 64));
                sent += 1;
                Some(to(peer, 64, 64))
            });
            assert_eq!((transmitted.unwrap().buffers, calls), (budget, budget));
        }
        let mut seen = Vec::new();
        assert_eq!(server.receive_once(0, &mut seen), 0);
        for _ in 0..1000 {
            let before = seen.len();
            let buffers = server.receive_once(3, &mut seen);
            assert!(buffers <= 3);
            assert_eq!(
                seen.len() - before,
                buffers,
                "single datagrams don't merge on loopback"
            );
            if seen.len() == sent {
                break;
            }
            server.driver.wait(None).unwrap();
        }
        let numbers: Vec<usize> = seen
            .iter()
            .map(|datagram| number_of(&datagram.bytes))
            .collect();
        assert_eq!(numbers, Vec::from_iter(0..sent));
    });
}

#[test]
fn contents_may_be_changed_in_place() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        for round in 0..300 {
            client.send(server.address(), &numbered(round, 1200), 1200);
            let mut seen = 0;
            for _ in 0..500 {
                let received = server.driver.receive(1, |_, buffer| {
                    assert_eq!(buffer, numbered(round, 1200));
                    buffer.fill(0xee);
                    seen += 1;
                });
                received.unwrap();
                if seen > 0 {
                    break;
                }
                server.driver.wait(None).unwrap();
            }
            assert_eq!(seen, 1);
        }
    });
}

#[test]
fn running_out_of_buffers_loses_nothing_that_the_socket_can_hold() {
    each(|world| {
        let few = DriverOptions {
            rx_buffers: 4,
            tx_slots: 1,
        };
        let mut server = world.node_with(&["127.0.0.1:0"], &few);
        let mut client = world.node(&["127.0.0.1:0"]);
        for wave in 0..3 {
            for number in 0..300 {
                client.send(server.address(), &numbered(wave * 300 + number, 900), 900);
            }
            let datagrams = server.collect(300);
            for (number, datagram) in datagrams.iter().enumerate() {
                assert_eq!(number_of(&datagram.bytes), wave * 300 + number);
            }
        }
        if world.kind == Kind::IoUring {
            assert!(server.driver.counters().rx_exhausted > 0);
        }
    });
}

#[test]
fn many_peers_are_told_apart() {
    each(|world| {
        let few = DriverOptions {
            rx_buffers: 4,
            tx_slots: 1,
        };
        let mut server = world.node(&["127.0.0.1:0"]);
        let mut clients: Vec<_> = (0..40)
            .map(|_| world.node_with(&["127.0.0.1:0"], &few))
            .collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(server.address(), &numbered(number, 100), 100);
        }
        for datagram in server.collect(clients.len()) {
            let from = number_of(&datagram.bytes);
            assert_eq!(datagram.meta.peer, clients[from].address());
            server.send(datagram.meta.peer, &datagram.bytes, 100);
        }
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(number_of(&client.collect(1)[0].bytes), number);
        }
    });
}

#[test]
fn a_busy_listener_does_not_hide_another() {
    each_of_sockets(|backend| {
        let bind = |listener| {
            let address = "127.0.0.1:0".parse().unwrap();
            bind_group(ListenerId(listener), address, 1, &SocketOptions::default()).unwrap()
        };
        let both = bind(0).into_iter().chain(bind(1)).collect();
        let mut server = Node::over(backend, &DriverOptions::default(), both);
        let mut client = Node::over(backend, &DriverOptions::default(), bind(0));
        for number in 0..500 {
            client.send(server.addresses[0], &numbered(number, 100), 100);
        }
        client.send(server.addresses[1], b"me too", 6);
        let mut seen = Vec::new();
        for _ in 0..1000 {
            server.driver.wait(Some(Duration::from_millis(20))).unwrap();
            server.receive_once(4, &mut seen);
            if seen
                .iter()
                .any(|datagram| datagram.meta.listener == ListenerId(1))
            {
                break;
            }
        }
        assert!(seen.len() < 250, "the other one came after {}", seen.len());
    });
}
