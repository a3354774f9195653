use std::path::Path;

use super::super::secrets::RootSecret;
use super::*;

const NOW: Duration = Duration::from_secs(1_800_000_000);
const PEER: &str = "192.0.2.1:4433";
const ODCID: [u8; 11] = [0xd; 11];

fn secrets(roots: &[u8]) -> Secrets {
    let roots = roots.iter().map(|root| RootSecret::new([*root; 32]));
    Secrets::from_roots(roots.collect(), 0, Path::new("t")).unwrap()
}

fn tokens(roots: &[u8]) -> Tokens {
    Tokens::new(&secrets(roots), TokenLifetimes::default())
}

fn scid() -> ConnectionId {
    ConnectionId::from([0x5c; cid::LEN])
}

fn peer() -> SocketAddr {
    PEER.parse().unwrap()
}

fn retry(tokens: &mut Tokens) -> [u8; RETRY_LEN] {
    tokens.seal_retry(peer(), &ODCID, scid(), NOW).unwrap()
}

fn open_retry(tokens: &mut Tokens, token: &[u8]) -> Result<OriginalDcid, TokenError> {
    tokens.open_retry(token, peer(), scid().as_ref(), NOW)
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
        let token = tokens.seal_retry(peer(), &odcid, scid(), NOW).unwrap();
        assert_eq!(open_retry(&mut tokens, &token).unwrap().as_ref(), odcid);
    }
    assert!(tokens.seal_retry(peer(), &[9; 21], scid(), NOW).is_none());
    assert!(tokens.seal_retry(peer(), &[9; 300], scid(), NOW).is_none());
}

#[test]
fn a_retry_token_is_bound_to_address_port_and_connection() {
    let mut tokens = tokens(&[1]);
    let token = retry(&mut tokens);
    for other in ["192.0.2.2:4433", "192.0.2.1:4434", "[2001:db8::1]:4433"] {
        let other = other.parse().unwrap();
        let refused = tokens.open_retry(&token, other, scid().as_ref(), NOW);
        assert_eq!(refused, Err(TokenError::WrongAddress));
    }
    for dcid in [[0; 16].as_slice(), &[0x5c; 15], &[]] {
        let refused = tokens.open_retry(&token, peer(), dcid, NOW);
        assert_eq!(refused, Err(TokenError::WrongConnection));
    }
}

#[test]
fn a_new_token_is_bound_to_the_address_whatever_its_form() {
    let mut tokens = tokens(&[1]);
    let token = tokens.seal_new_token(peer().ip(), NOW);
    let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
    assert_eq!(tokens.open_new_token(&token, mapped, NOW), Ok(()));
    let other: IpAddr = "192.0.2.2".parse().unwrap();
    assert_eq!(
        tokens.open_new_token(&token, other, NOW),
        Err(TokenError::WrongAddress)
    );
}

#[test]
fn tokens_end_with_their_lifetime_and_never_outlive_a_clock_set_back() {
    let mut tokens = tokens(&[1]);
    let token = retry(&mut tokens);
    let mut at = |now| {
        tokens
            .open_retry(&token, peer(), scid().as_ref(), now)
            .err()
    };
    let (lifetime, millisecond) = (TokenLifetimes::default().retry, Duration::from_millis(1));
    assert_eq!(at(NOW + lifetime), None);
    assert_eq!(at(NOW + lifetime + millisecond), Some(TokenError::Expired));
    assert_eq!(at(NOW - CLOCK_SKEW), None);
    assert_eq!(
        at(NOW - CLOCK_SKEW - millisecond),
        Some(TokenError::Expired)
    );
    assert_eq!(at(Duration::ZERO), Some(TokenError::Expired));
    assert_eq!(at(Duration::MAX), Some(TokenError::Expired));
    let new_token = tokens.seal_new_token(peer().ip(), NOW);
    let later = NOW + Duration::from_secs(23 * 3600);
    assert_eq!(
        tokens.open_new_token(&new_token, peer().ip(), later),
        Ok(())
    );
    let day = NOW + Duration::from_secs(25 * 3600);
    assert_eq!(
        tokens.open_new_token(&new_token, peer().ip(), day),
        Err(TokenError::Expired)
    );
}

