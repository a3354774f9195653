//! Files of accounts, certificates and open challenges in the state directory.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use boring::sha::sha256;
use data_encoding::HEXLOWER;
use sluicegate_base::state_file;
use sluicegate_config::{AcmeChallenge, Config};

use super::challenges::{Challenges, http_01_file, tls_alpn_01_file};
use super::error::AcmeError;
use super::issued::Issued;

/// Name of the folder in the state directory.
const FOLDER: &str = "acme";
const CHALLENGES: &str = "challenges";
const LOCK: &str = "lock";

/// Files of accounts, certificates and open challenges. Instances that share the folder take turns by its lock.
#[derive(Clone, Debug)]
pub struct AcmeStore {
    folder: PathBuf,
    /// URL of the authority's directory: each has its own account and certificates.
    directory: String,
}

/// State of a file, which differs if it was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    length: u64,
    /// Time of its last change, in seconds since 1970, and nanoseconds.
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the time at which the file was written, in seconds since 1970.
    pub(super) fn written(self) -> i64 {
        self.changed.0
    }
}

/// Lock of the folder: no other instance obtains certificates until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Response to a challenge, which instances find until it is dropped.
#[derive(Debug)]
pub(super) struct Published(PathBuf);

impl Drop for Published {
    fn drop(&mut self) {
        // What is left over is removed before the next challenge.
        let _ = fs::remove_file(&self.0);
    }
}

impl AcmeStore {
    /// Returns the store of a configuration; `None` without a state directory.
    pub fn of(config: &Config) -> Option<AcmeStore> {
        let folder = config.server.state_dir.as_ref()?.join(FOLDER);
        Some(AcmeStore { folder, directory: config.acme.directory.clone() })
    }

    /// Returns the responses to open challenges.
    pub fn challenges(&self) -> Challenges {
        Challenges::new(self.folder.join(CHALLENGES))
    }

