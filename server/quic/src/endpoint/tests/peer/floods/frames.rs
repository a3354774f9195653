//! Frames of QUIC without end, from a client that acknowledges what it receives.

use super::*;

const CONNECTION_ID_LIMIT_ERROR: u64 = 0x9;
const PROTOCOL_VIOLATION: u64 = 0xa;
const KEY_UPDATE_ERROR: u64 = 0xe;

/// Sends a packet whose number is two above the last one's, so that the server's acknowledgements have as many ranges as it
/// keeps.
pub(super) fn gap(peer: &mut Peer, _: u64) {
    peer.client.skip(PacketKind::OneRtt, 1);
    send(peer, Frame::Ping);
}

/// Sends that many PATH_CHALLENGEs in one packet, all different.
pub(super) fn send_challenges(peer: &mut Peer, number: u64, count: u64) {
    let data = (0..count).map(|index| Frame::path_data(number * count + index));
    let frames: Vec<_> = data.map(Frame::PathChallenge).collect();
    peer.client.send(&frames);
}

/// Takes the newest of the server's connection IDs, with its number; `None` if there is none since the last call.
fn newest_id(peer: &mut Peer) -> Option<(u64, Vec<u8>)> {
    let newest = peer.client.frames.iter().rev().find_map(|frame| match frame {
        Frame::NewConnectionId { sequence, id, .. } => Some((*sequence, id.clone())),
        _ => None,
    });
    peer.client.frames.retain(|frame| matches!(frame, Frame::Close { .. }));
    newest
}

/// Retires the server's connection IDs but for the newest, which is used from then on.
pub(super) fn retire_as_they_come(peer: &mut Peer, _: u64) {
    if let Some((sequence, id)) = newest_id(peer) {
        peer.client.dcid = id;
        let retired = (0..sequence).rev().take(3).map(Frame::RetireConnectionId);
        peer.client.send(&retired.collect::<Vec<_>>());
    }
    send(peer, Frame::Ping);
}

fn new_id(sequence: u64, retire_prior_to: u64) -> Frame {
    Frame::NewConnectionId {
        sequence,
        retire_prior_to,
        id: (1 << 40 | sequence).to_be_bytes().to_vec(),
        token: u128::from(sequence).to_be_bytes(),
    }
}

#[test]
fn frames_that_the_server_must_answer_leave_nothing_behind() {
    let challenge: Packets = |peer, n| send(peer, Frame::PathChallenge(Frame::path_data(n)));
    let too_many: Packets = |peer, n| send_challenges(peer, n, MOST + 1);
    let challenges: Packets = |peer, n| send_challenges(peer, n, MOST);
    let ping: Packets = |peer, _| send(peer, Frame::Ping);
    check_all(vec![
        flood("PATH_CHALLENGE", true, challenge, End::Flat),
        flood("as many PATH_CHALLENGEs in a packet as are allowed", true, challenges, End::Flat),
        flood("one more in a packet", true, too_many, End::Closed(PROTOCOL_VIOLATION)),
        flood("PING", true, ping, End::Flat),
        flood("a gap in each packet number", true, gap, End::Flat),
    ]);
}

#[test]
fn connection_ids_without_end_leave_nothing_behind() {
    let rising: Packets = |peer, n| send(peer, new_id(n, n));
    let slowly: Packets = |peer, n| {
        if n % BURST == 1 {
            send(peer, new_id(n, n));
        }
    };
    let repeated: Packets = |peer, _| send(peer, new_id(1, 0));
    check_all(vec![
        flood("Retire Prior To rises", true, slowly, End::Flat),
        flood(
            "Retire Prior To rises, never acknowledged",
            false,
            rising,
            End::Closed(CONNECTION_ID_LIMIT_ERROR),
        ),
        flood("one ID again and again", true, repeated, End::Flat),
        flood("the server's IDs are retired as they come", true, retire_as_they_come, End::Flat),
    ]);
}

#[test]
fn credit_and_blocked_frames_leave_nothing_behind() {
    check_all(vec![
        flood("MAX_DATA", true, |peer, n| send(peer, Frame::MaxData(n << 20)), End::Flat),
        flood(
            "MAX_STREAM_DATA",
            true,
            |peer, n| send(peer, Frame::MaxStreamData { stream: 4, max: n << 20 }),
            End::Flat,
        ),
        flood(
            "MAX_STREAMS",
            true,
            |peer, n| send(peer, Frame::MaxStreams { bidirectional: true, max: n << 20 }),
            End::Flat,
        ),
    ]);
}

#[test]
fn frames_that_mean_nothing_leave_nothing_behind() {
    check_all(vec![
        flood("DATA_BLOCKED", true, |peer, n| send(peer, Frame::DataBlocked(n)), End::Flat),
        flood(
            "STREAMS_BLOCKED",
            true,
            |peer, limit| send(peer, Frame::StreamsBlocked { bidirectional: true, limit }),
            End::Flat,
        ),
        flood(
            "STREAM_DATA_BLOCKED",
            true,
            |peer, n| send(peer, Frame::StreamDataBlocked { stream: 4 * n, limit: n }),
            End::Flat,
        ),
        flood(
            "PATH_RESPONSE that nobody asked for",
            true,
            |peer, n| send(peer, Frame::PathResponse(Frame::path_data(n))),
            End::Flat,
        ),
    ]);
}

#[test]
fn acknowledgements_with_many_ranges_leave_nothing_behind() {
    // Every other number that was received: as many ranges as a datagram holds. One that the server has left out would close the
    // connection.
    let ranges: Packets = |peer, _| {
        let client = &peer.client;
        let largest = client.largest(PacketKind::OneRtt).0.unwrap_or(0);
        let every_other = (0..largest).rev().skip(1).step_by(2);
        let received =
            every_other.filter(|number| client.has_received(PacketKind::OneRtt, *number));
        let mut smallest = largest;
        let ranges = received.take(500).map(|number| {
            let gap = smallest - number - 2;
            smallest = number;
            (gap, 0)
        });
        let ack = Frame::Ack { largest, delay: 0, first: 0, ranges: ranges.collect() };
        peer.client.send(&[ack, Frame::Ping]);
    };
    check_all(vec![flood("ACK", false, ranges, End::Flat)]);
}

#[test]
fn key_updates_without_end_leave_nothing_behind() {
    let in_turn: Packets = |peer, n| {
        if n % BURST == 1 {
            peer.client.update_keys();
        }
        send(peer, Frame::Ping);
    };
    check_all(vec![flood("once the server has followed", true, in_turn, End::Flat)]);
}

#[test]
fn a_second_key_update_before_the_first_is_acknowledged_closes_the_connection() {
    let mut attack = Attack::new(|_| {});
    let mut peer = attack.connect(PEER, Setup::new(1));
    for _ in 0..2 {
        peer.client.update_keys();
        send(&mut peer, Frame::Ping);
    }
    attack.exchange(&mut peer);
    assert_eq!(peer.client.closed(), Some((false, KEY_UPDATE_ERROR)));
}
