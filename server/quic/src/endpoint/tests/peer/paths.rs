//! Clients that move, or seem to.

use super::*;

const ELSEWHERE: &str = "198.51.100.7:6000";
const LENGTH: usize = 3_000_000;

/// Begins a download and lets it run for a while, so that the window has grown.
fn download(attack: &mut Attack) -> Peer {
    let mut peer = attack.connect(PEER, Setup::new(1));
    attack.ask(&mut peer, 0, LENGTH);
    assert!(peer.response(0).1 > 0);
    peer
}

/// Lets the client use another connection ID at another address, as after a change of network.
fn move_away(peer: &mut Peer) {
    let next = peer.client.frames.iter().find_map(|frame| match frame {
        Frame::NewConnectionId { id, .. } => Some(id.clone()),
        _ => None,
    });
    peer.client.dcid = next.expect("a spare connection ID");
    peer.meta = meta_of(ELSEWHERE);
    (peer.sent, peer.received) = (0, 0);
}

/// Returns the window on the active path, bytes.
fn window(attack: &Attack) -> usize {
    let connection = attack.endpoint().connections.get(0).unwrap();
    let mut paths = connection.quic().path_stats();
    paths.find(|path| path.active).unwrap().cwnd
}

#[test]
fn a_new_path_gets_three_times_what_came_from_it_until_it_is_validated() {
    let mut attack = Attack::new(|_| {});
    let mut honest = attack.connect(HONEST, Setup::new(77));
    attack.check_honest(&mut honest);
    let mut peer = attack.connect(PEER, Setup::new(1));
    peer.client.policy.acks = false;
    attack.ask(&mut peer, 0, LENGTH);
    move_away(&mut peer);
    peer.client.policy.paths = false;
    peer.client.send(&[Frame::Ping]);
    attack.pass(Duration::from_secs(20), &mut peer);
    assert!(
        peer.received > 0 && peer.received <= 3 * peer.sent,
        "{} for {}",
        peer.received,
        peer.sent
    );
    attack.check_honest(&mut honest);
}

#[test]
fn a_client_that_moves_is_validated_and_its_download_goes_on() {
    let mut attack = Attack::new(|_| {});
    let mut peer = download(&mut attack);
    attack.pass(Duration::from_millis(200), &mut peer);
    move_away(&mut peer);
    peer.client.send(&[Frame::Ping, Frame::Padding(1150)]);
    attack.pass(Duration::from_secs(60), &mut peer);
    let is_challenge = |frame: &Frame| matches!(frame, Frame::PathChallenge(_));
    assert!(peer.client.frames.iter().any(is_challenge));
    assert_eq!(peer.response(0), (Some(200), LENGTH));
    assert!(peer.client.streams[&0].is_finished());
    attack.endpoint().check();
}

/// Lets the client go on at another port, as behind a NAT, until the path is validated.
fn change_port(attack: &mut Attack, peer: &mut Peer, port: u16) {
    peer.meta.peer.set_port(port);
    peer.client.send(&[Frame::Ping, Frame::Padding(1150)]);
    attack.exchange(peer);
}

/// Lets the client make another request, whose response it gets.
fn serves_another_request(attack: &mut Attack, peer: &mut Peer) {
    attack.ask(peer, 4, LENGTH);
    attack.pass(Duration::from_secs(2), peer);
    assert_eq!(peer.client.closed(), None);
    assert_eq!(peer.response(4), (Some(200), LENGTH));
    attack.endpoint().check();
}

/// A path without a connection ID of its own shares another's, until a later one takes the other's place.
#[test]
fn an_address_that_shared_a_connection_id_can_be_returned_to() {
    let mut attack = Attack::new(|_| {});
    let mut peer = download(&mut attack);
    change_port(&mut attack, &mut peer, 5001);
    for sequence in 1..=3 {
        peer.client.send(&[issue(sequence, 0)]);
    }
    attack.pass(Duration::from_millis(100), &mut peer);
    for port in 5002..5004 {
        change_port(&mut attack, &mut peer, port);
        attack.pass(Duration::from_millis(100), &mut peer);
    }
    change_port(&mut attack, &mut peer, 5001);
    serves_another_request(&mut attack, &mut peer);
}

#[test]
fn a_shared_connection_id_may_be_retired_by_the_client() {
    let mut attack = Attack::new(|_| {});
    let mut peer = download(&mut attack);
    change_port(&mut attack, &mut peer, 5001);
    peer.client.send(&[issue(1, 1)]);
    serves_another_request(&mut attack, &mut peer);
    assert!(peer.client.frames.contains(&Frame::RetireConnectionId(0)));
}

/// The path that was left comes before the active one, and one connection ID takes the place of both.
#[test]
fn the_client_may_retire_the_connection_ids_of_every_path_at_once() {
    let mut attack = Attack::new(|_| {});
    let mut peer = download(&mut attack);
    peer.client.send(&[issue(1, 0)]);
    attack.exchange(&mut peer);
    change_port(&mut attack, &mut peer, 5001);
    peer.client.send(&[issue(2, 2)]);
    serves_another_request(&mut attack, &mut peer);
    for sequence in 0..2 {
        let retired = Frame::RetireConnectionId(sequence);
        assert!(peer.client.frames.contains(&retired), "{sequence}");
    }
}

