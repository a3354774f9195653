//! Frames and packets that close their connection, with the codes of RFC 9000 §20.1.

use super::*;

const FLOW_CONTROL_ERROR: u64 = 0x3;
const STREAM_LIMIT_ERROR: u64 = 0x4;
const STREAM_STATE_ERROR: u64 = 0x5;
const FINAL_SIZE_ERROR: u64 = 0x6;
const FRAME_ENCODING_ERROR: u64 = 0x7;
const CONNECTION_ID_LIMIT_ERROR: u64 = 0x9;
const PROTOCOL_VIOLATION: u64 = 0xa;
const CRYPTO_BUFFER_EXCEEDED: u64 = 0xd;
/// TLS alert unexpected_message.
const UNEXPECTED_MESSAGE: u64 = 0x10a;

/// The first stream that the server may open, of each kind.
const SERVER_BIDI: u64 = 1;
const SERVER_UNI: u64 = 3;
/// Beyond every limit.
const FAR: u64 = 1 << 40;

fn stream(stream: u64, offset: u64, data: &[u8], fin: bool) -> Frame {
    let data = data.to_vec();
    Frame::Stream { stream, offset, data, fin }
}

fn reset(stream: u64, size: u64) -> Frame {
    Frame::ResetStream { stream, code: 1, size }
}

fn new_id(sequence: u64, retire_prior_to: u64, length: usize) -> Frame {
    let id = vec![u8::try_from(sequence & 0xff).unwrap(); length];
    Frame::NewConnectionId { sequence, retire_prior_to, id, token: [7; 16] }
}

