//! Unfinished handshakes at a worker that has as many connections as it may, and newcomers. Time is the test's own.

use sluicegate_raw_client::Setup;

use super::*;
use crate::counters::RefusalReason;
use crate::testing::{Attack, Peer, hear};

/// CONNECTION_REFUSED (RFC 9000 §20.1).
const REFUSED: Option<(bool, u64)> = Some((false, 0x2));
/// Connections of the worker.
const CONNECTIONS: u8 = 8;
/// The same, as the endpoint counts them.
const ALL: usize = CONNECTIONS as usize;

fn with_limit(retry_above: Option<u64>) -> Attack {
    Attack::new(|settings| {
        settings.limits.connections_per_worker = CONNECTIONS.into();
        settings.quic.retry_above = retry_above;
    })
}

/// Begins a handshake from `address`, and never goes on.
fn begin(attack: &mut Attack, address: &str) -> Peer {
    let number = address
        .bytes()
        .fold(0_u64, |number, byte| number.wrapping_mul(31).wrapping_add(byte.into()));
    let mut peer = Peer::new(address, Setup::new(number));
    (peer.client.policy.handshake, peer.client.policy.acks) = (false, false);
    attack.speak(&mut peer);
    let said = attack.turn();
    hear(&mut peer, said);
    peer
}

/// Connects from an address of its own, by its number.
fn newcomer(attack: &mut Attack, number: u8) -> Peer {
    let address = format!("198.51.100.{number}:5000");
    let peer = attack.connect(&address, Setup::new(number.into()));
    attack.endpoint().check();
    peer
}

fn displaced(attack: &Attack) -> u64 {
    attack.endpoint().counters.displaced
}

fn refused(attack: &Attack) -> u64 {
    attack.endpoint().counters.refused[RefusalReason::Worker]
}

#[test]
fn unfinished_handshakes_of_one_client_give_way_to_newcomers_that_prove_their_address() {
    let mut attack = with_limit(Some(1000));
    let mut honest = attack.connect("192.0.2.77:4000", Setup::new(77));
    for port in 1..CONNECTIONS {
        begin(&mut attack, &format!("192.0.2.1:{}", 5000 + u16::from(port)));
    }
    assert_eq!(attack.endpoint().len(), ALL);
    // The last few have as much time as any client.
    for number in 1..5 {
        let peer = newcomer(&mut attack, number);
        assert_eq!(peer.client.retries, 1);
    }
    assert_eq!((displaced(&attack), refused(&attack)), (4, 0));
    assert_eq!(attack.endpoint().len(), ALL);
    attack.check_honest(&mut honest);
    attack.pass(Duration::from_secs(1), &mut honest);
    for number in 5..CONNECTIONS {
        newcomer(&mut attack, number);
    }
    assert_eq!((displaced(&attack), refused(&attack)), (7, 0));
    attack.check_honest(&mut honest);
}

#[test]
fn who_has_not_proved_an_address_displaces_nobody() {
    let mut attack = with_limit(Some(1000));
    for port in 0..CONNECTIONS {
        begin(&mut attack, &format!("192.0.2.1:{}", 5000 + u16::from(port)));
    }
    for port in 0..100 {
        begin(&mut attack, &format!("198.51.100.1:{}", 5000 + port));
    }
    let counters = &attack.endpoint().counters;
    assert_eq!((counters.retries, counters.displaced), (100, 0));
    assert_eq!(counters.accepted, u64::from(CONNECTIONS));
}

#[test]
fn where_no_proof_is_ever_asked_for_newcomers_have_room_all_the_same() {
    let mut attack = with_limit(None);
    for port in 0..CONNECTIONS {
        begin(&mut attack, &format!("192.0.2.1:{}", 5000 + u16::from(port)));
    }
    let peer = newcomer(&mut attack, 1);
    assert_eq!((peer.client.retries, displaced(&attack)), (0, 1));
}

#[test]
fn handshakes_from_everywhere_give_way_once_their_clients_have_had_time() {
    let mut attack = with_limit(Some(1000));
    let mut peers: Vec<Peer> = (0..CONNECTIONS)
        .map(|number| begin(&mut attack, &format!("192.0.2.{number}:5000")))
        .collect();
    let mut early = Peer::new("198.51.100.1:5000", Setup::new(1));
    attack.exchange(&mut early);
    assert_eq!(early.client.closed(), REFUSED);
    assert_eq!((displaced(&attack), refused(&attack)), (0, 1));
    attack.pass(Duration::from_millis(300), &mut early);
    let mut late = Peer::new("198.51.100.2:5000", Setup::new(2));
    attack.speak(&mut late);
    let said = attack.turn();
    hear(&mut late, said);
    attack.speak(&mut late);
    let said = attack.turn();
    hear(&mut peers[0], said.clone());
    hear(&mut late, said);
    assert_eq!(peers[0].client.closed(), REFUSED, "the oldest");
    assert_eq!((displaced(&attack), refused(&attack)), (1, 1));
    attack.exchange(&mut late);
    assert!(late.client.is_established());
    attack.endpoint().check();
}
