//! Chooses one of the upstreams that may get a request.

use std::cell::{Cell, RefCell};

use sluicegate_base::hash::mixed;
use sluicegate_config::{Balance, HashBy, PoolSettings};

/// Increment of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Policy by which the upstreams of a pool get requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Policy {
    /// Smooth weighted round robin.
    RoundRobin,
    /// The upstream with the fewest active requests in relation to its weight.
    LeastRequests,
    /// The better one of two upstreams drawn by weight.
    RandomTwo,
    /// Weighted rendezvous hashing.
    Hash {
        /// Part of the request that is hashed.
        by: HashBy,
        /// Bound on an upstream's active requests, percent of its fair share; 0 for none.
        load: u64,
    },
}

impl Policy {
    pub(super) fn new(settings: &PoolSettings) -> Policy {
        match settings.balance {
            Balance::RoundRobin => Policy::RoundRobin,
            Balance::LeastRequests => Policy::LeastRequests,
            Balance::RandomTwo => Policy::RandomTwo,
            Balance::Hash => {
                Policy::Hash { by: settings.hash_by.clone(), load: settings.hash_load }
            }
        }
    }
}

/// An upstream that may get a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Place of the upstream in its pool.
    pub(super) place: usize,
    /// Weight at this time, above 0.
    pub(super) weight: u64,
    /// Requests that it serves.
    pub(super) active: u64,
    /// Hash of its address.
    pub(super) hash: u64,
}

impl Candidate {
    /// Returns whether one more request would load this upstream less than `other`, in relation to the weights.
    fn is_freer(&self, other: &Candidate) -> bool {
        self.load_times(other.weight) < other.load_times(self.weight)
    }

    fn load_times(&self, weight: u64) -> u128 {
        u128::from(self.active + 1) * u128::from(weight)
    }

    /// Returns the rank of the upstream for a key; the highest one gets the key. With these ranks each upstream gets keys
    /// in proportion to its weight, and if one comes or goes, no key moves between two others (weighted rendezvous hashing).
    #[expect(clippy::cast_precision_loss, reason = "weights are small")]
    fn rank(&self, key: u64) -> f64 {
        -(self.weight as f64) / fraction(mixed(key ^ self.hash)).ln()
    }
}

/// Returns a number between 0 and 1, and neither of them, from the upper bits of a hash.
#[expect(clippy::cast_precision_loss, reason = "52 bits and a half fit exactly")]
fn fraction(hash: u64) -> f64 {
    ((hash >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

/// State of a pool's policy on one origin thread.
#[derive(Debug)]
pub(super) struct Balancer {
    policy: Policy,
    /// What each upstream has earned beyond the requests that it got, in units of weight.
    earned: RefCell<Vec<i64>>,
    /// State of SplitMix64, which draws the random upstreams.
    random: Cell<u64>,
}

impl Balancer {
    /// Returns the state for a pool of `count` upstreams. The random ones follow from `seed`.
    pub(super) fn new(policy: &Policy, count: usize, seed: u64) -> Balancer {
        Balancer {
            policy: policy.clone(),
            earned: RefCell::new(vec![0; count]),
            random: Cell::new(seed),
        }
    }

    /// Returns the place of the upstream that gets a request with this hash; `None` without a candidate.
    pub(super) fn choose(&self, candidates: &[Candidate], key: Option<u64>) -> Option<usize> {
        let chosen = match (&self.policy, key) {
            (Policy::Hash { load, .. }, Some(key)) => by_hash(candidates, key, *load),
            (Policy::RoundRobin | Policy::Hash { .. }, _) => self.next(candidates, |_| true),
            (Policy::LeastRequests, _) => {
                let freest = candidates.iter().copied();
                let freest =
                    freest.reduce(|best, one| if one.is_freer(&best) { one } else { best })?;
                self.next(candidates, |one| !freest.is_freer(one))
            }
            (Policy::RandomTwo, _) => self.freer_of_two(candidates),
        };
        chosen.map(|one| one.place)
    }

    /// Returns the next one of the candidates that are `eligible`. Each earns its weight, and the one that has earned most pays
    /// for the request with the sum of the weights, so the turns of a heavy upstream lie apart.
    fn next(
        &self,
        candidates: &[Candidate],
        eligible: impl Fn(&Candidate) -> bool,
    ) -> Option<Candidate> {
        let mut earned = self.earned.borrow_mut();
        let mut sum = 0;
        let mut next: Option<Candidate> = None;
        for one in candidates.iter().filter(|one| eligible(one)) {
            let weight = i64::try_from(one.weight).unwrap_or(i64::MAX >> 8);
            earned[one.place] += weight;
            sum += weight;
            if next.is_none_or(|best| earned[one.place] > earned[best.place]) {
                next = Some(*one);
            }
        }
        earned[next?.place] -= sum;
        next
    }

    /// Draws two candidates by weight, and returns the one with fewer active requests in relation to its weight.
    fn freer_of_two(&self, candidates: &[Candidate]) -> Option<Candidate> {
        let first = self.draw(candidates, None)?;
        Some(match self.draw(candidates, Some(first.place)) {
            Some(second) if second.is_freer(&first) => second,
            _ => first,
        })
    }

    /// Draws a candidate other than `but`.
    fn draw(&self, candidates: &[Candidate], but: Option<usize>) -> Option<Candidate> {
        let others = || candidates.iter().filter(|one| Some(one.place) != but);
        let sum: u64 = others().map(|one| one.weight).sum();
        let state = self.random.get().wrapping_add(GOLDEN);
        self.random.set(state);
        let mut left = mixed(state).checked_rem(sum)?;
        others()
            .find(|one| {
                let found = left < one.weight;
                left = left.saturating_sub(one.weight);
                found
            })
            .copied()
    }
}

/// Returns the candidate with the highest rank for `key`, of those whose active requests are below `load` percent of their share.
fn by_hash(candidates: &[Candidate], key: u64, load: u64) -> Option<Candidate> {
    // The request counts, so that the bound always leaves room for it somewhere.
    let active = candidates.iter().map(|one| u128::from(one.active));
    let active = active.sum::<u128>() + 1;
    let weights: u128 = candidates.iter().map(|one| u128::from(one.weight)).sum();
    let has_room = |one: &&Candidate| {
        let bound = u128::from(load) * active * u128::from(one.weight);
        load == 0 || u128::from(one.active) * 100 * weights < bound
    };
    let fit = candidates.iter().filter(has_room);
    let ranked = fit.map(|one| (one.rank(key), *one));
    let best = ranked.reduce(|best, one| if one.0 > best.0 { one } else { best });
    best.map(|(_, one)| one)
}

#[cfg(test)]
mod tests;
