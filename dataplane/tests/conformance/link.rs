//! Cases that need a link: routes, neighbors, its MTU, VLAN and state, and datagrams that only another host sends.

use std::net::UdpSocket;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use sluicegate_dataplane::{Budget, Dataplane, Event, ListenerId, SocketOptions};

use crate::node::{Node, check_unreachable, numbered, to};
use crate::rig::{FIRST, Kind, Role, World, each, each_on};
use crate::veth::Terms;

/// Number of tries, with a pause of [`PAUSE`] after each.
const TRIES: usize = 500;
const PAUSE: Duration = Duration::from_millis(20);

const BOTH: [(&str, usize); 2] = [("127.0.0.1:0", 28), ("[::1]:0", 48)];

/// Sends a datagram of `size` bytes until it arrives, as a sender does that lost one.
fn insist(from: &mut Node, to: &mut Node, size: usize) {
    let bytes = numbered(size, size);
    for _ in 0..TRIES {
        from.send(to.address(), &bytes, size);
        // A driver that finds its peers itself does so when it receives.
        from.receive_once(Budget::UNLIMITED, &mut Vec::new());
        to.driver.wait(Some(PAUSE)).unwrap();
        let mut received = Vec::new();
        to.receive_once(Budget::UNLIMITED, &mut received);
        // What was sent before may come late.
        if received.iter().any(|datagram| datagram.bytes == bytes) {
            return;
        }
    }
    panic!("no datagram of {size} bytes arrived");
}

/// Returns the number of frames that the driver dropped for a reason.
fn dropped(node: &Node, reason: &str) -> u64 {
    let frames = node.driver.counters().frames.expect("a port's counters");
    let found = frames.dropped().find(|(name, _)| *name == reason);
    found.expect("a reason").1
}

#[test]
#[ignore = "run by over_veth"]
fn a_peer_without_a_route_is_reported_and_does_not_hold_up_others() {
    each(|world| {
        let (mut server, mut client) =
            (world.server(&["127.0.0.1:0"]), world.client(&["0.0.0.0:0"]));
        check_unreachable(&mut client, &mut server);
    });
}

#[test]
#[ignore = "run by over_veth"]
fn a_peer_whose_ethernet_address_is_unknown_is_asked_for_it() {
    let terms = Terms { neighbors: false, ..Terms::PLAIN };
    each_on(terms, |world| {
        for (bound, _) in BOTH {
            let (mut server, mut client) = world.pair(bound);
            insist(&mut client, &mut server, 100);
            insist(&mut server, &mut client, 100);
            assert_eq!((client.events(), server.events()), (vec![], vec![]));
        }
    });
}

#[test]
#[ignore = "run by over_veth"]
fn room_is_no_longer_than_what_the_link_carries() {
    each(|world| {
        for (bound, headers) in BOTH {
            let (mut server, mut client) = world.pair(bound);
            let largest = world.largest(headers);
            let meta = to(server.address());
            client
                .driver
                .transmit(Budget::UNLIMITED, |out| {
                    let room = out.room(FIRST, 9000).unwrap();
                    assert_eq!(room.len(), largest);
                    room.fill(1);
                    out.commit(largest, &meta);
                })
                .unwrap();
            client.driver.wait(Some(Duration::ZERO)).unwrap();
            assert_eq!(server.collect(1)[0].bytes.len(), largest);
        }
    });
}

/// Sends datagrams of several sizes both ways, in both families.
fn converse(world: &World, sizes: &[usize]) {
    // A kernel without VLANs does not cut what a program has tagged.
    let options = SocketOptions {
        gso: world.link.as_ref().unwrap().terms.vlan.is_none(),
        ..SocketOptions::default()
    };
    for (bound, headers) in BOTH {
        let mut server = world.server_with(&[bound], options);
        let mut client = world.client_with(&[bound], options);
        for size in sizes.iter().copied().chain([world.largest(headers)]) {
            client.send(server.address(), &numbered(size, size), size);
            let question = server.collect(1).remove(0);
            assert!(question.bytes == numbered(size, size));
            assert_eq!(question.meta.peer, client.address());
            server.send(question.meta.peer, &question.bytes, size);
            assert!(client.collect(1)[0].bytes == question.bytes);
        }
        // A batch, in segments where the driver has them.
        let bytes: Vec<u8> = (0..20).flat_map(|n| numbered(n, sizes[0])).collect();
        client.send(server.address(), &bytes, sizes[0]);
        for (number, datagram) in server.collect(20).iter().enumerate() {
            assert!(datagram.bytes == numbered(number, sizes[0]));
        }
    }
}

#[test]
#[ignore = "run by over_veth"]
fn datagrams_pass_in_a_vlan() {
    let terms = Terms { vlan: Some(7), ..Terms::PLAIN };
    each_on(terms, |world| converse(world, &[1000, 1300]));
}

#[test]
#[ignore = "run by over_veth"]
fn jumbo_frames_pass() {
    let terms = Terms { mtu: 9000, ..Terms::PLAIN };
    each_on(terms, |world| converse(world, &[1000, 1501, 4500]));
}

