//! Cases that need a network of their own: a slow loopback that fills sockets, no routes, forged datagrams, interfaces of
//! several MTUs.
//!
//! The test runs this program again in a network namespace, with the ignored tests of this file.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use sluicegate_dataplane::requirements::skip;
use sluicegate_dataplane::{
    Acquired, Backend, Budget, Dataplane, DriverOptions, Event, ListenerId, NoRoom, SocketOptions,
    Steering, open_group,
};

use crate::node::{check_unreachable, number_of, numbered, send_through_a_full_socket, to};
use crate::rig::{FIRST, Kind, Shape, each};

/// Loopback sends 40 Mbit/s and keeps what is too much for it, so that senders wait. Two interfaces carry less and more
/// than Ethernet.
const NETWORK: &str = "ip link set lo up && \
                       tc qdisc add dev lo root tbf rate 40mbit burst 20k limit 20m && \
                       ip link add name narrow type veth peer name jumbo && \
                       ip addr add 198.51.100.1/24 dev narrow && ip link set narrow mtu 1280 up && \
                       ip addr add 203.0.113.1/24 dev jumbo && ip link set jumbo mtu 9000 up";

#[test]
fn in_a_network_namespace() {
    let possible = Command::new("unshare").args(["-rn", "sh", "-c", NETWORK]).output();
    if !possible.as_ref().is_ok_and(|output| output.status.success()) {
        let cause = format_args!("no slow loopback and veth here: {possible:?}");
        return skip("namespace", &cause);
    }
    let program = std::env::current_exe().unwrap();
    let script = format!("{NETWORK} && exec \"$0\" --ignored --test-threads 1 namespace::");
    let output =
        Command::new("unshare").args(["-rn", "sh", "-c", &script]).arg(program).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    assert!(text.contains("9 passed"));
}

#[test]
#[ignore = "run by in_a_network_namespace"]
fn a_full_socket_blocks_its_listener_and_loses_nothing() {
    each(|world| {
        let tight = SocketOptions { send_buffer: 256 << 10, ..SocketOptions::default() };
        let wide = SocketOptions { receive_buffer: 64 << 20, ..tight };
        let mut client = world.client_with(&["127.0.0.1:0"], tight);
        let mut server = world.server_with(&["127.0.0.1:0"], wide);
        let (blocked, mut numbers) = send_through_a_full_socket(&mut client, &mut server, 2000);
        assert!(blocked > 0, "nothing ever blocked");
        if world.kind.backend() == Some(Backend::IoUring) {
            // Around a full socket a later message may pass.
            numbers.sort_unstable();
        }
        assert!(numbers == Vec::from_iter(0..2000), "{} arrived", numbers.len());
        assert_eq!(client.driver.counters().tx_errors, 0);
    });
}

#[test]
#[ignore = "run by in_a_network_namespace"]
fn buffers_that_the_device_has_not_sent_are_not_written_to() {
    each(|world| {
        // Two buffers, which the slow loopback keeps for tens of milliseconds.
        let mut options = DriverOptions::default();
        (options.tx_slots, options.zero_copy) = (1, 1);
        let wide = SocketOptions { receive_buffer: 64 << 20, ..SocketOptions::default() };
        let shape = Shape { driver: options, ..Shape::from(wide) };
        let mut client = world.client_with(&["127.0.0.1:0"], shape);
        let mut server = world.server_with(&["127.0.0.1:0"], wide);
        let starts = client.driver.features().zero_copy;
        assert_eq!(starts, world.kind != Kind::Mio);
        let (blocked, mut numbers) = send_through_a_full_socket(&mut client, &mut server, 1000);
        // A driver that ran out of memory to lock copies again, and may change the order once.
        let lends = client.driver.features().zero_copy;
        if !lends {
            numbers.sort_unstable();
        }
        assert!(numbers == Vec::from_iter(0..1000), "{}", numbers.len());
        assert_eq!(client.driver.counters().tx_errors, 0);
        assert_eq!(blocked > 0, lends);
    });
}

