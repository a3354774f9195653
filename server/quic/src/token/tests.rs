use std::path::Path;

use sluicegate_base::address::UnvalidatedAddress;
use sluicegate_base::secrets::{Purpose, RootSecret, Secrets};
use sluicegate_sim::Rng;

use super::super::cid::ConnectionId;
use super::*;

mod new_token;

const NOW: Duration = Duration::from_secs(1_800_000_000);
const PEER: &str = "192.0.2.1:4433";
const LIFETIME: Duration = Duration::from_secs(10);
/// Length of the server's connection IDs.
const CID_LEN: usize = 16;
/// Length of a Retry token with such an ID.
const RETRY_LEN: usize = 1 + 1 + 24 + 16 + 63;
const ODCID: [u8; 11] = [0xd; 11];

fn secrets(roots: &[u8]) -> Secrets {
    let roots = roots.iter().map(|root| RootSecret::new([*root; 32]));
    Secrets::from_roots(roots.collect(), 0, Path::new("t")).unwrap()
}

fn tokens(roots: &[u8]) -> RetryTokens {
    RetryTokens::new(&secrets(roots), LIFETIME, CID_LEN)
}

fn scid() -> ConnectionId {
    ConnectionId::from([0x5c; CID_LEN])
}

fn peer() -> UnvalidatedAddress {
    PEER.parse().unwrap()
}

fn retry(tokens: &mut RetryTokens) -> Vec<u8> {
    tokens.seal(peer(), &ODCID, scid(), NOW).unwrap()
}

fn open_retry(tokens: &mut RetryTokens, token: &[u8]) -> Result<OriginalDcid, TokenError> {
    tokens.open(token, peer(), scid().as_ref(), NOW)
}

#[test]
fn a_retry_token_gives_the_original_id_back_to_any_worker() {
    let token = retry(&mut tokens(&[1]));
    let opened = open_retry(&mut tokens(&[1]), &token).unwrap();
    assert_eq!(opened.as_ref(), ODCID);
    assert_eq!(TokenKind::of(&token), Some(TokenKind::Retry));
}

#[test]
fn original_ids_of_every_length_come_back_and_longer_ones_are_refused() {
    let mut tokens = tokens(&[1]);
    for length in 0..=20 {
        let odcid = vec![9; length];
        let token = tokens.seal(peer(), &odcid, scid(), NOW).unwrap();
        assert_eq!(open_retry(&mut tokens, &token).unwrap().as_ref(), odcid);
    }
    assert!(tokens.seal(peer(), &[9; 21], scid(), NOW).is_none());
    assert!(tokens.seal(peer(), &[9; 300], scid(), NOW).is_none());
}

#[test]
fn a_retry_token_is_bound_to_address_port_and_connection() {
    let mut tokens = tokens(&[1]);
    let token = retry(&mut tokens);
    for other in ["192.0.2.2:4433", "192.0.2.1:4434", "[2001:db8::1]:4433"] {
        let other = other.parse().unwrap();
        let refused = tokens.open(&token, other, scid().as_ref(), NOW);
        assert_eq!(refused, Err(TokenError::WrongAddress));
    }
    for dcid in [[0; 16].as_slice(), &[0x5c; 15], &[]] {
        let refused = tokens.open(&token, peer(), dcid, NOW);
        assert_eq!(refused, Err(TokenError::WrongConnection));
    }
}

#[test]
fn an_ipv4_address_is_the_same_in_either_form() {
    let mut tokens = tokens(&[1]);
    let token = retry(&mut tokens);
    let mapped = "[::ffff:192.0.2.1]:4433".parse().unwrap();
    assert!(tokens.open(&token, mapped, scid().as_ref(), NOW).is_ok());
}

#[test]
fn tokens_end_with_their_lifetime_and_never_outlive_a_clock_set_back() {
    let mut tokens = tokens(&[1]);
    let token = retry(&mut tokens);
    let mut at = |now| tokens.open(&token, peer(), scid().as_ref(), now).err();
    let millisecond = Duration::from_millis(1);
    assert_eq!(at(NOW + LIFETIME), None);
    assert_eq!(at(NOW + LIFETIME + millisecond), Some(TokenError::Expired));
    assert_eq!(at(NOW - CLOCK_SKEW), None);
    assert_eq!(at(NOW - CLOCK_SKEW - millisecond), Some(TokenError::Expired));
    assert_eq!(at(Duration::ZERO), Some(TokenError::Expired));
    assert_eq!(at(Duration::MAX), Some(TokenError::Expired));
}

#[test]
fn only_a_token_that_was_opened_is_surely_ours() {
    for error in [TokenError::Expired, TokenError::WrongAddress, TokenError::WrongConnection] {
        assert!(error.is_ours(), "{error}");
    }
    for error in [TokenError::Truncated, TokenError::UnknownKey, TokenError::Forged] {
        assert!(!error.is_ours(), "{error}");
    }
}

#[test]
fn a_token_has_the_length_of_its_layout() {
    let mut tokens = tokens(&[1]);
    assert_eq!(retry(&mut tokens).len(), RETRY_LEN);
    assert_eq!(tokens.token_len(), RETRY_LEN);
}