#[test]
fn one_kind_never_passes_for_the_other() {
    let mut tokens = tokens(&[1]);
    let mut retry = retry(&mut tokens).to_vec();
    let mut new_token = tokens.seal_new_token(peer().ip(), NOW).to_vec();
    assert_eq!(
        open_retry(&mut tokens, &new_token),
        Err(TokenError::WrongKind)
    );
    assert_eq!(
        tokens.open_new_token(&retry, peer().ip(), NOW),
        Err(TokenError::WrongKind)
    );
    // Relabelled and cut or padded to the other's length.
    retry[0] = TokenKind::NewToken as u8;
    new_token[0] = TokenKind::Retry as u8;
    new_token.resize(RETRY_LEN, 0);
    assert_eq!(open_retry(&mut tokens, &new_token), Err(TokenError::Forged));
    assert_eq!(
        tokens.open_new_token(&retry[..NEW_TOKEN_LEN], peer().ip(), NOW),
        Err(TokenError::Forged)
    );
}

#[test]
fn rotation_accepts_the_old_secret_until_it_is_taken_away() {
    let old = retry(&mut tokens(&[1]));
    let mut rotating = tokens(&[2, 1]);
    assert!(open_retry(&mut rotating, &old).is_ok());
    let new = retry(&mut rotating);
    assert_eq!(
        open_retry(&mut tokens(&[1]), &new),
        Err(TokenError::UnknownKey)
    );
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
    assert_eq!(
        open_retry(&mut tokens(&[pair.0]), &token),
        Err(TokenError::Forged)
    );
}

#[test]
fn any_flipped_bit_is_refused() {
    let mut tokens = tokens(&[1]);
    let retry = retry(&mut tokens);
    for bit in 0..8 * RETRY_LEN {
        let mut changed = retry;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(open_retry(&mut tokens, &changed).is_err(), "bit {bit}");
    }
    let new_token = tokens.seal_new_token(peer().ip(), NOW);
    for bit in 0..8 * NEW_TOKEN_LEN {
        let mut changed = new_token;
        changed[bit / 8] ^= 1 << (bit % 8);
        let opened = tokens.open_new_token(&changed, peer().ip(), NOW);
        assert!(opened.is_err(), "bit {bit}");
    }
}

#[test]
fn any_other_length_is_refused() {
    let mut tokens = tokens(&[1]);
    let mut long = retry(&mut tokens).to_vec();
    long.push(0);
    for length in (0..RETRY_LEN).chain([RETRY_LEN + 1]) {
        let refused = open_retry(&mut tokens, &long[..length]);
        assert_eq!(refused, Err(TokenError::Truncated), "{length} bytes");
    }
}

/// SplitMix64: enough for test bytes, the same everywhere.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[test]
fn random_bytes_are_refused() {
    let mut tokens = tokens(&[1, 2]);
    let ids: Vec<u8> = tokens.keys.iter().map(|keys| keys.id).collect();
    let mut forged = 0;
    for seed in 0..20_000u64 {
        let mut state = seed;
        let length = [RETRY_LEN, NEW_TOKEN_LEN, 3, 200][usize::try_from(seed % 4).unwrap()];
        let mut bytes: Vec<u8> = (0..length)
            .map(|_| next(&mut state).to_le_bytes()[0])
            .collect();
        // Most random bytes fall over the first two: half of them get good ones.
        if seed % 8 < 4 {
            bytes[0] = u8::from(seed % 4 == 1) + 1;
            bytes[1] = ids[usize::try_from(seed / 8 % 2).unwrap()];
        }
        let retry = open_retry(&mut tokens, &bytes);
        let new_token = tokens.open_new_token(&bytes, peer().ip(), NOW);
        assert!(retry.is_err() && new_token.is_err(), "seed {seed}");
        forged += u32::from(retry == Err(TokenError::Forged));
        forged += u32::from(new_token == Err(TokenError::Forged));
    }
    assert!(forged >= 5000, "only {forged} reached the seal");
}

#[test]
fn two_tokens_for_one_peer_have_nothing_in_common() {
    let mut tokens = tokens(&[1]);
    let (first, second) = (retry(&mut tokens), retry(&mut tokens));
    let same = first[2..]
        .iter()
        .zip(&second[2..])
        .filter(|(a, b)| a == b)
        .count();
    assert!(same < 12, "{same} bytes alike");
}
