//! Tests the shares of upstreams, and the keys that a change of a pool moves.

use proptest::prelude::*;
use sluicegate_base::hash::hash;

use super::*;

/// Seed of all tests.
const SEED: u64 = 7;

/// Returns idle candidates of these weights.
fn candidates(weights: &[u64]) -> Vec<Candidate> {
    let candidate = |(place, weight): (usize, &u64)| Candidate {
        place,
        weight: *weight,
        active: 0,
        hash: hash(format!("10.0.0.{place}:80").as_bytes()),
    };
    weights.iter().enumerate().map(candidate).collect()
}

fn hashing(load: u64) -> Policy {
    let by = HashBy::ClientAddress;
    Policy::Hash { by, load }
}

/// Returns how many of `requests` each candidate gets; none of them ends.
fn shares(policy: &Policy, mut all: Vec<Candidate>, requests: u64) -> Vec<u64> {
    let balancer = Balancer::new(policy, all.len(), SEED);
    for request in 0..requests {
        let key = hash(&request.to_le_bytes());
        let place = balancer.choose(&all, Some(key)).unwrap();
        all[place].active += 1;
    }
    all.iter().map(|one| one.active).collect()
}

#[test]
fn turns_follow_the_weights_and_lie_apart() {
    let all = candidates(&[5, 1, 1]);
    let balancer = Balancer::new(&Policy::RoundRobin, 3, SEED);
    let turns: Vec<_> = (0..14).filter_map(|_| balancer.choose(&all, None)).collect();
    assert_eq!(turns, [0, 0, 1, 0, 2, 0, 0, 0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn every_policy_shares_out_by_weight() {
    let policies =
        [Policy::RoundRobin, Policy::LeastRequests, Policy::RandomTwo, hashing(0), hashing(125)];
    for policy in policies {
        let found = shares(&policy, candidates(&[1, 2, 3, 4]), 10_000);
        for (got, expected) in found.iter().zip([1000, 2000, 3000, 4000]) {
            let difference = got.abs_diff(expected);
            assert!(difference < expected / 8, "{policy:?}: {found:?}");
        }
    }
}

#[test]
fn upstream_with_fewest_requests_for_its_weight_gets_the_next_one() {
    let balancer = Balancer::new(&Policy::LeastRequests, 3, SEED);
    let mut all = candidates(&[1, 2, 1]);
    all[0].active = 2;
    all[1].active = 3;
    all[2].active = 4;
    assert_eq!(balancer.choose(&all, None), Some(1));
    // Equally busy ones take turns.
    let all = candidates(&[1, 1, 1]);
    let turns: Vec<_> = (0..6).filter_map(|_| balancer.choose(&all, None)).collect();
    let mut sorted = turns.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 0, 1, 1, 2, 2], "{turns:?}");
}

#[test]
fn busiest_upstream_is_never_the_better_of_two() {
    let balancer = Balancer::new(&Policy::RandomTwo, 3, SEED);
    let mut all = candidates(&[1, 1, 1]);
    all[1].active = 9;
    for _ in 0..1000 {
        assert_ne!(balancer.choose(&all, None), Some(1));
    }
    assert_eq!(balancer.choose(&all[1..2], None), Some(1));
    assert_eq!(balancer.choose(&[], None), None);
}

#[test]
fn different_seeds_draw_different_upstreams() {
    let all = candidates(&[1; 8]);
    let drawn = |seed| {
        let balancer = Balancer::new(&Policy::RandomTwo, 8, seed);
        let places = (0..16).map(|_| balancer.choose(&all, None));
        places.collect::<Vec<_>>()
    };
    assert_eq!(drawn(SEED), drawn(SEED));
    assert_ne!(drawn(SEED), drawn(SEED + 1));
}

#[test]
fn each_hash_has_a_finite_rank_above_0() {
    for hash in [0, 1 << 63, u64::MAX] {
        let fraction = fraction(hash);
        assert!(fraction > 0.0 && fraction < 1.0, "{hash}: {fraction}");
    }
}

#[test]
fn load_of_one_key_spills_over_to_the_next_upstream_of_its_hash() {
    let key = Some(hash(b"popular"));
    let mut all = candidates(&[1, 1, 1, 1]);
    let balancer = Balancer::new(&hashing(150), 4, SEED);
    let own = balancer.choose(&all, key).unwrap();
    for active in 1..=400 {
        let place = balancer.choose(&all, key).unwrap();
        all[place].active += 1;
        let bound = (active * 150_u64).div_ceil(400);
        assert!(all[place].active <= bound, "{active}: {all:?}");
    }
    assert_eq!(all[own].active, 150, "{all:?}");
    // Without a bound all stay where they are.
    let unbounded = Balancer::new(&hashing(0), 4, SEED);
    assert_eq!(unbounded.choose(&all, key), Some(own));
}

#[test]
fn requests_without_the_hashed_part_take_turns() {
    let balancer = Balancer::new(&hashing(0), 2, SEED);
    let all = candidates(&[1, 1]);
    let turns: Vec<_> = (0..4).filter_map(|_| balancer.choose(&all, None)).collect();
    assert_eq!(turns, [0, 1, 0, 1]);
}

proptest! {
    /// The least that a change must move are the keys of the upstream that comes or goes.
    #[test]
    fn only_the_keys_of_the_upstream_that_goes_move(
        weights in proptest::collection::vec(1_u64..20, 2..12),
        gone in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        const KEYS: u64 = 2000;
        let all = candidates(&weights);
        let gone = gone.index(all.len());
        let mut left = all.clone();
        left.remove(gone);
        let balancer = Balancer::new(&hashing(0), all.len(), SEED);
        let mut moved = 0;
        for number in 0..KEYS {
            let key = Some(hash(&(seed ^ number).to_le_bytes()));
            let before = balancer.choose(&all, key).unwrap();
            let after = balancer.choose(&left, key).unwrap();
            prop_assert!(before == gone || before == after);
            moved += u64::from(before == gone);
        }
        let sum: u64 = weights.iter().sum();
        let expected = KEYS * weights[gone] / sum;
        prop_assert!(moved.abs_diff(expected) < 200, "{moved} instead of {expected}");
    }
}
