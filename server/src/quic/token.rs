//! Tokens of Retry packets, by which a client proves its address (RFC 9000 §8.1.2).
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | kind: 1, Retry; there is no other |
//! | 1 | which root secret, derived from it |
//! | 24 | random nonce |
//! | 16 | authentication tag, over the two bytes in front too |
//! | 63 | sealed: expiry in ms since 1970 (8), peer address as IPv6 (16) and port (2), our connection ID from the Retry packet (16), length of the original destination ID (1) and that ID, padded to 20 |
//!
//! The seal is XChaCha20-Poly1305, whose random nonces may be drawn for any number of tokens.
//! Nothing is remembered of a token: whoever can send from its address may present it again until it expires, so the lifetime bounds a
//! replay, which opens another handshake for the same address, port and connection ID. A token carries no data or identity.
//!
//! quiche sends no NEW_TOKEN frame, so that no token is for a later connection.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use boring::aead::{AeadCtx, Algorithm};

use super::cid::{self, ConnectionId};
use super::entropy::Entropy;
use super::header::MAX_V1_CID;
use super::secrets::{Purpose, Secrets};

/// Length of a token, in bytes.
pub const LEN: usize = HEAD + BODY;

/// First byte of a Retry token.
const KIND: u8 = 1;
const NONCE: usize = 24;
const TAG: usize = 16;
const HEAD: usize = 2 + NONCE + TAG;
const BODY: usize = 8 + 16 + 2 + cid::LEN + 1 + MAX_V1_CID;
/// Largest difference of the clocks of instances that share secrets.
const CLOCK_SKEW: Duration = Duration::from_secs(60);

/// Returns whether a token says that it is for a Retry, unverified. A server takes any other for none (RFC 9000 §8.1.3).
pub fn is_retry(token: &[u8]) -> bool {
    token.first() == Some(&KIND)
}

/// Reason for which a token was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TokenError {
    /// The token has not [`LEN`] bytes.
    #[error("token of the wrong length")]
    Truncated,
    /// The root secret of the token is not, or no longer, known here.
    #[error("token of an unknown key")]
    UnknownKey,
    /// The token was changed, was made up, or is of another kind.
    #[error("token does not authenticate")]
    Forged,
    /// The token is too old, or from so far in the future that the clock must have been set back.
    #[error("token expired")]
    Expired,
    /// The token was made for another address or port.
    #[error("token of another address")]
    WrongAddress,
    /// The packet has another destination connection ID than the Retry packet gave.
    #[error("token of another connection")]
    WrongConnection,
}

impl TokenError {
    /// Returns whether the token is one of ours. Another server's, for a later connection, may look like one, and its client is to be
    /// served all the same.
    pub fn is_ours(self) -> bool {
        matches!(
            self,
            TokenError::Expired | TokenError::WrongAddress | TokenError::WrongConnection
        )
    }

    /// Returns the name as a counter's label.
    pub fn name(self) -> &'static str {
        match self {
            TokenError::Truncated => "truncated",
            TokenError::UnknownKey => "unknown_key",
            TokenError::Forged => "forged",
            TokenError::Expired => "expired",
            TokenError::WrongAddress => "wrong_address",
            TokenError::WrongConnection => "wrong_connection",
        }
    }
}

/// The original destination connection ID out of a token, for the handshake's transport parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginalDcid {
    bytes: [u8; MAX_V1_CID],
    len: usize,
}

impl AsRef<[u8]> for OriginalDcid {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Seals and opens tokens for one worker. Any two with the same secrets accept each other's.
pub struct Tokens {
    /// The current root's first.
    keys: Vec<Key>,
    lifetime: Duration,
    entropy: Entropy,
}

struct Key {
    /// Identifier in its tokens; two roots may have the same.
    id: u8,
    cipher: AeadCtx,
}

impl Tokens {
    /// Seals with the current root secret and opens with all of them. A token is good for `lifetime`.
    pub fn new(secrets: &Secrets, lifetime: Duration) -> Tokens {
        let keys = secrets.roots().iter().map(|root| {
            let [id] = root.derive::<1>(Purpose::KeyId);
            let key = root.derive::<32>(Purpose::RetryToken);
            let cipher = AeadCtx::new_default_tag(&Algorithm::xchacha20_poly1305(), &key)
                .expect("the key has the cipher's length");
            Key { id, cipher }
        });
        Tokens {
            keys: keys.collect(),
            lifetime,
            entropy: Entropy::new(),
        }
    }

