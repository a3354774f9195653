//! Four passes of a Feistel network, for texts of 5 to 19 bytes (§5.4.2).
//!
//! The halves of a text of odd length share its middle byte: its upper four bits belong to the left half, its lower ones to the right.

use super::aes::{Aes, CipherError};
use super::{BLOCK, MAX_PLAINTEXT};

/// Length of the longest half, bytes.
const MAX_HALF: usize = MAX_PLAINTEXT.div_ceil(2);
/// Bits of the middle byte that are the left half's.
const UPPER: u8 = 0xf0;

/// Halves of a text.
struct Halves {
    left: [u8; MAX_HALF],
    right: [u8; MAX_HALF],
    /// Length of the text, bytes.
    len: usize,
}

/// Encrypts a text in place.
pub(super) fn encrypt(cipher: &mut Aes, text: &mut [u8]) -> Result<(), CipherError> {
    let mut halves = Halves::split(text);
    for pass in 1..=4 {
        halves.pass(cipher, pass)?;
    }
    halves.join(text);
    Ok(())
}

/// Decrypts a text in place.
pub(super) fn decrypt(cipher: &mut Aes, text: &mut [u8]) -> Result<(), CipherError> {
    let mut halves = Halves::split(text);
    for pass in (1..=4).rev() {
        halves.pass(cipher, pass)?;
    }
    halves.join(text);
    Ok(())
}

impl Halves {
    fn split(text: &[u8]) -> Halves {
        let (mut left, mut right) = ([0; MAX_HALF], [0; MAX_HALF]);
        let len = text.len();
        let half = len.div_ceil(2);
        left[..half].copy_from_slice(&text[..half]);
        right[..half].copy_from_slice(&text[len - half..]);
        let mut halves = Halves { left, right, len };
        halves.clear_shared();
        halves
    }

    /// Length of a half, bytes.
    fn half(&self) -> usize {
        self.len.div_ceil(2)
    }

    /// Clears what belongs to the other half, in a text of odd length.
    fn clear_shared(&mut self) {
        if !self.len.is_multiple_of(2) {
            let half = self.half();
            self.left[half - 1] &= UPPER;
            self.right[0] &= !UPPER;
        }
    }

    /// Changes the right half in odd passes, and the left one in even passes. A pass undoes itself.
    fn pass(&mut self, cipher: &mut Aes, pass: u8) -> Result<(), CipherError> {
        let half = self.half();
        let (from, to) = if pass % 2 == 1 {
            (&self.left, &mut self.right)
        } else {
            (&self.right, &mut self.left)
        };
        let mut block = [0; BLOCK];
        block[..half].copy_from_slice(&from[..half]);
        block[BLOCK - 2] = u8::try_from(self.len).unwrap_or(u8::MAX);
        block[BLOCK - 1] = pass;
        let mask = cipher.encrypt(&block)?;
        for (byte, mask) in to[..half].iter_mut().zip(mask) {
            *byte ^= mask;
        }
        self.clear_shared();
        Ok(())
    }

    fn join(&self, text: &mut [u8]) {
        let half = self.half();
        let start = self.len - half;
        text[start..].copy_from_slice(&self.right[..half]);
        text[..start].copy_from_slice(&self.left[..start]);
        if start < half {
            text[start] |= self.left[start];
        }
    }
}
