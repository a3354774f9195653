//! Secrets that outlive a restart, and the keys derived from them.
//!
//! A root secret is 32 random bytes. The first one known makes every new token, ticket and reset; the others are
//! only accepted. So a key is rotated by putting a new line on top and taking the last one away once what it sealed has expired.
//! Roots come from a key file that instances share, else from a state directory, else from memory, where they end with the process.

mod store;

use std::path::{Path, PathBuf};

use boring::hash::MessageDigest;
use boring::hkdf::HkdfSuite;

use super::cid::GENERATIONS;
use super::entropy::draw;

/// Length of a root secret, in bytes.
pub const ROOT_LEN: usize = 32;
/// Most root secrets a file may hold.
pub const MAX_ROOTS: usize = 16;

/// Where to find what must outlive the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretsConfig {
    /// Root secrets shared by instances: a line of 64 hexadecimal digits each, `#` opens a comment.
    pub key_file: Option<PathBuf>,
    /// Writable directory of this instance, for the generation and, where there is no key file, a root secret. Made if missing.
    pub state_dir: Option<PathBuf>,
}

/// Why the secrets could not be had; each message names the cause and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// A file or directory could not be read, written or locked.
    #[error("cannot {action} {}: {cause}; check that it exists and that this user may do so", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A line is no root secret.
    #[error("{}:{line}: {found} where 64 hexadecimal digits should stand; make a line with `openssl rand -hex 32`", path.display())]
    Line {
        /// The key file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What stands there, in words: never the bytes.
        found: String,
    },
    /// No root secret, or too many.
    #[error("{}: {found} secrets where 1 to {MAX_ROOTS} should stand; make a line with `openssl rand -hex 32` or remove the oldest", path.display())]
    Count {
        /// The key file.
        path: PathBuf,
        /// How many there are.
        found: usize,
    },
}

/// What keys are derived from. Its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct RootSecret([u8; ROOT_LEN]);

impl RootSecret {
    /// From bytes that are as good as random.
    pub fn new(bytes: [u8; ROOT_LEN]) -> RootSecret {
        RootSecret(bytes)
    }

    /// From BoringSSL's randomness.
    pub fn random() -> RootSecret {
        let mut bytes = [0; ROOT_LEN];
        draw(&mut bytes);
        RootSecret(bytes)
    }

    /// The key for one purpose, `N` bytes. Keys of different purposes tell nothing of each other.
    pub fn derive<const N: usize>(&self, purpose: Purpose) -> [u8; N] {
        let mut key = [0; N];
        hkdf_sha256(SALT, &self.0, purpose.label().as_bytes(), &mut key);
        key
    }
}

impl std::fmt::Debug for RootSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RootSecret(..)")
    }
}

/// Names the derivation, so that a later one can differ.
const SALT: &[u8] = b"sluicegate root secret 1";

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Stateless reset tokens (RFC 9000 §10.3.2).
    StatelessReset,
    /// Retry tokens (RFC 9000 §8.1.2).
    RetryToken,
    /// TLS session tickets (RFC 8446 §4.6.1).
    SessionTicket,
    /// Names a root secret in a token without giving it away.
    KeyId,
    /// Which connections are traced.
    QlogSampling,
}

impl Purpose {
    fn label(self) -> &'static str {
        match self {
            Purpose::StatelessReset => "stateless reset",
            Purpose::RetryToken => "retry token",
            Purpose::SessionTicket => "session ticket",
            Purpose::KeyId => "key id",
            Purpose::QlogSampling => "qlog sampling",
        }
    }
}

/// The root secrets known and this process's generation.
#[derive(Clone, Debug)]
pub struct Secrets {
    roots: Vec<RootSecret>,
    generation: u8,
}

impl Secrets {
    /// Reads what `config` names, and makes in the state directory what is missing. Advances the generation there.
    ///
    /// Processes that start on one state directory at the same time wait for each other.
    ///
    /// # Errors
    /// A file that cannot be read, written or understood. A damaged file of secrets is never replaced.
    pub fn load(config: &SecretsConfig) -> Result<Secrets, SecretsError> {
        let state = config
            .state_dir
            .as_deref()
            .map(store::StateDir::lock)
            .transpose()?;
        let roots = match (&config.key_file, &state) {
            (Some(path), _) => store::read_key_file(path)?,
            (None, Some(state)) => state.roots()?,
            (None, None) => vec![RootSecret::random()],
        };
        let generation = match &state {
            Some(state) => state.advance_generation()?,
            None => random_generation(),
        };
        Ok(Secrets { roots, generation })
    }

    /// Fresh ones that end with the process.
    pub fn in_memory() -> Secrets {
        Secrets {
            roots: vec![RootSecret::random()],
            generation: random_generation(),
        }
    }

    /// From roots known already, the current one first.
    ///
    /// # Errors
    /// None, or more than [`MAX_ROOTS`]; `origin` stands in the message.
    pub fn from_roots(
        roots: Vec<RootSecret>,
        generation: u8,
        origin: &Path,
    ) -> Result<Secrets, SecretsError> {
        store::check_count(&roots, origin)?;
        Ok(Secrets {
            roots,
            generation: generation % GENERATIONS,
        })
    }

    /// This process's generation, 0–63: one more than its predecessor's on the same state directory, or random without one.
    pub fn generation(&self) -> u8 {
        self.generation
    }

    /// Seals everything new.
    pub fn current(&self) -> &RootSecret {
        self.roots
            .first()
            .expect("every constructor makes at least one root")
    }

    /// Every root whose tokens are accepted, the current one first.
    pub fn roots(&self) -> &[RootSecret] {
        &self.roots
    }

    /// The key of [`ResetTokens`](super::reset::ResetTokens), of the current root: connections that are open
    /// while it is rotated lose only their stateless reset.
    pub fn stateless_reset_key(&self) -> [u8; 32] {
        self.current().derive(Purpose::StatelessReset)
    }

    /// The key for quiche's `set_ticket_key`, of the current root: it takes one only, so that rotation ends resumption of older tickets.
    pub fn session_ticket_key(&self) -> [u8; 48] {
        self.current().derive(Purpose::SessionTicket)
    }

    /// The key of the qlog [`Sampler`](crate::observe::qlog::Sampler): instances that share roots sample the same connections.
    pub fn qlog_sampling_key(&self) -> [u8; 32] {
        self.current().derive(Purpose::QlogSampling)
    }
}

fn random_generation() -> u8 {
    let mut byte = [0];
    draw(&mut byte);
    byte[0] % GENERATIONS
}

/// HKDF with SHA-256 (RFC 5869): extract, then expand into all of `okm`, which holds at most 8160 bytes.
fn hkdf_sha256(salt: &[u8], ikm: &[u8], info: &[u8], okm: &mut [u8]) {
    let suite = HkdfSuite::new(MessageDigest::sha256());
    let prk = suite
        .extract(salt, ikm)
        .expect("HMAC-SHA256 fails only where memory ran out");
    suite
        .expand(&prk, info, okm)
        .expect("the output is within 255 blocks");
}

#[cfg(test)]
mod tests;
