//! The store that all threads share.

use std::hash::{BuildHasher as _, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{Equivalent, OptionsBuilder, Weighter};

/// Weight of an entry beyond its key, its head and its bytes, so that many empty ones have a cost.
pub(super) const OVERHEAD: u64 = 512;
/// Typical weight of an entry, bytes. The store remembers half as many evicted keys as entries of this weight fit.
const TYPICAL: u64 = 8 * 1024;
/// Number of the largest values that each shard has room for, if there is more than one shard.
const LARGEST_PER_SHARD: u64 = 16;
/// Largest number of shards. Few threads meet in one of them, since their fronts have what they ask for most.
const MOST_SHARDS: u64 = 64;
/// Part of the capacity that fronts may keep of entries, which may have left the store: one in so many.
const PINNED_PART: u64 = 8;

/// Key of a value in a store.
pub trait StoreKey: Clone + Eq + Hash {
    /// Returns the bytes that the key holds.
    fn weight(&self) -> u64;
}

/// Value of a store: some bytes with a head.
pub trait Stored: Clone + PartialEq {
    /// Returns the bytes that the value holds, those of its head included.
    fn weight(&self) -> u64;
    /// Returns the bytes beside the head; the store replaces them by the same ones.
    fn bytes(&mut self) -> &mut Bytes;
    /// Copies a head that shares memory with other clones, so that threads do not change each other's counts of references.
    fn own_head(&mut self);
}

/// Times for which an entry is served.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    /// Time for which it is served to all.
    pub fresh: Duration,
    /// Time after that for which it is served to all but the first, which is to renew it.
    pub stale: Duration,
}

/// Values of the process in a bounded number of bytes. Those that were asked for once leave before those that were asked for again.
///
/// Readers keep the bytes of entries that have left, up to as much as the store has room for. Beyond that it returns nothing: many
/// slow readers of many entries would take all memory otherwise.
pub struct Store<K, V> {
    entries: Cache<HashedKey<K>, Arc<Slot<V>>, ByWeight, BuildHasherDefault<GivenHash>>,
    hashes: RandomState,
    capacity: u64,
    usage: Arc<Usage>,
}

/// Sums of weights, bytes.
#[derive(Debug, Default)]
struct Usage {
    /// Entries in the store.
    held: AtomicU64,
    /// Entries whose bytes are in memory, those that have left included.
    alive: AtomicU64,
    /// Entries of fronts; one of several fronts counts for each.
    pinned: AtomicU64,
}

/// An entry, while it is in the store.
#[derive(Debug)]
pub(super) struct Slot<V> {
    pub(super) value: V,
    pub(super) weight: u64,
    pub(super) fresh_until: Instant,
    stale_until: Instant,
    /// Whether a request has missed the entry since it is stale.
    asked: AtomicBool,
    usage: Arc<Usage>,
}

/// Bytes of an entry, which count until the last reader drops them.
struct Counted {
    bytes: Bytes,
    weight: u64,
    usage: Arc<Usage>,
}

/// Weight of an entry that a front keeps.
#[derive(Debug)]
pub(super) struct Pin {
    weight: u64,
    usage: Arc<Usage>,
}

/// Key with its hash, which is computed once for the front and the store.
struct HashedKey<K> {
    hash: u64,
    key: K,
}

/// Borrowed form of [`HashedKey`].
struct Lookup<'a, K> {
    hash: u64,
    key: &'a K,
}

/// Hasher of keys that have a hash.
#[derive(Clone, Copy, Debug, Default)]
struct GivenHash(u64);

/// Weighs entries in bytes.
#[derive(Clone, Copy, Debug)]
struct ByWeight;

impl<K: StoreKey, V: Stored> Store<K, V> {
    /// Returns an empty store of up to `capacity` bytes, 0 for no entries at all, for values of up to `largest`.
    pub fn new(capacity: u64, largest: u64) -> Store<K, V> {
        let shards = shards(capacity, largest);
        let entries = usize::try_from(capacity / TYPICAL).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .shards(usize::try_from(shards).unwrap_or(1))
            .estimated_items_capacity(entries)
            // The capacity of a shard is rounded up.
            .weight_capacity(capacity - capacity % shards)
            .build()
            .expect("capacities are set");
        Store {
            entries: Cache::with_options(
                options,
                ByWeight,
                BuildHasherDefault::default(),
                DefaultLifecycle::default(),
            ),
            hashes: RandomState::new(),
            capacity,
            usage: Arc::default(),
        }
    }

    /// Returns whether a store of this capacity would have no less room for values of up to `largest`.
    pub fn suits(&self, capacity: u64, largest: u64) -> bool {
        self.capacity == capacity && self.entries.num_shards() as u64 <= shards(capacity, largest)
    }

    /// Returns the sum of the entries' weights, bytes.
    pub fn held(&self) -> u64 {
        self.usage.held.load(Ordering::Relaxed)
    }

    /// Takes a value as it was at `now`, in place of an older one of the key. Equal bytes stay, because readers may share them. A value
    /// that would fill its shard is dropped, and so is each one while readers have too much. Other threads that put or remove entries
    /// may delay the caller.
    pub fn put(&self, key: K, value: V, lifetime: Lifetime, now: Instant) {
        if self.is_used_up() {
            return self.remove(&key);
        }
        let hash = self.hash(&key);
        let weight = OVERHEAD + key.weight() + value.weight();
        let fresh_until = now + lifetime.fresh;
        let value = match self.entries.peek(&Lookup { hash, key: &key }) {
            // A slower thread has read it earlier.
            Some(slot) if fresh_until < slot.fresh_until => return,
            // A new slot would have all fronts copy it again.
            Some(slot) if slot.value == value && now < slot.fresh_until => return,
            Some(slot) if slot.value == value => slot.value.clone(),
            _ => self.count(value, weight),
        };
        let usage = Arc::clone(&self.usage);
        usage.held.fetch_add(weight, Ordering::Relaxed);
        let slot = Slot {
            value,
            weight,
            fresh_until,
            stale_until: fresh_until + lifetime.stale,
            asked: AtomicBool::new(false),
            usage,
        };
        self.entries.insert(HashedKey { hash, key }, Arc::new(slot));
    }

