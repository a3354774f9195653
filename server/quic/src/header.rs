//! Reads what a datagram shows before any key is known (RFC 8999, RFC 9000 §17).

use super::cid::MAX_V1_CID;
use super::counters::DropReason;

/// QUIC version 1 (RFC 9000).
pub const V1: u32 = 0x0000_0001;
/// Version field of a Version Negotiation packet.
pub const NEGOTIATION: u32 = 0;
/// A client's datagrams that carry an Initial packet are at least this long (RFC 9000 §14.1).
pub const MIN_CLIENT_DATAGRAM: usize = 1200;
/// Shortest connection ID that a client may make up for a server (RFC 9000 §7.2).
const MIN_CLIENT_CHOSEN_CID: usize = 8;

/// The first packet's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderKind {
    /// Version 1 Initial.
    Initial,
    /// Version 1 0-RTT.
    ZeroRtt,
    /// Version 1 Handshake.
    Handshake,
    /// Version 1 Retry, from a server only.
    Retry,
    /// 1-RTT packet, or a stateless reset that looks like one.
    Short,
    /// The server's list of versions, from a server only.
    VersionNegotiation,
    /// Long header of a version that is not spoken here: due for negotiation.
    UnknownVersion,
}

/// The first packet's header, borrowed from the datagram. Packets behind it are not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Packet type.
    pub kind: HeaderKind,
    /// Version of a long header.
    pub version: Option<u32>,
    /// Destination: up to 20 bytes in version 1, up to 255 in unknown versions, as long as the receiver says in a short header.
    pub dcid: &'a [u8],
    /// Source; empty in a short header.
    pub scid: &'a [u8],
    /// Address validation token of a version 1 Initial, else empty.
    pub token: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads what a server received. A short header does not say how long its connection ID is: `cid_len` bytes, as all that the
    /// receiver has issued (RFC 9000 §17.3.1).
    ///
    /// # Errors
    /// The reason to drop the datagram. [`HeaderKind::UnknownVersion`] is no error where the datagram is long enough for an answer.
    pub fn parse(datagram: &'a [u8], cid_len: usize) -> Result<Header<'a>, DropReason> {
        let header = Header::parse_as_client(datagram, cid_len);
        if header == Err(DropReason::UnknownVersion) && datagram.len() >= MIN_CLIENT_DATAGRAM {
            return parse_long(datagram);
        }
        let header = header?;
        match header.kind {
            HeaderKind::Retry | HeaderKind::VersionNegotiation => Err(DropReason::ServerOnly),
            HeaderKind::Initial if datagram.len() < MIN_CLIENT_DATAGRAM => {
                Err(DropReason::ShortInitial)
            }
            HeaderKind::Initial | HeaderKind::ZeroRtt
                if header.dcid.len() < MIN_CLIENT_CHOSEN_CID =>
            {
                Err(DropReason::CidTooShort)
            }
            _ => Ok(header),
        }
    }

    /// Reads what a client received: servers may send short Initials, Retry and Version Negotiation.
    ///
    /// # Errors
    /// The reason to drop the datagram.
    pub fn parse_as_client(datagram: &'a [u8], cid_len: usize) -> Result<Header<'a>, DropReason> {
        let first = *datagram.first().ok_or(DropReason::Empty)?;
        if first & 0x80 == 0 {
            return parse_short(first, datagram, cid_len);
        }
        let header = parse_long(datagram)?;
        if header.kind == HeaderKind::UnknownVersion {
            return Err(DropReason::UnknownVersion);
        }
        Ok(header)
    }
}

fn parse_short(first: u8, datagram: &[u8], cid_len: usize) -> Result<Header<'_>, DropReason> {
    if first & 0x40 == 0 {
        return Err(DropReason::FixedBitZero);
    }
    let dcid = datagram.get(1..1 + cid_len).ok_or(DropReason::Truncated)?;
    Ok(Header { kind: HeaderKind::Short, version: None, dcid, scid: &[], token: &[] })
}

fn parse_long(datagram: &[u8]) -> Result<Header<'_>, DropReason> {
    let mut cursor = Cursor(datagram);
    let [first] = cursor.array()?;
    let version = u32::from_be_bytes(cursor.array()?);
    let v1 = version == V1;
    if v1 && first & 0x40 == 0 {
        return Err(DropReason::FixedBitZero);
    }
    let longest = if v1 { MAX_V1_CID } else { usize::from(u8::MAX) };
    let dcid = cursor.connection_id(longest)?;
    let scid = cursor.connection_id(longest)?;
    let kind = match (version, first >> 4 & 0b11) {
        (NEGOTIATION, _) => HeaderKind::VersionNegotiation,
        (V1, 0) => HeaderKind::Initial,
        (V1, 1) => HeaderKind::ZeroRtt,
        (V1, 2) => HeaderKind::Handshake,
        (V1, _) => HeaderKind::Retry,
        _ => HeaderKind::UnknownVersion,
    };
    let token = if kind == HeaderKind::Initial {
        let length = cursor.varint()?;
        cursor.bytes(usize::try_from(length).map_err(|_| DropReason::Truncated)?)?
    } else {
        &[]
    };
    Ok(Header { kind, version: Some(version), dcid, scid, token })
}

/// Bytes that are left to read.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], DropReason> {
        let (now, later) = self.0.split_at_checked(count).ok_or(DropReason::Truncated)?;
        self.0 = later;
        Ok(now)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DropReason> {
        let (now, later) = self.0.split_first_chunk::<N>().ok_or(DropReason::Truncated)?;
        self.0 = later;
        Ok(*now)
    }

    fn connection_id(&mut self, longest: usize) -> Result<&'a [u8], DropReason> {
        let [length] = self.array()?;
        if usize::from(length) > longest {
            return Err(DropReason::CidTooLong);
        }
        self.bytes(usize::from(length))
    }

    /// Reads a variable-length integer (RFC 9000 §16).
    fn varint(&mut self) -> Result<u64, DropReason> {
        let [first] = self.array()?;
        let rest = self.bytes((1 << (first >> 6)) - 1)?;
        let start = u64::from(first & 0x3f);
        Ok(rest.iter().fold(start, |value, byte| value << 8 | u64::from(*byte)))
    }
}

#[cfg(test)]
mod tests;
