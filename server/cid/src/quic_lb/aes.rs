//! Single blocks of AES-128.

use boring::symm::{Cipher, Crypter, Mode};

use super::{BLOCK, KEY_LEN};

/// The library did not give a block for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CipherError;

/// Encrypts and decrypts single blocks under a key.
pub(super) struct Aes {
    encrypt: Crypter,
    decrypt: Crypter,
}

impl Aes {
    pub(super) fn new(key: &[u8; KEY_LEN]) -> Aes {
        Aes { encrypt: crypter(Mode::Encrypt, key), decrypt: crypter(Mode::Decrypt, key) }
    }

    /// Returns a cipher that fails once: with padding, decryption holds back the first block.
    #[cfg(test)]
    pub(super) fn failing(key: &[u8; KEY_LEN]) -> Aes {
        let fail = || {
            let mut crypter = crypter(Mode::Decrypt, key);
            crypter.pad(true);
            crypter
        };
        Aes { encrypt: fail(), decrypt: fail() }
    }

    pub(super) fn encrypt(&mut self, block: &[u8; BLOCK]) -> Result<[u8; BLOCK], CipherError> {
        apply(&mut self.encrypt, block)
    }

    pub(super) fn decrypt(&mut self, block: &[u8; BLOCK]) -> Result<[u8; BLOCK], CipherError> {
        apply(&mut self.decrypt, block)
    }
}

fn crypter(mode: Mode, key: &[u8; KEY_LEN]) -> Crypter {
    let crypter = Crypter::new(Cipher::aes_128_ecb(), mode, key, None);
    let mut crypter = crypter.expect("the key has the cipher's length");
    // Otherwise it would hold back the last block.
    crypter.pad(false);
    crypter
}

fn apply(crypter: &mut Crypter, block: &[u8; BLOCK]) -> Result<[u8; BLOCK], CipherError> {
    // The crate wants room for a block that was held back.
    let mut out = [0; 2 * BLOCK];
    let written = crypter.update(block, &mut out);
    match (written, out.first_chunk()) {
        (Ok(BLOCK), Some(block)) => Ok(*block),
        _ => Err(CipherError),
    }
}