#[test]
#[ignore = "run by in_a_network_namespace"]
fn a_full_socket_does_not_stop_another_listener() {
    each(|world| {
        let tight = SocketOptions { send_buffer: 256 << 10, ..SocketOptions::default() };
        let both = ["127.0.0.1:0", "127.0.0.1:0"];
        let mut client = world.client_with(&both, tight);
        let mut server = world.server_with(&["127.0.0.1:0"], tight);
        let meta = to(server.address());
        let mut passed = 0;
        for round in 0..200 {
            let refused = client.driver.transmit(Budget::UNLIMITED, |out| {
                let refused = loop {
                    match out.room(FIRST, 1000) {
                        Ok(room) => room.copy_from_slice(&numbered(0, 1000)),
                        Err(reason) => break reason,
                    }
                    out.commit(1000, &meta);
                };
                if let Ok(room) = out.room(ListenerId(1), 100) {
                    room.copy_from_slice(&numbered(round, 100));
                    out.commit(100, &meta);
                    passed += 1;
                }
                refused
            });
            assert_eq!(refused.unwrap(), NoRoom::Blocked);
        }
        assert_eq!(passed, 200);
        client.driver.wait(Some(Duration::ZERO)).unwrap();
        let mut received = Vec::new();
        for _ in 0..1000 {
            server.driver.wait(Some(Duration::from_millis(20))).unwrap();
            server.receive_once(Budget::UNLIMITED, &mut received);
            received.retain(|datagram| datagram.meta.peer == client.addresses[1]);
            if received.len() == 200 {
                break;
            }
        }
        let numbers: Vec<usize> = received.iter().map(|d| number_of(&d.bytes)).collect();
        assert_eq!(numbers, Vec::from_iter(0..200));
    });
}

#[test]
#[ignore = "run by in_a_network_namespace"]
fn an_unreachable_peer_is_reported_and_does_not_hold_up_others() {
    each(|world| {
        let options = SocketOptions::default();
        let mut client = world.client_with(&["0.0.0.0:0"], options);
        let mut server = world.server_with(&["127.0.0.1:0"], options);
        check_unreachable(&mut client, &mut server);
    });
}

#[test]
#[ignore = "run by in_a_network_namespace"]
fn a_source_port_of_zero_is_dropped_and_counted() {
    each(|world| {
        let mut server = world.server(&["127.0.0.1:0"]);
        let mut client = world.client(&["127.0.0.1:0"]);
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).unwrap();
        // Source port, destination port, length, no checksum.
        let mut forged = [0; 12];
        forged[2..4].copy_from_slice(&server.address().port().to_be_bytes());
        forged[5] = 12;
        raw.send_to(&forged, &server.address().into()).unwrap();
        client.send(server.address(), b"honest", 6);
        let received = server.collect(1);
        assert_eq!(received.len(), 1);
        assert_eq!(received[0].meta.peer, client.address());
        assert_eq!(server.driver.counters().rx_port_zero, 1);
    });
}

#[test]
#[ignore = "run by in_a_network_namespace"]
fn each_interface_carries_datagrams_of_its_own_mtu() {
    let payloads = |address: &str| {
        let acquired = Acquired::bind(FIRST, address.parse().unwrap(), 1).unwrap();
        let (socket, driver) = (SocketOptions::default(), DriverOptions::default());
        let group =
            open_group(Backend::Mio, vec![acquired], 1, Steering::Hash, &socket, driver).unwrap();
        group.listeners[0].payloads.clone()
    };
    assert_eq!(payloads("198.51.100.1:0").largest(), Some(1252));
    assert_eq!(payloads("203.0.113.1:0").largest(), Some(8972));
    let all = payloads("0.0.0.0:0");
    let at = |address: &str| all.at(address.parse().unwrap());
    assert_eq!(at("198.51.100.1"), Some(1252));
    assert_eq!(at("203.0.113.1"), Some(8972));
    assert_eq!(at("192.0.2.1"), Some(8972), "an address that came later");
}

#[test]
#[ignore = "run by in_a_network_namespace"]
fn a_datagram_too_big_for_its_interface_is_reported_once_a_batch() {
    each(|world| {
        let options = SocketOptions::default();
        let mut client = world.client_with(&["0.0.0.0:0"], options);
        let peer: SocketAddr = "198.51.100.9:9".parse().unwrap();
        client.send(peer, &[1; 8 * 1400], 1400);
        let counters = client.driver.counters();
        assert_eq!((counters.tx_errors, counters.tx_datagrams), (1, 0));
        let too_big = Event::TooBig { listener: FIRST, peer, size: 1400 };
        assert_eq!(client.events(), [too_big]);
        client.send(peer, &[2; 8 * 1252], 1252);
        assert_eq!(client.driver.counters().tx_datagrams, 8);
        assert_eq!(client.events(), []);
    });
}

