//! Tokens of NEW_TOKEN frames.

use std::sync::Arc;

use super::super::NewTokenRefusal as Refusal;
use super::*;

const CLIENT: &str = "192.0.2.1";
const DAY: Duration = Duration::from_secs(86_400);
const LEN: usize = NewTokens::LEN;

/// Returns the tokens of a worker of a process of its own.
fn worker(roots: &[u8]) -> NewTokens {
    NewTokens::new(&secrets(roots), &Arc::default(), DAY)
}

fn sealed(tokens: &mut NewTokens) -> [u8; LEN] {
    tokens.seal(CLIENT.parse().unwrap(), "main", NOW)
}

fn open(tokens: &mut NewTokens, token: &[u8]) -> Result<(), Refusal> {
    let client = CLIENT.parse().unwrap();
    tokens.open(token, client, "main", NOW).map(drop)
}

#[test]
fn token_is_accepted_by_any_worker_and_once_in_a_process() {
    let used = Arc::default();
    let mut workers = [(); 3].map(|()| NewTokens::new(&secrets(&[1]), &used, DAY));
    let [first, second] = [0, 1].map(|_| sealed(&mut workers[0]));
    assert_eq!(TokenKind::of(&first), Some(TokenKind::NewToken));
    assert_eq!(open(&mut workers[1], &first), Ok(()));
    for worker in &mut workers {
        assert_eq!(open(worker, &first), Err(Refusal::Used));
    }
    assert_eq!(open(&mut workers[2], &second), Ok(()));
    // Another instance with the same root secret knows nothing of it.
    assert_eq!(open(&mut worker(&[1]), &first), Ok(()));
}

#[test]
fn token_is_bound_to_address_and_listener_and_not_used_up_by_others() {
    let mut tokens = worker(&[1]);
    let token = sealed(&mut tokens);
    for other in ["192.0.2.2", "2001:db8::1"] {
        let refused = tokens.open(&token, other.parse().unwrap(), "main", NOW);
        assert_eq!(refused, Err(Refusal::WrongAddress));
    }
    for other in ["", "mai", "main2", "other"] {
        let refused = tokens.open(&token, CLIENT.parse().unwrap(), other, NOW);
        assert_eq!(refused, Err(Refusal::WrongListener));
    }
    let mapped = "::ffff:192.0.2.1".parse().unwrap();
    assert!(tokens.open(&token, mapped, "main", NOW).is_ok());
}

#[test]
fn token_ends_with_its_lifetime_and_never_outlives_a_clock_set_back() {
    let millisecond = Duration::from_millis(1);
    for (now, expected) in [
        (NOW + DAY, Ok(())),
        (NOW + DAY + millisecond, Err(Refusal::Expired)),
        (NOW - CLOCK_SKEW, Ok(())),
        (NOW - CLOCK_SKEW - millisecond, Err(Refusal::Expired)),
        (Duration::ZERO, Err(Refusal::Expired)),
        (Duration::MAX, Err(Refusal::Expired)),
    ] {
        let mut tokens = worker(&[1]);
        let token = sealed(&mut tokens);
        let opened = tokens.open(&token, CLIENT.parse().unwrap(), "main", now);
        assert_eq!(opened.map(drop), expected);
    }
}

#[test]
fn shorter_lifetime_ends_tokens_that_were_made_under_a_longer_one() {
    let token = sealed(&mut worker(&[1]));
    let mut short = NewTokens::new(&secrets(&[1]), &Arc::default(), Duration::from_secs(3600));
    assert_eq!(open(&mut short, &token), Err(Refusal::Expired));
    assert!(short.is_on());
    assert!(!NewTokens::new(&secrets(&[1]), &Arc::default(), Duration::ZERO).is_on());
}

#[test]
fn retry_token_is_no_new_token_and_a_new_token_is_no_retry_token() {
    let (mut retries, mut tokens) = (tokens(&[1]), worker(&[1]));
    let (mut retry, mut new) = (retry(&mut retries).to_vec(), sealed(&mut tokens).to_vec());
    assert_eq!(open(&mut tokens, &retry), Err(Refusal::Truncated));
    assert_eq!(open_retry(&mut retries, &new), Err(TokenError::Truncated));
    // Neither with the other's kind and length.
    retry[0] = TokenKind::NewToken as u8;
    new[0] = TokenKind::Retry as u8;
    retry.truncate(LEN);
    new.resize(RETRY_LEN, 0);
    assert_eq!(open(&mut tokens, &retry), Err(Refusal::Forged));
    assert_eq!(open_retry(&mut retries, &new), Err(TokenError::Forged));
}

/// A token whose body has the other kind's length, sealed as its own kind, does not pass for the other either: keys differ.
#[test]
fn kinds_have_keys_of_their_own() {
    use super::super::seal::Seal;
    let secrets = secrets(&[1]);
    let mut token = [0; LEN];
    Seal::new(TokenKind::Retry, &secrets).close(&mut token);
    assert_eq!(open(&mut worker(&[1]), &token), Err(Refusal::Forged));
    token[0] = TokenKind::NewToken as u8;
    assert_eq!(open(&mut worker(&[1]), &token), Err(Refusal::Forged));
}

#[test]
fn rotation_accepts_the_old_secret_until_it_is_taken_away() {
    let old = sealed(&mut worker(&[1]));
    let mut rotating = worker(&[2, 1]);
    assert_eq!(open(&mut rotating, &old), Ok(()));
    let new = sealed(&mut rotating);
    assert_eq!(open(&mut worker(&[1]), &new), Err(Refusal::UnknownKey));
    let mut rotated = worker(&[2]);
    assert_eq!(open(&mut rotated, &new), Ok(()));
    assert_eq!(open(&mut rotated, &old), Err(Refusal::UnknownKey));
}

#[test]
fn any_flipped_bit_and_any_other_length_is_refused() {
    let mut tokens = worker(&[1]);
    let token = sealed(&mut tokens);
    for bit in 0..8 * LEN {
        let mut changed = token;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(open(&mut tokens, &changed).is_err(), "bit {bit}");
    }
    let long = [&token[..], &[0]].concat();
    for length in (0..LEN).chain([LEN + 1]) {
        let refused = open(&mut tokens, &long[..length]);
        assert_eq!(refused, Err(Refusal::Truncated), "{length} bytes");
    }
    assert_eq!(open(&mut tokens, &token), Ok(()));
}

#[test]
fn tokens_of_one_client_cannot_be_linked() {
    let mut tokens = worker(&[1]);
    let (first, second) = (sealed(&mut tokens), sealed(&mut tokens));
    assert_eq!(first[..2], second[..2]);
    assert_eq!(first[..2], tokens.seal("2001:db8::1".parse().unwrap(), "other", NOW)[..2]);
    let pairs = first[2..].iter().zip(&second[2..]);
    let same = pairs.filter(|(a, b)| a == b).count();
    assert!(same < 12, "{same} bytes alike");
}

#[test]
fn a_token_has_the_length_of_its_layout_and_shows_no_key() {
    assert_eq!(LEN, 1 + 1 + 24 + 16 + 40);
    let shown = format!("{:?}", worker(&[1, 2]));
    assert_eq!(shown, "NewTokens { keys: 2, lifetime: 86400s, .. }");
    assert_eq!(format!("{:?}", UsedTokens::default()), "UsedTokens { .. }");
}
