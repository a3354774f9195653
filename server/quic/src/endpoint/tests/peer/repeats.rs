//! Packets that repeat a frame more often than an honest client does.

use super::*;

/// Frames about the connection as a whole that a packet may contain, and that one of the handshake may contain.
const MOST: usize = 32;
const MOST_OF_HANDSHAKE: usize = 64;
/// The same for MAX_STREAMS frames, of which an honest client may send one for each stream that has ended.
const MOST_OF_MAX_STREAMS: usize = 128;
const PROTOCOL_VIOLATION: u64 = 0xa;

/// A frame of each kind that is counted.
fn counted() -> [(&'static str, Frame); 15] {
    let id =
        Frame::NewConnectionId { sequence: 1, retire_prior_to: 0, id: vec![7; 8], token: [7; 16] };
    let empty = Frame::Crypto { offset: 0, data: Vec::new() };
    // Of a stream with a type that the server does not know.
    let stream =
        |data: &[u8]| Frame::Stream { stream: 14, offset: 0, data: data.to_vec(), fin: false };
    let limit = |bidirectional| Frame::MaxStreams { bidirectional, max: 200 };
    let blocked = |bidirectional| Frame::StreamsBlocked { bidirectional, limit: 200 };
    [
        ("PING", Frame::Ping),
        ("ACK", Frame::ack(0, 0)),
        ("CRYPTO", empty),
        ("MAX_DATA", Frame::MaxData(1 << 30)),
        ("MAX_STREAMS, bidirectional", limit(true)),
        ("MAX_STREAMS, unidirectional", limit(false)),
        ("DATA_BLOCKED", Frame::DataBlocked(9)),
        ("STREAMS_BLOCKED, bidirectional", blocked(true)),
        ("STREAMS_BLOCKED, unidirectional", blocked(false)),
        ("NEW_CONNECTION_ID", id),
        ("RETIRE_CONNECTION_ID", Frame::RetireConnectionId(1)),
        ("PATH_CHALLENGE", Frame::PathChallenge([7; 8])),
        ("PATH_RESPONSE", Frame::PathResponse([7; 8])),
        ("STREAM without data", stream(&[])),
        ("STREAM with a byte", stream(&[0x21])),
    ]
}

/// Sends the frames in one packet of a client, and returns the code with which the server closes its connection.
fn outcome(attack: &mut Attack, number: u64, frames: &[Frame]) -> Option<(bool, u64)> {
    let mut peer = attack.connect(PEER, Setup::new(number));
    peer.client.send(frames);
    attack.exchange(&mut peer);
    let closed = peer.client.closed();
    if closed.is_none() {
        attack.check_honest(&mut peer);
    }
    attack.pass(Duration::from_secs(60), &mut peer);
    closed
}

#[test]
fn packet_that_repeats_a_frame_too_often_closes_its_connection() {
    let mut attack = Attack::new(|_| {});
    let mut wrong = Vec::new();
    for (number, (what, frame)) in (1000..).step_by(2).zip(counted()) {
        let most = match frame {
            Frame::MaxStreams { .. } => MOST_OF_MAX_STREAMS,
            _ => MOST,
        };
        let allowed = vec![frame.clone(); most];
        let closed = outcome(&mut attack, number, &allowed);
        if closed.is_some() {
            wrong.push(format!("{what}: {closed:x?} for as many as are allowed"));
        }
        let more = vec![frame; most + 1];
        let closed = outcome(&mut attack, number + 1, &more);
        if closed != Some((false, PROTOCOL_VIOLATION)) {
            wrong.push(format!("{what}: {closed:x?} for one more"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A browser's page that is left cancels as many requests as it has.
#[test]
fn packet_may_speak_of_many_streams() {
    let mut attack = Attack::new(|_| {});
    let reset = |stream| Frame::ResetStream { stream, code: 0x10c, size: 0 };
    let stop = |stream| Frame::StopSending { stream, code: 0x10c };
    let end = |stream| Frame::Stream { stream, offset: 0, data: Vec::new(), fin: true };
    let cancelled = (0..50).flat_map(|n| [reset(4 * n), stop(4 * n)]);
    let ended = (50..90).map(|n| end(4 * n));
    let frames: Vec<Frame> = cancelled.chain(ended).collect();
    assert_eq!(outcome(&mut attack, 1, &frames), None);
}

/// Chrome sends its first message in pieces, in any order, with PINGs and padding between them.
#[test]
fn first_message_in_pieces_between_pings_is_taken() {
    let mut attack = Attack::new(|_| {});
    let mut peer = Peer::new(PEER, Setup::new(1));
    drop(peer.client.take_datagrams());
    let hello = peer.client.hello().to_vec();
    let pieces = hello.chunks(hello.len().div_ceil(20));
    let mut offset = 0;
    let mut frames = Vec::new();
    for data in pieces {
        frames.splice(
            0..0,
            [Frame::Crypto { offset, data: data.to_vec() }, Frame::Ping, Frame::Padding(3)],
        );
        offset += data.len() as u64;
    }
    let datagram = peer.client.datagram(&[(PacketKind::Initial, frames)]);
    peer.client.queue(datagram);
    attack.exchange(&mut peer);
    assert!(peer.client.is_confirmed());
    attack.check_honest(&mut peer);
}

#[test]
fn initial_that_repeats_frames_too_often_opens_no_connection() {
    for count in [MOST_OF_HANDSHAKE, MOST_OF_HANDSHAKE + 1] {
        let mut attack = Attack::new(|_| {});
        let mut peer = Peer::new(PEER, Setup::new(1));
        drop(peer.client.take_datagrams());
        let frames = vec![Frame::Ping; count];
        let datagram = peer.client.datagram(&[(PacketKind::Initial, frames)]);
        peer.client.queue(datagram);
        attack.exchange(&mut peer);
        let is_open = count <= MOST_OF_HANDSHAKE;
        assert_eq!(attack.endpoint().len(), usize::from(is_open), "{count}");
    }
}
