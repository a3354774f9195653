//! Datagrams that no client sends.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use sluicegate_sim::Rng;

use crate::client::{Client, run};
use crate::relay::Relay;
use crate::server::{Folder, PAGE, Server, field, total};
use crate::{on_auto, on_every_backend};

on_every_backend!(
    garbage_does_no_harm,
    truncated_initials_do_no_harm,
    a_clients_choice_may_look_like_the_servers_own,
);
on_auto!(
    an_unknown_version_is_answered_with_the_known_ones,
    a_late_copy_of_the_first_packet_opens_nothing,
    a_token_of_another_server_counts_as_none,
);

const V1: u32 = 1;
/// A version of the form reserved to force version negotiation (RFC 9000 §15).
const UNKNOWN: u32 = 0x1a2a_3a4a;
/// Shortest datagram that a client may open a connection with (RFC 9000 §14.1).
const MIN_DATAGRAM: usize = 1200;
const DCID: [u8; 8] = *b"to-serve";
const SCID: [u8; 5] = *b"tests";

/// Sends the datagrams and expects the server to serve afterwards.
fn send_and_serve(backend: &str, datagrams: impl Iterator<Item = Vec<u8>>) -> Vec<String> {
    let folder = Folder::new();
    let mut server = Server::simple(backend, &folder);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for datagram in datagrams {
        socket.send_to(&datagram, server.address()).unwrap();
    }
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
        drop(session);
        client.endpoint.wait_idle().await;
    });
    server.process.last_words()
}

fn garbage_does_no_harm(backend: &str) {
    // The same datagrams each time.
    let mut rng = Rng::new(7);
    let datagrams = (0..5000).map(move |_| {
        let length = rng.below(1500);
        let mut datagram: Vec<u8> = (0..length).map(|_| rng.bits().to_le_bytes()[0]).collect();
        // Every other one looks like a packet of version 1.
        if length >= 5 && rng.below(2) == 0 {
            datagram[0] |= 0xc0;
            datagram[1..5].copy_from_slice(&V1.to_be_bytes());
        }
        datagram
    });
    let said = send_and_serve(backend, datagrams);
    let known = [
        "truncated",
        "fixed_bit_zero",
        "cid_too_long",
        "cid_too_short",
        "server_only",
        "unknown_connection",
    ];
    for reason in known {
        assert!(dropped(&said, reason) > 0, "{reason}: {said:#?}");
    }
    assert_eq!(total(&said, "connections", "established"), 1);
}

/// Cut at every length, and padded after the cut.
fn truncated_initials_do_no_harm(backend: &str) {
    let whole = initial(V1, 64);
    let datagrams = (0..whole.len()).flat_map(|length| {
        let cut = whole[..length].to_vec();
        let mut padded = cut.clone();
        padded.resize(MIN_DATAGRAM, 0);
        [cut, padded]
    });
    let said = send_and_serve(backend, datagrams);
    assert_eq!(dropped(&said, "empty"), 1);
    // Cut before the token's length, which follows two connection IDs.
    let header = 1 + 4 + 1 + DCID.len() + 1 + SCID.len() + 1;
    // A lone first byte has the bits of a long header: too short even for a version.
    assert_eq!(dropped(&said, "truncated"), header as u64 - 1);
    assert_eq!(dropped(&said, "short_initial"), (whole.len() - header) as u64);
    assert_eq!(total(&said, "connections", "established"), 1);
    assert_eq!(total(&said, "requests", "status_2xx"), 1);
}

fn an_unknown_version_is_answered_with_the_known_ones(backend: &str) {
    let folder = Folder::new();
    let mut server = Server::simple(backend, &folder);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let short = initial(UNKNOWN, MIN_DATAGRAM - 1);
    socket.send_to(&short, server.address()).unwrap();
    // From the same address, so that the same worker has read the short one before.
    let answer = ask(&socket, server.address(), &initial(UNKNOWN, MIN_DATAGRAM));
    // RFC 8999 §6: long header, version 0, the connection IDs crossed over.
    assert!(answer[0] & 0x80 != 0);
    assert_eq!(answer[1..5], [0; 4]);
    let versions = answer[5..].strip_prefix(&[5]).and_then(|rest| rest.strip_prefix(&SCID));
    let versions = versions.and_then(|rest| rest.strip_prefix(&[8])?.strip_prefix(&DCID));
    let versions = versions.unwrap_or_else(|| panic!("{answer:x?}"));
    assert!(versions.len().is_multiple_of(4), "{answer:x?}");
    let versions: Vec<_> = versions.chunks(4).collect();
    assert!(versions.contains(&V1.to_be_bytes().as_slice()), "{versions:x?}");
    assert!(!versions.contains(&UNKNOWN.to_be_bytes().as_slice()), "{versions:x?}");
    let said = server.process.last_words();
    assert!(total(&said, "connections", "version_negotiations") >= 1);
    assert_eq!(dropped(&said, "unknown_version"), 1);
    assert_eq!(total(&said, "connections", "accepted"), 0);
}

