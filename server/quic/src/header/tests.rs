use sluicegate_base::observe::metrics::Label;
use sluicegate_sim::Rng;

use super::*;

/// Length of the receiver's connection IDs.
const CID_LEN: usize = 16;

fn parse(datagram: &[u8]) -> Result<Header<'_>, DropReason> {
    Header::parse(datagram, CID_LEN)
}

fn parse_as_client(datagram: &[u8]) -> Result<Header<'_>, DropReason> {
    Header::parse_as_client(datagram, CID_LEN)
}

/// Returns a long header, zero-padded to `length`.
fn long(first: u8, version: u32, dcid: &[u8], scid: &[u8], tail: &[u8], length: usize) -> Vec<u8> {
    let mut datagram = vec![first];
    datagram.extend(version.to_be_bytes());
    for cid in [dcid, scid] {
        datagram.push(u8::try_from(cid.len()).unwrap());
        datagram.extend(cid);
    }
    datagram.extend(tail);
    datagram.resize(length.max(datagram.len()), 0);
    datagram
}

#[test]
fn an_initial_gives_ids_and_token() {
    let datagram = long(0xc3, V1, &[1; 8], &[2; 20], &[3, 7, 8, 9], 1200);
    let header = parse(&datagram).unwrap();
    assert_eq!(header.kind, HeaderKind::Initial);
    assert_eq!(header.version, Some(V1));
    assert_eq!((header.dcid, header.scid), ([1; 8].as_slice(), [2; 20].as_slice()));
    assert_eq!(header.token, [7, 8, 9]);
}

#[test]
fn token_lengths_of_every_varint_size_are_read() {
    for prefix in [vec![2], vec![0x40, 2], vec![0x80, 0, 0, 2], vec![0xc0, 0, 0, 0, 0, 0, 0, 2]] {
        let tail = [prefix, vec![5, 6]].concat();
        let datagram = long(0xc0, V1, &[1; 8], &[], &tail, 1200);
        assert_eq!(parse(&datagram).unwrap().token, [5, 6]);
    }
}

#[test]
fn a_token_longer_than_the_datagram_is_truncated() {
    for tail in [vec![0x44, 0xff], vec![0xff; 8], vec![0x80, 0, 4, 0xb0]] {
        let datagram = long(0xc0, V1, &[1; 8], &[], &tail, 1200);
        assert_eq!(parse(&datagram), Err(DropReason::Truncated));
    }
}

#[test]
fn packet_types_follow_their_bits() {
    for (first, kind) in [(0xd0, HeaderKind::ZeroRtt), (0xe0, HeaderKind::Handshake)] {
        let datagram = long(first, V1, &[1; 16], &[2; 4], &[], 60);
        let header = parse(&datagram).unwrap();
        assert_eq!(header.kind, kind);
        assert!(header.token.is_empty());
    }
    let retry = long(0xf0, V1, &[1; 16], &[2; 4], &[], 60);
    assert_eq!(parse(&retry), Err(DropReason::ServerOnly));
    assert_eq!(parse_as_client(&retry).unwrap().kind, HeaderKind::Retry);
}

#[test]
fn a_short_header_has_our_length_of_cid() {
    let mut datagram = [9; 40];
    datagram[0] = 0x41;
    let header = parse(&datagram).unwrap();
    assert_eq!(header.kind, HeaderKind::Short);
    assert_eq!(header.dcid, [9; CID_LEN]);
    assert_eq!(header.version, None);
    for cid_len in 1..=MAX_V1_CID {
        let header = Header::parse(&datagram[..1 + cid_len], cid_len).unwrap();
        assert_eq!(header.dcid, &datagram[1..=cid_len]);
        let short = Header::parse(&datagram[..cid_len], cid_len);
        assert_eq!(short, Err(DropReason::Truncated));
    }
}

