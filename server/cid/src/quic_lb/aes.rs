//! Single blocks of AES-128.

use boring::symm::{Cipher, Crypter, Mode};

use super::{BLOCK, KEY_LEN};

/// Encrypts and decrypts single blocks under a key.
pub(super) struct Aes {
    encrypt: Crypter,
    decrypt: Crypter,
}

impl Aes {
    pub(super) fn new(key: &[u8; KEY_LEN]) -> Aes {
        Aes { encrypt: crypter(Mode::Encrypt, key), decrypt: crypter(Mode::Decrypt, key) }
    }

    pub(super) fn encrypt(&mut self, block: &[u8; BLOCK]) -> [u8; BLOCK] {
        apply(&mut self.encrypt, block)
    }

    pub(super) fn decrypt(&mut self, block: &[u8; BLOCK]) -> [u8; BLOCK] {
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

fn apply(crypter: &mut Crypter, block: &[u8; BLOCK]) -> [u8; BLOCK] {
    // The crate wants room for a block that was held back.
    let mut out = [0; 2 * BLOCK];
    let written = crypter.update(block, &mut out);
    debug_assert_eq!(written.ok(), Some(BLOCK));
    let (out, _) = out.split_at(BLOCK);
    out.try_into().expect("a block")
}
