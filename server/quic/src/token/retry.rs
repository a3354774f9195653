//! Tokens of Retry packets.

use std::time::Duration;

use sluicegate_base::address::UnvalidatedAddress;
use sluicegate_base::secrets::Secrets;

use super::seal::{HEAD, Seal, SealError};
use super::{TokenKind, address, expiry, is_current};
use crate::cid::ConnectionId;
use crate::cid::MAX_V1_CID;

/// Length of a token's body around the connection ID of the Retry packet, bytes.
const AROUND_CID: usize = 8 + 16 + 2 + 1 + MAX_V1_CID;
/// Length of the longest body, bytes.
const LONGEST: usize = AROUND_CID + MAX_V1_CID;

/// Reason for which a Retry token was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TokenError {
    /// The token has not [`RetryTokens::token_len`] bytes.
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
        matches!(self, TokenError::Expired | TokenError::WrongAddress | TokenError::WrongConnection)
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

/// Seals and opens Retry tokens for one worker. Any two with the same secrets accept each other's.
pub struct RetryTokens {
    pub(super) seal: Seal,
    lifetime: Duration,
    /// Length of the server's connection IDs, bytes.
    cid_len: usize,
}

impl RetryTokens {
    /// Seals with the current root secret and opens with all of them. A token is good for `lifetime`. The server's connection
    /// IDs have `cid_len` bytes, 20 at most.
    pub fn new(secrets: &Secrets, lifetime: Duration, cid_len: usize) -> RetryTokens {
        RetryTokens { seal: Seal::new(TokenKind::Retry, secrets), lifetime, cid_len }
    }

    /// Returns the length of a token, bytes.
    pub fn token_len(&self) -> usize {
        HEAD + AROUND_CID + self.cid_len
    }

    /// Returns a token for the `peer` that chose `original_dcid` and is to go on with `retry_scid`, at `now` since 1970;
    /// `None` where `original_dcid` is longer than version 1 allows, or `retry_scid` is not as long as the server's.
    pub fn seal(
        &mut self,
        peer: UnvalidatedAddress,
        original_dcid: &[u8],
        retry_scid: ConnectionId,
        now: Duration,
    ) -> Option<Vec<u8>> {
        if retry_scid.as_bytes().len() != self.cid_len {
            return None;
        }
        let length = u8::try_from(original_dcid.len()).ok()?;
        let mut token = vec![0; self.token_len()];
        let mut rest = &mut token[HEAD..];
        for field in [
            &expiry(self.lifetime, now)[..],
            &address(peer.ip()),
            &peer.socket().port().to_be_bytes(),
            retry_scid.as_ref(),
            &[length],
            original_dcid,
        ] {
            rest.split_off_mut(..field.len())?.copy_from_slice(field);
        }
        self.seal.close(&mut token);
        Some(token)
    }

    /// Verifies the token of an Initial from `peer` to `dcid` and gives the client's first destination connection ID.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn open(
        &mut self,
        token: &[u8],
        peer: UnvalidatedAddress,
        dcid: &[u8],
        now: Duration,
    ) -> Result<OriginalDcid, TokenError> {
        let mut body = [0; LONGEST];
        let body = &mut body[..AROUND_CID + self.cid_len];
        self.seal.open(token, body)?;
        let (expiry, rest) = body.split_first_chunk().ok_or(TokenError::Forged)?;
        if !is_current(*expiry, self.lifetime, now) {
            return Err(TokenError::Expired);
        }
        let (ip, rest) = rest.split_at(16);
        let (port, rest) = rest.split_at(2);
        if ip != address(peer.ip()) || port != peer.socket().port().to_be_bytes() {
            return Err(TokenError::WrongAddress);
        }
        let (scid, rest) = rest.split_at(self.cid_len);
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
}

impl From<SealError> for TokenError {
    fn from(error: SealError) -> TokenError {
        match error {
            SealError::Truncated => TokenError::Truncated,
            SealError::UnknownKey => TokenError::UnknownKey,
            SealError::Forged => TokenError::Forged,
        }
    }
}

impl std::fmt::Debug for RetryTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RetryTokens")
            .field("keys", &self.seal.keys.len())
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}
