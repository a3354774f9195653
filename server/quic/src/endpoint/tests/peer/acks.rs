//! Acknowledgements of packets that did not arrive (CVE-2025-4820, CVE-2025-4821).

use super::*;

const PROTOCOL_VIOLATION: u64 = 0xa;
/// More than a client gets before it acknowledges a packet number that was left out.
const LENGTH: usize = 50_000_000;
/// Turns until then, at most.
const TURNS: usize = 3000;
const STEP: Duration = Duration::from_millis(10);

/// Begins a download whose packets the client does not acknowledge by itself.
fn download(attack: &mut Attack) -> Peer {
    let mut peer = attack.connect(PEER, Setup::new(1));
    peer.client.policy.acks = false;
    attack.ask(&mut peer, 0, LENGTH);
    peer
}

/// Lets the client acknowledge what `ack` says each turn, until the server closes the connection. Returns the bytes of the
/// body that arrived until then.
fn until_closed(attack: &mut Attack, peer: &mut Peer, ack: fn(&Client) -> Frame) -> usize {
    for _ in 0..TURNS {
        let frame = ack(&peer.client);
        peer.client.send(&[frame]);
        attack.pass(STEP, peer);
        if let Some(closed) = peer.client.closed() {
            assert_eq!(closed, (false, PROTOCOL_VIOLATION));
            return peer.response(0).1;
        }
    }
    panic!("not closed after {} bytes", peer.response(0).1);
}

fn largest(client: &Client) -> u64 {
    client.largest(PacketKind::OneRtt).0.unwrap()
}

#[test]
fn who_acknowledges_every_number_up_to_the_last_is_caught_by_one_that_was_left_out() {
    let mut attack = Attack::new(|_| {});
    let mut honest = attack.connect(HONEST, Setup::new(77));
    let mut peer = download(&mut attack);
    let arrived = until_closed(&mut attack, &mut peer, |client| Frame::ack(0, largest(client)));
    assert!(arrived < LENGTH, "{arrived}");
    attack.check_honest(&mut honest);
}

#[test]
fn who_acknowledges_the_next_number_before_it_is_sent_is_closed_at_once() {
    let mut attack = Attack::new(|_| {});
    let mut honest = attack.connect(HONEST, Setup::new(77));
    let mut peer = download(&mut attack);
    let window = peer.response(0).1;
    let arrived = until_closed(&mut attack, &mut peer, |client| {
        let largest = largest(client);
        Frame::ack(largest + 1, largest + 100)
    });
    // The window has not grown.
    assert_eq!(arrived, window);
    attack.check_honest(&mut honest);
}

#[test]
fn who_acknowledges_a_number_that_was_left_out_after_larger_ones_is_closed() {
    let mut attack = Attack::new(|_| {});
    let mut honest = attack.connect(HONEST, Setup::new(77));
    let mut peer = attack.connect(PEER, Setup::new(1));
    attack.ask(&mut peer, 0, 1_000_000);
    attack.pass(Duration::from_secs(2), &mut peer);
    assert_eq!(peer.response(0), (Some(200), 1_000_000));
    assert_eq!(peer.client.closed(), None, "honest so far");
    let largest = largest(&peer.client);
    peer.client.send(&[Frame::ack(0, largest)]);
    attack.exchange(&mut peer);
    assert_eq!(peer.client.closed(), Some((false, PROTOCOL_VIOLATION)));
    attack.check_honest(&mut honest);
}
