//! Frames and packets as a string chooses them.

use sluicegate_raw_client::{Client, Frame, PacketKind, http3};

use sluicegate_base::properties::Bytes;

/// Largest variable-length integer (RFC 9000 §16).
const MAX: u64 = (1 << 62) - 1;
/// Bytes of frames in a packet, at most.
const ROOM: usize = 1340;
/// Sizes of responses that are requested. A flood may request the largest a thousand times, and the trial's network has no delay: larger
/// ones would last for minutes.
const SIZES: [usize; 5] = [0, 100, 10_000, 100_000, 1_000_000];
const KINDS: [PacketKind; 4] =
    [PacketKind::Initial, PacketKind::Handshake, PacketKind::ZeroRtt, PacketKind::OneRtt];

/// Returns an integer that is small, rises with `n`, is near a limit, or near `expected`.
pub(super) fn integer(bytes: &mut Bytes<'_>, n: u64, expected: u64) -> u64 {
    let choice = bytes.byte();
    let low = u64::from(choice & 0x1f);
    let value = match choice >> 5 {
        0 => low,
        1 => low << 8 | u64::from(bytes.byte()),
        2 => n + low,
        // With a gap between each two.
        3 => n * (low + 1) + 1,
        4 => n.wrapping_shl((choice & 0x1f).into()),
        5 => (expected + low).saturating_sub(16),
        6 => 1 << (2 * low).min(61),
        _ => MAX - low,
    };
    value & MAX
}

/// Returns bytes for a stream or for TLS.
pub(super) fn data(bytes: &mut Bytes<'_>) -> Vec<u8> {
    match bytes.byte() % 8 {
        0 => vec![0; bytes.byte().into()],
        1 => vec![0; 1000],
        2 => http3::get(&format!("/bytes/{}", bytes.one_of(&SIZES)), &[]),
        3 => http3::frame(0x21, &[]).repeat(bytes.byte().into()),
        4 => http3::control(&[(integer(bytes, 0, 0), integer(bytes, 0, 0))]),
        5 => http3::frame(integer(bytes, 0, 0), bytes.part()),
        _ => bytes.part().to_vec(),
    }
}

/// Returns the number of the server's newest packet that the client has received.
fn largest(client: &Client) -> u64 {
    client.largest(PacketKind::OneRtt).0.unwrap_or_default()
}

fn ack(bytes: &mut Bytes<'_>, n: u64, client: &Client) -> Frame {
    let newest = largest(client);
    if bytes.byte() & 1 == 0 {
        return Frame::ack(0, integer(bytes, n, newest));
    }
    let (largest, delay) = (integer(bytes, n, newest), integer(bytes, n, 0));
    let (first, count) = (integer(bytes, n, newest), bytes.byte());
    let range = (integer(bytes, n, 0), integer(bytes, n, 0));
    let ranges = vec![range; count.into()];
    Frame::Ack { largest, delay, first, ranges }
}

fn new_connection_id(bytes: &mut Bytes<'_>, n: u64) -> Frame {
    let (sequence, retire_prior_to) = (integer(bytes, n, 1), integer(bytes, n, 1));
    let length = usize::from(bytes.byte() % 24);
    let seed = integer(bytes, n, sequence).to_be_bytes();
    Frame::NewConnectionId {
        sequence,
        retire_prior_to,
        id: seed.into_iter().rev().cycle().take(length).collect(),
        token: [seed[7]; 16],
    }
}

fn stream_frame(bytes: &mut Bytes<'_>, n: u64) -> Frame {
    let kind = bytes.byte();
    let bidirectional = kind & 1 == 0;
    let (stream, number) = (integer(bytes, n, 16), integer(bytes, n, 1 << 18));
    match kind >> 1 & 7 {
        0 | 1 => {
            Frame::Stream { stream, offset: number, data: data(bytes), fin: bytes.byte() & 1 == 1 }
        }
        2 => Frame::ResetStream { stream, code: integer(bytes, n, 0x10c), size: number },
        3 => Frame::StopSending { stream, code: number },
        4 => Frame::MaxStreamData { stream, max: number },
        5 => Frame::StreamDataBlocked { stream, limit: number },
        6 => Frame::MaxStreams { bidirectional, max: number },
        _ => Frame::StreamsBlocked { bidirectional, limit: number },
    }
}

