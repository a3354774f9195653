//! Checks of passwords of the whole process: their threads, their bounds, and their results.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use boring::hash::hmac_sha256;
use boring::rand::rand_bytes;
use sluicegate_base::affinity;
use sluicegate_base::clients::ClientPrefix;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::credentials::Credentials;
use super::results::{CheckResult, Digest, Results};
use super::turns::{Turn, Turns};
use super::users::Hash;

/// Results of each kind that are remembered: a megabyte or two, if there are so many.
const RESULTS: usize = 8192;

/// Checks of passwords, the same for all threads: hashes that are computed at a time, on threads that do nothing else; checks
/// that wait; and results.
#[derive(Debug)]
pub struct PasswordChecks {
    /// Key of the digests by which results are remembered.
    key: [u8; 32],
    turns: Mutex<Turns<Slot>>,
    results: Mutex<Results>,
    /// Work of the threads that compute hashes, which end with this sender.
    work: Sender<Work>,
}

/// Work of a thread that computes hashes.
type Work = Box<dyn FnOnce() + Send>;

/// Place of a check among those that wait or run; it ends with the value.
#[derive(Debug)]
pub(super) struct Place {
    checks: Arc<PasswordChecks>,
    client: ClientPrefix,
    /// Number of the place, which no other one has.
    number: u64,
}

/// Permission to compute a hash; it goes to the next check with the value's end.
#[derive(Debug)]
pub(super) struct Slot(Arc<PasswordChecks>);

/// Credentials whose check is about to run.
pub(super) struct Check {
    /// By which the result is remembered.
    pub(super) digest: Digest,
    pub(super) hash: Hash,
    /// Whether the user exists. Otherwise no password is valid.
    pub(super) exists: bool,
    pub(super) password: Vec<u8>,
    pub(super) place: Place,
    pub(super) slot: Slot,
}

impl PasswordChecks {
    /// Creates the shared state; at most `hashes` hashes run at a time, on the cores that this thread may run on. Their threads
    /// start at once: a system that refuses one later would leave no way to check a password.
    ///
    /// # Errors
    /// The system starts no thread.
    ///
    /// # Panics
    /// The kernel has no randomness; BoringSSL has ended the process before.
    pub fn new(hashes: usize) -> io::Result<PasswordChecks> {
        let mut key = [0; 32];
        rand_bytes(&mut key)
            .expect("RAND_bytes ends the process where the kernel has no randomness");
        Ok(PasswordChecks {
            key,
            turns: Mutex::new(Turns::new(hashes)),
            results: Mutex::new(Results::new(RESULTS)),
            work: start_threads(hashes)?,
        })
    }

    /// Returns checks that leave most of a host's cores to workers: a hash for each four cores at a time, and one at least.
    ///
    /// # Errors
    /// As [`PasswordChecks::new`].
    pub fn for_cores(cores: usize) -> io::Result<PasswordChecks> {
        PasswordChecks::new((cores / 4).max(1))
    }

    /// Returns a place for a check of a client; `None` if the client has as many as it may, or if all others have and stand better.
    pub(super) fn enter(self: &Arc<Self>, client: ClientPrefix) -> Option<Place> {
        let number = self.turns().enter(client, Instant::now())?;
        Some(Place { checks: Arc::clone(self), client, number })
    }

    /// Returns the digest by which the result for these credentials is remembered, from which nobody learns the password.
    pub(super) fn digest(
        &self,
        hash: &Hash,
        exists: bool,
        claimed: &Credentials,
    ) -> Option<Digest> {
        let mut text = vec![u8::from(exists)];
        for part in [&claimed.user, hash.text().as_bytes(), &claimed.password] {
            text.extend_from_slice(&part.len().to_le_bytes());
            text.extend_from_slice(part);
        }
        hmac_sha256(&self.key, &text).ok()
    }

    /// Returns the result for these credentials, if any thread has one, and prolongs it.
    pub(super) fn renew(&self, digest: &Digest, now: Instant) -> Option<CheckResult> {
        self.with_results(|results| results.renew(digest, now))
    }

    /// Remembers a result for all threads.
    pub(super) fn insert(&self, digest: Digest, outcome: CheckResult) {
        self.with_results(|results| results.insert(digest, outcome));
    }

