//! Initial packets that the kernel drops in front of a driver's sockets.

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use sluicegate_dataplane::{
    Acquired, Backend, Budget, CidMark, Dataplane, DriverOptions, InitialFilter, SocketOptions,
    Steering, open_group,
};

use crate::node::{Datagram, Node};
use crate::rig::{FIRST, Kind, each};

const ALL: u32 = InitialFilter::ALL;
/// Mark of the server's connection IDs.
const MARK: CidMark = CidMark { cid_len: 16, at: 1, value: 0x63 };
/// Initials of each kind that a check sends, in rounds that fit the smallest receive buffer.
const ROUNDS: usize = 40;
const PER_ROUND: usize = 10;
const SENT: usize = ROUNDS * PER_ROUND;
const LEN: usize = 1200;

fn filter(known: u32, unknown: u32) -> InitialFilter {
    InitialFilter { known, unknown, mark: Some(MARK) }
}

fn long(first: u8, cid: &[u8]) -> Vec<u8> {
    let mut datagram = vec![first, 0, 0, 0, 1, u8::try_from(cid.len()).unwrap()];
    datagram.extend(cid);
    datagram.resize(LEN, 0);
    datagram
}

fn stranger() -> Vec<u8> {
    long(0xc0, &[0xaa; 8])
}

fn known() -> Vec<u8> {
    let mut cid = [0xaa; 16];
    cid[1] = MARK.value;
    long(0xc0, &cid)
}

fn handshake() -> Vec<u8> {
    long(0xe0, &[0xaa; 16])
}

fn short() -> Vec<u8> {
    vec![0x40; LEN]
}

/// Returns all datagrams up to the next one that is a single byte.
fn until_the_last(server: &mut Node) -> Vec<Datagram> {
    let mut datagrams = Vec::new();
    for _ in 0..500 {
        server.receive_once(Budget::UNLIMITED, &mut datagrams);
        if datagrams.pop_if(|datagram| datagram.bytes.len() == 1).is_some() {
            return datagrams;
        }
        server.driver.wait(Some(Duration::from_millis(20))).unwrap();
    }
    panic!("the last of {} datagrams did not arrive", datagrams.len());
}

/// Sends Initials of known and of unknown clients, one by one and between other packets, and returns how many of each pass.
fn that_pass(server: &mut Node, client: &mut Node) -> (usize, usize) {
    let target = server.address();
    let (mut of_known, mut of_unknown) = (0, 0);
    for _ in 0..ROUNDS {
        for datagram in [handshake(), short()] {
            client.send(target, &datagram, LEN);
        }
        for _ in 0..PER_ROUND {
            for datagram in [known(), stranger()] {
                client.send(target, &datagram, LEN);
            }
        }
        client.send(target, &[0x40], 1);
        let datagrams = until_the_last(server);
        let count = |bytes: Vec<u8>| datagrams.iter().filter(|d| d.bytes == bytes).count();
        assert_eq!((count(handshake()), count(short())), (1, 1));
        assert!(datagrams.iter().all(|d| d.bytes.len() == LEN));
        of_known += count(known());
        of_unknown += count(stranger());
        assert_eq!(2 + count(known()) + count(stranger()), datagrams.len());
    }
    (of_known, of_unknown)
}

#[test]
fn initials_pass_by_their_share_and_all_other_packets_pass() {
    each(|world| {
        for bound in ["127.0.0.1:0", "[::1]:0"] {
            let (mut server, mut client) = world.pair(bound);
            assert_eq!(that_pass(&mut server, &mut client), (SENT, SENT));
            server.driver.filter_initials(Some(&filter(0, 0))).unwrap();
            assert_eq!(that_pass(&mut server, &mut client), (0, 0));
            let dropped = server.driver.counters().rx_overflows;
            assert_eq!(dropped, 2 * SENT as u64);
            // Nine standard deviations of a binomial distribution.
            let half = SENT / 2 - 90..=SENT / 2 + 90;
            let some = Some(&filter(ALL, ALL / 2));
            server.driver.filter_initials(some).unwrap();
            let (of_known, of_unknown) = that_pass(&mut server, &mut client);
            assert_eq!(of_known, SENT);
            assert!(half.contains(&of_unknown), "{of_unknown}");
            let some = Some(&filter(ALL / 2, 0));
            server.driver.filter_initials(some).unwrap();
            let (of_known, of_unknown) = that_pass(&mut server, &mut client);
            assert!(half.contains(&of_known), "{of_known}");
            assert_eq!(of_unknown, 0);
            // The filter ends, and nothing is wrong where there is none.
            for _ in 0..2 {
                server.driver.filter_initials(None).unwrap();
                assert_eq!(that_pass(&mut server, &mut client), (SENT, SENT));
            }
        }
    });
}

#[test]
fn every_listener_of_a_driver_has_the_filter() {
    each(|world| {
        let mut server = world.server(&["127.0.0.1:0", "127.0.0.2:0"]);
        let mut client = world.client(&["127.0.0.1:0"]);
        server.driver.filter_initials(Some(&filter(0, 0))).unwrap();
        for target in server.addresses.clone() {
            client.send(target, &stranger(), LEN);
            client.send(target, &[0x40], 1);
            assert!(until_the_last(&mut server).is_empty());
        }
    });
}

#[test]
fn a_batch_passes_or_is_dropped_by_its_first_datagram() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let target = server.address();
        server.driver.filter_initials(Some(&filter(0, 0))).unwrap();
        for (first, expected) in [(short(), 8), (stranger(), 0)] {
            let rest = std::iter::repeat_n(stranger(), 7);
            let batch: Vec<u8> = std::iter::once(first).chain(rest).flatten().collect();
            client.send(target, &batch, LEN);
            client.send(target, &[0x40], 1);
            assert_eq!(until_the_last(&mut server).len(), expected);
        }
    });
}

#[test]
fn a_driver_without_sockets_has_no_filter() {
    each(|world| {
        let (mut server, mut client) = world.pair("127.0.0.1:0");
        let refused = server.driver.filter_initials(Some(&filter(0, 0)));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(that_pass(&mut server, &mut client), (SENT, SENT));
    });
}

/// A process that ends during a flood leaves its sockets to the service manager, or to the next process.
#[test]
fn an_inherited_socket_begins_without_the_filter_of_another_process() {
    let held = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap();
    let open = |socket: &UdpSocket| {
        let passed = vec![socket.try_clone().unwrap().into()];
        let acquired = vec![Acquired::inherit(FIRST, passed, 1).unwrap()];
        let (socket, driver) = (SocketOptions::default(), DriverOptions::default());
        let mut group =
            open_group(Backend::Mio, acquired, 1, Steering::Hash, &socket, driver).unwrap();
        let driver = group.seeds.remove(0).open().unwrap().driver;
        Node::new(Kind::Mio, driver, vec![address], None)
    };
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut ended = open(&held);
    ended.driver.filter_initials(Some(&filter(0, 0))).unwrap();
    client.send_to(&stranger(), address).unwrap();
    drop(ended);
    let mut server = open(&held);
    client.send_to(&stranger(), address).unwrap();
    assert_eq!(server.collect(1).len(), 1);
}