/// Returns a frame; `n` is its number among those of its kind in a flood.
fn frame(bytes: &mut Bytes<'_>, n: u64, client: &Client) -> Frame {
    match bytes.byte() % 20 {
        0 => Frame::Padding(bytes.byte().into()),
        1 => Frame::Ping,
        2 | 3 => ack(bytes, n, client),
        4..=7 => stream_frame(bytes, n),
        8 => Frame::Crypto { offset: integer(bytes, n, 1 << 16), data: data(bytes) },
        9 => Frame::NewToken(data(bytes)),
        10 => Frame::MaxData(integer(bytes, n, 1 << 20)),
        11 => Frame::DataBlocked(integer(bytes, n, 1 << 20)),
        12 => new_connection_id(bytes, n),
        13 => Frame::RetireConnectionId(integer(bytes, n, 4)),
        14 => Frame::PathChallenge(Frame::path_data(integer(bytes, n, 0))),
        15 => Frame::PathResponse(path_response(bytes, n, client)),
        16 => Frame::Close {
            application: bytes.byte() & 1 == 1,
            code: integer(bytes, n, 0x100),
            reason: data(bytes),
        },
        17 => Frame::HandshakeDone,
        18 => altered(bytes, n, client),
        _ => Frame::Raw(bytes.part().to_vec()),
    }
}

/// Returns the data of a challenge that the server has sent, or any.
fn path_response(bytes: &mut Bytes<'_>, n: u64, client: &Client) -> [u8; 8] {
    let challenges = client.frames.iter().rev();
    let mut challenges = challenges.filter_map(|frame| match frame {
        Frame::PathChallenge(data) => Some(*data),
        _ => None,
    });
    let any = Frame::path_data(integer(bytes, n, 0));
    let wanted = usize::from(bytes.byte() % 4);
    challenges.nth(wanted).unwrap_or(any)
}

/// Returns a frame that is cut, or one of whose bytes is another.
fn altered(bytes: &mut Bytes<'_>, n: u64, client: &Client) -> Frame {
    let place = usize::from(bytes.byte());
    let change = bytes.byte();
    let mut raw = Vec::new();
    // What is altered is no altered frame itself, so that this ends.
    if bytes.byte() & 1 == 0 {
        stream_frame(bytes, n).write(&mut raw);
    } else {
        ack(bytes, n, client).write(&mut raw);
    }
    let place = place % raw.len().max(1);
    if change == 0 {
        raw.truncate(place);
    } else if let Some(byte) = raw.get_mut(place) {
        *byte ^= change;
    }
    Frame::Raw(raw)
}

/// Returns the frames of a packet, as many as fit. `n` counts them.
pub(super) fn frames(bytes: &mut Bytes<'_>, n: &mut u64, client: &Client) -> Vec<Frame> {
    let count = 1 + bytes.byte() % 4;
    let copies = bytes.one_of(&[1, 1, 4, 100]);
    let (mut frames, mut payload) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let start = bytes.clone();
        for _ in 0..copies {
            *bytes = start.clone();
            let frame = frame(bytes, *n, client);
            *n += 1;
            frame.write(&mut payload);
            if payload.len() > ROOM {
                return frames;
            }
            frames.push(frame);
        }
    }
    frames
}

/// Returns a packet of any kind for which there are keys, with the next number or one near it.
pub(super) fn packet(bytes: &mut Bytes<'_>, n: &mut u64, client: &mut Client) -> Vec<u8> {
    let kind = bytes.one_of(&KINDS);
    if !client.has_keys(kind) {
        return foreign(bytes, client);
    }
    let next = client.skip(kind, 1);
    let number = match bytes.byte() % 8 {
        0 => integer(bytes, *n, next),
        _ => next,
    };
    let frames = frames(bytes, n, client);
    client.packet_numbered(kind, number, &frames)
}

/// Returns a packet with a long header that nobody can decrypt, of a connection that is not there, or of this one.
fn foreign(bytes: &mut Bytes<'_>, client: &Client) -> Vec<u8> {
    let mut packet = vec![0xe0, 0, 0, 0, 1];
    let id = if bytes.byte() & 1 == 0 { bytes.take(8) } else { &client.dcid };
    packet.push(u8::try_from(id.len()).unwrap_or_default());
    packet.extend(id);
    packet.extend([0, 0x40, 25]);
    packet.extend([7; 25]);
    packet
}
