//! Properties of every token.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::properties::Bytes;
use sluicegate_base::secrets::{RootSecret, Secrets};

use crate::cid::{ConnectionId, MAX_V1_CID};
use crate::token::{NewTokenRefusal, NewTokens, RetryTokens, TokenError, UsedTokens};

/// Lifetime of the tokens.
const LIFETIME: Duration = Duration::from_secs(10);
/// Largest difference of two servers' clocks.
const SKEW: Duration = Duration::from_secs(60);
/// Length of the server's connection IDs.
const CID_LEN: usize = 16;
/// Names of listeners.
const LISTENERS: [&str; 2] = ["main", "other"];

/// A Retry token that the server sealed.
struct Sealed {
    bytes: Vec<u8>,
    peer: SocketAddr,
    original: Vec<u8>,
    scid: ConnectionId,
    /// Time at which it was sealed, since 1970.
    at: Duration,
}

/// Seals a token of one kind, changes some of what belongs to it, and opens it. Returns whether it was good.
pub fn token(bytes: &[u8]) -> bool {
    let mut bytes = Bytes::new(bytes);
    let choice = bytes.byte();
    let roots: [&[u8]; 2] = match choice % 4 {
        0 | 1 => [&[1], &[1]],
        2 => [&[1], &[2, 1]],
        _ => [&[1], &[2]],
    };
    let [maker, reader] = roots.map(|roots| {
        let roots = roots.iter().map(|root| RootSecret::new([*root; 32]));
        Secrets::from_roots(roots.collect(), 0, Path::new("trial")).expect("one root or two")
    });
    if choice & 4 == 0 {
        retry_token(&maker, &reader, &mut bytes)
    } else {
        new_token(&maker, &reader, &mut bytes)
    }
}

fn retry_token(maker: &Secrets, reader: &Secrets, bytes: &mut Bytes<'_>) -> bool {
    let [mut maker, mut reader] =
        [maker, reader].map(|secrets| RetryTokens::new(secrets, LIFETIME, CID_LEN));
    let known = reader.open(&[], peer(bytes).into(), &[], LIFETIME);
    assert_eq!(known, Err(TokenError::Truncated));
    let Some(sealed) = seal(&mut maker, bytes) else {
        return false;
    };
    // The maker itself reads what it made, as it made it.
    let opened = maker.open(&sealed.bytes, sealed.peer.into(), sealed.scid.as_ref(), sealed.at);
    assert_eq!(opened.expect("as it was made").as_ref(), sealed.original);
    present(&sealed, &mut reader, bytes)
}

fn new_token(maker: &Secrets, reader: &Secrets, bytes: &mut Bytes<'_>) -> bool {
    let [mut maker, mut reader] = [maker, reader]
        .map(|secrets| NewTokens::new(secrets, &Arc::new(UsedTokens::few()), LIFETIME));
    let (made_for, made_at) =
        (peer(bytes).ip(), Duration::from_secs(u64::from(bytes.byte()) << 24));
    let made = maker.seal(made_for.into(), LISTENERS[0], made_at);
    let mut own = || {
        let opened = maker.open(&made, made_for.into(), LISTENERS[0], made_at);
        opened.map(drop)
    };
    assert_eq!([own(), own()], [Ok(()), Err(NewTokenRefusal::Used)]);
    let (mut token, mut from, mut listener, mut now) = (made.to_vec(), made_for, 0, made_at);
    let late = Duration::from_millis(u64::from(u16::from_be_bytes(bytes.array())));
    match bytes.byte() % 8 {
        0 => from = peer(bytes).ip(),
        1 => listener = usize::from(bytes.byte() % 2),
        2 => now += late,
        3 => now = now.saturating_sub(late),
        4 => token.truncate(bytes.byte().into()),
        5 => token.extend(bytes.take(9)),
        6 => token[usize::from(bytes.byte()) % NewTokens::LEN] ^= bytes.byte(),
        _ => {}
    }
    let mut open = || {
        let opened = reader.open(&token, from.into(), LISTENERS[listener], now);
        opened.map(drop)
    };
    let (first, again) = (open(), open());
    let same = token == made && from == made_for && listener == 0;
    let live = now <= made_at + LIFETIME && made_at <= now + SKEW;
    match first {
        Ok(()) => assert!(same && live, "accepted though it is another"),
        Err(NewTokenRefusal::Expired) => assert!(!live),
        Err(NewTokenRefusal::WrongAddress) => assert_ne!(from, made_for),
        Err(NewTokenRefusal::WrongListener) => assert_ne!(listener, 0),
        Err(NewTokenRefusal::Truncated) => assert_ne!(token.len(), NewTokens::LEN),
        Err(NewTokenRefusal::Forged) => assert_ne!(token, made),
        Err(NewTokenRefusal::Used) => panic!("used by nobody"),
        // Sealed by a root that the reader lacks, or the byte that names it was changed.
        Err(NewTokenRefusal::UnknownKey) => {}
    }
    assert_eq!(again, first.and(Err(NewTokenRefusal::Used)));
    first.is_ok()
}

fn peer(bytes: &mut Bytes<'_>) -> SocketAddr {
    let port = u16::from(bytes.byte());
    match bytes.byte() {
        last @ 0..128 => SocketAddr::from(([192, 0, 2, last], port)),
        last => SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(last)], port)),
    }
}

fn seal(maker: &mut RetryTokens, bytes: &mut Bytes<'_>) -> Option<Sealed> {
    let peer = peer(bytes);
    let length = bytes.byte() % 24;
    let original = bytes.take(length.into()).to_vec();
    let scid = ConnectionId::from(bytes.array::<CID_LEN>());
    let at = Duration::from_secs(u64::from(bytes.byte()) << 24);
    let made = maker.seal(peer.into(), &original, scid, at);
    assert_eq!(made.is_some(), original.len() <= MAX_V1_CID);
    Some(Sealed { bytes: made?, peer, original, scid, at })
}

/// Presents a token, perhaps changed. Returns whether it was accepted.
fn present(sealed: &Sealed, reader: &mut RetryTokens, bytes: &mut Bytes<'_>) -> bool {
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
            let place = usize::from(bytes.byte()) % token.len();
            token[place] ^= bytes.byte();
        }
        _ => {}
    }
    let opened = reader.open(&token, from.into(), &dcid, now);
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
        Err(TokenError::Truncated) => assert_ne!(token.len(), reader.token_len()),
        Err(TokenError::Forged) => assert_ne!(token, sealed.bytes),
        // Sealed by a root that the reader lacks, or the byte that names it was changed.
        Err(TokenError::UnknownKey) => {}
    }
    opened.is_ok()
}