#[test]
fn a_retry_token_holds_a_connection_id_of_any_length() {
    for cid_len in 1..=20 {
        let mut tokens = RetryTokens::new(&secrets(&[1]), LIFETIME, cid_len);
        let scid = ConnectionId::try_from(&[0x5c; 20][..cid_len]).unwrap();
        let token = tokens.seal(peer(), &[9; 20], scid, NOW).unwrap();
        assert_eq!(token.len(), tokens.token_len());
        let original = tokens.open(&token, peer(), scid.as_ref(), NOW).unwrap();
        assert_eq!(original.as_ref(), [9; 20]);
        let other = tokens.open(&token, peer(), &[0x5c; 20][..cid_len - 1], NOW);
        assert_eq!(other, Err(TokenError::WrongConnection));
        // A server whose IDs have another length cannot read it.
        let mut other = RetryTokens::new(&secrets(&[1]), LIFETIME, cid_len % 20 + 1);
        assert!(other.seal(peer(), &[9; 8], scid, NOW).is_none());
        let opened = other.open(&token, peer(), scid.as_ref(), NOW);
        assert_eq!(opened, Err(TokenError::Truncated));
    }
}

#[test]
fn refusals_of_tokens_have_names_of_their_own() {
    let all = [
        TokenError::Truncated,
        TokenError::UnknownKey,
        TokenError::Forged,
        TokenError::Expired,
        TokenError::WrongAddress,
        TokenError::WrongConnection,
    ];
    let names: std::collections::BTreeSet<_> = all.iter().map(|error| error.name()).collect();
    assert_eq!(names.len(), all.len());
}

#[test]
fn keys_are_not_shown() {
    let shown = format!("{:?}", tokens(&[1, 2]));
    assert_eq!(shown, "RetryTokens { keys: 2, lifetime: 10s, .. }");
}

#[test]
fn another_kind_is_no_retry_token() {
    let mut tokens = tokens(&[1]);
    let mut token = retry(&mut tokens);
    assert_eq!(TokenKind::of(&[]), None);
    for kind in (0..=255).filter(|kind| *kind != TokenKind::Retry as u8) {
        token[0] = kind;
        assert_ne!(TokenKind::of(&token), Some(TokenKind::Retry), "kind {kind}");
        assert_eq!(open_retry(&mut tokens, &token), Err(TokenError::Forged));
    }
}

#[test]
fn rotation_accepts_the_old_secret_until_it_is_taken_away() {
    let old = retry(&mut tokens(&[1]));
    let mut rotating = tokens(&[2, 1]);
    assert!(open_retry(&mut rotating, &old).is_ok());
    let new = retry(&mut rotating);
    assert_eq!(open_retry(&mut tokens(&[1]), &new), Err(TokenError::UnknownKey));
    let mut rotated = tokens(&[2]);
    assert!(open_retry(&mut rotated, &new).is_ok());
    assert_eq!(open_retry(&mut rotated, &old), Err(TokenError::UnknownKey));
    // The order in which an instance lists them does not matter.
    assert!(open_retry(&mut tokens(&[1, 3, 2]), &new).is_ok());
}

#[test]
fn secrets_that_share_a_key_id_are_all_tried() {
    let id = |root: u8| RootSecret::new([root; 32]).derive::<1>(Purpose::KeyId);
    let pair = (0..=255u8)
        .flat_map(|a| (0..a).map(move |b| (a, b)))
        .find(|(a, b)| id(*a) == id(*b))
        .expect("256 secrets and 256 ids: two share one");
    let token = retry(&mut tokens(&[pair.1]));
    assert!(open_retry(&mut tokens(&[pair.0, pair.1]), &token).is_ok());
    assert_eq!(open_retry(&mut tokens(&[pair.0]), &token), Err(TokenError::Forged));
}

#[test]
fn any_flipped_bit_is_refused() {
    let mut tokens = tokens(&[1]);
    let retry = retry(&mut tokens);
    for bit in 0..8 * RETRY_LEN {
        let mut changed = retry.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(open_retry(&mut tokens, &changed).is_err(), "bit {bit}");
    }
}

#[test]
fn any_other_length_is_refused() {
    let mut tokens = tokens(&[1]);
    let mut long = retry(&mut tokens);
    long.push(0);
    for length in (0..RETRY_LEN).chain([RETRY_LEN + 1]) {
        let refused = open_retry(&mut tokens, &long[..length]);
        assert_eq!(refused, Err(TokenError::Truncated), "{length} bytes");
    }
}

#[test]
fn random_bytes_are_refused() {
    let mut tokens = tokens(&[1, 2]);
    let ids: Vec<u8> = tokens.seal.keys.iter().map(|keys| keys.id).collect();
    let mut forged = 0;
    for seed in 0..20_000u64 {
        let mut rng = Rng::new(seed);
        let length = [RETRY_LEN, RETRY_LEN - 1, 3, 200][usize::try_from(seed % 4).unwrap()];
        let mut bytes: Vec<u8> = (0..length).map(|_| rng.bits().to_le_bytes()[0]).collect();
        // Most random bytes fall over the first two: half of them get good ones.
        if seed % 8 < 4 {
            bytes[0] = TokenKind::Retry as u8;
            bytes[1] = ids[usize::try_from(seed / 8 % 2).unwrap()];
        }
        let opened = open_retry(&mut tokens, &bytes);
        assert!(opened.is_err(), "seed {seed}");
        forged += u32::from(opened == Err(TokenError::Forged));
    }
    assert!(forged >= 2500, "only {forged} reached the seal");
}

#[test]
fn two_tokens_for_one_peer_have_nothing_in_common() {
    let mut tokens = tokens(&[1]);
    let (first, second) = (retry(&mut tokens), retry(&mut tokens));
    let same = first[2..].iter().zip(&second[2..]).filter(|(a, b)| a == b).count();
    assert!(same < 12, "{same} bytes alike");
}