    /// Returns a token for the `peer` that chose `original_dcid` and is to go on with `retry_scid`, at `now` since 1970;
    /// `None` where `original_dcid` is longer than version 1 allows.
    pub fn seal(
        &mut self,
        peer: SocketAddr,
        original_dcid: &[u8],
        retry_scid: ConnectionId,
        now: Duration,
    ) -> Option<[u8; LEN]> {
        let expiry = millis(now.saturating_add(self.lifetime));
        let length = u8::try_from(original_dcid.len()).ok()?;
        let mut token = [0; LEN];
        let (head, body) = token.split_at_mut(HEAD);
        let mut rest = &mut *body;
        for field in [
            &expiry.to_be_bytes()[..],
            &address(peer.ip()),
            &peer.port().to_be_bytes(),
            retry_scid.as_ref(),
            &[length],
            original_dcid,
        ] {
            rest.split_off_mut(..field.len())?.copy_from_slice(field);
        }
        let key = self.keys.first_mut().expect("secrets hold a root");
        let (associated, seal) = head.split_at_mut(2);
        let (nonce, tag) = seal.split_at_mut(NONCE);
        associated.copy_from_slice(&[KIND, key.id]);
        self.entropy.fill(nonce);
        key.cipher
            .seal_in_place_mut(nonce, body, tag, associated)
            .expect("nonce, tag and body have the lengths that the cipher wants");
        Some(token)
    }

    /// Verifies the token of an Initial from `peer` to `dcid` and gives the client's first destination connection ID.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn open(
        &mut self,
        token: &[u8],
        peer: SocketAddr,
        dcid: &[u8],
        now: Duration,
    ) -> Result<OriginalDcid, TokenError> {
        let body = self.unseal(token)?;
        let (expiry, rest) = body.split_first_chunk().ok_or(TokenError::Forged)?;
        let expiry = Duration::from_millis(u64::from_be_bytes(*expiry));
        let latest = now.saturating_add(self.lifetime).saturating_add(CLOCK_SKEW);
        if expiry < now || expiry > latest {
            return Err(TokenError::Expired);
        }
        let (ip, rest) = rest.split_at(16);
        let (port, rest) = rest.split_at(2);
        if ip != address(peer.ip()) || port != peer.port().to_be_bytes() {
            return Err(TokenError::WrongAddress);
        }
        let (scid, rest) = rest.split_at(cid::LEN);
        if scid != dcid {
            return Err(TokenError::WrongConnection);
        }
        let (len, bytes) = rest
            .split_first_chunk::<1>()
            .and_then(|(len, bytes)| Some((usize::from(len[0]), bytes.try_into().ok()?)))
            .filter(|(len, _)| *len <= MAX_V1_CID)
            .ok_or(TokenError::Forged)?;
        Ok(OriginalDcid { bytes, len })
    }

    /// Tries every key of the token's key id.
    fn unseal(&mut self, token: &[u8]) -> Result<[u8; BODY], TokenError> {
        let (head, sealed) = token.split_at_checked(HEAD).ok_or(TokenError::Truncated)?;
        let sealed: &[u8; BODY] = sealed.try_into().map_err(|_| TokenError::Truncated)?;
        let (associated, seal) = head.split_at(2);
        let (nonce, tag) = seal.split_at(NONCE);
        let mut refusal = TokenError::UnknownKey;
        for key in self.keys.iter_mut().filter(|key| key.id == associated[1]) {
            let mut body = *sealed;
            if key
                .cipher
                .open_in_place_mut(nonce, &mut body, tag, associated)
                .is_ok()
            {
                return Ok(body);
            }
            refusal = TokenError::Forged;
        }
        Err(refusal)
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens")
            .field("keys", &self.keys.len())
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns an address as IPv6: IPv4 and its form within IPv6 are the same peer.
fn address(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests;
