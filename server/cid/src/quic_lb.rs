//! QUIC-LB (draft-ietf-quic-load-balancers-22): an octet, then server ID and nonce, in the clear or encrypted.
//!
//! The octet has the number of the configuration in its upper three bits (§3.1), and the length of the ID in the others (§3.3), or
//! anything. Without a key, server ID and nonce follow as they are. With one, they are encrypted: as a block of AES if they have 16
//! bytes together (§5.4.1), else by four passes (§5.4.2).

mod aes;
mod four_pass;

use self::aes::Aes;
use crate::LengthError;

/// Number of no configuration: the ID is not routable (§3.2).
pub const UNROUTABLE: u8 = 7;
/// Shortest nonce, bytes (§5.3).
pub const MIN_NONCE: usize = 4;
/// Most bytes of server ID and nonce together (§5.3).
pub const MAX_PLAINTEXT: usize = 19;
/// Length of a key, bytes.
pub const KEY_LEN: usize = 16;

/// Length of the block that is encrypted once.
const BLOCK: usize = 16;
/// Bits of the first octet that are not the configuration.
const BELOW_CONFIG: u8 = 0x1f;

/// Lengths of the parts that a configuration defines, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Length of the server ID, 1 to 15.
    pub server_id: usize,
    /// Length of the nonce, 4 to 18.
    pub nonce: usize,
}

/// Reason why a configuration is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuicLbError {
    /// The number of the configuration has more than three bits, or stands for none.
    #[error("the number of a configuration is 0 to 6")]
    Config,
    /// There is no server ID.
    #[error("a server ID has 1 byte at least")]
    ServerId,
    /// The nonce is too short.
    #[error("a nonce has 4 bytes at least")]
    Nonce,
    /// Both together are too long.
    #[error("server ID and nonce have 19 bytes together at most")]
    Together,
}

/// Reason why no ID was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A part has another length than configured, or the ID has less room.
    #[error(transparent)]
    Length(#[from] LengthError),
    /// The encryption failed.
    #[error("the encryption of a connection ID failed")]
    Cipher,
}

/// Meaning of the lower five bits of the first octet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfLength {
    /// Length of the whole ID, 1 to 32 bytes, for devices that must tell where it ends (§3.3).
    Of(usize),
    /// Random bits, which stand in this byte.
    Random(u8),
}

/// Returns the first octet of an ID of a configuration, or of none ([`UNROUTABLE`]).
pub fn first_octet(config: u8, length: SelfLength) -> u8 {
    let low = match length {
        SelfLength::Of(len) => u8::try_from(len.saturating_sub(1)).unwrap_or(BELOW_CONFIG),
        SelfLength::Random(bits) => bits,
    };
    config << 5 | low & BELOW_CONFIG
}

/// Returns the number of the configuration of an ID; `None` for an ID without a byte.
pub fn config_of(id: &[u8]) -> Option<u8> {
    id.first().map(|octet| octet >> 5)
}

/// Server ID and nonce of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plaintext {
    bytes: [u8; MAX_PLAINTEXT],
    lengths: Lengths,
}

impl Plaintext {
    /// Returns the server ID.
    pub fn server_id(&self) -> &[u8] {
        &self.bytes[..self.lengths.server_id]
    }

    /// Returns the nonce.
    pub fn nonce(&self) -> &[u8] {
        &self.bytes[self.lengths.server_id..self.lengths.together()]
    }
}

impl Lengths {
    fn together(self) -> usize {
        self.server_id.saturating_add(self.nonce)
    }
}

/// A configuration: encodes for its servers, and decodes for its balancers.
pub struct QuicLb {
    config: u8,
    lengths: Lengths,
    cipher: Option<Aes>,
}

impl QuicLb {
    /// Makes a configuration, with encryption if there is a key.
    ///
    /// # Errors
    /// The draft does not allow the number or the lengths.
    pub fn new(
        config: u8,
        lengths: Lengths,
        key: Option<&[u8; KEY_LEN]>,
    ) -> Result<QuicLb, QuicLbError> {
        if config >= UNROUTABLE {
            return Err(QuicLbError::Config);
        }
        if lengths.server_id == 0 {
            return Err(QuicLbError::ServerId);
        }
        if lengths.nonce < MIN_NONCE {
            return Err(QuicLbError::Nonce);
        }
        if lengths.together() > MAX_PLAINTEXT {
            return Err(QuicLbError::Together);
        }
        Ok(QuicLb { config, lengths, cipher: key.map(Aes::new) })
    }

    /// Returns the number of the configuration.
    pub fn config(&self) -> u8 {
        self.config
    }

    /// Returns the bytes of an ID that are octet, server ID and nonce, 6 to 20.
    pub fn routing_len(&self) -> usize {
        1 + self.lengths.together()
    }

    /// Writes the routing part over the first bytes of an ID. With a key, a server must never repeat a nonce; without one, nonces must be
    /// random (§5.4).
    ///
    /// # Errors
    /// Server ID or nonce has another length than configured, the ID has less room, or the encryption failed. Nothing is written then.
    pub fn encode(
        &mut self,
        length: SelfLength,
        server_id: &[u8],
        nonce: &[u8],
        id: &mut [u8],
    ) -> Result<(), EncodeError> {
        if (Lengths { server_id: server_id.len(), nonce: nonce.len() }) != self.lengths {
            return Err(LengthError.into());
        }
        let id = id.get_mut(..self.routing_len()).ok_or(LengthError)?;
        let mut bytes = [0; MAX_PLAINTEXT];
        let text = &mut bytes[..self.lengths.together()];
        let (server, rest) = text.split_at_mut(server_id.len());
        server.copy_from_slice(server_id);
        rest.copy_from_slice(nonce);
        let encrypted = match (&mut self.cipher, <&mut [u8; BLOCK]>::try_from(&mut *text).ok()) {
            (None, _) => Ok(()),
            (Some(cipher), Some(block)) => cipher.encrypt(block).map(|done| *block = done),
            (Some(cipher), None) => four_pass::encrypt(cipher, text),
        };
        encrypted.map_err(|_| EncodeError::Cipher)?;
        id[0] = first_octet(self.config, length);
        id[1..].copy_from_slice(text);
        Ok(())
    }

    /// Reads server ID and nonce of an ID. Returns `None` for an ID of another configuration, for one that is too short, and if decryption fails. Any other bytes
    /// give some server ID: nothing is authenticated.
    pub fn decode(&mut self, id: &[u8]) -> Option<Plaintext> {
        let id = id.get(..self.routing_len())?;
        if config_of(id) != Some(self.config) {
            return None;
        }
        let mut bytes = [0; MAX_PLAINTEXT];
        let text = &mut bytes[..self.lengths.together()];
        text.copy_from_slice(&id[1..]);
        match (&mut self.cipher, <&mut [u8; BLOCK]>::try_from(&mut *text).ok()) {
            (None, _) => {}
            (Some(cipher), Some(block)) => *block = cipher.decrypt(block).ok()?,
            (Some(cipher), None) => four_pass::decrypt(cipher, text).ok()?,
        }
        Some(Plaintext { bytes, lengths: self.lengths })
    }
}

/// Without the key.
impl std::fmt::Debug for QuicLb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuicLb")
            .field("config", &self.config)
            .field("lengths", &self.lengths)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
