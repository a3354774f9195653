//! Upstream pools on an origin thread: which upstream a request goes to.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use sluicegate_config::UpstreamAddress;
use tokio::time::Instant;

use super::counters::{Counters, Tally};
use super::definition::{PoolDefinition, SitePools, UpstreamSettings};
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
            let upstreams = Pool::upstreams(definition, |key| {
                let known = in_effect.upstreams.entry(key.clone());
                let upstream = known.or_insert_with(|| {
                    let kept = before.upstreams.remove(key);
                    kept.unwrap_or_else(|| Upstream::new(&key.0, &key.1, &self.tally))
                });
                Rc::clone(upstream)
            });
            let identity = Arc::as_ptr(definition);
            let kept = before.pools.remove(&identity);
            let pool = kept.unwrap_or_else(|| Pool::new(definition, upstreams));
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
        let upstreams = Pool::upstreams(definition, |key| {
            let known = in_effect.upstreams.get(key).cloned();
            known.unwrap_or_else(|| {
                let upstream = Upstream::new(&key.0, &key.1, &self.tally);
                upstream.retire();
                upstream
            })
        });
        Pool::new(definition, upstreams)
    }
}

/// Upstreams that requests go to in turn.
#[derive(Debug)]
pub(super) struct Pool {
    definition: Arc<PoolDefinition>,
    upstreams: Vec<Rc<Upstream>>,
    /// Index of the upstream that is next.
    next: Cell<usize>,
    retry_budget: RetryBudget,
}

impl Pool {
    fn new(definition: &Arc<PoolDefinition>, upstreams: Vec<Rc<Upstream>>) -> Rc<Pool> {
        Rc::new(Pool {
            definition: Arc::clone(definition),
            upstreams,
            next: Cell::new(0),
            retry_budget: RetryBudget::new(definition.retry_percent, Instant::now()),
        })
    }

    /// Finds the upstreams of a definition.
    fn upstreams(
        definition: &PoolDefinition,
        mut find: impl FnMut(&UpstreamKey) -> Rc<Upstream>,
    ) -> Vec<Rc<Upstream>> {
        let keys = definition.upstreams.iter();
        let keys = keys.map(|address| (address.clone(), definition.settings.clone()));
        keys.map(|key| find(&key)).collect()
    }

    /// Assigns a request to the next upstream in rotation that it has not tried. If none is left, it goes to the next one
    /// out of rotation that it has not tried, then to any.
    pub(super) fn assign(&self, tried: &[Rc<Upstream>], now: Instant) -> Option<ActiveRequest> {
        let count = self.upstreams.len();
        let order = || (0..count).map(|step| (self.next.get() + step) % count);
        let untried = |index: &usize| {
            let upstream = &self.upstreams[*index];
            !tried.iter().any(|known| Rc::ptr_eq(known, upstream))
        };
        let in_rotation = |index: &usize| self.upstreams[*index].is_in_rotation(now);
        let index = order()
            .filter(untried)
            .find(in_rotation)
            .or_else(|| order().find(untried))
            .or_else(|| order().next())?;
        self.next.set((index + 1) % count);
        Some(self.assign_to(&self.upstreams[index], now))
    }

    /// Returns the budget of the pool's retries.
    pub(super) fn retry_budget(&self) -> &RetryBudget {
        &self.retry_budget
    }

    /// Returns whether an upstream is left that a request has not tried.
    pub(super) fn has_untried(&self, tried: &[Rc<Upstream>]) -> bool {
        let is_tried =
            |upstream: &Rc<Upstream>| tried.iter().any(|known| Rc::ptr_eq(known, upstream));
        !self.upstreams.iter().all(is_tried)
    }

    /// Assigns a request to one of the pool's upstreams.
    pub(super) fn assign_to(&self, upstream: &Rc<Upstream>, now: Instant) -> ActiveRequest {
        ActiveRequest::new(&self.definition, upstream, now)
    }
}
