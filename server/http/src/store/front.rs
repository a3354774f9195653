//! The front of a store for one thread.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::shared::{Pin, Slot, Store, StoreKey, Stored};

/// Entries that a front keeps at most. The hash of its key selects the one place of an entry.
const PLACES: usize = 128;
/// Largest weight of an entry that a front keeps. The work for a larger response hides what the store costs.
const LARGEST: u64 = 16 * 1024;
/// Number of hits in the store, with none for another key of the same place between them, after which a front takes an entry.
const HITS: u8 = 8;
/// Number of hits after which a front asks the store again, so that the store knows what is asked for.
const USES: u8 = 64;

/// Front of a store, for one thread.
///
/// A value that it keeps has counts of references of its own, which no other thread changes. Such values may have left the store,
/// and then count as bytes that readers keep; all fronts of a store together keep a bounded part of its capacity.
pub struct StoreFront<K, V> {
    store: Arc<Store<K, V>>,
    places: Box<[Place<K, V>]>,
}

/// Place for an entry.
struct Place<K, V> {
    kept: Option<Box<Kept<K, V>>>,
    /// Hash of the key that was last found in the store.
    last: u64,
    /// Number of times in a row that it was.
    hits: u8,
}

/// Entry of a front.
struct Kept<K, V> {
    key: K,
    value: V,
    /// Entry of the store, which ends as soon as the store no longer has it.
    slot: Weak<Slot<V>>,
    fresh_until: Instant,
    /// Number of hits until the store is asked again.
    uses: u8,
    _pin: Pin,
}

/// A value that was found.
#[derive(Debug)]
pub struct Hit<'a, V>(Found<'a, V>);

#[derive(Debug)]
enum Found<'a, V> {
    /// The thread's own.
    Own(&'a V),
    /// Shared with other threads.
    Shared(Arc<Slot<V>>),
}

impl<V> Deref for Hit<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        match &self.0 {
            Found::Own(value) => value,
            Found::Shared(slot) => &slot.value,
        }
    }
}

impl<K: StoreKey, V: Stored> StoreFront<K, V> {
    /// Returns a front that keeps nothing yet.
    pub fn new(store: Arc<Store<K, V>>) -> StoreFront<K, V> {
        StoreFront { store, places: (0..PLACES).map(|_| Place::default()).collect() }
    }

    /// Returns the value if it is fresh at `now`. One request misses a stale one and should renew it; the others still get it for a
    /// while, so that they do not all renew it at once.
    pub fn get(&mut self, key: &K, now: Instant) -> Option<Hit<'_, V>> {
        if self.store.is_used_up() {
            return None;
        }
        let hash = self.store.hash(key);
        let place = usize::try_from(hash % PLACES as u64).unwrap_or_default();
        let place = self.places.get_mut(place)?;
        if place.kept.as_deref_mut().is_some_and(|kept| kept.serves(key, now)) {
            place.hits = 0;
            return place.kept.as_deref().map(|kept| Hit(Found::Own(&kept.value)));
        }
        let found = self.store.get(hash, key, now);
        place.learn(&self.store, (hash, key), found.as_ref(), now);
        match found {
            Some(slot) => Some(Hit(Found::Shared(slot))),
            // The store was busy.
            None => {
                let kept = place.kept.as_deref_mut()?;
                let serves = kept.serves(key, now);
                serves.then_some(Hit(Found::Own(&kept.value)))
            }
        }
    }

    /// Drops all entries of the front and of the store.
    pub fn clear(&mut self) {
        self.places.fill_with(Place::default);
        self.store.clear();
    }

    /// Returns the number of entries that the front keeps.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.places.iter().filter(|place| place.kept.is_some()).count()
    }
}

impl<K: StoreKey, V: Stored> Place<K, V> {
    /// Learns what the store has for a key, and takes it if it is asked for often.
    fn learn(
        &mut self,
        store: &Store<K, V>,
        (hash, key): (u64, &K),
        found: Option<&Arc<Slot<V>>>,
        now: Instant,
    ) {
        let mut is_known = false;
        if let Some(kept) = self.kept.as_deref_mut() {
            is_known = kept.key == *key;
            if kept.slot.strong_count() == 0 {
                self.kept = None;
            } else if is_known {
                kept.uses = USES;
                return;
            }
        }
        let Some(slot) = found else {
            return;
        };
        self.hits = if self.last == hash { self.hits.saturating_add(1) } else { 1 };
        self.last = hash;
        // One that was renewed is taken at once.
        if is_known || self.hits >= HITS {
            self.hits = 0;
            // Its part of what fronts may keep is free before.
            self.kept = None;
            self.kept = Kept::new(store, key, slot, now).map(Box::new);
        }
    }
}

impl<K: StoreKey, V: Stored> Kept<K, V> {
    /// Returns an entry for a front; `None` if it is too large, stale, or fronts have no room.
    fn new(store: &Store<K, V>, key: &K, slot: &Arc<Slot<V>>, now: Instant) -> Option<Kept<K, V>> {
        if slot.weight > LARGEST || now >= slot.fresh_until {
            return None;
        }
        Some(Kept {
            _pin: store.pin(slot.weight)?,
            key: key.clone(),
            value: slot.own_value(),
            slot: Arc::downgrade(slot),
            fresh_until: slot.fresh_until,
            uses: USES,
        })
    }

    /// Returns whether it is the key's entry, fresh and still in the store.
    fn serves(&mut self, key: &K, now: Instant) -> bool {
        let serves = self.uses > 0
            && now < self.fresh_until
            && self.slot.strong_count() > 0
            && self.key == *key;
        self.uses -= u8::from(serves);
        serves
    }
}

impl<K, V> Default for Place<K, V> {
    fn default() -> Place<K, V> {
        Place { kept: None, last: 0, hits: 0 }
    }
}

impl<K, V> std::fmt::Debug for StoreFront<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreFront").field("store", &self.store).finish_non_exhaustive()
    }
}
