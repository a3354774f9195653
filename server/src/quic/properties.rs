//! Properties of every datagram, token and connection ID.

pub(super) mod attack;
mod client;
mod datagrams;
mod frames;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::cid::{self, CidGenerator, ConnectionId};
use super::header::{Header, Kind, MAX_V1_CID, MIN_CLIENT_DATAGRAM, V1};
use super::secrets::{RootSecret, Secrets};
use super::token::{self, TokenError, Tokens};
use crate::properties::Bytes;

pub use datagrams::datagrams;
pub use frames::frames;

/// Reads a datagram's first header, padded to 1200 bytes too. `true` where it has one.
pub fn header(bytes: &[u8]) -> bool {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().max(MIN_CLIENT_DATAGRAM), 0);
    for datagram in [bytes, &padded] {
        if let Ok(header) = Header::parse_as_client(datagram) {
            check_header(&header, datagram);
            assert_ne!(header.kind, Kind::UnknownVersion);
        }
        let Ok(header) = Header::parse(datagram) else {
            continue;
        };
        check_header(&header, datagram);
        let servers = matches!(header.kind, Kind::Retry | Kind::VersionNegotiation);
        assert!(!servers, "{header:?}");
        let opens = matches!(header.kind, Kind::Initial | Kind::UnknownVersion);
        assert!(!opens || datagram.len() >= MIN_CLIENT_DATAGRAM);
        assert!(header.kind != Kind::Initial || header.dcid.len() >= 8);
    }
    let generation = padded[0] % cid::GENERATIONS;
    check_cid(&padded[1..], generation);
    Header::parse(&padded).is_ok()
}

/// Checks that every field of a header stands in the datagram, where its format says (RFC 8999 §5, RFC 9000 §17).
fn check_header(header: &Header<'_>, datagram: &[u8]) {
    let Some(version) = header.version else {
        assert_eq!((header.kind, datagram[0] & 0xc0), (Kind::Short, 0x40));
        assert_eq!(header.dcid, &datagram[1..=cid::LEN]);
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
    assert_eq!(header.kind == Kind::Initial, initial);
    if initial {
        let width = 1 << (rest[0] >> 6);
        assert!(rest[width..].starts_with(header.token));
    } else {
        assert!(header.token.is_empty());
    }
}

fn check_cid(bytes: &[u8], generation: u8) {
    let id = ConnectionId::try_from(&bytes[..cid::LEN]).expect("of the right length");
    assert!(ConnectionId::try_from(bytes).is_err());
    assert_eq!(id.as_bytes(), &bytes[..cid::LEN]);
    let of = (0..cid::GENERATIONS).filter(|generation| id.is_of(*generation));
    assert_eq!(of.count(), usize::from(id.is_ours()));
    assert_eq!(id.to_string().len(), 2 * cid::LEN);
    let made = CidGenerator::new(id.worker(), generation).generate();
    assert!(made.is_of(generation) && made.worker() == id.worker() && made != id);
}

/// A token that the server sealed.
struct Sealed {
    bytes: Vec<u8>,
    peer: SocketAddr,
    original: Vec<u8>,
    scid: ConnectionId,
    /// Time at which it was sealed, since 1970.
    at: Duration,
}

/// Lifetime of the tokens.
const LIFETIME: Duration = Duration::from_secs(10);
/// Largest difference of two servers' clocks.
const SKEW: Duration = Duration::from_secs(60);

/// Seals a token, changes some of what belongs to it, and opens it. Returns whether it was good.
pub fn token(bytes: &[u8]) -> bool {
    let mut bytes = Bytes::new(bytes);
    let secrets = |roots: &[u8]| {
        let roots = roots.iter().map(|root| RootSecret::new([*root; 32]));
        let secrets = Secrets::from_roots(roots.collect(), 0, Path::new("trial"));
        Tokens::new(&secrets.expect("one root or two"), LIFETIME)
    };
    let (mut maker, mut reader) = match bytes.byte() % 4 {
        0 | 1 => (secrets(&[1]), secrets(&[1])),
        2 => (secrets(&[1]), secrets(&[2, 1])),
        _ => (secrets(&[1]), secrets(&[2])),
    };
    let known = reader.open(&[], peer(&mut bytes), &[], LIFETIME);
    assert_eq!(known, Err(TokenError::Truncated));
    let sealed = seal(&mut maker, &mut bytes);
    let Some(sealed) = sealed else {
        return false;
    };
    // The maker itself reads what it made, as it made it.
    let opened = maker.open(&sealed.bytes, sealed.peer, sealed.scid.as_ref(), sealed.at);
    assert_eq!(opened.expect("as it was made").as_ref(), sealed.original);
    present(&sealed, &mut reader, &mut bytes)
}

fn peer(bytes: &mut Bytes<'_>) -> SocketAddr {
    let port = u16::from(bytes.byte());
    match bytes.byte() {
        last @ 0..128 => SocketAddr::from(([192, 0, 2, last], port)),
        last => SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(last)], port)),
    }
}

fn seal(maker: &mut Tokens, bytes: &mut Bytes<'_>) -> Option<Sealed> {
    let peer = peer(bytes);
    let length = bytes.byte() % 24;
    let original = bytes.take(length.into()).to_vec();
    let scid = ConnectionId::from(bytes.array());
    let at = Duration::from_secs(u64::from(bytes.byte()) << 24);
    let made = maker.seal(peer, &original, scid, at);
    assert_eq!(made.is_some(), original.len() <= MAX_V1_CID);
    Some(Sealed {
        bytes: made?.to_vec(),
        peer,
        original,
        scid,
        at,
    })
}

/// Presents a token, perhaps changed. Returns whether it was accepted.
fn present(sealed: &Sealed, reader: &mut Tokens, bytes: &mut Bytes<'_>) -> bool {
    let mut token = sealed.bytes.clone();
    let (mut from, mut dcid, mut now) = (sealed.peer, sealed.scid.as_ref().to_vec(), sealed.at);
    let late = Duration::from_millis(u64::from(u16::from_be_bytes(bytes.array())));
    match bytes.byte() % 8 {
        0 => from = peer(bytes),
        1 => dcid = bytes.take(16).to_vec(),
        2 => now += late,
        3 => now = now.saturating_sub(late),
        4 => token.truncate(bytes.byte().into()),
        5 => token.extend(bytes.take(9)),
        6 => {
            let place = usize::from(bytes.byte()) % token::LEN;
            token[place] ^= bytes.byte();
        }
        _ => {}
    }
    let opened = reader.open(&token, from, &dcid, now);
    let same = token == sealed.bytes && from == sealed.peer && dcid == sealed.scid.as_ref();
    let live = now <= sealed.at + LIFETIME && sealed.at <= now + SKEW;
    match opened {
        Ok(original) => {
            assert!(same && live, "accepted though it is another");
            assert_eq!(original.as_ref(), sealed.original);
        }
        Err(TokenError::Expired) => assert!(!live),
        Err(TokenError::WrongAddress) => assert_ne!(from, sealed.peer),
        Err(TokenError::WrongConnection) => assert_ne!(dcid, sealed.scid.as_ref()),
        Err(TokenError::Truncated) => assert_ne!(token.len(), token::LEN),
        Err(TokenError::Forged) => assert_ne!(token, sealed.bytes),
        // Sealed by a root that the reader lacks, or the byte that names it was changed.
        Err(TokenError::UnknownKey) => {}
    }
    opened.is_ok()
}