/// Sends the frames in 1-RTT packets, each of a client of its own beside an honest one, and checks the code.
fn close_each(cases: Vec<(&str, Vec<Frame>, u64)>) {
    let mut attack = Attack::new(|_| {});
    let mut honest = attack.connect(HONEST, Setup::new(77));
    let mut wrong = Vec::new();
    for (number, (what, frames, code)) in (1000..).zip(cases) {
        let mut peer = attack.connect(PEER, Setup::new(number));
        peer.client.send(&frames);
        attack.exchange(&mut peer);
        let closed = peer.client.closed();
        if closed != Some((false, code)) {
            wrong.push(format!("{what}: {closed:x?}, not {code:#x}"));
        }
        // Its state goes once the server need not repeat why.
        attack.pass(Duration::from_secs(10), &mut peer);
        attack.check_honest(&mut honest);
        if attack.endpoint().len() > 1 {
            wrong.push(format!("{what}: kept"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    attack.endpoint().check();
}

#[test]
fn streams_are_used_in_their_direction() {
    let stop = |stream| Frame::StopSending { stream, code: 1 };
    close_each(vec![
        ("data of a server's stream", vec![stream(SERVER_UNI, 0, b"x", false)], STREAM_STATE_ERROR),
        (
            "data of a stream that the server did not open",
            vec![stream(SERVER_BIDI, 0, b"x", false)],
            STREAM_STATE_ERROR,
        ),
        ("reset of a server's stream", vec![reset(SERVER_UNI, 0)], STREAM_STATE_ERROR),
        ("stop of a client's stream", vec![stop(2)], STREAM_STATE_ERROR),
        (
            "stop of a stream that the server did not open",
            vec![stop(SERVER_BIDI)],
            STREAM_STATE_ERROR,
        ),
        (
            "credit for a client's stream",
            vec![Frame::MaxStreamData { stream: 2, max: 9 }],
            STREAM_STATE_ERROR,
        ),
    ]);
}

#[test]
fn limits_and_final_sizes_are_kept_to() {
    close_each(vec![
        ("a stream beyond the limit", vec![stream(FAR, 0, b"x", false)], STREAM_LIMIT_ERROR),
        ("reset of a stream beyond the limit", vec![reset(FAR, 0)], STREAM_LIMIT_ERROR),
        ("data beyond the window", vec![stream(0, FAR, b"x", false)], FLOW_CONTROL_ERROR),
        ("a reset beyond the window", vec![reset(0, FAR)], FLOW_CONTROL_ERROR),
        (
            "a final size that shrinks",
            vec![stream(0, 10, b"x", false), stream(0, 0, b"x", true)],
            FINAL_SIZE_ERROR,
        ),
        (
            "data behind the final size",
            vec![stream(0, 0, b"x", true), stream(0, 5, b"x", false)],
            FINAL_SIZE_ERROR,
        ),
        (
            "two final sizes",
            vec![stream(0, 5, b"x", true), stream(0, 6, b"x", true)],
            FINAL_SIZE_ERROR,
        ),
        ("a reset of another size", vec![stream(0, 5, b"x", true), reset(0, 3)], FINAL_SIZE_ERROR),
        (
            "too many streams",
            vec![Frame::MaxStreams { bidirectional: true, max: (1 << 60) + 1 }],
            FRAME_ENCODING_ERROR,
        ),
        (
            "blocked at too many streams",
            vec![Frame::StreamsBlocked { bidirectional: false, limit: (1 << 60) + 1 }],
            FRAME_ENCODING_ERROR,
        ),
    ]);
}

#[test]
fn frames_that_are_no_clients_or_none_at_all_close_the_connection() {
    close_each(vec![
        ("no frame", vec![], PROTOCOL_VIOLATION),
        ("HANDSHAKE_DONE", vec![Frame::HandshakeDone], PROTOCOL_VIOLATION),
        ("NEW_TOKEN", vec![Frame::NewToken(vec![1; 16])], PROTOCOL_VIOLATION),
        ("an unknown type", vec![Frame::Raw(vec![0x40, 0x42])], FRAME_ENCODING_ERROR),
        ("half a frame", vec![Frame::Raw(vec![0x1a, 1, 2])], PROTOCOL_VIOLATION),
        (
            "a length beyond the packet",
            vec![Frame::Raw(vec![0x0a, 0, 0x7f, 0xff])],
            PROTOCOL_VIOLATION,
        ),
        ("a datagram frame", vec![Frame::Raw(vec![0x31, 1, 1])], PROTOCOL_VIOLATION),
    ]);
}

#[test]
fn connection_ids_are_bounded_and_consistent() {
    let ids = |count| (1..=count).map(|sequence| new_id(sequence, 0, 8)).collect();
    close_each(vec![
        ("retire prior to a later ID", vec![new_id(1, 2, 8)], FRAME_ENCODING_ERROR),
        ("an empty ID", vec![new_id(1, 0, 0)], FRAME_ENCODING_ERROR),
        ("an ID of 21 bytes", vec![new_id(1, 0, 21)], FRAME_ENCODING_ERROR),
        ("too many IDs", ids(20), CONNECTION_ID_LIMIT_ERROR),
        ("one number, two IDs", vec![new_id(1, 0, 8), new_id(1, 0, 9)], FRAME_ENCODING_ERROR),
        ("retired in use", vec![Frame::RetireConnectionId(0)], PROTOCOL_VIOLATION),
        ("retired before it is issued", vec![Frame::RetireConnectionId(100)], PROTOCOL_VIOLATION),
    ]);
}

#[test]
fn acknowledgements_name_packets_that_were_sent() {
    let ranges = |largest, first, ranges| Frame::Ack { largest, delay: 0, first, ranges };
    close_each(vec![
        ("never sent", vec![Frame::ack(0, 1 << 30)], PROTOCOL_VIOLATION),
        ("the largest number", vec![Frame::ack(0, (1 << 62) - 1)], PROTOCOL_VIOLATION),
        ("below zero", vec![ranges(3, 4, vec![])], FRAME_ENCODING_ERROR),
        ("a range below zero", vec![ranges(3, 0, vec![(1, 1)])], FRAME_ENCODING_ERROR),
    ]);
}

#[test]
fn handshake_messages_end_with_the_handshake() {
    let crypto = |offset, data: &[u8]| Frame::Crypto { offset, data: data.to_vec() };
    close_each(vec![
        ("an offset beyond the buffer", vec![crypto(1 << 16, b"x")], CRYPTO_BUFFER_EXCEEDED),
        ("the largest offset", vec![crypto((1 << 62) - 2, b"x")], CRYPTO_BUFFER_EXCEEDED),
        ("a key update of TLS", vec![crypto(0, &[24, 0, 0, 1, 0])], UNEXPECTED_MESSAGE),
        ("a ClientHello", vec![crypto(0, &[1, 0, 0, 1, 0])], UNEXPECTED_MESSAGE),
    ]);
}

/// By then the server has freed the state of TLS.
#[test]
fn handshake_messages_after_a_response_close_the_connection() {
    let mut attack = Attack::new(|_| {});
    for (number, data) in [(1, &[24, 0, 0, 1, 0][..]), (2, &[1, 0, 0, 1, 0]), (3, &[1])] {
        let mut peer = attack.connect(PEER, Setup::new(number));
        attack.check_honest(&mut peer);
        let empty = Frame::Crypto { offset: 0, data: Vec::new() };
        peer.client.send(&[empty]);
        peer.client.update_keys();
        attack.check_honest(&mut peer);
        assert_eq!(peer.client.closed(), None);
        peer.client.send(&[Frame::Crypto { offset: 0, data: data.to_vec() }]);
        attack.exchange(&mut peer);
        assert_eq!(peer.client.closed(), Some((false, UNEXPECTED_MESSAGE)), "{data:?}");
        attack.pass(Duration::from_secs(10), &mut peer);
    }
}