    /// Returns the certificate for these names with its key, PEM, and the path of its file; until there is one, the one that is valid
    /// longest of those for the first of them, so that a changed list of names takes no host its certificate. `None` if there is none
    /// that can be used.
    ///
    /// # Errors
    /// A file cannot be read. Whether there is a certificate is then unknown.
    pub fn certificate(&self, names: &[String]) -> io::Result<Option<(String, PathBuf)>> {
        let own = self.certificate_path(names);
        if let Some(pem) = read(&own)?
            && Issued::read(&pem, names).is_some()
        {
            return Ok(Some((pem, own)));
        }
        let (Some(first), Some(folder)) = (names.first(), own.parent()) else {
            return Ok(None);
        };
        let mut best = None;
        for file in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = file.file_name();
            let is_named = |name: &str| name.starts_with(&format!("{}-", file_name(first)));
            let is_certificate = |name: &&str| is_named(name) && name.ends_with(".pem");
            if name.to_str().filter(is_certificate).is_none() {
                continue;
            }
            let Some(pem) = read(&file.path())? else {
                continue;
            };
            let issued = Issued::read(&pem, std::slice::from_ref(first));
            if let Some(to) = issued.map(|issued| issued.validity.to)
                && best.as_ref().is_none_or(|(best, _, _)| to > *best)
            {
                best = Some((to, pem, file.path()));
            }
        }
        Ok(best.map(|(_, pem, path)| (pem, path)))
    }

    /// Returns the facts of the certificate for these names, and the state of its file.
    pub(super) fn issued(&self, names: &[String]) -> Option<(Issued, Stamp)> {
        let stamp = self.stamp(names)?;
        let pem = read(&self.certificate_path(names)).ok()??;
        Some((Issued::read(&pem, names)?, stamp))
    }

    /// Returns the state of the file for these names.
    pub(super) fn stamp(&self, names: &[String]) -> Option<Stamp> {
        let file = fs::metadata(self.certificate_path(names)).ok()?;
        Some(Stamp {
            inode: file.ino(),
            length: file.len(),
            changed: (file.mtime(), file.mtime_nsec()),
        })
    }

    /// Writes a certificate with its key.
    pub(super) fn keep(&self, names: &[String], pem: &str) -> Result<(), AcmeError> {
        self.write(&self.certificate_path(names), pem)
    }

    /// Returns the account at the authority, as it was kept.
    pub(super) fn account(&self) -> Option<String> {
        fs::read_to_string(self.account_path()).ok()
    }

    /// Writes the account at the authority.
    pub(super) fn keep_account(&self, account: &str) -> Result<(), AcmeError> {
        self.write(&self.account_path(), account)
    }

    /// Moves an account aside that cannot be used.
    pub(super) fn forget_account(&self) {
        let path = self.account_path();
        let _ = fs::rename(&path, path.with_extension("json.old"));
    }

    /// Takes the lock of the folder, which is made if need be; `None` if another instance has it. Removes what remains of the
    /// challenges of an instance that was killed.
    pub(super) fn lock(&self) -> Result<Option<Lock>, AcmeError> {
        let challenges = self.challenges();
        make_folder(challenges.folder())?;
        let path = self.folder.join(LOCK);
        let failed = |error: &io::Error| AcmeError::storage(&path, error);
        let opened =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = opened.map_err(|error| failed(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
        }
        for left in fs::read_dir(challenges.folder()).into_iter().flatten().flatten() {
            let _ = fs::remove_file(left.path());
        }
        Ok(Some(Lock { _file: file }))
    }

    /// Lets every instance respond to a challenge for `name`.
    pub(super) fn publish(
        &self,
        challenge: AcmeChallenge,
        name: &str,
        token: &str,
        authorization: &str,
        _: &Lock,
    ) -> Result<Published, AcmeError> {
        let folder = self.challenges().folder().to_owned();
        let file = match challenge {
            AcmeChallenge::Http01 => http_01_file(token),
            AcmeChallenge::TlsAlpn01 => tls_alpn_01_file(name),
            // It is proved by a record, not by a file.
            AcmeChallenge::Dns01 => None,
        };
        // Only an authority that makes no sense has such a token.
        let unusable = || AcmeError::storage(&folder, &io::ErrorKind::InvalidFilename.into());
        let path = folder.join(file.ok_or_else(unusable)?);
        self.write(&path, authorization)?;
        Ok(Published(path))
    }

    fn write(&self, path: &Path, contents: &str) -> Result<(), AcmeError> {
        let written = state_file::replace(path, contents.as_bytes());
        written.map_err(|error| AcmeError::storage(path, &error))
    }

    fn account_path(&self) -> PathBuf {
        let digits = digits(&self.directory);
        self.folder.join(format!("account-{digits}.json"))
    }

    fn certificate_path(&self, names: &[String]) -> PathBuf {
        let first = names.first().map_or("", String::as_str);
        let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        let digits = digits(&format!("{}\n{}", self.directory, sorted.join("\n")));
        self.folder.join(format!("{}-{digits}.pem", file_name(first)))
    }
}

/// Returns a name as that of a file. No host has an underscore in its name.
fn file_name(name: &str) -> String {
    name.replace('*', "_")
}

/// Returns the contents of a file; `None` if there is no such file.
fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(contents) => Ok(Some(contents)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // It is no certificate.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(error) => Err(error),
    }
}

fn make_folder(folder: &Path) -> Result<(), AcmeError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| AcmeError::storage(folder, &error))
}

/// Returns 16 hexadecimal digits that stand for a text.
fn digits(text: &str) -> String {
    let digest = sha256(text.as_bytes());
    HEXLOWER.encode(&digest[..8])
}

#[cfg(test)]
mod tests {
    use super::super::keys;
    use super::*;
    use sluicegate_base::self_signed;

