//! Streams and handshake messages that arrive in pieces (CVE-2024-1765 for the latter).

use super::*;

const FLOW_CONTROL_ERROR: u64 = 0x3;
/// H3_REQUEST_REJECTED.
const REQUEST_REJECTED: u64 = 0x10b;
/// Bytes that the endpoint holds of a handshake, at most.
const HANDSHAKE: i64 = 128 << 10;
/// Bytes that a client may send on a stream, and a piece of them.
const WINDOW: usize = 256 << 10;
const PIECE: usize = 1024;

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
        let datagram = peer.client.datagram(&[(Kind::Initial, frames.collect())]);
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

/// Requests whose first byte never arrives fill the connection's window; PINGs keep the connection. The second time their
/// streams' IDs are below those that have begun.
#[test]
fn requests_without_their_first_byte_are_rejected() {
    let mut attack = Attack::new(|_| {});
    let mut peer = attack.connect(PEER, Setup::new(1));
    let rejected = |attack: &Attack| attack.endpoint().shared().counters.stalled_heads;
    for (round, first) in [(0, 16), (1, 0)] {
        let before = attack.held;
        // The last stream leaves less than a packet of the connection's window, for the control stream.
        let end = |stream| WINDOW - if stream == first + 12 { PIECE } else { 0 };
        for stream in (first..first + 16).step_by(4) {
            for offset in (PIECE..end(stream)).step_by(PIECE) {
                let (offset, data, fin) = (offset as u64, vec![0; PIECE], false);
                let piece = Frame::Stream { stream, offset, data, fin };
                send(&mut peer, piece);
            }
            attack.exchange(&mut peer);
        }
        assert!(attack.held - before > 900 << 10);
        let mut passed = 0;
        while rejected(&attack) < 4 * (round + 1) {
            passed += 1;
            assert!(passed <= 80, "{} rejected", rejected(&attack));
            send(&mut peer, Frame::Ping);
            attack.pass(Duration::from_secs(1), &mut peer);
        }
        assert!(passed >= 60, "{passed} s");
        for stream in (first..first + 16).step_by(4) {
            let (code, size) = (REQUEST_REJECTED, end(stream) as u64);
            send(&mut peer, Frame::ResetStream { stream, code, size });
        }
        for _ in 0..30 {
            send(&mut peer, Frame::Ping);
            attack.pass(Duration::from_secs(1), &mut peer);
        }
        let kept = attack.held - before;
        assert!(kept < HANDSHAKE, "{kept} bytes kept");
    }
    assert_eq!((peer.client.closed(), rejected(&attack)), (None, 8));
    attack.ask(&mut peer, 32, 1000);
    assert_eq!(peer.response(32), (Some(200), 1000));
}
