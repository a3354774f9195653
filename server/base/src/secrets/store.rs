//! Root secrets and the generation on disk.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;

use super::error::{MAX_ROOTS, SecretsError};
use super::key_file;
use super::nonces::{self, Nonces};
use super::root::{RootSecret, hkdf_sha256, unhex};
use super::ticket_keys::TicketKeys;
use crate::clock;
use crate::entropy::draw;
use crate::{named_file, state_file};

/// Number of generations of a process; they wrap.
pub const GENERATIONS: u8 = 64;

/// Returns how many generations after `oldest` a generation comes.
#[must_use]
pub fn generations_since(oldest: u8, generation: u8) -> u8 {
    generation.wrapping_sub(oldest) % GENERATIONS
}

/// Largest key file that is read, bytes: far more than [`MAX_ROOTS`] lines with comments.
const MAX_FILE: u64 = 64 * 1024;

const SECRETS: &str = "secrets";
const GENERATION: &str = "generation";
const TICKETS: &str = "tickets";
const NONCES: &str = "nonces";
const LOCK: &str = "lock";
/// Most keys whose nonces are remembered. A key that is used again after so many others would begin its nonces anew.
const MAX_NONCE_KEYS: usize = 256;

/// A state directory that no other process reads or changes until it is dropped.
#[derive(Debug)]
pub(super) struct StateDir {
    path: PathBuf,
    accept_open: bool,
    _lock: File,
}

