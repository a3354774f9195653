//! Datagrams arrive whole, in order and no faster than asked for.

use std::time::Duration;

use sluicegate_dataplane::{Budget, Dataplane, DriverOptions, ListenerId, NoRoom};

use crate::node::{number_of, numbered, to};
use crate::rig::{FIRST, Kind, each};

#[test]
fn a_batch_arrives_whole_and_in_order() {
    each(|world| {
        for bound in ["127.0.0.1:0", "[::1]:0"] {
            let (mut server, mut client) = world.pair(bound);
            let mut batch = Vec::new();
            for number in 0..41 {
                batch.extend(numbered(number, if number == 40 { 700 } else { 1200 }));
            }
            client.send(server.address(), &batch, 1200);
            let datagrams = server.collect(41);
            assert_eq!(datagrams.len(), 41);
            for (number, datagram) in datagrams.iter().enumerate() {
                let len = if number == 40 { 700 } else { 1200 };
                assert_eq!(datagram.bytes, numbered(number, len));
            }
            let counters = server.driver.counters();
            assert_eq!(counters.rx_datagrams, 41);
            assert_eq!(counters.rx_bytes, batch.len() as u64);
            // A driver without segmentation sends a frame for each datagram, and the kernel cuts what leaves for one.
            let both = server.kind.segments() && client.kind.segments();
            if both {
                assert_eq!(counters.rx_messages, 1, "GRO keeps a batch together");
            } else if !server.kind.segments() {
                assert_eq!(counters.rx_messages, 41);
            }
            let messages = if client.kind.segments() { 1 } else { 41 };
            let counters = client.driver.counters();
            assert_eq!((counters.tx_datagrams, counters.tx_messages), (41, messages));
            assert_eq!((counters.tx_gso_fallbacks, counters.tx_errors), (0, 0));
        }
    });
}

#[test]
fn more_datagrams_than_the_kernel_takes_at_once_arrive_in_order() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let bytes: Vec<u8> = (0..200).flat_map(|number| numbered(number, 100)).collect();
        client.send(server.address(), &bytes, 100);
        let numbers: Vec<usize> =
            server.collect(200).iter().map(|datagram| number_of(&datagram.bytes)).collect();
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
        assert_eq!(datagrams[0].bytes.len(), 0);
        assert_eq!(datagrams[0].meta.peer, client.address());
        assert_eq!(datagrams[1].bytes, b"after");
        assert_eq!(server.driver.counters().rx_datagrams, 2);
    });
}

#[test]
fn the_largest_datagram_arrives() {
    each(|world| {
        for (bound, headers) in [("127.0.0.1:0", 28), ("[::1]:0", 48)] {
            let (mut server, mut client) = world.pair(bound);
            let largest = world.largest(headers);
            let bytes = numbered(9, largest);
            client.send(server.address(), &bytes, largest);
            assert!(server.collect(1)[0].bytes == bytes);
        }
    });
}

#[test]
fn order_is_kept_over_batches_of_every_shape() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let mut next = 0;
        let mut expected = 0;
        while next < 4000 {
            let peer = server.address();
            let mut datagrams = Vec::new();
            for _ in 0..24 {
                let (count, size) = (1 + next % 13, 40 + next % 1100);
                for _ in 0..count {
                    datagrams.push(numbered(next, size));
                    next += 1;
                }
            }
            client.send_all(datagrams.iter().map(|d| (FIRST, to(peer), &d[..])));
            for datagram in server.collect(next - expected) {
                assert_eq!(number_of(&datagram.bytes), expected);
                assert_eq!(
                    datagram.bytes.len(),
                    datagrams[expected + datagrams.len() - next].len()
                );
                expected += 1;
            }
        }
        assert_eq!(expected, next);
        assert_eq!(client.driver.counters().tx_datagrams, next as u64);
    });
}

#[test]
fn equal_sizes_share_a_batch_a_shorter_one_ends_it_a_longer_one_opens_the_next() {
    each(|world| {
        let mut server = world.server(&["127.0.0.1:0", "127.0.0.1:0"]);
        let mut client = world.client(&["127.0.0.1:0"]);
        let (near, far) = (to(server.addresses[0]), to(server.addresses[1]));
        let mut marked = near;
        marked.ecn = sluicegate_dataplane::Ecn::Ect0;
        let sizes = [
            (near, 1200),
            (near, 1200),
            (near, 700),
            // Not a part of the batch that ended.
            (near, 700),
            (near, 1200),
            (near, 1200),
            (marked, 1200),
            (marked, 1200),
            (far, 1200),
            (near, 1200),
            (near, 1200),
            (near, 1),
        ];
        let datagrams: Vec<_> = sizes
            .iter()
            .enumerate()
            .map(|(number, (meta, size))| {
                let mut bytes = numbered(number, 1200);
                bytes.truncate(*size);
                (FIRST, *meta, bytes)
            })
            .collect();
        client.send_all(datagrams.iter().map(|(l, meta, bytes)| (*l, *meta, &bytes[..])));
        let (received, other): (Vec<_>, Vec<_>) = { server.collect(12).into_iter() }
            .partition(|datagram| datagram.meta.listener == FIRST);
        assert_eq!((received.len(), other.len()), (11, 1));
        let sent = datagrams.iter().filter(|(_, meta, _)| meta.peer == near.peer);
        for (received, (_, meta, bytes)) in received.iter().zip(sent) {
            assert!(received.bytes == *bytes);
            assert_eq!(received.meta.ecn, meta.ecn);
        }
        if client.kind.segments() {
            assert_eq!(client.driver.counters().tx_messages, 6);
        }
    });
}

