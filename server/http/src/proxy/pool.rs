//! Upstream pools on an origin thread: which upstream a request goes to.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::clients::ClientPrefix;
use sluicegate_base::hash::hash;
use sluicegate_base::observe::sum::Sum;
use tokio::time::Instant;

use super::balance::{Balancer, Candidate, Policy};
use super::counters::{ProxyCounters, Tally};
use super::definition::{MemberDefinition, PoolDefinition, SitePools, UpstreamKey};
use super::failure::Failure;
use super::health_check;
use super::retry_budget::RetryBudget;
use super::slots::{Slot, Slots};
use super::upstream::{ActiveRequest, Upstream};

/// Shortest time between two warnings about the queue of a pool.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// The pools of an origin thread, with the connections and the health of their upstreams.
#[derive(Debug, Default)]
pub struct Pools {
    tally: Rc<Tally>,
    in_effect: RefCell<InEffect>,
    /// Whether this thread makes the health checks of the process.
    makes_checks: bool,
}

/// The pools of the site in effect, and all their upstreams.
#[derive(Debug, Default)]
struct InEffect {
    /// Pools by identity. Each keeps its definition alive, so no other definition gets the same address.
    pools: BTreeMap<*const PoolDefinition, Rc<Pool>>,
    upstreams: BTreeMap<UpstreamKey, Rc<Upstream>>,
}

impl Pools {
    /// Starts without a pool. One thread of the process makes the health checks.
    pub fn new(makes_checks: bool) -> Pools {
        Pools { makes_checks, ..Pools::default() }
    }

    /// Replaces the pools by those of `site`. A pool with an unchanged definition keeps its state, and so does an
    /// upstream that some pool still has with the same settings. Every other upstream is retired. Runs on a `LocalSet`, where
    /// health checks become tasks.
    pub fn adopt(&self, site: &SitePools) {
        let mut in_effect = self.in_effect.borrow_mut();
        let mut before = std::mem::take(&mut *in_effect);
        for definition in site.iter() {
            let mut find = |member: &MemberDefinition| {
                let key = definition.key(member);
                let kept = before.upstreams.remove(&key);
                let known = in_effect.upstreams.entry(key);
                let upstream =
                    known.or_insert_with(|| kept.unwrap_or_else(|| self.begin(definition, member)));
                Rc::clone(upstream)
            };
            let identity = Arc::as_ptr(definition);
            let pool = match before.pools.remove(&identity) {
                Some(kept) => {
                    // The upstreams are in use, too.
                    for member in &definition.members {
                        find(member);
                    }
                    kept
                }
                None => Pool::new(definition, &self.tally, find),
            };
            in_effect.pools.insert(identity, pool);
        }
        for retired in before.upstreams.values() {
            retired.retire();
        }
    }

    /// Returns an upstream that no pool had before, and begins its health checks.
    fn begin(&self, pool: &PoolDefinition, member: &MemberDefinition) -> Rc<Upstream> {
        let upstream = Upstream::new(pool, member, &self.tally);
        if let Some(check) = pool.settings.health_check.as_ref().filter(|_| self.makes_checks) {
            let (upstream_of_task, pool) = (Rc::clone(&upstream), pool.name.clone());
            let checks = health_check::run(upstream_of_task, check.clone(), pool);
            upstream.take_checks(tokio::task::spawn_local(checks).abort_handle());
        }
        upstream
    }

