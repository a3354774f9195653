//! Upstream pools on an origin thread: which upstream a request goes to.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;
use std::sync::Arc;

use sluicegate_config::UpstreamAddress;
use tokio::time::Instant;

use super::balance::{Balancer, Candidate, Policy, hash};
use super::counters::{Counters, Tally};
use super::definition::{MemberDefinition, PoolDefinition, SitePools, UpstreamSettings};
use super::retry_budget::RetryBudget;
use super::upstream::{ActiveRequest, Upstream};
use crate::observe::sum::Sum;

/// Address and settings of an upstream: pools in which both are the same share the upstream.
type UpstreamKey = (UpstreamAddress, UpstreamSettings);

/// The pools of an origin thread, with the connections and the health of their upstreams.
#[derive(Debug, Default)]
pub struct Pools {
    tally: Rc<Tally>,
    in_effect: RefCell<InEffect>,
}

/// The pools of the site in effect, and all their upstreams.
#[derive(Debug, Default)]
struct InEffect {
    /// Pools by identity. Each keeps its definition alive, so no other definition gets the same address.
    pools: BTreeMap<*const PoolDefinition, Rc<Pool>>,
    upstreams: BTreeMap<UpstreamKey, Rc<Upstream>>,
}

impl Pools {
    /// Replaces the pools by those of `site`. A pool with an unchanged definition keeps its state, and so does an
    /// upstream that some pool still has with the same settings. Every other upstream is retired.
    pub fn adopt(&self, site: &SitePools) {
        let mut in_effect = self.in_effect.borrow_mut();
        let mut before = std::mem::take(&mut *in_effect);
        for definition in site.iter() {
            let mut find = |key: &UpstreamKey| {
                let known = in_effect.upstreams.entry(key.clone());
                let upstream = known.or_insert_with(|| {
                    let kept = before.upstreams.remove(key);
                    kept.unwrap_or_else(|| Upstream::new(&key.0, &key.1, &self.tally))
                });
                Rc::clone(upstream)
            };
            let identity = Arc::as_ptr(definition);
            let pool = match before.pools.remove(&identity) {
                Some(kept) => {
                    // The upstreams are in use, too.
                    for member in &definition.members {
                        find(&key(definition, member));
                    }
                    kept
                }
                None => Pool::new(definition, find),
            };
            in_effect.pools.insert(identity, pool);
        }
        for retired in before.upstreams.values() {
            retired.retire();
        }
    }

    /// Returns totals, and the states of the upstreams.
    pub fn counters(&self) -> Counters {
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
        Pool::new(definition, |key| {
            let known = in_effect.upstreams.get(key).cloned();
            known.unwrap_or_else(|| {
                let upstream = Upstream::new(&key.0, &key.1, &self.tally);
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
        mut find: impl FnMut(&UpstreamKey) -> Rc<Upstream>,
    ) -> Rc<Pool> {
        let member = |member: &MemberDefinition| {
            let upstream = find(&key(definition, member));
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
        })
    }

    /// Returns the policy by which upstreams are chosen.
    pub(super) fn policy(&self) -> &Policy {
        &self.definition.policy
    }

    /// Assigns a request, with the hash of the part that the policy names, to an upstream in rotation that it has not tried.
    /// Backups come after all others. If none is left, it goes to one out of rotation that it has not tried, then to any: an
    /// attempt costs little, and health may be out of date.
    pub(super) fn assign(
        &self,
        tried: &[Rc<Upstream>],
        key: Option<u64>,
        now: Instant,
    ) -> Option<ActiveRequest> {
        let untried = |member: &Member| !is_among(tried, &member.upstream);
        let fit = |member: &Member| untried(member) && member.upstream.is_in_rotation(now);
        let place = self
            .choose(|member| fit(member) && !member.backup, key, now)
            .or_else(|| self.choose(fit, key, now))
            .or_else(|| self.choose(untried, key, now))
            .or_else(|| self.choose(|_| true, key, now))?;
        Some(self.assign_to(&self.members[place].upstream, now))
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
        !{ self.members.iter() }.all(|member| is_among(tried, &member.upstream))
    }

    /// Assigns a request to one of the pool's upstreams.
    pub(super) fn assign_to(&self, upstream: &Rc<Upstream>, now: Instant) -> ActiveRequest {
        ActiveRequest::new(&self.definition, upstream, now)
    }
}

fn key(definition: &PoolDefinition, member: &MemberDefinition) -> UpstreamKey {
    (member.address.clone(), definition.settings.clone())
}

fn is_among(tried: &[Rc<Upstream>], upstream: &Rc<Upstream>) -> bool {
    tried.iter().any(|known| Rc::ptr_eq(known, upstream))
}