    fn store(folder: &tempfile::TempDir, directory: &str) -> AcmeStore {
        AcmeStore { folder: folder.path().join(FOLDER), directory: directory.to_owned() }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn only_the_servers_user_reads_what_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder, "https://acme.example/");
        let _lock = store.lock().unwrap().unwrap();
        store.keep_account("{}").unwrap();
        let names = ["a.example".to_owned()];
        store.keep(&names, "pem").unwrap();
        assert_eq!(mode(&store.folder), 0o700);
        assert_eq!(mode(&store.account_path()), 0o600);
        assert_eq!(mode(&store.certificate_path(&names)), 0o600);
        assert_eq!(store.account().as_deref(), Some("{}"));
        let found = store.certificate(&names).unwrap();
        assert!(found.is_none(), "it is no certificate");
    }

    #[test]
    fn a_changed_list_of_names_keeps_the_certificate_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder, "https://acme.example/");
        let [a, b] = ["a.example", "b.example"].map(str::to_owned);
        let key = self_signed::key().unwrap();
        let made = keys::proof(&key, &a, &[1; 32], sluicegate_base::clock::unix()).unwrap();
        let parts = [key.private_key_to_pem_pkcs8(), made.to_pem()];
        let pem = String::from_utf8(parts.map(Result::unwrap).concat()).unwrap();
        let lock = store.lock().unwrap().unwrap();
        store.keep(std::slice::from_ref(&a), &pem).unwrap();
        drop(lock);
        let wanted = [a.clone(), b.clone()];
        let (found, path) = store.certificate(&wanted).unwrap().unwrap();
        assert_eq!((found, path), (pem, store.certificate_path(&[a])));
        assert!(store.issued(&wanted).is_none(), "it is still due");
        assert!(store.certificate(&[b]).unwrap().is_none());
    }

    #[test]
    fn a_certificate_that_cannot_be_read_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder, "https://acme.example/");
        let names = ["a.example".to_owned()];
        fs::create_dir_all(store.certificate_path(&names)).unwrap();
        assert!(store.certificate(&names).is_err());
    }

    #[test]
    fn each_directory_and_each_set_of_names_has_its_own_files() {
        let folder = tempfile::tempdir().unwrap();
        let [main, staging] = ["https://main/", "https://staging/"].map(|d| store(&folder, d));
        let [a, b] = ["a.example", "b.example"].map(str::to_owned);
        let of = |store: &AcmeStore, names: &[&String]| {
            let names: Vec<String> = names.iter().copied().cloned().collect();
            store.certificate_path(&names)
        };
        assert_ne!(of(&main, &[&a]), of(&main, &[&a, &b]));
        assert_ne!(of(&main, &[&a]), of(&staging, &[&a]));
        assert_ne!(main.account_path(), staging.account_path());
    }

    #[tokio::test]
    async fn one_instance_has_the_lock_and_all_respond_to_its_challenges() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = [(); 2].map(|()| store(&folder, "https://acme.example/"));
        let lock = first.lock().unwrap().unwrap();
        assert!(second.lock().unwrap().is_none());
        let challenge = AcmeChallenge::Http01;
        let published = first.publish(challenge, "a.example", "token", "token.key", &lock).unwrap();
        let path = "/.well-known/acme-challenge/token";
        assert_eq!(second.challenges().http_01(path).await.as_deref(), Some("token.key"));
        drop(published);
        assert_eq!(second.challenges().http_01(path).await, None);
        // As if the process had been killed.
        std::mem::forget(first.publish(challenge, "a.example", "token", "token.key", &lock));
        drop(lock);
        assert!(second.lock().unwrap().is_some());
        assert_eq!(second.challenges().http_01(path).await, None);
        let bad = first.publish(
            challenge,
            "a.example",
            "../account",
            "x",
            &first.lock().unwrap().unwrap(),
        );
        assert!(bad.is_err());
    }

    #[test]
    fn file_that_was_replaced_has_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder, "https://acme.example/");
        let names = ["a.example".to_owned()];
        assert_eq!(store.stamp(&names), None);
        let _lock = store.lock().unwrap();
        store.keep(&names, "one").unwrap();
        let first = store.stamp(&names);
        assert_eq!(store.stamp(&names), first);
        store.keep(&names, "two").unwrap();
        assert_ne!(store.stamp(&names), first);
    }
}