impl StateDir {
    /// Makes the directory if need be and waits for its lock.
    pub(super) fn lock(path: &Path, accept_open: bool) -> Result<StateDir, SecretsError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|source| failed("create state directory", path, source))?;
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .map_err(|source| failed("open", &lock_path, source))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                tracing::info!(path = %lock_path.display(), "waiting for another process that starts here");
                lock.lock().map_err(|source| failed("lock", &lock_path, source))?;
            }
            Err(TryLockError::Error(source)) => return Err(failed("lock", &lock_path, source)),
        }
        Ok(StateDir { path: path.to_owned(), accept_open, _lock: lock })
    }

    /// Returns the root secrets kept here. Makes one if there is none.
    pub(super) fn roots(&self) -> Result<Vec<RootSecret>, SecretsError> {
        let path = self.path.join(SECRETS);
        match read_key_file(&path, self.accept_open) {
            Err(SecretsError::Io { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
                let root = RootSecret::random();
                let text = format!("{}\n", HEXLOWER.encode(&root.0));
                self.replace(SECRETS, text.as_bytes())?;
                Ok(vec![root])
            }
            read => read,
        }
    }

    /// Returns the ticket keys kept here. Makes some if there are none, or if all tickets have expired since they were kept.
    pub(super) fn ticket_keys(&self) -> Result<TicketKeys, SecretsError> {
        let path = self.path.join(TICKETS);
        let failed = |source| failed("read", &path, source);
        let kept = match File::open(&path) {
            Ok(file) => {
                if !self.accept_open {
                    key_file::check(&path, &file).map_err(failed)??;
                }
                TicketKeys::parse(&limited(&file).map_err(failed)?, clock::unix)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let keys = TicketKeys::random(clock::unix);
        // A full disk must not keep a server from coming back; without the file only tickets are lost at the next start.
        if let Err(error) = self.keep(&keys) {
            tracing::warn!(%error, "the keys of session tickets cannot be stored");
        }
        Ok(keys)
    }

    /// Writes the ticket keys, without those of the past.
    pub(super) fn keep(&self, keys: &TicketKeys) -> Result<(), SecretsError> {
        match keys.text() {
            Some(text) => self.replace(TICKETS, text.as_bytes()),
            None => Ok(()),
        }
    }

    /// Returns one more than the number in the file and writes it back. A number that cannot be parsed is replaced by a
    /// random one.
    pub(super) fn advance_generation(&self) -> Result<u8, SecretsError> {
        let path = self.path.join(GENERATION);
        let generation = match read_limited(&path) {
            Ok(text) => match text.trim().parse::<u8>() {
                Ok(last) if last < GENERATIONS => (last + 1) % GENERATIONS,
                _ => {
                    tracing::warn!(path = %path.display(), "no generation from 0 to 63 stands here: going on with a random one");
                    random_generation()
                }
            },
            Err(source) if source.kind() == io::ErrorKind::NotFound => random_generation(),
            Err(source) => return Err(failed("read", &path, source)),
        };
        // A full disk must not keep a server from coming back. The next start may then use the same number, by which old and new
        // processes tell their connections apart only while both run.
        if let Err(error) = self.replace(GENERATION, format!("{generation}\n").as_bytes()) {
            tracing::warn!(%error, "the generation of connection IDs cannot be stored; the next start may repeat it");
        }
        Ok(generation)
    }

    /// Takes the nonces of a start under a key, and remembers that. A line is the key's name, the number from which its nonces are counted,
    /// and how many starts have taken some.
    pub(super) fn take_nonces(&self, secret: &[u8], len: usize) -> Result<Nonces, SecretsError> {
        let path = self.path.join(NONCES);
        let text = match read_limited(&path) {
            Ok(text) => text,
            Err(source) if source.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(failed("read", &path, source)),
        };
        let name = key_name(secret, len);
        let (mut others, mut base, mut starts) = (Vec::new(), nonces::random(), 0_u64);
        for (index, line) in text.lines().enumerate() {
            let damaged = || SecretsError::Nonces { path: path.clone(), line: index + 1 };
            let fields: Vec<&str> = line.split(' ').collect();
            let [key, from, taken] = fields[..] else {
                return Err(damaged());
            };
            let from = u128::from_str_radix(from, 16).map_err(|_| damaged())?;
            let taken = taken.parse().map_err(|_| damaged())?;
            if key == name {
                (base, starts) = (from, taken);
            } else {
                others.push(line);
            }
        }
        let taken = Nonces::of_start(starts, base, len);
        let taken = taken.ok_or_else(|| SecretsError::NoncesUsedUp { path: path.clone() })?;
        let kept = &others[others.len().saturating_sub(MAX_NONCE_KEYS - 1)..];
        let own = format!("{name} {base:032x} {}", starts + 1);
        let lines = kept.iter().copied().chain([own.as_str()]);
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        self.replace(NONCES, text.as_bytes())?;
        Ok(taken)
    }

    fn replace(&self, name: &str, contents: &[u8]) -> Result<(), SecretsError> {
        let path = self.path.join(name);
        let written = state_file::replace(&path, contents);
        written.map_err(|source| failed("write", &path, source))
    }
}

/// Reads root secrets. A file that other users have access to is refused unless `accept_open`.
pub(super) fn read_key_file(
    path: &Path,
    accept_open: bool,
) -> Result<Vec<RootSecret>, SecretsError> {
    let failed = |source| failed("read", path, source);
    let file = named_file::open(path).map_err(failed)?;
    let roots = parse(&limited(&file).map_err(failed)?, path)?;
    if !accept_open {
        key_file::check(path, &file).map_err(failed)??;
    }
    Ok(roots)
}

pub(super) fn parse(text: &str, path: &Path) -> Result<Vec<RootSecret>, SecretsError> {
    let mut roots: Vec<RootSecret> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let digits = line.split_once('#').map_or(line, |(before, _)| before).trim();
        if digits.is_empty() {
            continue;
        }
        let root = unhex(digits).map_err(|found| SecretsError::Line {
            path: path.to_owned(),
            line: index + 1,
            found,
        })?;
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    check_count(&roots, path)?;
    Ok(roots)
}

pub(super) fn check_count(roots: &[RootSecret], path: &Path) -> Result<(), SecretsError> {
    if roots.is_empty() || roots.len() > MAX_ROOTS {
        return Err(SecretsError::Count { path: path.to_owned(), found: roots.len() });
    }
    Ok(())
}

fn read_limited(path: &Path) -> io::Result<String> {
    limited(&File::open(path)?)
}

fn limited(file: &File) -> io::Result<String> {
    let mut text = String::new();
    file.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "over 64 KiB"));
    }
    Ok(text)
}

fn failed(action: &'static str, path: &Path, cause: io::Error) -> SecretsError {
    SecretsError::Io { action, path: path.to_owned(), cause }
}

/// Returns the name of a key in the file of nonces, which gives nothing of it away.
fn key_name(secret: &[u8], len: usize) -> String {
    let mut name = [0; 16];
    let len = u8::try_from(len).unwrap_or(u8::MAX);
    hkdf_sha256(b"sluicegate nonces 1", secret, &[len], &mut name);
    HEXLOWER.encode(&name)
}

/// Returns a generation for a process without a predecessor.
pub(super) fn random_generation() -> u8 {
    let mut byte = [0];
    draw(&mut byte);
    byte[0] % GENERATIONS
}
