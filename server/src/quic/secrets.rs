//! Secrets that outlive a restart, and the keys derived from them.
//!
//! A root secret is 32 random bytes. The first one known makes every new token, ticket and reset; the others are
//! only accepted. So a key is rotated by putting a new line on top and taking the last one away once what it sealed has expired.
//! Roots come from a key file that instances share, else from a state directory, else from memory, where they end with the process.

mod error;
mod root;
mod store;

use std::path::{Path, PathBuf};

pub use error::{MAX_ROOTS, SecretsError};
pub use root::{Purpose, ROOT_LEN, RootSecret};

use super::cid::GENERATIONS;
use store::random_generation;

/// Files of the secrets that outlive the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretsConfig {
    /// Root secrets shared by instances: a line of 64 hexadecimal digits each, `#` opens a comment.
    pub key_file: Option<PathBuf>,
    /// Writable directory of this instance, for the generation and, where there is no key file, a root secret. Made if missing.
    pub state_dir: Option<PathBuf>,
    /// Whether files that other users have access to are accepted.
    pub accept_open: bool,
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
            .map(|path| store::StateDir::lock(path, config.accept_open))
            .transpose()?;
        let roots = match (&config.key_file, &state) {
            (Some(path), _) => store::read_key_file(path, config.accept_open)?,
            (None, Some(state)) => state.roots()?,
            (None, None) => vec![RootSecret::random()],
        };
        let generation = match &state {
            Some(state) => state.advance_generation()?,
            None => random_generation(),
        };
        Ok(Secrets { roots, generation })
    }

    /// Draws fresh secrets, which end with the process.
    pub fn in_memory() -> Secrets {
        Secrets {
            roots: vec![RootSecret::random()],
            generation: random_generation(),
        }
    }

    /// Takes root secrets that are known already, the current one first.
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

    /// Returns every root whose tokens are accepted, the current one first.
    pub fn roots(&self) -> &[RootSecret] {
        &self.roots
    }

    /// Returns the key of [`ResetTokens`](super::reset::ResetTokens), of the current root: connections that are open
    /// while it is rotated lose only their stateless reset.
    pub fn stateless_reset_key(&self) -> [u8; 32] {
        self.current().derive(Purpose::StatelessReset)
    }

    /// Returns the key for quiche's `set_ticket_key`, of the current root. quiche takes only one, so rotation ends the
    /// resumption by older tickets.
    pub fn session_ticket_key(&self) -> [u8; 48] {
        self.current().derive(Purpose::SessionTicket)
    }

    /// Returns the key of the qlog [`Sampler`](crate::observe::qlog::Sampler): instances that share roots sample the same connections.
    pub fn qlog_sampling_key(&self) -> [u8; 32] {
        self.current().derive(Purpose::QlogSampling)
    }

    /// Returns the key of the draw that decides which clients belong to the share of a congestion rule.
    pub fn congestion_rules_key(&self) -> [u8; 32] {
        self.current().derive(Purpose::CongestionRules)
    }
}

#[cfg(test)]
mod tests;
