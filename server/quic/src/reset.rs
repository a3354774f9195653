//! Stateless reset of connections that are gone (RFC 9000 §10.3).

use boring::hash::hmac_sha256;

use sluicegate_base::entropy::Entropy;
use sluicegate_base::secrets::Secrets;

/// Length of a stateless reset token, in bytes.
pub const TOKEN_LEN: usize = 16;

/// Returns the length of the shortest packet that a peer could have protected for a connection ID of `cid_len` bytes: first
/// byte, ID, packet number with payload (4 bytes at least, for header protection), authentication tag. Anything shorter is
/// noise and gets no answer.
pub const fn min_trigger(cid_len: usize) -> usize {
    1 + cid_len + 4 + 16
}

/// Up to this trigger length a reset is one byte shorter than its trigger (RFC 9000 §10.3).
const SHORT_TRIGGER: usize = 43;
/// Longest reset: lengths vary, so that they don't give resets away.
const LONGEST: usize = 96;

/// Makes the token of every connection ID, the same after a restart that keeps the secrets.
#[derive(Clone)]
pub struct ResetTokens {
    key: [u8; 32],
}

impl ResetTokens {
    /// Makes tokens with the key derived from the current root secret.
    pub fn new(secrets: &Secrets) -> ResetTokens {
        ResetTokens { key: secrets.stateless_reset_key() }
    }

    /// Returns the token that belongs to a connection ID of ours.
    pub fn token(&self, cid: &[u8]) -> [u8; TOKEN_LEN] {
        let digest =
            hmac_sha256(&self.key, cid).expect("HMAC-SHA256 fails only where memory ran out");
        let (token, _) = digest.split_first_chunk().expect("a digest of 32 bytes holds a token");
        *token
    }
}

impl std::fmt::Debug for ResetTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResetTokens(..)")
    }
}

/// Writes the answer to a short-header packet of no connection, in a datagram of `trigger_len` bytes for a connection ID of
/// `cid_len` bytes, and returns its length.
///
/// Always shorter than the trigger, so that two endpoints that reset each other fall silent; at least one byte shorter than
/// [`min_trigger`], unpredictable but for the two bits of a short header. `None`, and `out` is as it was, for shorter triggers
/// or where `out` is too short (96 bytes always do). The caller limits the rate.
pub fn write_reset(
    trigger_len: usize,
    cid_len: usize,
    token: &[u8; TOKEN_LEN],
    out: &mut [u8],
    entropy: &mut Entropy,
) -> Option<usize> {
    if trigger_len < min_trigger(cid_len) {
        return None;
    }
    let longest = (trigger_len - 1).min(LONGEST);
    let shortest = longest.min(SHORT_TRIGGER - 1);
    let [spread] = entropy.take::<1>();
    let length = shortest + usize::from(spread) % (longest - shortest + 1);
    let packet = out.get_mut(..length)?;
    let (noise, end) = packet.split_last_chunk_mut::<TOKEN_LEN>()?;
    entropy.fill(noise);
    let first = noise.first_mut()?;
    *first = 0x40 | *first & 0x3f;
    *end = *token;
    Some(length)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use super::*;
    use sluicegate_base::secrets::RootSecret;

    const CID_LEN: usize = 16;
    const MIN_TRIGGER: usize = min_trigger(CID_LEN);

    fn tokens(root: u8) -> ResetTokens {
        let roots = vec![RootSecret::new([root; 32])];
        ResetTokens::new(&Secrets::from_roots(roots, 0, Path::new("t")).unwrap())
    }

    #[test]
    fn the_token_depends_on_the_id_and_the_secret_only() {
        assert_eq!(tokens(1).token(&[7; 16]), tokens(1).token(&[7; 16]));
        assert_ne!(tokens(1).token(&[7; 16]), tokens(1).token(&[8; 16]));
        assert_ne!(tokens(1).token(&[7; 16]), tokens(2).token(&[7; 16]));
        assert_ne!(tokens(1).token(&[7; 16]), tokens(1).token(&[7; 15]));
    }

    #[test]
    fn every_trigger_gets_a_shorter_packet_that_ends_with_the_token() {
        let mut entropy = Entropy::new();
        let token = [0x5a; TOKEN_LEN];
        for trigger in 0..1500 {
            let mut out = [0; 1500];
            let length = write_reset(trigger, CID_LEN, &token, &mut out, &mut entropy);
            let Some(length) = length else {
                assert!(trigger < MIN_TRIGGER, "trigger of {trigger}");
                assert_eq!(out, [0; 1500]);
                continue;
            };
            assert!((21..trigger).contains(&length), "{length} for {trigger}");
            assert!(length <= LONGEST);
            assert_eq!(out[0] & 0xc0, 0x40);
            assert_eq!(out[length - TOKEN_LEN..length], token);
            if trigger <= SHORT_TRIGGER {
                assert_eq!(length, trigger - 1);
            }
        }
    }

    #[test]
    fn the_shortest_trigger_follows_from_the_length_of_the_connection_id() {
        for cid_len in 1..=20 {
            let write = |trigger| {
                let mut out = [0; LONGEST];
                write_reset(trigger, cid_len, &[1; TOKEN_LEN], &mut out, &mut Entropy::new())
            };
            let shortest = 21 + cid_len;
            assert_eq!(write(shortest - 1), None);
            assert_eq!(write(shortest), Some(shortest - 1));
        }
    }

    #[test]
    fn resets_that_answer_each_other_end() {
        let mut entropy = Entropy::new();
        let mut out = [0; 96];
        let mut length = 65_535;
        let mut answers = 0;
        while let Some(next) = write_reset(length, CID_LEN, &[1; TOKEN_LEN], &mut out, &mut entropy)
        {
            assert!(next < length);
            length = next;
            answers += 1;
        }
        assert!(answers <= LONGEST, "{answers}");
    }

    #[test]
    fn lengths_and_bytes_vary() {
        let mut entropy = Entropy::new();
        let mut lengths = HashSet::new();
        let mut beginnings = HashSet::new();
        let mut firsts = HashSet::new();
        for _ in 0..1000 {
            let mut out = [0; 96];
            lengths.insert(
                write_reset(1200, CID_LEN, &[1; TOKEN_LEN], &mut out, &mut entropy).unwrap(),
            );
            beginnings.insert(out[1..20].to_vec());
            firsts.insert(out[0]);
        }
        assert_eq!(beginnings.len(), 1000);
        assert_eq!(firsts.len(), 64);
        assert!(lengths.len() > 40, "{}", lengths.len());
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&42), Some(&96)));
    }

    #[test]
    fn no_room_no_packet() {
        let mut out = [0; 35];
        assert!(write_reset(37, CID_LEN, &[1; TOKEN_LEN], &mut out, &mut Entropy::new()).is_none());
        assert!(
            write_reset(usize::MAX, CID_LEN, &[1; TOKEN_LEN], &mut [], &mut Entropy::new())
                .is_none()
        );
    }
}