/// A client draws its first destination connection ID at random: in one of 64 it names a worker as the server's own do, and
/// most often one that there is not.
fn a_clients_choice_may_look_like_the_servers_own(backend: &str) {
    let folder = Folder::new();
    let server = Server::simple(backend, &folder);
    run(async {
        let client = Client::new(&folder);
        for generation in 0..64 {
            for worker in [0, 1, 2, 200] {
                let mut dcid = [0x5a; 16];
                dcid[..3].copy_from_slice(&[worker, 0x40 | generation, worker ^ generation]);
                let mut session = client.connect_as(server.address(), dcid).await;
                assert_eq!(session.get("/").await.text().await, PAGE);
            }
        }
    });
}

fn a_late_copy_of_the_first_packet_opens_nothing(backend: &str) {
    let folder = Folder::new();
    let mut server = Server::simple(backend, &folder);
    run(async {
        let relay = Relay::start(server.address()).await;
        let client = Client::new(&folder);
        let mut session = client.connect(relay.address).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
        for _ in 0..5 {
            relay.repeat_first();
            assert_eq!(session.get("/").await.text().await, PAGE);
        }
        drop(session);
        client.endpoint.wait_idle().await;
    });
    let said = server.process.last_words();
    assert_eq!(total(&said, "connections", "accepted"), 1);
    assert_eq!(total(&said, "connections", "handshakes_failed"), 0);
}

/// Whatever it begins with (RFC 9000 §8.1.3).
fn a_token_of_another_server_counts_as_none(backend: &str) {
    let folder = Folder::new();
    let mut server = Server::simple(backend, &folder);
    run(async {
        let client = Client::new(&folder);
        for token in [vec![1; 84], vec![1; 20], vec![2; 84], b"other".to_vec()] {
            let mut session = client.connect_with_token(server.address(), token).await;
            assert_eq!(session.get("/").await.text().await, PAGE);
        }
        client.endpoint.wait_idle().await;
    });
    let said = server.process.last_words();
    assert!(total(&said, "connections", "bad_tokens") >= 1);
    assert_eq!(total(&said, "connections", "established"), 4);
}

/// Returns the datagrams that were dropped for `reason`, as the server said when it stopped.
fn dropped(said: &[String], reason: &str) -> u64 {
    let reason = format!("reason=\"{reason}\"");
    let mut lines = said.iter();
    let line = lines.find(|line| line.contains("datagrams dropped") && line.contains(&reason));
    line.map_or(0, |line| field(line, "count").parse().unwrap())
}

/// Sends `datagram`, again if it gets lost, and returns the response.
fn ask(socket: &UdpSocket, server: SocketAddr, datagram: &[u8]) -> Vec<u8> {
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut answer = vec![0; 2048];
    for _ in 0..20 {
        socket.send_to(datagram, server).unwrap();
        if let Ok((length, _)) = socket.recv_from(&mut answer) {
            answer.truncate(length);
            return answer;
        }
    }
    panic!("no answer");
}

/// Returns a long header of type Initial with an empty token and a payload that nobody can decrypt, `length` bytes.
fn initial(version: u32, length: usize) -> Vec<u8> {
    let mut packet = vec![0xc3];
    packet.extend_from_slice(&version.to_be_bytes());
    packet.push(8);
    packet.extend_from_slice(&DCID);
    packet.push(5);
    packet.extend_from_slice(&SCID);
    packet.push(0);
    let rest = u16::try_from(length - packet.len() - 2).unwrap();
    packet.extend_from_slice(&(rest | 0x4000).to_be_bytes());
    packet.resize(length, 0x55);
    packet
}
