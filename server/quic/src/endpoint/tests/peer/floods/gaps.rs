//! Streams and handshake messages that arrive in pieces (CVE-2024-1765 for the latter).

use super::*;

const FLOW_CONTROL_ERROR: u64 = 0x3;
/// Bytes that the endpoint holds of a handshake, at most.
const HANDSHAKE: i64 = 128 << 10;

/// Returns offset and bytes of a piece with a gap in front.
fn sparse(n: u64) -> (u64, Vec<u8>) {
    (2 * n + 1, vec![0])
}

#[test]
fn bytes_with_gaps_are_bounded() {
    let crypto: Packets = |peer, n| {
        let (offset, data) = sparse(n);
        send(peer, Frame::Crypto { offset, data });
    };
    let stream: Packets = |peer, n| {
        let (offset, data) = sparse(n);
        let (stream, fin) = (0, false);
        send(peer, Frame::Stream { stream, offset, data, fin });
    };
    check_all(vec![
        flood("CRYPTO", true, crypto, End::Closed(FLOW_CONTROL_ERROR)),
        flood("STREAM", true, stream, End::Closed(FLOW_CONTROL_ERROR)),
    ]);
}

/// Initial packets whose handshake messages never become whole, from an address that proves nothing.
#[test]
fn a_handshake_with_gaps_is_bounded_and_ends() {
    let mut attack = Attack::new(|_| {});
    let mut honest = attack.connect(HONEST, Setup::new(77));
    attack.check_honest(&mut honest);
    let (before, mut most) = (attack.held, 0);
    let mut peer = Peer::new(PEER, Setup::new(1));
    peer.client.take_datagrams();
    for n in 0..500 {
        let frames = (0..60).map(|k| {
            let (offset, data) = sparse(n * 60 + k);
            Frame::Crypto { offset, data }
        });
        let datagram = peer.client.datagram(&[(PacketKind::Initial, frames.collect())]);
        peer.client.queue(datagram);
        attack.exchange(&mut peer);
        most = most.max(attack.held - before);
    }
    assert!(most < HANDSHAKE, "{most} bytes of one handshake");
    assert_eq!(peer.client.closed(), Some((false, FLOW_CONTROL_ERROR)));
    attack.check_honest(&mut honest);
    attack.pass(Duration::from_secs(10), &mut peer);
    assert_eq!(attack.endpoint().len(), 1);
}

/// An honest client whose packets arrive in the wrong order, each with one byte.
#[test]
fn a_request_in_bytes_from_its_end_is_answered() {
    let mut attack = Attack::new(|_| {});
    let mut peer = attack.connect(PEER, Setup::new(1));
    let head = http3::get("/bytes/100", &[("x-long", &"y".repeat(2000))]);
    let last = head.len() - 1;
    let before = attack.held;
    let mut most = 0;
    for (index, byte) in head.iter().enumerate().rev() {
        let (offset, data) = (index as u64, vec![*byte]);
        let (stream, fin) = (0, index == last);
        send(&mut peer, Frame::Stream { stream, offset, data, fin });
        attack.exchange(&mut peer);
        most = most.max(attack.held - before);
    }
    assert_eq!(peer.response(0), (Some(200), 100));
    assert!(most < HANDSHAKE, "{most} bytes of a request");
}
