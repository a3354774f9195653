//! Verifies passwords within bounds, and remembers the results for a while.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::clients::ClientPrefix;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::checks::{Check, PasswordChecks, Place};
use super::counters::AuthCounters;
use super::credentials::Credentials;
use super::results::{Digest, Results};
use super::users::{Hash, Users};

/// Time for which a thread uses its copy of a result. A use in this time prolongs nothing.
const COPIED: Duration = Duration::from_secs(10);
/// Results of each kind of which a thread has copies.
const COPIES: usize = 1024;

/// Result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordVerdict {
    /// The user exists and has this password.
    Accepted,
    /// There is no such user, or the user has another password.
    Refused,
    /// Too many passwords wait for a check.
    Busy,
}

/// Verifies the passwords of a thread's requests.
///
/// A result is remembered for all threads, by a keyed hash of the credentials and of what stands in the file of users, so it
/// ends with a change of that file, and no password is kept. A thread has copies of results, so that requests with the same
/// credentials do not make threads wait for each other. Requests of a thread with the same credentials share one check.
#[derive(Debug)]
pub struct Verifier {
    copies: RefCell<Results>,
    pending: RefCell<HashMap<Digest, Pending>>,
    checks: Arc<PasswordChecks>,
    counters: RefCell<AuthCounters>,
}

/// A check that is not finished.
#[derive(Debug)]
struct Pending {
    accepted: Rc<OnceCell<bool>>,
    /// Requests that wait for it.
    requests: usize,
    /// Place among the checks of its client; the computation of the hash takes it.
    place: Option<Place>,
}

/// A request that waits for a check. The last one to leave removes it.
struct Waiting<'a> {
    verifier: &'a Verifier,
    digest: Digest,
}

impl Verifier {
    /// Returns a verifier that keeps to the bounds of the process.
    pub fn new(checks: Arc<PasswordChecks>) -> Verifier {
        Verifier {
            copies: RefCell::new(Results::new(COPIES)),
            pending: RefCell::default(),
            checks,
            counters: RefCell::default(),
        }
    }

    /// Returns the totals since the start.
    pub fn counters(&self) -> AuthCounters {
        self.counters.borrow().clone()
    }

    /// Verifies credentials that a client claims.
    pub async fn verify(
        &self,
        users: &Users,
        claimed: Credentials,
        client: ValidatedAddress,
    ) -> PasswordVerdict {
        let verdict = match self.accepts(users, claimed, client.into()).await {
            Some(true) => PasswordVerdict::Accepted,
            Some(false) => PasswordVerdict::Refused,
            None => PasswordVerdict::Busy,
        };
        let mut counters = self.counters.borrow_mut();
        *match verdict {
            PasswordVerdict::Accepted => &mut counters.accepted,
            PasswordVerdict::Refused => &mut counters.refused,
            PasswordVerdict::Busy => &mut counters.busy,
        } += 1;
        verdict
    }

    /// Returns whether the credentials are valid; `None` if there is no room for a check.
    async fn accepts(
        &self,
        users: &Users,
        claimed: Credentials,
        client: ClientPrefix,
    ) -> Option<bool> {
        let (hash, exists) = users.hash(&claimed.user);
        let digest = self.checks.digest(hash, exists, &claimed)?;
        if let Some(accepted) = self.remembered(&digest) {
            return Some(accepted);
        }
        let (check, _waiting) = self.join(digest, client)?;
        let compute = async || {
            let accepted = self.check(digest, hash, exists, claimed.password, client);
            accepted.await.ok_or(())
        };
        check.get_or_try_init(compute).await.ok().copied()
    }

    /// Returns the result for these credentials that this thread or another one has.
    fn remembered(&self, digest: &Digest) -> Option<bool> {
        let now = Instant::now();
        let mut copies = self.copies.borrow_mut();
        let copy = copies.renew(digest, now);
        let outcome = copy.or_else(|| {
            let outcome = self.checks.renew(digest, now)?;
            copies.insert(*digest, outcome.within(COPIED, now));
            Some(outcome)
        });
        outcome.map(|outcome| outcome.accepted)
    }

    /// Joins the check of these credentials, or begins one.
    fn join(
        &self,
        digest: Digest,
        client: ClientPrefix,
    ) -> Option<(Rc<OnceCell<bool>>, Waiting<'_>)> {
        let mut pending = self.pending.borrow_mut();
        let check = match pending.entry(digest) {
            Entry::Occupied(check) => check.into_mut(),
            Entry::Vacant(entry) => entry.insert(Pending {
                accepted: Rc::default(),
                requests: 0,
                place: Some(self.checks.enter(client)?),
            }),
        };
        check.requests += 1;
        let waiting = Waiting { verifier: self, digest };
        Some((Rc::clone(&check.accepted), waiting))
    }

    /// Checks credentials once a hash may be computed, unless another thread has checked them meanwhile; `None` if there is no room.
    async fn check(
        &self,
        digest: Digest,
        hash: &Hash,
        exists: bool,
        password: Vec<u8>,
        client: ClientPrefix,
    ) -> Option<bool> {
        let number = self.number(&digest, client)?;
        let slot = self.checks.slot(number).await?;
        if let Some(accepted) = self.remembered(&digest) {
            return Some(accepted);
        }
        let place = self.place(&digest)?;
        self.counters.borrow_mut().hashes += 1;
        let check = Check { digest, hash: hash.clone(), exists, password, place, slot };
        Some(self.checks.compute(check).await)
    }

    /// Returns the number of the place in which a check waits.
    fn number(&self, digest: &Digest, client: ClientPrefix) -> Option<u64> {
        let mut pending = self.pending.borrow_mut();
        let check = pending.get_mut(digest)?;
        if check.place.is_none() {
            // A hash whose request is cancelled still has it.
            check.place = self.checks.enter(client);
        }
        check.place.as_ref().map(Place::number)
    }

    /// Takes the place of a check that begins.
    fn place(&self, digest: &Digest) -> Option<Place> {
        let mut pending = self.pending.borrow_mut();
        pending.get_mut(digest)?.place.take()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut pending = self.verifier.pending.borrow_mut();
        if let Some(check) = pending.get_mut(&self.digest) {
            check.requests -= 1;
            if check.requests == 0 {
                pending.remove(&self.digest);
            }
        }
    }
}

#[cfg(test)]
mod tests;