/// Takes the interface of the small MTU up or down.
fn set_link(state: &str) {
    let command = Command::new("ip").args(["link", "set", "narrow", state]).status();
    assert!(command.unwrap().success());
}

#[test]
#[ignore = "run by in_a_network_namespace"]
fn an_interface_may_go_down_and_come_back() {
    each(|world| {
        let options = SocketOptions::default();
        let mut server = world.server_with(&["0.0.0.0:0"], options);
        let mut client = world.client_with(&["127.0.0.1:0"], options);
        let far: SocketAddr = "198.51.100.9:9".parse().unwrap();
        let unreachable = Event::Unreachable { listener: FIRST, peer: far };
        let near = SocketAddr::new(client.address().ip(), server.address().port());
        for round in 1..=2 {
            for state in ["down", "up"] {
                set_link(state);
                let before = server.driver.counters();
                server.send(far, b"anybody?", 8);
                let counters = server.driver.counters();
                let sent = counters.tx_datagrams - before.tx_datagrams;
                let expected = if state == "up" { 1 } else { 0 };
                assert_eq!(sent, expected, "{state} for the {round}. time");
                let events = if state == "up" { vec![] } else { vec![unreachable] };
                assert_eq!(server.events(), events);
                // Peers on other interfaces notice nothing.
                client.send(near, b"question", 8);
                assert_eq!(server.collect(1)[0].bytes, b"question");
                server.send(client.address(), b"reply", 5);
                assert_eq!(client.collect(1)[0].bytes, b"reply");
            }
        }
    });
}

/// Returns an ICMP error of type 3 about a datagram of 1280 bytes that nobody sent from `source`.
fn icmp_error(code: u8, source: SocketAddr) -> [u8; 36] {
    let mut error = [0; 36];
    error[..8].copy_from_slice(&[3, code, 0, 0, 0, 0, 2, 0]);
    // Header of the quoted datagram: version, length, time to live, protocol, addresses, ports.
    error[8] = 0x45;
    error[10..12].copy_from_slice(&1308u16.to_be_bytes());
    error[16..18].copy_from_slice(&[64, 17]);
    error[20..24].copy_from_slice(&[127, 0, 0, 1]);
    error[24..28].copy_from_slice(&[192, 0, 2, 77]);
    error[28..30].copy_from_slice(&source.port().to_be_bytes());
    error[31] = 9;
    error[32..34].copy_from_slice(&1288u16.to_be_bytes());
    let words = error.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum: u32 = words.sum();
    let checksum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    error[2..4].copy_from_slice(&checksum.to_be_bytes());
    error
}

#[test]
#[ignore = "run by in_a_network_namespace"]
fn forged_icmp_errors_fail_no_send_and_take_no_room() {
    each(|world| {
        let options = SocketOptions { receive_buffer: 32 << 10, ..SocketOptions::default() };
        let mut server = world.server_with(&["127.0.0.1:0"], options);
        let mut client = world.client_with(&["127.0.0.1:0"], options);
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap();
        // Port unreachable, and fragmentation needed.
        for code in [3, 4] {
            let error = icmp_error(code, server.address());
            for _ in 0..500 {
                // The slow loopback refuses some for a while.
                while raw.send_to(&error, &server.address().into()).is_err() {
                    std::thread::park_timeout(Duration::from_millis(1));
                }
            }
            client.send(server.address(), b"question", 8);
            assert_eq!(server.collect(1)[0].bytes, b"question");
            raw.send_to(&error, &server.address().into()).unwrap();
            server.send(client.address(), b"reply", 5);
            assert_eq!(client.collect(1)[0].bytes, b"reply");
        }
        assert_eq!(server.events(), []);
        let counters = server.driver.counters();
        assert_eq!((counters.tx_errors, counters.rx_errors), (0, 0));
    });
}