    /// Has a value's bytes count until nobody keeps them any more.
    fn count(&self, mut value: V, weight: u64) -> V {
        self.usage.alive.fetch_add(weight, Ordering::Relaxed);
        let usage = Arc::clone(&self.usage);
        let bytes = value.bytes();
        let counted = Counted { bytes: std::mem::take(bytes), weight, usage };
        *bytes = Bytes::from_owner(counted);
        value
    }

    /// Drops the key's entry.
    pub fn remove(&self, key: &K) {
        let lookup = Lookup { hash: self.hash(key), key };
        // Most keys have none, such as those of files that do not exist, and the removal alone keeps readers out.
        if self.entries.contains_key(&lookup) {
            self.entries.remove(&lookup);
        }
    }

    /// Returns whether there is room for any entry.
    pub fn has_room(&self) -> bool {
        self.capacity > 0
    }

    /// Drops the entries whose keys are not `kept`.
    pub fn retain(&self, kept: impl Fn(&K) -> bool) {
        self.entries.retain(|hashed, _| kept(&hashed.key));
    }

    /// Drops all entries. Readers keep the bytes that they have.
    pub fn clear(&self) {
        if self.held() > 0 {
            self.entries.clear();
        }
    }

    pub(super) fn hash(&self, key: &K) -> u64 {
        self.hashes.hash_one(key)
    }

    /// Returns whether readers have as much of entries that have left as the store has room for.
    pub(super) fn is_used_up(&self) -> bool {
        self.usage.alive.load(Ordering::Relaxed).saturating_sub(self.held()) > self.capacity
    }

    /// Returns an entry that is fresh, or stale and not this request's to renew. It waits for no other thread: an entry is missed
    /// while another one changes its shard.
    pub(super) fn get(&self, hash: u64, key: &K, now: Instant) -> Option<Arc<Slot<V>>> {
        let slot = self.entries.try_get(&Lookup { hash, key }).ok().flatten()?;
        let serves = now < slot.fresh_until || now < slot.stale_until && !slot.claims_renewal();
        serves.then_some(slot)
    }

    /// Counts an entry for a front; returns `None` if fronts have no room for it.
    pub(super) fn pin(&self, weight: u64) -> Option<Pin> {
        let before = self.usage.pinned.fetch_add(weight, Ordering::Relaxed);
        let pin = Pin { weight, usage: Arc::clone(&self.usage) };
        (before + weight <= self.capacity / PINNED_PART).then_some(pin)
    }
}

/// Returns the number of shards: a power of two, since the store has no other.
fn shards(capacity: u64, largest: u64) -> u64 {
    let most = capacity / largest.saturating_mul(LARGEST_PER_SHARD).max(1);
    let most = most.clamp(1, MOST_SHARDS);
    1 << most.ilog2()
}

impl<V> Slot<V> {
    /// Has a request renew the stale entry if it is the first that asks for it. Returns whether it is.
    fn claims_renewal(&self) -> bool {
        !self.asked.load(Ordering::Relaxed) && !self.asked.swap(true, Ordering::Relaxed)
    }
}

impl<V: Stored> Slot<V> {
    /// Returns the value with counts of references of its own, so that one thread alone writes to them.
    pub(super) fn own_value(&self) -> V {
        let mut value = self.value.clone();
        let bytes = value.bytes();
        *bytes = Bytes::from_owner(std::mem::take(bytes));
        value.own_head();
        value
    }
}

impl<V> Drop for Slot<V> {
    fn drop(&mut self) {
        self.usage.held.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.usage.alive.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.usage.pinned.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

impl<K: PartialEq> PartialEq for HashedKey<K> {
    fn eq(&self, other: &HashedKey<K>) -> bool {
        self.key == other.key
    }
}

impl<K: Eq> Eq for HashedKey<K> {}

impl<K> Hash for HashedKey<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl<K> Hash for Lookup<'_, K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl<K: Eq> Equivalent<HashedKey<K>> for Lookup<'_, K> {
    fn equivalent(&self, hashed: &HashedKey<K>) -> bool {
        self.hash == hashed.hash && *self.key == hashed.key
    }
}

impl Hasher for GivenHash {
    fn write(&mut self, _: &[u8]) {
        debug_assert!(false, "keys write a number");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl<K, V> Weighter<HashedKey<K>, Arc<Slot<V>>> for ByWeight {
    fn weight(&self, _: &HashedKey<K>, slot: &Arc<Slot<V>>) -> u64 {
        slot.weight
    }
}

impl<K, V> std::fmt::Debug for Store<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Store { capacity, usage, .. } = self;
        let mut store = f.debug_struct("Store");
        store.field("capacity", capacity).field("usage", usage).finish_non_exhaustive()
    }
}

#[cfg(test)]
impl<K: StoreKey, V: Stored> Store<K, V> {
    /// Returns the weights of entries that are in memory, and of those that fronts keep, bytes.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let of = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        (of(&self.usage.alive), of(&self.usage.pinned))
    }

    /// Returns the weight of the entries by the shards' own account, bytes.
    pub(crate) fn weight(&self) -> u64 {
        self.entries.weight()
    }

    pub(super) fn shards(&self) -> usize {
        self.entries.num_shards()
    }
}
