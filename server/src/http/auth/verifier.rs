//! Verifies passwords within bounds, and remembers the results for a while.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use boring::hash::hmac_sha256;
use boring::rand::rand_bytes;
use quick_cache::unsync::Cache;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;

use super::counters::Counters;
use super::credentials::Credentials;
use super::users::{Hash, Users};
use crate::http::clients::ClientPrefix;

/// Time for which a result holds.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Results of each kind that are remembered.
const RESULTS: usize = 1024;
/// Hashes that are computed at a time.
const AT_ONCE: usize = 2;
/// Credentials that are being verified or wait for it.
const PENDING: usize = 64;
/// The same for one client.
const PENDING_OF_CLIENT: usize = 4;

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
    accepted: RefCell<Cache<Digest, Instant>>,
    refused: RefCell<Cache<Digest, Instant>>,
    pending: RefCell<HashMap<Digest, Pending>>,
    slots: Arc<Semaphore>,
    counters: RefCell<Counters>,
}

type Digest = [u8; 32];

/// A check that is not finished.
#[derive(Debug)]
struct Pending {
    accepted: Rc<OnceCell<bool>>,
    /// Requests that wait for it.
    requests: usize,
    client: ClientPrefix,
}

/// A request that waits for a check. The last one to leave removes it.
struct Waiting<'a> {
    verifier: &'a Verifier,
    digest: Digest,
}

impl Verifier {
    /// Returns a verifier that remembers nothing.
    ///
    /// # Panics
    /// The kernel has no randomness; BoringSSL has ended the process before.
    #[expect(clippy::new_without_default, reason = "a default draws no random key")]
    pub fn new() -> Verifier {
        let mut key = [0; 32];
        rand_bytes(&mut key)
            .expect("RAND_bytes ends the process where the kernel has no randomness");
        Verifier {
            key,
            accepted: RefCell::new(Cache::new(RESULTS)),
            refused: RefCell::new(Cache::new(RESULTS)),
            pending: RefCell::default(),
            slots: Arc::new(Semaphore::new(AT_ONCE)),
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
        let holds = |results: &RefCell<Cache<Digest, Instant>>| {
            results.borrow().get(digest).is_some_and(|end| now < *end)
        };
        if holds(&self.accepted) {
            return Some(true);
        }
        holds(&self.refused).then_some(false)
    }

    fn remember(&self, digest: Digest, accepted: bool) -> bool {
        let results = if accepted {
            &self.accepted
        } else {
            &self.refused
        };
        results
            .borrow_mut()
            .insert(digest, Instant::now() + REMEMBERED);
        accepted
    }

    /// Joins the check of these credentials, or begins one.
    fn join(
        &self,
        digest: Digest,
        client: ClientPrefix,
    ) -> Option<(Rc<OnceCell<bool>>, Waiting<'_>)> {
        let mut pending = self.pending.borrow_mut();
        if !pending.contains_key(&digest) {
            let of_client = pending.values().filter(|check| check.client == client);
            if pending.len() >= PENDING || of_client.count() >= PENDING_OF_CLIENT {
                return None;
            }
        }
        let check = pending.entry(digest).or_insert_with(|| Pending {
            accepted: Rc::default(),
            requests: 0,
            client,
        });
        check.requests += 1;
        let waiting = Waiting {
            verifier: self,
            digest,
        };
        Some((Rc::clone(&check.accepted), waiting))
    }

    /// Computes the hash on a thread for blocking work. It goes on if the request is cancelled, and keeps its slot.
    async fn compute(&self, hash: Hash, password: Vec<u8>) -> bool {
        let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else {
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
