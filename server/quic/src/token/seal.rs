//! The seal of tokens: XChaCha20-Poly1305 under keys that derive from the root secrets.

use boring::aead::{AeadCtx, Algorithm};
use sluicegate_base::entropy::Entropy;
use sluicegate_base::secrets::{Purpose, Secrets};

use super::TokenKind;

pub(super) const NONCE: usize = 24;
const TAG: usize = 16;
/// Length of what stands in front of a token's sealed body, in bytes.
pub(super) const HEAD: usize = 2 + NONCE + TAG;

/// Reason for which a seal was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealError {
    /// The token has another length than its kind.
    Truncated,
    /// The root secret of the token is not, or no longer, known here.
    UnknownKey,
    /// The token was changed, was made up, or is of another kind.
    Forged,
}

/// Seals and opens the tokens of one kind, for one worker.
pub(super) struct Seal {
    kind: TokenKind,
    /// The current root's first.
    pub(super) keys: Vec<Key>,
    entropy: Entropy,
}

pub(super) struct Key {
    /// Identifier in its tokens; two roots may have the same.
    pub(super) id: u8,
    cipher: AeadCtx,
}

impl Seal {
    /// Seals with the current root secret and opens with all of them.
    pub(super) fn new(kind: TokenKind, secrets: &Secrets) -> Seal {
        let purpose = match kind {
            TokenKind::Retry => Purpose::RetryToken,
            TokenKind::NewToken => Purpose::NewToken,
        };
        let keys = secrets.roots().iter().map(|root| {
            let [id] = root.derive::<1>(Purpose::KeyId);
            let key = root.derive::<32>(purpose);
            let cipher = AeadCtx::new_default_tag(&Algorithm::xchacha20_poly1305(), &key)
                .expect("the key has the cipher's length");
            Key { id, cipher }
        });
        Seal { kind, keys: keys.collect(), entropy: Entropy::new() }
    }

    /// Seals in place a token whose body stands behind [`HEAD`] bytes, which are overwritten.
    pub(super) fn close(&mut self, token: &mut [u8]) {
        let (head, body) = token.split_at_mut(HEAD);
        let key = self.keys.first_mut().expect("secrets hold a root");
        let (associated, seal) = head.split_at_mut(2);
        let (nonce, tag) = seal.split_at_mut(NONCE);
        associated.copy_from_slice(&[self.kind as u8, key.id]);
        self.entropy.fill(nonce);
        key.cipher
            .seal_in_place_mut(nonce, body, tag, associated)
            .expect("nonce, tag and body have the lengths that the cipher wants");
    }

    /// Copies the body of a token to `body`, whose length a token of the kind has, and returns its nonce. Tries every key of
    /// the token's key id.
    pub(super) fn open(&mut self, token: &[u8], body: &mut [u8]) -> Result<[u8; NONCE], SealError> {
        let (head, sealed) = token.split_first_chunk::<HEAD>().ok_or(SealError::Truncated)?;
        if sealed.len() != body.len() {
            return Err(SealError::Truncated);
        }
        let (associated, seal) = head.split_at(2);
        let (nonce, tag) = seal.split_first_chunk::<NONCE>().ok_or(SealError::Truncated)?;
        let mut refusal = SealError::UnknownKey;
        for key in self.keys.iter_mut().filter(|key| key.id == associated[1]) {
            body.copy_from_slice(sealed);
            if key.cipher.open_in_place_mut(nonce, body, tag, associated).is_ok() {
                return Ok(*nonce);
            }
            refusal = SealError::Forged;
        }
        Err(refusal)
    }
}
