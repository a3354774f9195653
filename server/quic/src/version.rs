//! QUIC versions that the server supports, and the packet that names them (RFC 8999 §6, RFC 9000 §17.2.1).

use sluicegate_base::entropy::Entropy;

use super::header::{Header, MIN_CLIENT_DATAGRAM, NEGOTIATION, V1};

/// Every version a connection can be opened with, preferred first.
pub const SUPPORTED: [u32; 1] = [V1];

/// The form `0x?a?a?a?a` is reserved for exercising negotiation (RFC 9000 §15).
const RESERVED: u32 = 0x0a0a_0a0a;
const RESERVED_MASK: u32 = 0x0f0f_0f0f;

/// Returns whether a connection can be opened with it.
pub fn is_supported(version: u32) -> bool {
    SUPPORTED.contains(&version)
}

/// Writes the answer to a datagram of `datagram_len` bytes that opens with `header`, and returns its length.
///
/// It lists [`SUPPORTED`] and one reserved version, never the client's own, before or after them. `None`, and `out` is as it was, where
/// no answer is due: the datagram is shorter than 1200 bytes (an answer could amplify), it is itself a Version Negotiation packet, it
/// has no version or one that is supported, or `out` is too short (at most 528 bytes are needed).
pub fn write_negotiation(
    datagram_len: usize,
    header: &Header<'_>,
    out: &mut [u8],
    entropy: &mut Entropy,
) -> Option<usize> {
    let client = header.version?;
    if datagram_len < MIN_CLIENT_DATAGRAM || client == NEGOTIATION || is_supported(client) {
        return None;
    }
    let length = 1 + 4 + 1 + header.scid.len() + 1 + header.dcid.len() + 4 * (SUPPORTED.len() + 1);
    let dcid_len = u8::try_from(header.scid.len()).ok()?;
    let scid_len = u8::try_from(header.dcid.len()).ok()?;
    let mut rest = out.get_mut(..length)?;
    let [first, reserved @ .., order] = entropy.take::<6>();
    // The second bit stays set, so that QUIC can share its port with other protocols (RFC 9000 §17.2.1).
    put(&mut rest, &[0xc0 | first & 0x3f]);
    put(&mut rest, &NEGOTIATION.to_be_bytes());
    put(&mut rest, &[dcid_len]);
    put(&mut rest, header.scid);
    put(&mut rest, &[scid_len]);
    put(&mut rest, header.dcid);
    let reserved = reserved_version(u32::from_be_bytes(reserved), client);
    if order & 1 == 0 {
        put(&mut rest, &reserved.to_be_bytes());
    }
    for version in SUPPORTED {
        put(&mut rest, &version.to_be_bytes());
    }
    if order & 1 == 1 {
        put(&mut rest, &reserved.to_be_bytes());
    }
    debug_assert!(rest.is_empty());
    Some(length)
}

/// Returns a reserved version made of `random`, other than `client`'s.
fn reserved_version(random: u32, client: u32) -> u32 {
    let version = random & !RESERVED_MASK | RESERVED;
    if version == client { version ^ 0x1000_0000 } else { version }
}

/// Moves `bytes` to the front of `rest`, which was cut to the sum of all calls.
fn put(rest: &mut &mut [u8], bytes: &[u8]) {
    let (now, later) = std::mem::take(rest).split_at_mut(bytes.len());
    now.copy_from_slice(bytes);
    *rest = later;
}

#[cfg(test)]
mod tests {
    use super::super::header::HeaderKind;
    use super::*;

    fn unknown<'a>(version: u32, dcid: &'a [u8], scid: &'a [u8]) -> Header<'a> {
        Header { kind: HeaderKind::UnknownVersion, version: Some(version), dcid, scid, token: &[] }
    }

    fn versions(list: &[u8]) -> Vec<u32> {
        let (words, rest) = list.as_chunks::<4>();
        assert!(rest.is_empty());
        words.iter().map(|word| u32::from_be_bytes(*word)).collect()
    }

    #[test]
    fn mirrors_the_connection_ids_and_lists_ours_with_one_reserved_version() {
        let mut entropy = Entropy::new();
        let header = unknown(0xface_b00c, &[1; 8], &[2; 5]);
        let mut reserved_first = 0;
        for _ in 0..200 {
            let mut out = [0xee; 600];
            let length = write_negotiation(1200, &header, &mut out, &mut entropy).unwrap();
            assert_eq!(length, 1 + 4 + 1 + 5 + 1 + 8 + 8);
            assert_eq!(out[0] & 0xc0, 0xc0);
            assert_eq!(out[1..5], [0; 4]);
            assert_eq!(out[5..11], [5, 2, 2, 2, 2, 2]);
            assert_eq!(out[11], 8);
            assert_eq!(out[12..20], [1; 8]);
            let list = versions(&out[20..length]);
            assert!(list.contains(&V1));
            let reserved: Vec<u32> = list
                .iter()
                .copied()
                .filter(|version| version & RESERVED_MASK == RESERVED)
                .collect();
            assert_eq!(reserved.len(), 1);
            reserved_first += usize::from(list[0] == reserved[0]);
            assert!(out[length..].iter().all(|byte| *byte == 0xee));
        }
        assert!((20..180).contains(&reserved_first), "{reserved_first}");
    }

    #[test]
    fn a_client_parses_it_as_negotiation() {
        let header = unknown(0x5a5a_5a5a, &[3; 20], &[]);
        let mut out = [0; 600];
        let length = write_negotiation(1350, &header, &mut out, &mut Entropy::new()).unwrap();
        let parsed = Header::parse_as_client(&out[..length], 16).unwrap();
        assert_eq!(parsed.kind, HeaderKind::VersionNegotiation);
        assert_eq!((parsed.dcid, parsed.scid), (header.scid, header.dcid));
    }

    #[test]
    fn no_answer_where_none_is_due() {
        let mut entropy = Entropy::new();
        let mut out = [0xee; 600];
        let (dcid, scid) = ([1; 8], [2; 8]);
        let mut refused = |length, version, room: usize| {
            let header = unknown(version, &dcid, &scid);
            write_negotiation(length, &header, &mut out[..room], &mut entropy).is_none()
        };
        assert!(refused(1199, 0xface_b00c, 600), "small datagram");
        assert!(refused(1200, NEGOTIATION, 600), "negotiation itself");
        assert!(refused(1200, V1, 600), "supported");
        assert!(refused(1200, 0xface_b00c, 30), "no room");
        assert!(!refused(1200, 0xface_b00c, 31));
        let mut short = unknown(V1, &dcid, &scid);
        short.version = None;
        assert!(write_negotiation(1200, &short, &mut out, &mut entropy).is_none());
    }

    #[test]
    fn the_longest_connection_ids_fit() {
        let header = unknown(0xface_b00c, &[1; 255], &[2; 255]);
        let mut out = [0; 528];
        let length = write_negotiation(1200, &header, &mut out, &mut Entropy::new());
        assert!(length.is_some_and(|length| length <= 528));
    }

    #[test]
    fn the_reserved_version_differs_from_the_client_s() {
        for random in [0, 0x1111_1111, 0xffff_ffff, 0x5000_0000] {
            let clash = reserved_version(random, V1);
            let other = reserved_version(random, clash);
            assert_ne!(other, clash);
            assert_eq!(other & RESERVED_MASK, RESERVED);
        }
    }
}
