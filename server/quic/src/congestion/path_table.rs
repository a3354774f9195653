//! What connections leave for later ones with the same client (RFC 9959): capacities of paths, in a table of bounded size.
//!
//! All workers of a listener share the table. The kernel distributes a client's connections over the workers, so with a
//! table each, a client would rarely meet the worker that knows it, and several connections could use the same capacity at
//! once, which RFC 9959 §3.2 forbids. A connection takes a lock of a few clients some times in its life, never for a packet.

mod events;

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use events::{Resumption, Resumptions};
use sluicegate_cc::{Observation, PathCapacity, PathMemory, ResumeEvent};

use sluicegate_base::address::AwaitedAddress;
use sluicegate_base::clients::ClientPrefix;

/// Paths whose slots are searched together, under one lock.
const WAYS: usize = 8;

/// Capacities of the paths to clients.
#[derive(Debug)]
pub struct PathTable {
    lifetime: Duration,
    /// Keyed hash of paths: nobody can choose addresses that share a set.
    hash: RandomState,
    sets: Box<[Mutex<Set>]>,
    /// Number of connections that may use the table so far; each has one as its name.
    connections: AtomicU64,
}

type Set = [Option<Slot>; WAYS];

/// The capacity of a path.
#[derive(Clone, Copy, Debug)]
struct Slot {
    path: u64,
    capacity: PathCapacity,
    saved: Instant,
    /// The connection that uses it.
    user: Option<u64>,
}

impl PathTable {
    /// Returns a table of at least `clients` paths, each of which is forgotten after `lifetime`.
    pub fn new(clients: u64, lifetime: Duration) -> PathTable {
        let sets = clients.div_ceil(WAYS as u64).max(1);
        PathTable {
            lifetime,
            hash: RandomState::new(),
            sets: (0..sets).map(|_| Mutex::default()).collect(),
            connections: AtomicU64::new(0),
        }
    }

    /// Returns the memory of the path between an address of the server and a client, for one connection, whose events count in
    /// `events`. Until the client's address is validated, the connection claims nothing and leaves nothing behind.
    pub fn path(
        self: &Arc<Self>,
        local: IpAddr,
        client: &AwaitedAddress,
        events: &Arc<Resumptions>,
    ) -> Box<dyn PathMemory> {
        Box::new(Path {
            local,
            client: client.clone(),
            connection: self.connections.fetch_add(1, Ordering::Relaxed),
            table: Arc::clone(self),
            events: Arc::clone(events),
        })
    }

    fn set(&self, path: u64) -> MutexGuard<'_, Set> {
        let place = path % self.sets.len() as u64;
        let set = &self.sets[usize::try_from(place).unwrap_or(0)];
        // Another thread that panicked has ended the process.
        set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_valid(&self, slot: &Slot, now: Instant) -> bool {
        now.saturating_duration_since(slot.saved) <= self.lifetime
    }
}

/// A connection's part in the table.
#[derive(Debug)]
struct Path {
    table: Arc<PathTable>,
    events: Arc<Resumptions>,
    local: IpAddr,
    client: AwaitedAddress,
    connection: u64,
}

impl Path {
    /// Returns the hash of the path; `None` before the client's address is validated. Two paths with the same one would share a
    /// capacity, which both would validate.
    fn hash(&self) -> Option<u64> {
        let client = ClientPrefix::from(self.client.get()?);
        let path = (self.local.to_canonical(), client);
        Some(self.table.hash.hash_one(path))
    }

    /// Calls `change` with the path's slot, if it has one.
    fn change<T>(&self, change: impl FnOnce(&mut Option<Slot>) -> Option<T>) -> Option<T> {
        let path = self.hash()?;
        let mut set = self.table.set(path);
        let own = set.iter_mut().find(|slot| is_of(slot.as_ref(), path))?;
        change(own)
    }
}

fn is_of(slot: Option<&Slot>, path: u64) -> bool {
    slot.is_some_and(|slot| slot.path == path)
}

impl PathMemory for Path {
    fn claim(&self) -> Option<PathCapacity> {
        let now = quiche::clock::now();
        self.change(|own| {
            if !own.is_some_and(|slot| self.table.is_valid(&slot, now)) {
                *own = None;
            }
            let slot = own.as_mut()?;
            if slot.user.is_some() {
                return None;
            }
            slot.user = Some(self.connection);
            Some(slot.capacity)
        })
    }

    fn release(&self) {
        self.change(|own| {
            let slot = own.as_mut()?;
            if slot.user == Some(self.connection) {
                slot.user = None;
            }
            Some(())
        });
    }

    fn save(&self, observed: Observation) {
        let now = quiche::clock::now();
        let Some(path) = self.hash() else {
            return;
        };
        let mut set = self.table.set(path);
        let own = set.iter().position(|slot| is_of(slot.as_ref(), path));
        let oldest = (0..WAYS).min_by_key(|at| set[*at].map(|slot| slot.saved));
        let before = own.and_then(|at| set[at]);
        let user = before.and_then(|slot| slot.user);
        let user = user.or(Some(self.connection));
        let valid = before.filter(|slot| self.table.is_valid(slot, now));
        let kept = valid.filter(|slot| !observed.replaces(&slot.capacity));
        set[own.or(oldest).unwrap_or(0)] = Some(Slot {
            path,
            capacity: kept.map_or(observed.capacity, |slot| slot.capacity),
            saved: kept.map_or(now, |slot| slot.saved),
            user,
        });
    }

    fn discard(&self) {
        self.change(|own| own.take_if(|slot| slot.user.is_none_or(|user| user == self.connection)));
    }

    fn on_event(&self, event: ResumeEvent) {
        self.events.count(event.into());
    }
}

#[cfg(test)]
mod tests;