    /// Returns totals, and the states of the upstreams.
    pub fn counters(&self) -> ProxyCounters {
        let mut counters = self.tally.totals();
        let now = Instant::now();
        for upstream in self.in_effect.borrow().upstreams.values() {
            let label = upstream.label().to_string();
            let states = counters.upstreams.entry(label).or_default();
            states.add_up(&upstream.state(now));
        }
        counters
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns a route's pool.
    ///
    /// A route that was matched before a reload may refer to a pool that is not in effect any more. It gets a pool of its
    /// own, whose upstreams are retired unless another pool has them: a late request does not bring back what the reload
    /// removed.
    pub(super) fn pool(&self, definition: &Arc<PoolDefinition>) -> Rc<Pool> {
        let in_effect = self.in_effect.borrow();
        if let Some(pool) = in_effect.pools.get(&Arc::as_ptr(definition)) {
            return Rc::clone(pool);
        }
        Pool::new(definition, &self.tally, |member| {
            let known = in_effect.upstreams.get(&definition.key(member)).cloned();
            known.unwrap_or_else(|| {
                let upstream = Upstream::new(definition, member, &self.tally);
                upstream.retire();
                upstream
            })
        })
    }
}

/// Upstreams that share requests.
#[derive(Debug)]
pub(super) struct Pool {
    definition: Arc<PoolDefinition>,
    members: Vec<Member>,
    balancer: Balancer,
    /// Upstreams among which one is being chosen; kept for its memory.
    candidates: RefCell<Vec<Candidate>>,
    retry_budget: RetryBudget,
    tally: Rc<Tally>,
    /// Time of the last warning about the queue.
    warned_at: Cell<Option<Instant>>,
}

/// An upstream of a pool.
#[derive(Debug)]
struct Member {
    upstream: Rc<Upstream>,
    weight: u64,
    backup: bool,
    /// Hash of the address.
    hash: u64,
}

impl Pool {
    fn new(
        definition: &Arc<PoolDefinition>,
        tally: &Rc<Tally>,
        mut find: impl FnMut(&MemberDefinition) -> Rc<Upstream>,
    ) -> Rc<Pool> {
        let member = |member: &MemberDefinition| {
            let upstream = find(member);
            Member {
                hash: hash(upstream.label().as_bytes()),
                upstream,
                weight: member.weight,
                backup: member.backup,
            }
        };
        let members: Vec<_> = definition.members.iter().map(member).collect();
        Rc::new(Pool {
            definition: Arc::clone(definition),
            // Workers draw their random upstreams independently of each other.
            balancer: Balancer::new(
                &definition.policy,
                members.len(),
                RandomState::new().hash_one(members.len()),
            ),
            members,
            candidates: RefCell::default(),
            retry_budget: RetryBudget::new(definition.retry_percent, Instant::now()),
            tally: Rc::clone(tally),
            warned_at: Cell::new(None),
        })
    }

    /// Returns the policy by which upstreams are chosen.
    pub(super) fn policy(&self) -> &Policy {
        &self.definition.policy
    }

    /// Assigns a client's request, with the hash of the part that the policy names, to an upstream in rotation that it has not tried.
    /// Backups come after all others. If none is left, it goes to one out of rotation that it has not tried, then to any: an
    /// attempt costs little, and health may be out of date. If all that it may go to are busy, it waits in the queue.
    ///
    /// # Errors
    /// The queue is full, or the request has waited for too long.
    pub(super) async fn assign(
        &self,
        client: ClientPrefix,
        tried: &[Rc<Upstream>],
        key: Option<u64>,
    ) -> Result<ActiveRequest, Failure> {
        let mut now = Instant::now();
        let (place, slot) = match self.take_slot(client, tried, key, now) {
            Some(taken) => taken,
            None => {
                let taken = Box::pin(self.queue(client, tried)).await?;
                now = Instant::now();
                taken
            }
        };
        let upstream = &self.members[place].upstream;
        Ok(ActiveRequest::new(&self.definition, upstream, slot, now))
    }

    /// Returns a slot of the upstream that gets the request, with the upstream's place; `None` if all that may get it are
    /// busy.
    fn take_slot(
        &self,
        client: ClientPrefix,
        tried: &[Rc<Upstream>],
        key: Option<u64>,
        now: Instant,
    ) -> Option<(usize, Slot)> {
        let ranks = self.members.iter().map(|member| Rank::of(member, tried, now));
        let best = ranks.min()?;
        loop {
            let fit = |member: &Member| {
                Rank::of(member, tried, now) == best && member.upstream.slots().has_room(client)
            };
            let place = self.choose(fit, key, now)?;
            // Another thread may have taken it meanwhile.
            if let Some(slot) = self.members[place].upstream.slots().try_take(client) {
                return Some((place, slot));
            }
        }
    }

