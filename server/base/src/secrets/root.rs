//! Root secrets and the keys derived from them.

use boring::hash::MessageDigest;
use boring::hkdf::HkdfSuite;
use data_encoding::HEXLOWER_PERMISSIVE;

use crate::entropy::draw;

/// Length of a root secret, in bytes.
pub const ROOT_LEN: usize = 32;

/// Secret that keys are derived from. Its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct RootSecret(pub(super) [u8; ROOT_LEN]);

impl RootSecret {
    /// Takes bytes that are as good as random.
    pub fn new(bytes: [u8; ROOT_LEN]) -> RootSecret {
        RootSecret(bytes)
    }

    /// Draws from BoringSSL's randomness.
    pub fn random() -> RootSecret {
        let mut bytes = [0; ROOT_LEN];
        draw(&mut bytes);
        RootSecret(bytes)
    }

    /// Returns the key for one purpose, `N` bytes. Keys of different purposes tell nothing of each other.
    pub fn derive<const N: usize>(&self, purpose: Purpose) -> [u8; N] {
        let mut key = [0; N];
        hkdf_sha256(SALT, &self.0, purpose.label().as_bytes(), &mut key);
        key
    }
}

impl RootSecret {
    /// Returns the seed of ticket keys that follows from this one, by this rule and these numbers.
    pub(super) fn child(&self, rule: &[u8], numbers: &[u64]) -> RootSecret {
        let mut info = b"ticket seed ".to_vec();
        info.extend_from_slice(rule);
        let numbers = numbers.iter().flat_map(|number| number.to_be_bytes());
        info.extend(numbers);
        let mut bytes = [0; ROOT_LEN];
        hkdf_sha256(SALT, &self.0, &info, &mut bytes);
        RootSecret(bytes)
    }

    /// Returns three keys of tickets, for what `info` describes.
    pub(super) fn ticket_key(&self, info: &[u8]) -> [[u8; 32]; 3] {
        let label = Purpose::SessionTicket.label().as_bytes();
        let mut keys = [[0; 32]; 3];
        let okm = keys.as_flattened_mut();
        hkdf_sha256(SALT, &self.0, &[label, b"\0", info].concat(), okm);
        keys
    }
}

impl std::fmt::Debug for RootSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RootSecret(..)")
    }
}

/// Names the derivation, so that a later one can differ.
const SALT: &[u8] = b"sluicegate root secret 1";

/// Purpose of a derived key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Stateless reset tokens (RFC 9000 §10.3.2).
    StatelessReset,
    /// Retry tokens (RFC 9000 §8.1.2).
    RetryToken,
    /// Tokens of NEW_TOKEN frames (RFC 9000 §8.1.3).
    NewToken,
    /// TLS session tickets (RFC 8446 §4.6.1).
    SessionTicket,
    /// Names a root secret in a token without giving it away.
    KeyId,
    /// Selection of the connections that are traced.
    QlogSampling,
    /// Selection of the clients that belong to the share of a congestion rule.
    CongestionRules,
}

impl Purpose {
    fn label(self) -> &'static str {
        match self {
            Purpose::StatelessReset => "stateless reset",
            Purpose::RetryToken => "retry token",
            Purpose::NewToken => "new token",
            Purpose::SessionTicket => "session ticket",
            Purpose::KeyId => "key id",
            Purpose::QlogSampling => "qlog sampling",
            Purpose::CongestionRules => "congestion rules",
        }
    }
}

/// Computes HKDF with SHA-256 (RFC 5869): extracts, then expands into all of `okm`, which holds at most 8160 bytes.
pub(super) fn hkdf_sha256(salt: &[u8], ikm: &[u8], info: &[u8], okm: &mut [u8]) {
    let suite = HkdfSuite::new(MessageDigest::sha256());
    let prk = suite.extract(salt, ikm).expect("HMAC-SHA256 fails only where memory ran out");
    suite.expand(&prk, info, okm).expect("the output is within 255 blocks");
}

/// Reads a secret of 64 hexadecimal digits.
///
/// # Errors
/// A description of what stands there instead, without its contents.
pub(super) fn unhex(digits: &str) -> Result<RootSecret, String> {
    let count = digits.chars().count();
    if count != 2 * ROOT_LEN {
        return Err(format!("{count} characters"));
    }
    let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok();
    let bytes: Option<[u8; ROOT_LEN]> = bytes.and_then(|bytes| bytes.try_into().ok());
    let bytes = bytes.ok_or_else(|| "a character that is no digit".to_owned())?;
    if bytes.iter().all(|byte| *byte == bytes[0]) {
        return Err("the same byte throughout".to_owned());
    }
    Ok(RootSecret(bytes))
}
