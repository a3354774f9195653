//! Small files in the memory of the process.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use sluicegate_config::Limits;

use super::folder::{Folder, SiteFolders};
use super::path::FilePath;
use crate::exchange::{Preference, RequestHead};
use crate::representation::Representation;
use crate::store::{Hit, Lifetime, Store, StoreFront, StoreKey};

/// Everything that selects the file of a request before a look at the disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    folder: u64,
    target: FilePath,
    preference: Preference,
}

impl Key {
    /// Returns the key of a request for `rest`, the part of its path behind the route's prefix; `None` if no file can be the response.
    pub fn of(folder: &Folder, head: &RequestHead, rest: &str) -> Option<Key> {
        if !matches!(head.method.as_str(), "GET" | "HEAD") {
            return None;
        }
        Some(Key {
            folder: folder.id,
            target: FilePath::of(&head.path, rest).ok()?,
            preference: folder.preference(head),
        })
    }
}

impl StoreKey for Key {
    fn weight(&self) -> u64 {
        self.target.path.len() as u64
    }
}

/// The files that the process sent lately, in a bounded number of bytes.
///
/// It never looks at a disk: a request misses an entry that is older than `limits.file_cache_valid`, and the origin thread that
/// reads the file then puts it here. A file's old state is served for at most twice that time.
#[derive(Clone, Debug)]
pub struct FileStore {
    entries: Arc<Store<Key, Representation>>,
    valid: Duration,
}

impl FileStore {
    /// Returns an empty store.
    fn new(limits: &Limits) -> FileStore {
        FileStore {
            entries: Arc::new(Store::new(limits.file_cache, limits.file_cache_entry)),
            valid: limits.file_cache_valid,
        }
    }

    /// Returns the store for a site with these limits that replaces one with a `previous` store: the same one if that suits.
    pub(crate) fn after(previous: Option<&FileStore>, limits: &Limits) -> FileStore {
        let suits = |store: &&FileStore| {
            store.valid == limits.file_cache_valid
                && store.entries.suits(limits.file_cache, limits.file_cache_entry)
        };
        previous.filter(suits).cloned().unwrap_or_else(|| FileStore::new(limits))
    }

    /// Returns the sum of the entries' weights, bytes.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub fn held(&self) -> u64 {
        self.entries.held()
    }

    /// Returns whether it keeps any file.
    pub(crate) fn is_on(&self) -> bool {
        self.entries.has_room() && !self.valid.is_zero()
    }

    /// Takes a file as it was at `now`, in place of what the key had; `None` removes that.
    pub fn put(&self, key: &Key, file: Option<Representation>, now: Instant) {
        match file {
            Some(_) if self.valid.is_zero() => {}
            Some(file) => {
                let lifetime = Lifetime { fresh: self.valid, stale: self.valid };
                self.entries.put(key.clone(), file, lifetime, now);
            }
            None => self.entries.remove(key),
        }
    }

    /// Drops the entries of other folders: nobody asks for them any more, and they would stay for long if they were asked for often.
    pub(crate) fn keep_folders(&self, folders: &SiteFolders) {
        self.entries.retain(|key| folders.has(key.folder));
    }
}

/// A thread's way to the files in memory.
#[derive(Debug)]
pub struct Cache {
    front: StoreFront<Key, Representation>,
    store: FileStore,
}

impl Cache {
    /// Returns the way to a store.
    pub fn new(store: &FileStore) -> Cache {
        Cache { front: StoreFront::new(Arc::clone(&store.entries)), store: store.clone() }
    }

    /// Leads to the store of another site from now on.
    pub fn adopt(&mut self, store: &FileStore) {
        if !Arc::ptr_eq(&self.store.entries, &store.entries) {
            *self = Cache::new(store);
        }
    }

    /// Returns the store.
    pub fn store(&self) -> &FileStore {
        &self.store
    }

    /// Returns the file if it was read less than `limits.file_cache_valid` ago. Later, one request of the process misses it and should
    /// read it again. The others still get it for as long again, so that they do not all go to the disk at once.
    pub fn get(&mut self, key: &Key, now: Instant) -> Option<Hit<'_, Representation>> {
        self.front.get(key, now)
    }

    /// Drops all entries of the process. Responses that are being sent keep theirs.
    pub fn clear(&mut self) {
        self.front.clear();
    }
}

/// Place in memory for the file of a request that missed it.
#[derive(Debug)]
pub struct Vacancy {
    key: Key,
    /// A store that a reload has replaced ends, however long the response lasts.
    entries: Weak<Store<Key, Representation>>,
    valid: Duration,
}

impl Vacancy {
    /// Returns the place of a key in a store.
    pub(crate) fn new(key: Key, store: &FileStore) -> Vacancy {
        Vacancy { key, entries: Arc::downgrade(&store.entries), valid: store.valid }
    }

    /// Puts the file there as it was at `now`; `None` removes what is there.
    pub fn fill(&self, file: Option<Representation>, now: Instant) {
        if let Some(entries) = self.entries.upgrade() {
            FileStore { entries, valid: self.valid }.put(&self.key, file, now);
        }
    }
}

#[cfg(test)]
mod tests;
