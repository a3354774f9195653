//! Tokens of NEW_TOKEN frames.

use std::sync::Arc;
use std::time::Duration;

use boring::sha::sha256;
use sluicegate_base::address::{UnvalidatedAddress, ValidatedAddress};
use sluicegate_base::observe::metrics::labels;
use sluicegate_base::secrets::Secrets;

use super::seal::{HEAD, Seal, SealError};
use super::{TokenKind, UsedTokens, address, expiry, is_current};

const BODY: usize = 8 + 16 + LISTENER;
/// Length of what stands for the listener.
const LISTENER: usize = 16;

labels! {
    /// Reason for which a token of a NEW_TOKEN frame counted as none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum NewTokenRefusal {
        /// The token has not the length of such tokens.
        Truncated = "truncated",
        /// The root secret of the token is not, or no longer, known here.
        UnknownKey = "unknown_key",
        /// The token was changed, was made up, or is of another kind.
        Forged = "forged",
        /// The token is too old, or from so far in the future that the clock must have been set back.
        Expired = "expired",
        /// The token was made for another address.
        WrongAddress = "wrong_address",
        /// The token was made by another listener.
        WrongListener = "wrong_listener",
        /// The token was used before.
        Used = "used",
    }
}

/// Seals and opens tokens for later connections, for one worker. Any two with the same secrets accept each other's.
pub struct NewTokens {
    pub(super) seal: Seal,
    used: Arc<UsedTokens>,
    /// Zero: no token is made or accepted.
    lifetime: Duration,
}

impl NewTokens {
    /// Length of a token, in bytes.
    pub const LEN: usize = HEAD + BODY;

    /// Seals with the current root secret and opens with all of them. A token is good for `lifetime`, and once; with a lifetime of
    /// zero none is made or accepted.
    pub fn new(secrets: &Secrets, used: &Arc<UsedTokens>, lifetime: Duration) -> NewTokens {
        NewTokens {
            seal: Seal::new(TokenKind::NewToken, secrets),
            used: Arc::clone(used),
            lifetime,
        }
    }

    /// Returns whether tokens are made and accepted.
    pub fn is_on(&self) -> bool {
        !self.lifetime.is_zero()
    }

    /// Returns a token for a later connection of the client at `peer` to `listener`, at `now` since 1970.
    pub fn seal(
        &mut self,
        peer: ValidatedAddress,
        listener: &str,
        now: Duration,
    ) -> [u8; Self::LEN] {
        let mut token = [0; Self::LEN];
        let mut rest = &mut token[HEAD..];
        for field in [&expiry(self.lifetime, now)[..], &address(peer.ip()), &digest(listener)] {
            let place = rest.split_off_mut(..field.len());
            place.expect("the body holds its fields").copy_from_slice(field);
        }
        self.seal.close(&mut token);
        token
    }

    /// Verifies the token of an Initial from `peer` to `listener`, and notes that it was used if it is good. Returns the address,
    /// which the client had when the token was made.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn open(
        &mut self,
        token: &[u8],
        peer: UnvalidatedAddress,
        listener: &str,
        now: Duration,
    ) -> Result<ValidatedAddress, NewTokenRefusal> {
        let mut body = [0; BODY];
        let nonce = self.seal.open(token, &mut body)?;
        let (expiry, rest) = body.split_first_chunk().ok_or(NewTokenRefusal::Forged)?;
        if !is_current(*expiry, self.lifetime, now) {
            return Err(NewTokenRefusal::Expired);
        }
        let (ip, name) = rest.split_at(16);
        if ip != address(peer.ip()) {
            return Err(NewTokenRefusal::WrongAddress);
        }
        if name != digest(listener) {
            return Err(NewTokenRefusal::WrongListener);
        }
        let fresh = self.used.note(&nonce, self.lifetime, now);
        let proved = fresh.then(|| ValidatedAddress::by_token(peer));
        proved.ok_or(NewTokenRefusal::Used)
    }
}

/// Returns what stands for a listener in its tokens.
fn digest(listener: &str) -> [u8; LISTENER] {
    let mut short = [0; LISTENER];
    short.copy_from_slice(&sha256(listener.as_bytes())[..LISTENER]);
    short
}

impl From<SealError> for NewTokenRefusal {
    fn from(error: SealError) -> NewTokenRefusal {
        match error {
            SealError::Truncated => NewTokenRefusal::Truncated,
            SealError::UnknownKey => NewTokenRefusal::UnknownKey,
            SealError::Forged => NewTokenRefusal::Forged,
        }
    }
}

impl std::fmt::Debug for NewTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewTokens")
            .field("keys", &self.seal.keys.len())
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}