    /// Waits until one of the upstreams that may get the request has room.
    async fn queue(
        &self,
        client: ClientPrefix,
        tried: &[Rc<Upstream>],
    ) -> Result<(usize, Slot), Failure> {
        let allowed = || self.best(tried, Instant::now());
        let _counted = Waiting::new(&self.tally);
        let waited = self.definition.queue.wait(client, allowed).await;
        waited.inspect_err(|failure| {
            self.tally.count(|c| c.failures[*failure] += 1);
            self.warn(*failure);
        })
    }

    /// Returns the places of the upstreams that may get the request, with their slots.
    fn best(&self, tried: &[Rc<Upstream>], now: Instant) -> Vec<(usize, &Slots)> {
        let members = self.members.iter().enumerate();
        let ranked = members.map(|(place, member)| (Rank::of(member, tried, now), (place, member)));
        let mut ranked: Vec<_> = ranked.collect();
        let best = ranked.iter().map(|(rank, _)| *rank).min();
        ranked.retain(|(rank, _)| Some(*rank) == best);
        let places = ranked.into_iter();
        places.map(|(_, (place, member))| (place, member.upstream.slots())).collect()
    }

    /// Logs that requests are refused because the upstreams are busy.
    fn warn(&self, failure: Failure) {
        let now = Instant::now();
        let recent = |at: Instant| now.duration_since(at) < WARNING_INTERVAL;
        if !self.warned_at.get().is_some_and(recent) {
            self.warned_at.set(Some(now));
            let (pool, cause) = (&self.definition.name, failure.text());
            tracing::warn!(%pool, "requests get 503: {cause}");
        }
    }

    /// Returns the place of an upstream that is `fit`.
    fn choose(
        &self,
        fit: impl Fn(&Member) -> bool,
        key: Option<u64>,
        now: Instant,
    ) -> Option<usize> {
        let slow_start = self.definition.slow_start;
        let mut candidates = self.candidates.borrow_mut();
        candidates.clear();
        let members = self.members.iter().enumerate();
        let members = members.filter(|(_, member)| fit(member));
        candidates.extend(members.map(|(place, member)| Candidate {
            place,
            weight: member.weight * member.upstream.share(slow_start, now),
            active: member.upstream.active(),
            hash: member.hash,
        }));
        self.balancer.choose(&candidates, key)
    }

    /// Returns the budget of the pool's retries.
    pub(super) fn retry_budget(&self) -> &RetryBudget {
        &self.retry_budget
    }

    /// Returns whether an upstream is left that a request has not tried.
    pub(super) fn has_untried(&self, tried: &[Rc<Upstream>]) -> bool {
        !self.members.iter().all(|member| is_among(tried, &member.upstream))
    }
}

/// Order in which upstreams are taken into account for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    InRotation,
    Backup,
    OutOfRotation,
    Tried,
}

impl Rank {
    fn of(member: &Member, tried: &[Rc<Upstream>], now: Instant) -> Rank {
        if is_among(tried, &member.upstream) {
            Rank::Tried
        } else if !member.upstream.is_in_rotation(now) {
            Rank::OutOfRotation
        } else if member.backup {
            Rank::Backup
        } else {
            Rank::InRotation
        }
    }
}

/// Counts a request while it waits in a queue.
struct Waiting<'a>(&'a Tally);

impl<'a> Waiting<'a> {
    fn new(tally: &'a Tally) -> Waiting<'a> {
        tally.count(|c| {
            c.queued += 1;
            c.waiting += 1;
        });
        Waiting(tally)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.count(|c| c.waiting -= 1);
    }
}

fn is_among(tried: &[Rc<Upstream>], upstream: &Rc<Upstream>) -> bool {
    tried.iter().any(|known| Rc::ptr_eq(known, upstream))
}
