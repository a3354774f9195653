//! Secrets that outlive a restart, and the keys derived from them.
//!
//! A root secret is 32 random bytes. The first one known makes every new token and reset; the others are
//! only accepted. So a key is rotated by putting a new line on top and taking the last one away once what it sealed has expired.
//! The keys of session tickets change by themselves. Roots come from a key file that instances share, else from a state directory, else from memory, where they end with the process.

mod error;
pub mod hex_key;
pub mod key_file;
mod nonces;
mod root;
mod store;
mod ticket_keys;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use error::{MAX_ROOTS, SecretsError};
pub use key_file::TooOpen;
pub use nonces::{MAX_NONCE, NONCE_OF_PROCESS, NonceSource, Nonces};
pub use root::{Purpose, ROOT_LEN, RootSecret};
pub use ticket_keys::{TicketKey, TicketKeys};

use crate::clock;
use store::random_generation;
pub use store::{GENERATIONS, generations_since};

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
    tickets: Arc<TicketKeys>,
    /// File of the roots that instances share, and whether it may be open to others.
    key_file: Option<(PathBuf, bool)>,
    /// State directory that keeps the ticket keys, and whether it may be open to others.
    state_dir: Option<(PathBuf, bool)>,
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
        let tickets = match (&config.key_file, &state) {
            (Some(_), _) => TicketKeys::shared(roots.clone(), clock::unix),
            (None, Some(state)) => state.ticket_keys()?,
            (None, None) => TicketKeys::random(clock::unix),
        };
        let state_dir = config.state_dir.clone();
        Ok(Secrets {
            roots,
            generation,
            tickets: Arc::new(tickets),
            key_file: config.key_file.clone().map(|path| (path, config.accept_open)),
            state_dir: state_dir.map(|path| (path, config.accept_open)),
        })
    }

    /// Draws fresh secrets, which end with the process.
    pub fn in_memory() -> Secrets {
        Secrets {
            roots: vec![RootSecret::random()],
            generation: random_generation(),
            tickets: Arc::new(TicketKeys::random(clock::unix)),
            key_file: None,
            state_dir: None,
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
            tickets: Arc::new(TicketKeys::shared(roots.clone(), clock::unix)),
            roots,
            generation: generation % GENERATIONS,
            key_file: None,
            state_dir: None,
        })
    }

    /// Reads the file of roots again, if there is one. Everything else stays, and so do the keys of tickets until
    /// [`take_effect`](Self::take_effect).
    ///
    /// # Errors
    /// A file that cannot be read or understood.
    pub fn read_again(&self) -> Result<Secrets, SecretsError> {
        let roots = match &self.key_file {
            Some((path, accept_open)) => store::read_key_file(path, *accept_open)?,
            None => self.roots.clone(),
        };
        Ok(Secrets { roots, ..self.clone() })
    }

    /// Makes the keys of tickets, which all that was read again shares, those of these roots.
    pub fn take_effect(&self) {
        self.tickets.set_roots(&self.roots);
    }

    /// Replaces the ticket keys by random ones, which read this clock.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub fn with_clock(
        self,
        unix: impl Fn() -> std::time::Duration + Send + Sync + 'static,
    ) -> Secrets {
        let tickets = Arc::new(TicketKeys::random(unix));
        Secrets { tickets, ..self }
    }

    /// This process's generation, 0–63: one more than its predecessor's on the same state directory, or random without one.
    pub fn generation(&self) -> u8 {
        self.generation
    }

    /// Seals everything new.
    pub fn current(&self) -> &RootSecret {
        self.roots.first().expect("every constructor makes at least one root")
    }

    /// Returns every root whose tokens are accepted, the current one first.
    pub fn roots(&self) -> &[RootSecret] {
        &self.roots
    }

    /// Returns the key of stateless resets, of the current root: connections that are open
    /// while it is rotated lose only their stateless reset.
    pub fn stateless_reset_key(&self) -> [u8; 32] {
        self.current().derive(Purpose::StatelessReset)
    }

    /// Returns the keys of session tickets, which change by themselves.
    pub fn ticket_keys(&self) -> &Arc<TicketKeys> {
        &self.tickets
    }

    /// Writes the ticket keys into the state directory, if they are kept there. A failure is logged.
    ///
    /// The main thread calls it from time to time, so that the directory forgets the keys of the past. A process that ends in
    /// between loses nothing, because later keys derive from earlier ones.
    pub fn keep_ticket_keys(&self) {
        let Some((path, accept_open)) = &self.state_dir else {
            return;
        };
        let state = store::StateDir::lock(path, *accept_open);
        if let Err(error) = state.and_then(|state| state.keep(&self.tickets)) {
            tracing::warn!(%error, "the keys of session tickets cannot be stored");
        }
    }

    /// Takes nonces of `len` bytes under the key that `secret` tells from others. The state directory remembers which are taken, before
    /// this returns. Without one, they begin anywhere, and should be long ([`NONCE_OF_PROCESS`]). So do long ones if the directory cannot
    /// be read or written: a full disk must not keep a server from coming back.
    ///
    /// # Errors
    /// Earlier starts have taken all, or the directory cannot tell or remember which.
    pub fn take_nonces(&self, secret: &[u8], len: usize) -> Result<Nonces, SecretsError> {
        let Some((path, accept_open)) = &self.state_dir else {
            return Ok(Nonces::of_process(len));
        };
        let state = store::StateDir::lock(path, *accept_open);
        match state.and_then(|state| state.take_nonces(secret, len)) {
            Err(error @ SecretsError::Io { .. }) if len >= NONCE_OF_PROCESS => {
                tracing::warn!(%error, "the nonces of connection IDs cannot be stored; those of this start begin at a random one");
                Ok(Nonces::of_process(len))
            }
            taken => taken,
        }
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
