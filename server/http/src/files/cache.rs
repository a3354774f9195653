//! Small files in a worker's memory.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::unsync::Cache as WeightedCache;

use super::folder::{Folder, SiteFolders};
use super::path::Target;
use crate::exchange::{Preference, RequestHead};
use crate::representation::Representation;

/// Weight of an entry beyond its bytes and its path, so that many empty files have a cost.
const OVERHEAD: u64 = 512;
/// Typical weight of an entry, bytes. The cache remembers half as many evicted keys as entries of this weight fit.
const TYPICAL: u64 = 8 * 1024;

/// Everything that selects the file of a request before a look at the disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    folder: u64,
    target: Target,
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
            target: Target::of(&head.path, rest).ok()?,
            preference: folder.preference(head),
        })
    }
}

/// The files that a worker sent lately, in a bounded number of bytes.
///
/// It never looks at a disk: it misses an entry that is older than `valid`, so that a request does. A file's old state is served for
/// at most twice `valid`. Files that were asked for once leave before those that were asked for again.
///
/// Responses keep the bytes of entries that have left, up to as much as the cache has room for. Beyond that it serves nothing, and
/// requests go to the disk, whose blocks count for their clients: many slow readers of many files would take all memory otherwise.
#[derive(Debug)]
pub struct Cache {
    valid: Duration,
    capacity: u64,
    entries: WeightedCache<Key, Slot, ByWeight>,
    /// Weight of the entries whose bytes are in memory, those that have left included.
    alive: Arc<AtomicU64>,
}

/// Bytes of an entry, which count until the last response drops them.
struct Counted {
    bytes: Bytes,
    weight: u64,
    alive: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Slot {
    entry: Arc<Representation>,
    put: Instant,
    /// Whether a request has looked at the file since the entry expired.
    asked: Cell<bool>,
}

/// Weighs entries in bytes.
#[derive(Clone, Debug)]
struct ByWeight;

impl Weighter<Key, Slot> for ByWeight {
    fn weight(&self, key: &Key, slot: &Slot) -> u64 {
        weight(key, &slot.entry)
    }
}

fn weight(key: &Key, entry: &Representation) -> u64 {
    OVERHEAD + (key.target.path.len() + entry.bytes.len()) as u64
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

impl Cache {
    /// Returns an empty cache of up to `capacity` bytes, 0 for no entries at all; entries are served for `valid`.
    pub fn new(capacity: u64, valid: Duration) -> Cache {
        let entries = usize::try_from(capacity / TYPICAL).unwrap_or(usize::MAX);
        Cache {
            valid,
            capacity,
            entries: WeightedCache::with_weighter(entries, capacity, ByWeight),
            alive: Arc::default(),
        }
    }

    /// Returns the sum of the entries' weights, bytes.
    pub fn held(&self) -> u64 {
        self.entries.weight()
    }

    /// Returns the file if it was read less than `valid` ago. Later, one request misses it and should read it again. The others
    /// still get it for as long again, so that they do not all go to the disk at once.
    pub fn get(&mut self, key: &Key, now: Instant) -> Option<&Arc<Representation>> {
        let alive = self.alive.load(Ordering::Relaxed);
        if alive.saturating_sub(self.held()) > self.capacity {
            return None;
        }
        let slot = self.entries.get(key)?;
        let age = now.saturating_duration_since(slot.put);
        let serves =
            age < self.valid || age < self.valid.saturating_mul(2) && slot.asked.replace(true);
        serves.then_some(&slot.entry)
    }

    /// Takes a file as it was at `now`, in place of what the key had; an equal entry stays, because responses may share its bytes.
    /// An entry that could never be served, or that would fill the cache, is dropped.
    pub fn put(&mut self, key: Key, entry: Arc<Representation>, now: Instant) {
        if !self.valid.is_zero() {
            let known = self.entries.peek(&key).map(|slot| &slot.entry);
            let entry = match known.filter(|known| **known == entry) {
                Some(known) => Arc::clone(known),
                None => self.count(&key, entry),
            };
            let (put, asked) = (now, Cell::new(false));
            self.entries.insert(key, Slot { entry, put, asked });
        }
    }

    /// Has an entry count until nobody keeps its bytes any more.
    fn count(&self, key: &Key, entry: Arc<Representation>) -> Arc<Representation> {
        let weight = weight(key, &entry);
        self.alive.fetch_add(weight, Ordering::Relaxed);
        let mut entry = Arc::unwrap_or_clone(entry);
        entry.bytes = Bytes::from_owner(Counted {
            bytes: entry.bytes,
            weight,
            alive: Arc::clone(&self.alive),
        });
        Arc::new(entry)
    }

    /// Drops the entries of other folders: nobody asks for them any more, and they would stay for long if they were asked for often.
    pub fn keep_folders(&mut self, folders: &SiteFolders) {
        self.entries.retain(|key, _| folders.has(key.folder));
    }

    /// Drops all entries. Responses that are being sent keep theirs.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Drops the key's entry.
    pub fn forget(&mut self, key: &Key) {
        self.entries.remove(key);
    }
}

#[cfg(test)]
mod tests;