#[test]
fn the_fixed_bit_counts_in_version_1_only() {
    assert_eq!(parse(&[0x3f; 50]), Err(DropReason::FixedBitZero));
    let datagram = long(0x80, V1, &[1; 8], &[], &[0], 1200);
    assert_eq!(parse(&datagram), Err(DropReason::FixedBitZero));
    let datagram = long(0x80, 0xface_b00c, &[1; 8], &[], &[], 1200);
    assert_eq!(parse(&datagram).unwrap().kind, HeaderKind::UnknownVersion);
}

#[test]
fn a_server_wants_1200_bytes_of_an_initial_and_a_client_does_not() {
    let datagram = long(0xc0, V1, &[1; 8], &[], &[0], 1199);
    assert_eq!(parse(&datagram), Err(DropReason::ShortInitial));
    assert_eq!(parse_as_client(&datagram).unwrap().kind, HeaderKind::Initial);
}

#[test]
fn connection_id_bounds_hold() {
    let datagram = long(0xc0, V1, &[1; 7], &[], &[0], 1200);
    assert_eq!(parse(&datagram), Err(DropReason::CidTooShort));
    for (dcid, scid) in [(21, 0), (8, 21)] {
        let datagram = long(0xc0, V1, &vec![1; dcid], &vec![2; scid], &[0], 1200);
        assert_eq!(parse(&datagram), Err(DropReason::CidTooLong));
    }
    let datagram = long(0xc0, 0xface_b00c, &[1; 255], &[2; 255], &[], 1200);
    let header = parse(&datagram).unwrap();
    assert_eq!((header.dcid.len(), header.scid.len()), (255, 255));
}

#[test]
fn an_unknown_version_is_kept_only_where_it_may_be_answered() {
    let datagram = long(0xc0, 0x1a2a_3a4a, &[1; 8], &[2; 3], &[], 1200);
    let header = parse(&datagram).unwrap();
    assert_eq!((header.kind, header.version), (HeaderKind::UnknownVersion, Some(0x1a2a_3a4a)));
    assert_eq!(parse(&datagram[..1199]), Err(DropReason::UnknownVersion));
    assert_eq!(parse_as_client(&datagram), Err(DropReason::UnknownVersion));
    let negotiation = long(0xc0, 0, &[1; 8], &[2; 3], &[], 1200);
    assert_eq!(parse(&negotiation), Err(DropReason::ServerOnly));
}

#[test]
fn every_prefix_of_a_header_is_refused() {
    let datagram = long(0xc3, V1, &[1; 8], &[2; 20], &[3, 7, 8, 9], 0);
    assert_eq!(parse(&[]), Err(DropReason::Empty));
    for length in 1..datagram.len() {
        assert_eq!(parse(&datagram[..length]), Err(DropReason::Truncated), "{length} bytes");
    }
    assert_eq!(parse(&datagram), Err(DropReason::ShortInitial));
}

#[test]
fn arbitrary_bytes_yield_an_answer_within_the_datagram() {
    let mut accepted = 0;
    for seed in 0..20_000u64 {
        let mut rng = Rng::new(seed);
        let length = rng.below(1400);
        let mut datagram: Vec<u8> = (0..length).map(|_| rng.bits().to_le_bytes()[0]).collect();
        if let Some(version) = datagram.get_mut(1..5)
            && seed % 2 == 0
        {
            version.copy_from_slice(&V1.to_be_bytes());
        }
        // Plausible lengths, so that the parser gets past them often enough.
        if let Some(byte) = datagram.get_mut(5) {
            *byte %= 24;
        }
        if let Ok(header) = parse(&datagram) {
            accepted += 1;
            let read = header.dcid.len() + header.scid.len() + header.token.len();
            assert!(read < datagram.len(), "seed {seed}");
        }
    }
    assert!(accepted > 1000, "only {accepted} accepted");
}

#[test]
fn reasons_are_listed_in_order_with_names_of_their_own() {
    let names: std::collections::HashSet<&str> =
        DropReason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(names.len(), DropReason::ALL.len());
    for (index, reason) in DropReason::ALL.iter().enumerate() {
        assert_eq!(reason.index(), index);
    }
}
