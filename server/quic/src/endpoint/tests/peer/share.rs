//! Shares of connections: strangers use up nobody's.

use super::*;
use crate::counters::RefusalReason;

/// CONNECTION_REFUSED (RFC 9000 §20.1).
const REFUSED: Option<(bool, u64)> = Some((false, 0x2));

fn with_share(connections: u64, retry_above: Option<u64>) -> Attack {
    Attack::new(|settings| {
        settings.limits.connections_per_client = connections;
        settings.quic.retry_above = retry_above;
    })
}

/// Begins handshakes in the name of the client of [`PEER`], and hears no response.
fn forge(attack: &mut Attack, number: u16) {
    for port in 10_000..10_000 + number {
        let mut forged = Peer::new(&format!("192.0.2.1:{port}"), Setup::new(port.into()));
        attack.speak(&mut forged);
        attack.turn();
    }
}

fn refused(attack: &Attack) -> u64 {
    attack.endpoint().counters.refused[RefusalReason::Client]
}

#[test]
fn forged_handshakes_cost_the_client_in_whose_name_they_are_a_retry_and_no_share() {
    let mut attack = with_share(4, Some(1000));
    forge(&mut attack, 20);
    assert_eq!(attack.endpoint().len(), 4);
    let mut clients = Vec::new();
    for port in 5000..5004_u16 {
        let address = format!("192.0.2.1:{port}");
        let peer = attack.connect(&address, Setup::new(port.into()));
        assert_eq!(peer.client.retries, 1, "{address}");
        clients.push(peer);
    }
    assert_eq!(refused(&attack), 0);
    // The share is used up now, by connections of the client itself.
    let mut fifth = Peer::new("192.0.2.1:5004", Setup::new(5));
    attack.exchange(&mut fifth);
    assert_eq!(fifth.client.closed(), REFUSED);
    assert_eq!((fifth.client.retries, refused(&attack)), (0, 1));
    attack.endpoint().check();
}

#[test]
fn handshakes_that_end_when_the_share_is_used_up_are_refused() {
    let mut attack = with_share(1, Some(1000));
    let mut first = Peer::new(PEER, Setup::new(1));
    attack.speak(&mut first);
    let said = attack.turn();
    let second = attack.connect("192.0.2.1:5001", Setup::new(2));
    assert_eq!(second.client.retries, 1);
    hear(&mut first, said);
    attack.exchange(&mut first);
    assert_eq!(first.client.closed(), REFUSED);
    assert_eq!(refused(&attack), 1);
    attack.endpoint().check();
}

/// Nobody is ever asked for a proof, so there is none to wait for.
#[test]
fn without_a_retry_unproved_handshakes_count_for_the_address() {
    let mut attack = with_share(4, None);
    forge(&mut attack, 4);
    let mut peer = Peer::new(PEER, Setup::new(1));
    attack.exchange(&mut peer);
    assert_eq!(peer.client.closed(), REFUSED);
    assert_eq!(refused(&attack), 1);
}
