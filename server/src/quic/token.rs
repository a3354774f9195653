//! Address validation tokens: Retry (RFC 9000 §8.1.2) and NEW_TOKEN (RFC 9000 §8.1.3).
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | kind: 1 Retry, 2 NEW_TOKEN |
//! | 1 | which root secret, derived from it |
//! | 24 | random nonce |
//! | 16 | authentication tag, over the two bytes in front too |
//! | rest | sealed: expiry in ms since 1970 (8), peer address as IPv6 (16); Retry adds port (2), our connection ID from the Retry packet (16), length of the original destination ID (1) and that ID, padded to 20 |
//!
//! The seal is XChaCha20-Poly1305, whose random nonces may be drawn for any number of tokens; each kind has its own key.
//! Nothing is remembered of a token: whoever can send from its address may present it again until it expires, so lifetimes bound a replay.
//! A replayed Retry token opens another handshake for the same address, port and connection ID; a replayed NEW_TOKEN token spares a
//! Retry. Neither carries data or identity.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use boring::aead::{AeadCtx, Algorithm};

use super::cid::{self, ConnectionId};
use super::entropy::Entropy;
use super::header::MAX_V1_CID;
use super::secrets::{Purpose, Secrets};

/// Length of a Retry token, in bytes.
pub const RETRY_LEN: usize = HEAD + RETRY_BODY;
/// Length of a NEW_TOKEN token, in bytes.
pub const NEW_TOKEN_LEN: usize = HEAD + NEW_TOKEN_BODY;

const NONCE: usize = 24;
const TAG: usize = 16;
const HEAD: usize = 2 + NONCE + TAG;
const NEW_TOKEN_BODY: usize = 8 + 16;
const RETRY_BODY: usize = NEW_TOKEN_BODY + 2 + cid::LEN + 1 + MAX_V1_CID;
/// How far the clocks of instances that share secrets may be apart.
const CLOCK_SKEW: Duration = Duration::from_secs(60);

/// What a token was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TokenKind {
    /// Sent in a Retry packet, for the handshake at hand.
    Retry = 1,
    /// Sent in a NEW_TOKEN frame, for a later connection.
    NewToken = 2,
}

impl TokenKind {
    /// What a token says it is, unverified. `None` is no token of ours: a server ignores it, as if there were none.
    pub fn of(token: &[u8]) -> Option<TokenKind> {
        match token.first() {
            Some(1) => Some(TokenKind::Retry),
            Some(2) => Some(TokenKind::NewToken),
            _ => None,
        }
    }
}

/// Why a token was refused. A refused Retry token ends the handshake with INVALID_TOKEN; a refused NEW_TOKEN token counts as none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TokenError {
    /// Not as long as its kind.
    #[error("token of the wrong length")]
    Truncated,
    /// Made with a root secret that is not known here (any more).
    #[error("token of an unknown key")]
    UnknownKey,
    /// Changed or made up.
    #[error("token does not authenticate")]
    Forged,
    /// Too old, or from so far in the future that the clock must have been set back.
    #[error("token expired")]
    Expired,
    /// Made for another address, or another port in case of Retry.
    #[error("token of another address")]
    WrongAddress,
    /// Retry where NEW_TOKEN was asked for, or the reverse, or neither.
    #[error("token of another kind")]
    WrongKind,
    /// Retry token with another destination connection ID than the Retry packet gave.
    #[error("token of another connection")]
    WrongConnection,
}

impl TokenError {
    /// Name as a counter's label.
    pub fn name(self) -> &'static str {
        match self {
            TokenError::Truncated => "truncated",
            TokenError::UnknownKey => "unknown_key",
            TokenError::Forged => "forged",
            TokenError::Expired => "expired",
            TokenError::WrongAddress => "wrong_address",
            TokenError::WrongKind => "wrong_kind",
            TokenError::WrongConnection => "wrong_connection",
        }
    }
}

/// How long tokens are good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLifetimes {
    /// Of Retry tokens: a round trip or two.
    pub retry: Duration,
    /// Of NEW_TOKEN tokens.
    pub new_token: Duration,
}

impl Default for TokenLifetimes {
    fn default() -> TokenLifetimes {
        TokenLifetimes {
            retry: Duration::from_secs(10),
            new_token: Duration::from_secs(24 * 3600),
        }
    }
}

/// The original destination connection ID out of a Retry token, for the handshake's transport parameters.
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
    keys: Vec<Keys>,
    lifetimes: TokenLifetimes,
    entropy: Entropy,
}

struct Keys {
    id: u8,
    retry: AeadCtx,
    new_token: AeadCtx,
}

impl Keys {
    fn of(&mut self, kind: TokenKind) -> &mut AeadCtx {
        match kind {
            TokenKind::Retry => &mut self.retry,
            TokenKind::NewToken => &mut self.new_token,
        }
    }
}

impl Tokens {
    /// Seals with the current root secret and opens with all of them.
    pub fn new(secrets: &Secrets, lifetimes: TokenLifetimes) -> Tokens {
        let keys = secrets.roots().iter().map(|root| {
            let [id] = root.derive::<1>(Purpose::KeyId);
            Keys {
                id,
                retry: context(&root.derive(Purpose::RetryToken)),
                new_token: context(&root.derive(Purpose::NewToken)),
            }
        });
        Tokens {
            keys: keys.collect(),
            lifetimes,
            entropy: Entropy::new(),
        }
    }