#[test]
fn room_that_is_not_committed_sends_nothing() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let meta = to(server.address());
        client
            .driver
            .transmit(Budget::UNLIMITED, |out| {
                for number in 0..200 {
                    out.room(FIRST, 1200).unwrap().fill(0xee);
                    let room = out.room(FIRST, 900).unwrap();
                    assert_eq!(room.len(), 900);
                    room.copy_from_slice(&numbered(number, 900));
                    out.commit(900, &meta);
                    out.room(FIRST, 1200).unwrap().fill(0xee);
                }
            })
            .unwrap();
        client.driver.wait(Some(Duration::ZERO)).unwrap();
        let received = server.collect(200);
        assert_eq!(received.len(), 200);
        for (number, datagram) in received.iter().enumerate() {
            assert!(datagram.bytes == numbered(number, 900));
        }
    });
}

#[test]
fn budgets_are_kept() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let meta = to(server.address());
        let mut sent = 0;
        let cases = [
            (Budget::of_datagrams(0), 0),
            (Budget::of_datagrams(1), 1),
            (Budget::of_datagrams(50), 50),
            (Budget::new(50, 0), 0),
            (Budget::new(50, 64), 1),
            (Budget::new(50, 65), 2),
            (Budget::new(50, 640), 10),
        ];
        for (budget, expected) in cases {
            let before = sent;
            let refused = client.driver.transmit(budget, |out| {
                loop {
                    let room = match out.room(FIRST, 64) {
                        Ok(room) => room,
                        Err(reason) => return reason,
                    };
                    room.copy_from_slice(&numbered(sent, 64));
                    out.commit(64, &meta);
                    sent += 1;
                }
            });
            assert_eq!(refused.unwrap(), NoRoom::Budget);
            assert_eq!(sent - before, expected, "{budget:?}");
            client.driver.wait(Some(Duration::ZERO)).unwrap();
        }
        let mut seen = Vec::new();
        assert_eq!(server.receive_once(Budget::of_datagrams(0), &mut seen), 0);
        assert_eq!(server.receive_once(Budget::new(9, 0), &mut seen), 0);
        for round in 0..1000 {
            let (budget, most) = if round % 2 == 0 {
                (Budget::of_datagrams(3), 3)
            } else {
                (Budget::new(50, 100), 2)
            };
            assert!(server.receive_once(budget, &mut seen) <= most);
            if seen.len() == sent {
                break;
            }
            server.driver.wait(None).unwrap();
        }
        let numbers: Vec<usize> = seen.iter().map(|datagram| number_of(&datagram.bytes)).collect();
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
                let received = server.driver.receive(Budget::of_datagrams(1), |_, buffer| {
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
        let few = DriverOptions { rx_buffers: 4, tx_slots: 1, ..DriverOptions::default() };
        let mut server = world.server_with(&["127.0.0.1:0"], few);
        let mut client = world.client(&["127.0.0.1:0"]);
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
            assert!(server.driver.counters().rx_buffers_exhausted > 0);
        }
    });
}

#[test]
fn many_peers_are_told_apart() {
    each(|world| {
        let few = DriverOptions { rx_buffers: 4, tx_slots: 1, ..DriverOptions::default() };
        let mut server = world.server(&["127.0.0.1:0"]);
        let mut clients: Vec<_> =
            (0..40).map(|_| world.client_with(&["127.0.0.1:0"], few)).collect();
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
fn a_flooded_listener_does_not_hide_another() {
    each(|world| {
        for rx_buffers in [4, 64] {
            let options = DriverOptions { rx_buffers, ..DriverOptions::default() };
            let both = ["127.0.0.1:0", "127.0.0.1:0"];
            let mut server = world.server_with(&both, options);
            let mut client = world.client(&["127.0.0.1:0"]);
            for number in 0..500 {
                client.send(server.addresses[0], &numbered(number, 100), 100);
            }
            client.send(server.addresses[1], b"me too", 6);
            let mut seen = Vec::new();
            for number in 0..100 {
                // The flood goes on.
                for _ in 0..8 {
                    client.send(server.addresses[0], &numbered(number, 100), 100);
                }
                server.driver.wait(Some(Duration::from_millis(20))).unwrap();
                server.receive_once(Budget::of_datagrams(4), &mut seen);
                if seen.iter().any(|d| d.meta.listener == ListenerId(1)) {
                    break;
                }
            }
            let found = seen.iter().any(|d| d.meta.listener == ListenerId(1));
            assert!(found, "{} of the flood and nothing else", seen.len());
            assert!(seen.len() < 250, "the other one came after {}", seen.len());
        }
    });
}

#[test]
fn a_flood_that_fills_every_buffer_delays_another_listener_by_one_batch() {
    each(|world| {
        let mut server = world.server(&["127.0.0.1:0", "127.0.0.1:0"]);
        let mut client = world.client(&["127.0.0.1:0"]);
        for number in 0..200 {
            client.send(server.addresses[0], &numbered(number, 100), 100);
        }
        server.driver.wait(Some(Duration::from_millis(20))).unwrap();
        client.send(server.addresses[1], b"me too", 6);
        server.driver.wait(Some(Duration::from_millis(20))).unwrap();
        let mut seen = Vec::new();
        server.receive_once(Budget::of_datagrams(20), &mut seen);
        let found = seen.iter().any(|d| d.meta.listener == ListenerId(1));
        assert!(found, "{} of the flood and nothing else", seen.len());
    });
}