/// The path is not validated, and every byte that it may get is used up. The client shows that it is there all the same.
#[test]
fn a_path_that_failed_its_validation_gets_another() {
    let mut attack = Attack::new(|_| {});
    let mut peer = download(&mut attack);
    let policy = peer.client.policy;
    (peer.client.policy.acks, peer.client.policy.paths) = (false, false);
    change_port(&mut attack, &mut peer, 5001);
    attack.pass(Duration::from_secs(20), &mut peer);
    peer.client.policy = policy;
    for _ in 0..20 {
        // Two datagrams, which arrive together.
        peer.client.send(&[Frame::Ping]);
        peer.client.send(&[Frame::Ping]);
        attack.pass(Duration::from_millis(500), &mut peer);
    }
    serves_another_request(&mut attack, &mut peer);
}

/// Nothing that was sent to the ports in between arrived.
#[test]
fn a_client_that_moves_on_before_it_is_validated_is_found() {
    let mut attack = Attack::new(|_| {});
    let mut peer = download(&mut attack);
    for port in 5001..5020 {
        peer.meta.peer.set_port(port);
        peer.client.send(&[Frame::Ping]);
        let datagram = peer.client.take_datagrams().remove(0);
        attack.ingest(&peer.meta, datagram);
        attack.turn();
    }
    for _ in 0..3 {
        peer.client.send(&[Frame::Ping]);
        attack.pass(Duration::from_millis(500), &mut peer);
    }
    serves_another_request(&mut attack, &mut peer);
}

/// The packet with the challenge arrived, as its acknowledgement shows. The response did not.
#[test]
fn a_challenge_without_a_response_is_repeated() {
    let mut attack = Attack::new(|_| {});
    let mut peer = download(&mut attack);
    peer.client.policy.paths = false;
    change_port(&mut attack, &mut peer, 5001);
    attack.pass(Duration::from_millis(100), &mut peer);
    peer.client.policy.paths = true;
    let is_challenge = |frame: &&Frame| matches!(frame, Frame::PathChallenge(_));
    assert_eq!(peer.client.frames.iter().filter(is_challenge).count(), 1);
    for _ in 0..3 {
        peer.client.send(&[Frame::Ping]);
        attack.pass(Duration::from_millis(500), &mut peer);
    }
    assert!(peer.client.frames.iter().filter(is_challenge).count() > 1);
    serves_another_request(&mut attack, &mut peer);
}

#[test]
fn a_copy_of_a_connection_id_that_was_retired_is_ignored() {
    let mut attack = Attack::new(|_| {});
    let mut peer = download(&mut attack);
    for sequence in 1..=3 {
        peer.client.send(&[issue(sequence, 0)]);
    }
    for port in 5001..5010 {
        change_port(&mut attack, &mut peer, port);
        attack.pass(Duration::from_secs(2), &mut peer);
    }
    let retired = |frame: &Frame| match frame {
        Frame::RetireConnectionId(sequence) => Some(*sequence),
        _ => None,
    };
    let retired: Vec<u64> = peer.client.frames.iter().filter_map(retired).collect();
    assert!(!retired.is_empty());
    for at in 0..retired.len() as u64 {
        peer.client.send(&[issue(4 + at, 0)]);
    }
    for sequence in retired.into_iter().filter(|sequence| *sequence > 0) {
        peer.client.send(&[issue(sequence, 0)]);
    }
    serves_another_request(&mut attack, &mut peer);
}

#[test]
fn a_new_path_begins_with_the_first_window() {
    let mut attack = Attack::new(|_| {});
    let mut peer = attack.connect(PEER, Setup::new(1));
    let first = window(&attack);
    attack.ask(&mut peer, 0, LENGTH);
    assert!(window(&attack) > 2 * first);
    peer.client.policy.acks = false;
    move_away(&mut peer);
    peer.client.send(&[Frame::Ping, Frame::Padding(1150)]);
    attack.exchange(&mut peer);
    assert_eq!(attack.endpoint().connections.get(0).unwrap().address, peer.meta.peer.into());
    assert!(window(&attack) <= first, "{} after {first}", window(&attack));
}

/// Somebody on the way sends copies of a client's datagrams from an address of its own.
#[test]
fn a_copy_from_another_address_moves_nobody() {
    let mut attack = Attack::new(|_| {});
    let mut peer = attack.connect(PEER, Setup::new(1));
    peer.client.send(&[Frame::Ping, Frame::Padding(1100)]);
    let datagram = peer.client.take_datagrams().remove(0);
    attack.ingest(&peer.meta, datagram.clone());
    hear_all(&mut attack, &mut peer);
    attack.ingest(&meta_of(ELSEWHERE), datagram);
    assert!(attack.turn().is_empty());
    attack.check_honest(&mut peer);
}

fn hear_all(attack: &mut Attack, peer: &mut Peer) {
    let said = attack.turn();
    hear(peer, said);
}

/// An attacker claims a new address with each packet.
#[test]
fn a_flood_of_addresses_leaves_nothing_behind() {
    let mut attack = Attack::new(|_| {});
    let mut honest = attack.connect(HONEST, Setup::new(77));
    attack.check_honest(&mut honest);
    let mut peer = attack.connect(PEER, Setup::new(1));
    let mut before = 0;
    for number in 0..2000_u16 {
        let [high, low] = number.to_be_bytes();
        peer.meta.peer = SocketAddr::from(([198, 51, high, low], 7000));
        peer.client.send(&[Frame::Ping]);
        attack.pass(Duration::from_millis(1), &mut peer);
        if number == 500 {
            before = attack.held;
        }
    }
    let grown = attack.held - before;
    assert!(grown < 16 << 10, "{grown} bytes more");
    attack.check_honest(&mut honest);
    attack.endpoint().check();
}