    fn with_results<T>(&self, using: impl FnOnce(&mut Results) -> T) -> T {
        using(&mut self.results.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the hash of the check in a place may be computed; `None` if it gave way to another one.
    pub(super) async fn slot(self: &Arc<Self>, number: u64) -> Option<Slot> {
        let turn = self.turns().wait(number);
        match turn {
            Turn::Now => Some(Slot(Arc::clone(self))),
            Turn::Later(turn) => turn.await.ok(),
            Turn::Never => None,
        }
    }

    fn turns(&self) -> MutexGuard<'_, Turns<Slot>> {
        // No code panics while it holds the lock.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether credentials are valid, computed on a thread for this. It goes on if the caller leaves, keeps its place and
    /// its slot until it ends, and its result is remembered for all threads.
    pub(super) async fn compute(self: &Arc<Self>, check: Check) -> bool {
        let checks = Arc::clone(self);
        let began = Instant::now();
        let accepted = self.spawn(move || {
            let accepted = check.hash.verifies(&check.password) && check.exists;
            // Before the slot is free: the next check may be one of the same credentials.
            checks.insert(check.digest, CheckResult::new(accepted, began));
            checks.turns().on_result(check.place.client, accepted, began);
            drop((check.slot, check.place));
            accepted
        });
        accepted.await.unwrap_or(false)
    }

    /// Has a thread for hashes do this, once one is free. Returns the receiver of the result.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, result) = oneshot::channel();
        let work = move || {
            // Whoever waited for the result may have left.
            let _ = sender.send(work());
        };
        // The threads receive as long as the value lives.
        let _ = self.work.send(Box::new(work));
        result
    }

    /// Returns the number of checks that wait or run.
    #[cfg(test)]
    pub(super) fn pending(&self) -> usize {
        self.turns().len()
    }

    /// Takes a slot, so that one hash less is computed at a time until it is dropped.
    #[cfg(test)]
    pub(super) fn take_slot(self: &Arc<Self>) -> Slot {
        self.turns().take_free();
        Slot(Arc::clone(self))
    }
}

/// Starts `count` threads, and returns the sender of their work. They do not wait for disks, as threads that read files may, nor
/// do files wait for them. Nobody waits for their end: that of the process waits for no hash.
fn start_threads(count: usize) -> io::Result<Sender<Work>> {
    let (sender, work) = mpsc::channel();
    let work = Arc::new(Mutex::new(work));
    for _ in 0..count {
        let work = Arc::clone(&work);
        let thread = thread::Builder::new().name("passwords".into());
        thread.spawn(move || compute_hashes(&work))?;
    }
    Ok(sender)
}

/// Does the work of a thread for hashes until the sender is gone.
fn compute_hashes(work: &Mutex<Receiver<Work>>) {
    // A thread that is no less important than others is a slower neighbour, no more.
    let _ = affinity::give_way();
    loop {
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(next) = next else {
            return;
        };
        next();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.checks.turns().leave(self.number);
    }
}

impl Place {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let next = self.0.turns().next();
        if let Some(next) = next {
            // One whose request is cancelled drops it, and so passes it on.
            let _ = next.send(Slot(Arc::clone(&self.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_computed_for_each_four_cores_and_one_at_least() {
        for (cores, expected) in [(1, 1), (3, 1), (4, 1), (7, 1), (8, 2), (64, 16)] {
            let checks = PasswordChecks::for_cores(cores).unwrap();
            assert_eq!(checks.turns().free(), expected, "{cores} cores");
        }
    }

    #[test]
    fn threads_start_at_once_run_on_all_cores_and_give_way_to_others() {
        let all = affinity::allowed_cores();
        let found = thread::spawn(|| {
            let checks = PasswordChecks::new(1).unwrap();
            // A thread that starts from now on runs on this core alone.
            let last = *affinity::allowed_cores().last().unwrap();
            affinity::pin(last).unwrap();
            let found = checks.spawn(|| (affinity::allowed_cores(), affinity::niceness()));
            (found.blocking_recv().unwrap(), affinity::niceness())
        });
        let ((cores, nice), own) = found.join().unwrap();
        assert_eq!(cores, all);
        assert!(nice > own || nice == 19, "{nice} beside {own}");
    }
}
