//! Verifies passwords within bounds, and remembers the results for a while.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use boring::hash::hmac_sha256;
use boring::rand::rand_bytes;
use quick_cache::unsync::Cache;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::checks::{PasswordChecks, Place};
use super::counters::Counters;
use super::credentials::Credentials;
use super::users::{Hash, Users};
use crate::http::clients::ClientPrefix;

/// Time for which a result holds; that of valid credentials begins again with each request.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Time after which valid credentials are checked again, however often they are used.
const LONGEST: Duration = Duration::from_secs(3600);
/// Results of each kind that are remembered.
const RESULTS: usize = 1024;

/// Result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The user exists and has this password.
    Accepted,
    /// There is no such user, or the user has another password.
    Refused,
    /// Too many passwords wait for a check.
    Busy,
}

/// Verifies the passwords of a thread's requests.
///
/// A result is remembered by a keyed hash of the credentials and of what stands in the file of users, so it ends with a
/// change of that file, and no password is kept. Refused credentials are remembered apart from accepted ones: strangers
/// that guess displace nobody. Requests with the same credentials share one check.
#[derive(Debug)]
pub struct Verifier {
    key: [u8; 32],
    accepted: RefCell<Cache<Digest, Accepted>>,
    refused: RefCell<Cache<Digest, Instant>>,
    pending: RefCell<HashMap<Digest, Pending>>,
    checks: Arc<PasswordChecks>,
    counters: RefCell<Counters>,
}

type Digest = [u8; 32];

/// Times of valid credentials.
#[derive(Clone, Copy, Debug)]
struct Accepted {
    /// End of the result, unless it is used before.
    end: Instant,
    /// End of the result, however often it is used.
    last: Instant,
}

/// A check that is not finished.
#[derive(Debug)]
struct Pending {
    accepted: Rc<OnceCell<bool>>,
    /// Requests that wait for it.
    requests: usize,
    _place: Place,
}

/// A request that waits for a check. The last one to leave removes it.
struct Waiting<'a> {
    verifier: &'a Verifier,
    digest: Digest,
}

impl Verifier {
    /// Returns a verifier that remembers nothing and keeps to the bounds of the process.
    ///
    /// # Panics
    /// The kernel has no randomness; BoringSSL has ended the process before.
    pub fn new(checks: Arc<PasswordChecks>) -> Verifier {
        let mut key = [0; 32];
        rand_bytes(&mut key)
            .expect("RAND_bytes ends the process where the kernel has no randomness");
        Verifier {
            key,
            accepted: RefCell::new(Cache::new(RESULTS)),
            refused: RefCell::new(Cache::new(RESULTS)),
            pending: RefCell::default(),
            checks,
            counters: RefCell::default(),
        }
    }

    /// Returns the totals since the start.
    pub fn counters(&self) -> Counters {
        self.counters.borrow().clone()
    }

    /// Verifies credentials that a client claims.
    pub async fn verify(&self, users: &Users, claimed: Credentials, client: IpAddr) -> Verdict {
        let verdict = match self.accepts(users, claimed, client.into()).await {
            Some(true) => Verdict::Accepted,
            Some(false) => Verdict::Refused,
            None => Verdict::Busy,
        };
        let mut counters = self.counters.borrow_mut();
        *match verdict {
            Verdict::Accepted => &mut counters.accepted,
            Verdict::Refused => &mut counters.refused,
            Verdict::Busy => &mut counters.busy,
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
        let digest = self.digest(hash, exists, &claimed)?;
        if let Some(accepted) = self.remembered(&digest) {
            return Some(accepted);
        }
        let (check, _waiting) = self.join(digest, client)?;
        let compute = || async {
            let matches = self.compute(hash.clone(), claimed.password).await;
            self.remember(digest, exists && matches)
        };
        Some(*check.get_or_init(compute).await)
    }

    fn digest(&self, hash: &Hash, exists: bool, claimed: &Credentials) -> Option<Digest> {
        let mut text = vec![u8::from(exists)];
        for part in [&claimed.user, hash.text().as_bytes(), &claimed.password] {
            text.extend_from_slice(&part.len().to_le_bytes());
            text.extend_from_slice(part);
        }
        hmac_sha256(&self.key, &text).ok()
    }

    fn remembered(&self, digest: &Digest) -> Option<bool> {
        let now = Instant::now();
        if let Some(mut accepted) = self.accepted.borrow_mut().get_mut(digest)
            && now < accepted.end
        {
            accepted.end = (now + REMEMBERED).min(accepted.last);
            return Some(true);
        }
        let refused = self.refused.borrow();
        let holds = refused.get(digest).is_some_and(|end| now < *end);
        holds.then_some(false)
    }

    fn remember(&self, digest: Digest, accepted: bool) -> bool {
        let now = Instant::now();
        let end = now + REMEMBERED;
        if accepted {
            let last = now + LONGEST;
            let times = Accepted { end, last };
            self.accepted.borrow_mut().insert(digest, times);
        } else {
            self.refused.borrow_mut().insert(digest, end);
        }
        accepted
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
                _place: self.checks.enter(client)?,
            }),
        };
        check.requests += 1;
        let waiting = Waiting {
            verifier: self,
            digest,
        };
        Some((Rc::clone(&check.accepted), waiting))
    }

    /// Computes the hash on a thread for blocking work. It goes on if the request is cancelled, and keeps its slot.
    async fn compute(&self, hash: Hash, password: Vec<u8>) -> bool {
        let Some(slot) = self.checks.slot().await else {
            return false;
        };
        self.counters.borrow_mut().hashes += 1;
        let verified = tokio::task::spawn_blocking(move || {
            let verified = hash.verifies(&password);
            drop(slot);
            verified
        });
        verified.await.unwrap_or(false)
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