    /// A Retry token for the `peer` that chose `original_dcid` and is told to go on with `retry_scid`, at `now` since 1970.
    ///
    /// `None` where `original_dcid` is longer than version 1 allows.
    pub fn seal_retry(
        &mut self,
        peer: SocketAddr,
        original_dcid: &[u8],
        retry_scid: ConnectionId,
        now: Duration,
    ) -> Option<[u8; RETRY_LEN]> {
        let mut body = [0; RETRY_BODY];
        put_validity(
            &mut body,
            peer.ip(),
            now.saturating_add(self.lifetimes.retry),
        );
        let (port, rest) = body[NEW_TOKEN_BODY..].split_at_mut(2);
        port.copy_from_slice(&peer.port().to_be_bytes());
        let (scid, rest) = rest.split_at_mut(cid::LEN);
        scid.copy_from_slice(retry_scid.as_ref());
        let (length, odcid) = rest.split_first_mut()?;
        *length = u8::try_from(original_dcid.len()).ok()?;
        odcid
            .get_mut(..original_dcid.len())?
            .copy_from_slice(original_dcid);
        let mut token = [0; RETRY_LEN];
        self.seal(TokenKind::Retry, &body, &mut token);
        Some(token)
    }

    /// A token that spares `peer`, from any port, a Retry on a later connection.
    pub fn seal_new_token(&mut self, peer: IpAddr, now: Duration) -> [u8; NEW_TOKEN_LEN] {
        let mut body = [0; NEW_TOKEN_BODY];
        put_validity(
            &mut body,
            peer,
            now.saturating_add(self.lifetimes.new_token),
        );
        let mut token = [0; NEW_TOKEN_LEN];
        self.seal(TokenKind::NewToken, &body, &mut token);
        token
    }

    /// Verifies the token of an Initial from `peer` to `dcid` and gives the client's first destination connection ID.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn open_retry(
        &mut self,
        token: &[u8],
        peer: SocketAddr,
        dcid: &[u8],
        now: Duration,
    ) -> Result<OriginalDcid, TokenError> {
        let body = self.open::<RETRY_BODY>(TokenKind::Retry, token)?;
        check_validity(&body, peer.ip(), now, self.lifetimes.retry)?;
        let (port, rest) = body[NEW_TOKEN_BODY..].split_at(2);
        if port != peer.port().to_be_bytes() {
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

    /// Verifies that the token of an Initial was given to this address before.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn open_new_token(
        &mut self,
        token: &[u8],
        peer: IpAddr,
        now: Duration,
    ) -> Result<(), TokenError> {
        let body = self.open::<NEW_TOKEN_BODY>(TokenKind::NewToken, token)?;
        check_validity(&body, peer, now, self.lifetimes.new_token)
    }

    /// `token` is as long as [`HEAD`] and `body`.
    fn seal(&mut self, kind: TokenKind, body: &[u8], token: &mut [u8]) {
        let keys = self.keys.first_mut().expect("secrets hold a root");
        let (head, sealed) = token.split_at_mut(HEAD);
        let (associated, rest) = head.split_at_mut(2);
        let (nonce, tag) = rest.split_at_mut(NONCE);
        associated.copy_from_slice(&[kind as u8, keys.id]);
        self.entropy.fill(nonce);
        sealed.copy_from_slice(body);
        keys.of(kind)
            .seal_in_place_mut(nonce, sealed, tag, associated)
            .expect("nonce, tag and body have the lengths that the cipher wants");
    }

    fn open<const BODY: usize>(
        &mut self,
        kind: TokenKind,
        token: &[u8],
    ) -> Result<[u8; BODY], TokenError> {
        if TokenKind::of(token).is_some_and(|found| found != kind) {
            return Err(TokenError::WrongKind);
        }
        let (head, sealed) = token.split_at_checked(HEAD).ok_or(TokenError::Truncated)?;
        let sealed: &[u8; BODY] = sealed.try_into().map_err(|_| TokenError::Truncated)?;
        if TokenKind::of(token).is_none() {
            return Err(TokenError::WrongKind);
        }
        let (associated, rest) = head.split_at(2);
        let (nonce, tag) = rest.split_at(NONCE);
        let mut refusal = TokenError::UnknownKey;
        for keys in self.keys.iter_mut().filter(|keys| keys.id == associated[1]) {
            let mut body = *sealed;
            if keys
                .of(kind)
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
            .field("lifetimes", &self.lifetimes)
            .finish_non_exhaustive()
    }
}

fn context(key: &[u8; 32]) -> AeadCtx {
    AeadCtx::new_default_tag(&Algorithm::xchacha20_poly1305(), key)
        .expect("the key has the cipher's length")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// IPv4 and its form within IPv6 are the same peer.
fn address(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Writes the first [`NEW_TOKEN_BODY`] bytes, which both kinds share.
fn put_validity(body: &mut [u8], peer: IpAddr, expiry: Duration) {
    body[..8].copy_from_slice(&millis(expiry).to_be_bytes());
    body[8..NEW_TOKEN_BODY].copy_from_slice(&address(peer));
}

fn check_validity(
    body: &[u8],
    peer: IpAddr,
    now: Duration,
    lifetime: Duration,
) -> Result<(), TokenError> {
    let (expiry, rest) = body.split_first_chunk().ok_or(TokenError::Forged)?;
    let expiry = Duration::from_millis(u64::from_be_bytes(*expiry));
    let latest = now.saturating_add(lifetime).saturating_add(CLOCK_SKEW);
    if expiry < now || expiry > latest {
        return Err(TokenError::Expired);
    }
    if !rest.starts_with(&address(peer)) {
        return Err(TokenError::WrongAddress);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