#[test]
#[ignore = "run by over_veth"]
fn jumbo_frames_pass_in_a_vlan() {
    let terms = Terms { mtu: 9000, vlan: Some(4094), ..Terms::PLAIN };
    each_on(terms, |world| converse(world, &[1000, 4500]));
}

#[test]
#[ignore = "run by over_veth"]
fn a_frame_without_the_vlan_is_dropped_and_counted() {
    let terms = Terms { vlan: Some(7), peer_tags: false, ..Terms::PLAIN };
    each_on(terms, |world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let before = dropped(&server, "vlan");
        for _ in 0..TRIES {
            client.send(server.address(), b"untagged", 8);
            server.driver.wait(Some(PAUSE)).unwrap();
            let received = server.receive_once(Budget::UNLIMITED, &mut Vec::new());
            assert_eq!(received, 0);
            if dropped(&server, "vlan") > before {
                return;
            }
        }
        panic!("nothing was dropped");
    });
}

#[test]
#[ignore = "run by over_veth"]
fn an_interface_may_go_down_and_come_back() {
    each(|world| {
        // IPv6 addresses of the kernel do not survive it.
        let both = ["127.0.0.1:0", "127.0.0.1:0"];
        let (mut server, mut client) = (world.server(&both), world.client(&both));
        insist(&mut client, &mut server, 100);
        let link = world.link.as_ref().unwrap();
        for is_first in [true, false] {
            link.take_down();
            let (home, far) = match world.role {
                Role::Server => (&mut server, &client),
                Role::Client => (&mut client, &server),
            };
            // It looks at the link now and then, so that the second time may be too soon.
            if world.kind.is_dpdk() && is_first {
                let down = [0, 1].map(|id| Event::PortDown { listener: ListenerId(id) });
                assert_eq!(await_events(home), down);
            }
            // Lost, and of no consequence.
            home.send(far.address(), &[1; 3000], 1000);
            home.events();
            link.bring_up();
            insist(&mut server, &mut client, 101);
            insist(&mut client, &mut server, 102);
            assert_eq!((client.events(), server.events()), (vec![], vec![]));
            // What was under way.
            for node in [&mut client, &mut server] {
                node.driver.wait(Some(PAUSE)).unwrap();
                node.receive_once(Budget::UNLIMITED, &mut Vec::new());
            }
        }
    });
}

/// Waits until there are events.
fn await_events(node: &mut Node) -> Vec<Event> {
    for _ in 0..TRIES {
        node.driver.wait(Some(PAUSE)).unwrap();
        node.receive_once(Budget::UNLIMITED, &mut Vec::new());
        let events = node.events();
        if !events.is_empty() {
            return events;
        }
    }
    panic!("there is no event");
}

#[test]
#[ignore = "run by over_veth"]
fn fragments_are_dropped_and_counted() {
    each(|world| {
        for (bound, _) in BOTH {
            let (mut server, mut client) = world.pair(bound);
            let source = world.at(Role::Client, bound);
            let socket = world.within(Role::Client, || UdpSocket::bind(source).unwrap());
            socket.send_to(&[1; 4000], server.address()).unwrap();
            client.send(server.address(), b"honest", 6);
            let received = server.collect(1);
            assert_eq!(received.len(), 1);
            assert_eq!(received[0].bytes, b"honest");
            // The kernel puts fragments of IPv4 together before it selects a packet socket: one packet beyond the MTU.
            let whole = world.kind == Kind::AfPacket && source.is_ipv4();
            let expected = if whole { (0, 1) } else { (3, 0) };
            let counted = (dropped(&server, "fragment"), dropped(&server, "oversize"));
            assert_eq!(counted, expected);
        }
    });
}

#[test]
#[ignore = "run by over_veth"]
fn a_source_port_of_zero_is_dropped_and_counted() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let open = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).unwrap();
        let raw = world.within(Role::Client, open);
        // Source port, destination port, length, no checksum.
        let mut forged = [0; 12];
        forged[2..4].copy_from_slice(&server.address().port().to_be_bytes());
        forged[5] = 12;
        raw.send_to(&forged, &server.address().into()).unwrap();
        client.send(server.address(), b"honest", 6);
        let received = server.collect(1);
        assert_eq!(received.len(), 1);
        assert_eq!(received[0].meta.peer, client.address());
        let counted = if server.kind.is_dpdk() {
            dropped(&server, "source_port")
        } else {
            server.driver.counters().rx_port_zero
        };
        assert_eq!(counted, 1);
    });
}

#[test]
#[ignore = "run by over_veth"]
fn a_datagram_to_a_port_without_a_listener_is_dropped_and_counted() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let closed = world.at(Role::Server, "127.0.0.1:1");
        client.send(closed, b"anybody?", 8);
        client.send(server.address(), b"honest", 6);
        assert_eq!(server.collect(1)[0].bytes, b"honest");
        assert_eq!(dropped(&server, "no_listener"), 1);
    });
}
