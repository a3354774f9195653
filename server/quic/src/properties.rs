//! Properties of every header, token and connection ID.

mod tokens;

use sluicegate_base::entropy::Entropy;

use super::cid::{CidSchemes, ConnectionId, MAX_V1_CID, Owner};
use super::header::{Header, HeaderKind, MIN_CLIENT_DATAGRAM, V1};

pub use super::cid::properties::connection_id;
pub use tokens::token;

/// Reads a datagram's first header, padded to 1200 bytes too. `true` where it has one.
pub fn header(bytes: &[u8]) -> bool {
    let cid_len = CidSchemes::plain().scheme().cid_len();
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().max(MIN_CLIENT_DATAGRAM), 0);
    for datagram in [bytes, &padded] {
        if let Ok(header) = Header::parse_as_client(datagram, cid_len) {
            check_header(&header, datagram, cid_len);
            assert_ne!(header.kind, HeaderKind::UnknownVersion);
        }
        let Ok(header) = Header::parse(datagram, cid_len) else {
            continue;
        };
        check_header(&header, datagram, cid_len);
        let servers = matches!(header.kind, HeaderKind::Retry | HeaderKind::VersionNegotiation);
        assert!(!servers, "{header:?}");
        let opens = matches!(header.kind, HeaderKind::Initial | HeaderKind::UnknownVersion);
        assert!(!opens || datagram.len() >= MIN_CLIENT_DATAGRAM);
        assert!(header.kind != HeaderKind::Initial || header.dcid.len() >= 8);
    }
    let generation = padded[0] % sluicegate_base::secrets::GENERATIONS;
    check_cid(&padded[1..], generation);
    Header::parse(&padded, cid_len).is_ok()
}

/// Checks that every field of a header stands in the datagram, where its format says (RFC 8999 §5, RFC 9000 §17).
fn check_header(header: &Header<'_>, datagram: &[u8], cid_len: usize) {
    let Some(version) = header.version else {
        assert_eq!((header.kind, datagram[0] & 0xc0), (HeaderKind::Short, 0x40));
        assert_eq!(header.dcid, &datagram[1..=cid_len]);
        assert!(header.scid.is_empty() && header.token.is_empty());
        return;
    };
    let length = |id: &[u8]| u8::try_from(id.len()).expect("a length of one byte");
    let mut start = vec![datagram[0]];
    start.extend(version.to_be_bytes());
    for id in [header.dcid, header.scid] {
        assert!(version != V1 || id.len() <= MAX_V1_CID);
        start.push(length(id));
        start.extend(id);
    }
    let rest = datagram.strip_prefix(&start[..]).expect("what was read");
    assert!(datagram[0] & 0x80 != 0 && (version != V1 || datagram[0] & 0x40 != 0));
    let initial = version == V1 && datagram[0] >> 4 & 3 == 0;
    assert_eq!(header.kind == HeaderKind::Initial, initial);
    if initial {
        let width = 1 << (rest[0] >> 6);
        assert!(rest[width..].starts_with(header.token));
    } else {
        assert!(header.token.is_empty());
    }
}

fn check_cid(bytes: &[u8], generation: u8) {
    let mut scheme = CidSchemes::plain().scheme();
    assert_eq!(ConnectionId::try_from(bytes).is_ok(), bytes.len() <= MAX_V1_CID);
    let bytes = &bytes[..scheme.cid_len()];
    let id = ConnectionId::try_from(bytes).expect("of the right length");
    assert_eq!(id.as_bytes(), bytes);
    assert_eq!(id.to_string().len(), 2 * bytes.len());
    let owner = scheme.owner(bytes);
    let marks =
        (0..sluicegate_base::secrets::GENERATIONS).filter_map(|generation| scheme.mark(generation));
    let marks = marks.filter(|mark| mark.is_on(bytes)).count();
    assert_eq!(marks, usize::from(owner != Owner::Foreign));
    let worker = bytes[0];
    let made = scheme.generate(worker, generation, &mut Entropy::new());
    assert_eq!(scheme.owner(made.as_bytes()), Owner::Ours { worker, generation });
    assert_ne!(made, id);
}
