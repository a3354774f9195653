//! Bounds of the checks of passwords that the whole process makes.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::clients::{ClientPrefix, Clients};

/// Credentials that are being verified or wait for it, in the whole process.
pub(super) const PENDING: u64 = 256;
/// The same for one client.
pub(super) const PENDING_OF_CLIENT: u64 = 4;

/// Bounds of the checks of passwords, the same for all threads: hashes that are computed at a time, and checks that wait.
#[derive(Debug)]
pub struct PasswordChecks {
    slots: Arc<Semaphore>,
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    all: u64,
    clients: Clients,
}

/// Place of a check among those that wait or run; it ends with the value.
#[derive(Debug)]
pub(super) struct Place {
    checks: Arc<PasswordChecks>,
    client: ClientPrefix,
}

impl PasswordChecks {
    /// Returns bounds by which so many hashes are computed at a time.
    pub fn new(hashes: usize) -> PasswordChecks {
        PasswordChecks {
            slots: Arc::new(Semaphore::new(hashes)),
            pending: Mutex::default(),
        }
    }

    /// Returns bounds that leave most of a host's cores to workers: a hash for each four cores at a time, and one at least.
    pub fn for_cores(cores: usize) -> PasswordChecks {
        PasswordChecks::new((cores / 4).max(1))
    }

    /// Returns a place for a check of a client; `None` if the client, or all together, have as many as they may.
    pub(super) fn enter(self: &Arc<Self>, client: ClientPrefix) -> Option<Place> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.all >= PENDING || pending.clients.open(client) >= PENDING_OF_CLIENT {
            return None;
        }
        pending.all += 1;
        pending.clients.enter(client);
        let checks = Arc::clone(self);
        Some(Place { checks, client })
    }

    /// Waits until a hash may be computed, in the order of the calls. `None` is never returned: the semaphore stays open.
    pub(super) async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).acquire_owned().await.ok()
    }

    /// Returns the number of checks that wait or run.
    #[cfg(test)]
    pub(super) fn pending(&self) -> u64 {
        self.pending.lock().unwrap().all
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let pending = self.checks.pending.lock();
        let mut pending = pending.unwrap_or_else(PoisonError::into_inner);
        pending.all -= 1;
        pending.clients.leave(self.client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_computed_for_each_four_cores_and_one_at_least() {
        for (cores, expected) in [(1, 1), (3, 1), (4, 1), (7, 1), (8, 2), (64, 16)] {
            let slots = PasswordChecks::for_cores(cores).slots.available_permits();
            assert_eq!(slots, expected, "{cores} cores");
        }
    }
}
