//! Packets of QUIC version 1 (RFC 9000 §17) and their protection (RFC 9001 §5).

use rustls::quic::{HeaderProtectionKey, PacketKey};

use crate::frame::Frame;
use crate::varint::{Reader, varint};

/// Bytes of every packet number that the client sends.
const NUMBER: usize = 4;
const TAG: usize = 16;
/// Bytes of a sample for header protection, for all suites of ring.
const SAMPLE: usize = 16;
pub(crate) const V1: u32 = 1;

/// Type of a packet that carries frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// Initial.
    Initial,
    /// 0-RTT.
    ZeroRtt,
    /// Handshake.
    Handshake,
    /// 1-RTT, with a short header.
    OneRtt,
}

impl PacketKind {
    /// Returns the index of the packet number space.
    pub(crate) fn space(self) -> usize {
        match self {
            PacketKind::Initial => 0,
            PacketKind::Handshake => 1,
            PacketKind::ZeroRtt | PacketKind::OneRtt => 2,
        }
    }
}

/// Fields of a header that a client writes.
pub(crate) struct PacketHeader<'a> {
    pub(crate) kind: PacketKind,
    pub(crate) dcid: &'a [u8],
    pub(crate) scid: &'a [u8],
    pub(crate) token: &'a [u8],
    pub(crate) phase: bool,
    pub(crate) number: u64,
}

impl PacketHeader<'_> {
    /// Returns the header of a packet whose frames take `payload` bytes, with the packet number.
    fn write(&self, payload: usize) -> Vec<u8> {
        let length = |id: &[u8]| u8::try_from(id.len()).expect("a length of one byte");
        let mut out = Vec::new();
        let kind = match self.kind {
            PacketKind::Initial => 0xc0,
            PacketKind::ZeroRtt => 0xd0,
            PacketKind::Handshake => 0xe0,
            PacketKind::OneRtt => 0x40 | u8::from(self.phase) << 2,
        };
        out.push(kind | 3);
        if self.kind == PacketKind::OneRtt {
            out.extend(self.dcid);
        } else {
            out.extend(V1.to_be_bytes());
            for id in [self.dcid, self.scid] {
                out.push(length(id));
                out.extend(id);
            }
            if self.kind == PacketKind::Initial {
                out.extend(varint(self.token.len() as u64));
                out.extend(self.token);
            }
            let rest = u16::try_from(NUMBER + payload + TAG).expect("a packet of a datagram");
            // Always two bytes, so that padding does not change the header's length.
            out.extend((0x4000 | rest).to_be_bytes());
        }
        out.extend(&self.number.to_be_bytes()[8 - NUMBER..]);
        out
    }

    /// Returns the protected packet.
    pub(crate) fn seal(
        &self,
        frames: &[Frame],
        header_key: &dyn HeaderProtectionKey,
        key: &dyn PacketKey,
    ) -> Vec<u8> {
        let mut payload = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut payload));
        let mut packet = self.write(payload.len());
        let start = packet.len();
        let tag = key.encrypt_in_place(self.number, &packet, &mut payload);
        packet.extend(&payload);
        packet.extend(tag.expect("a packet of a datagram").as_ref());
        let (head, sealed) = packet.split_at_mut(start);
        let (first, rest) = head.split_first_mut().expect("a header");
        let number = rest.len() - NUMBER;
        header_key
            .encrypt_in_place(&sealed[..SAMPLE], first, &mut rest[number..])
            .expect("a sample");
        packet
    }
}

/// A packet of the server, before its protection is removed.
pub(crate) enum Packet<'a> {
    Protected {
        kind: PacketKind,
        scid: &'a [u8],
        bytes: &'a [u8],
        /// Index of the packet number.
        number: usize,
    },
    Retry {
        scid: &'a [u8],
        bytes: &'a [u8],
        /// Index of the token, which the tag follows.
        token: usize,
    },
    Versions(Vec<u32>),
}

impl<'a> Packet<'a> {
    /// Takes a packet from the front of a datagram. Short headers have a connection ID of `cid_len` bytes.
    pub(crate) fn take(datagram: &mut &'a [u8], cid_len: usize) -> Option<Packet<'a>> {
        let whole = *datagram;
        let mut reader = Reader(whole);
        let at = |reader: &Reader<'_>| whole.len() - reader.0.len();
        let first = reader.byte()?;
        if first & 0x80 == 0 {
            reader.take(cid_len)?;
            *datagram = &[];
            return Some(Packet::Protected {
                kind: PacketKind::OneRtt,
                scid: &[],
                bytes: whole,
                number: at(&reader),
            });
        }
        let version = u32::from_be_bytes(reader.array()?);
        let mut id = || {
            let length = reader.byte()?;
            reader.take(length.into())
        };
        let (_, scid) = (id()?, id()?);
        if version != V1 {
            *datagram = &[];
            let versions = reader.0.chunks_exact(4).map(|chunk| {
                let chunk = chunk.try_into().expect("four bytes");
                u32::from_be_bytes(chunk)
            });
            return (version == 0).then(|| Packet::Versions(versions.collect()));
        }
        let kind = match first >> 4 & 3 {
            0 => PacketKind::Initial,
            2 => PacketKind::Handshake,
            3 => {
                *datagram = &[];
                let token = at(&reader);
                return Some(Packet::Retry { scid, bytes: whole, token });
            }
            _ => return None,
        };
        if kind == PacketKind::Initial {
            reader.prefixed()?;
        }
        let length = usize::try_from(reader.varint()?).ok()?;
        let number = at(&reader);
        reader.take(length)?;
        *datagram = reader.0;
        Some(Packet::Protected { kind, scid, bytes: &whole[..number + length], number })
    }
}

/// Header of a packet whose header protection is removed.
pub(crate) struct Opened {
    pub(crate) header: Vec<u8>,
    pub(crate) number: u64,
    /// Key Phase bit.
    pub(crate) phase: bool,
}

/// Removes header protection. `expected` is the number behind the largest one received so far.
pub(crate) fn open_header(
    bytes: &[u8],
    number: usize,
    key: &dyn HeaderProtectionKey,
    expected: u64,
) -> Option<Opened> {
    let sample = bytes.get(number + 4..number + 4 + SAMPLE)?;
    let mut header = bytes.get(..number + 4)?.to_vec();
    let (first, rest) = header.split_first_mut()?;
    key.decrypt_in_place(sample, first, &mut rest[number - 1..]).ok()?;
    let length = usize::from(*first & 3) + 1;
    let phase = *first & 4 != 0;
    header.truncate(number + length);
    let truncated = header[number..].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    Some(Opened { number: decode(truncated, length, expected), header, phase })
}

/// Returns the packet number that is nearest to the expected one (RFC 9000 §A.3).
fn decode(truncated: u64, length: usize, expected: u64) -> u64 {
    let window = 1 << (8 * length);
    let candidate = expected & !(window - 1) | truncated;
    if candidate + window / 2 <= expected {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_numbers_are_the_nearest_ones() {
        // RFC 9000 §A.3.
        assert_eq!(decode(0x9b32, 2, 0xa82f_30eb), 0xa82f_9b32);
        assert_eq!(decode(0xff, 1, 0x100), 0xff);
        assert_eq!(decode(0, 1, 0xff), 0x100);
        assert_eq!(decode(3, 4, 0), 3);
    }
}
