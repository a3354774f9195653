//! Files that are answered from memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_config::Files;

use super::accept::Preference;
use super::meta::Entry;
use super::path::Target;
use crate::http::exchange::RequestHead;

/// What an entry counts beyond its bytes and its path: it must not be free to hold many empty files.
const OVERHEAD: u64 = 512;

/// What decides which file a request gets, as far as that can be told without a look at the disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    route: u64,
    target: Target,
    preference: Preference,
}

impl Key {
    /// Returns the key of a request for what is below `rest`, the part of its path behind the route's prefix. `route` is a number that no
    /// other route has, be it one of an earlier configuration. `None` where the answer can be no file.
    pub fn of(route: u64, files: &Files, head: &RequestHead, rest: &str) -> Option<Key> {
        if !matches!(head.method.as_str(), "GET" | "HEAD") {
            return None;
        }
        Some(Key {
            route,
            target: Target::of(&head.path, rest).ok()?,
            preference: preference(files, head),
        })
    }
}

/// Where nothing lies on the disk in other encodings, what the client accepts makes no difference.
pub(crate) fn preference(files: &Files, head: &RequestHead) -> Preference {
    if files.precompressed {
        Preference::of(&head.headers)
    } else {
        Preference::ORIGINAL
    }
}

/// The files that a worker answered lately, in a bounded number of bytes.
///
/// It never looks at a disk: an entry that was not put in for a while is missed, so that somebody does. A file's old state is
/// answered for at most twice `valid`. What has to go is chosen by a clock hand: entries that were asked for since it last
/// came by stay.
#[derive(Debug)]
pub struct Cache {
    capacity: u64,
    valid: Duration,
    index: HashMap<Arc<Key>, usize>,
    slots: Vec<Option<Slot>>,
    /// Slots that are empty.
    free: Vec<usize>,
    hand: usize,
    held: u64,
}

#[derive(Debug)]
struct Slot {
    key: Arc<Key>,
    entry: Arc<Entry>,
    put: Instant,
    /// One request went to look at the file since it is no longer valid.
    asked: bool,
    /// Answered since the hand came by.
    used: bool,
}

impl Slot {
    fn cost(&self) -> u64 {
        cost(&self.key, &self.entry)
    }
}

fn cost(key: &Key, entry: &Entry) -> u64 {
    OVERHEAD + (key.target.path.len() + entry.bytes.len()) as u64
}

impl Cache {
    /// Empty. It holds up to `capacity` bytes, 0 for none at all; entries are answered for `valid`.
    pub fn new(capacity: u64, valid: Duration) -> Cache {
        Cache {
            capacity,
            valid,
            index: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            held: 0,
        }
    }

    /// Bytes held, by what each entry counts.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// The file, if it was put in less than `valid` ago. Behind that one request misses it, and should have it put in anew;
    /// the others get it for as long again, so that they do not all go to the disk at once.
    pub fn get(&mut self, key: &Key, now: Instant) -> Option<Arc<Entry>> {
        let slot = self.slots[*self.index.get(key)?].as_mut()?;
        let age = now.saturating_duration_since(slot.put);
        let answers = age < self.valid
            || age < self.valid.saturating_mul(2) && std::mem::replace(&mut slot.asked, true);
        slot.used |= answers;
        answers.then(|| Arc::clone(&slot.entry))
    }

    /// Takes a file as it was at `now`, in place of what was known about the key. It is let go where it would never be
    /// answered, or is larger than all there is room for.
    pub fn put(&mut self, key: Key, entry: Arc<Entry>, now: Instant) {
        let used = self.take(&key).is_some_and(|slot| slot.used);
        let cost = cost(&key, &entry);
        if cost > self.capacity || self.valid.is_zero() {
            return;
        }
        while self.held + cost > self.capacity {
            self.evict();
        }
        let key = Arc::new(key);
        let slot = Some(Slot {
            key: Arc::clone(&key),
            entry,
            put: now,
            asked: false,
            used,
        });
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.index.insert(key, place);
        self.held += cost;
    }

    /// The key leads to no file any more that could be answered from memory.
    pub fn forget(&mut self, key: &Key) {
        self.take(key);
    }

    fn take(&mut self, key: &Key) -> Option<Slot> {
        let place = self.index.remove(key)?;
        let slot = self.slots[place].take()?;
        self.free.push(place);
        self.held -= slot.cost();
        Some(slot)
    }

    /// Moves the hand on to an entry that nobody asked for, and takes that out. There must be one.
    fn evict(&mut self) {
        loop {
            self.hand = (self.hand + 1) % self.slots.len();
            match &mut self.slots[self.hand] {
                None => {}
                Some(slot) if slot.used => slot.used = false,
                Some(slot) => {
                    let key = Arc::clone(&slot.key);
                    self.take(&key);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
