use std::iter;

use super::*;
use crate::address::ValidatedAddress;

const MIB: u64 = 1 << 20;

fn client(number: u8) -> ClientPrefix {
    let address = format!("192.0.2.{number}");
    address.parse::<ValidatedAddress>().unwrap().into()
}

/// Returns a budget of 100 MiB that a measurement finds beyond 90 MiB by so much.
fn budget(to_free: u64) -> MemoryBudget {
    let budget = MemoryBudget::new(100 * MIB);
    budget.measured(90 * MIB + to_free);
    budget
}

/// Reports what clients hold, by their numbers.
fn report(front: &FrontRelief, held: &[(u8, u64)], memory: &MemoryBudget) -> Shares {
    let held = held.iter().map(|(number, bytes)| (client(*number), *bytes));
    front.report(held, iter::empty(), memory)
}

#[test]
fn what_is_above_the_level_is_just_what_is_to_be_freed() {
    let above = |amounts: &[u64], level: u64| -> u64 {
        let above = amounts.iter().map(|amount| amount.saturating_sub(level));
        above.sum()
    };
    let mut random: u64 = 1;
    for _ in 0..10_000 {
        let mut draw = |most: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % most
        };
        let amounts: Vec<u64> = (0..draw(8)).map(|_| draw(20)).collect();
        let to_free = 1 + draw(60);
        let found = level(amounts.clone(), to_free);
        if amounts.iter().sum::<u64>() < to_free {
            assert_eq!(found, 0, "{amounts:?} {to_free}");
        } else {
            assert!(above(&amounts, found) >= to_free, "{amounts:?} {to_free}");
            assert!(above(&amounts, found + 1) < to_free, "{amounts:?} {to_free}");
        }
    }
}

#[test]
fn client_that_holds_most_loses_alone_as_long_as_that_suffices() {
    let holdings = Arc::<Holdings>::default();
    let front = holdings.add_front();
    let held = [(1, 40 * MIB), (2, 30 * MIB), (3, 2 * MIB)];
    let shares = report(&front, &held, &budget(10 * MIB));
    let excess = |shares: &Shares| {
        let excess = held.iter().map(|(number, own)| shares.excess(client(*number), *own));
        excess.collect::<Vec<_>>()
    };
    assert_eq!(excess(&shares), [10 * MIB, 0, 0]);
    let shares = report(&front, &held, &budget(30 * MIB));
    assert_eq!(excess(&shares), [20 * MIB, 10 * MIB, 0]);
    // All keep a little, whatever is missing.
    let shares = report(&front, &held, &budget(90 * MIB));
    assert_eq!(excess(&shares), [39 * MIB, 29 * MIB, MIB]);
}

#[test]
fn clients_count_by_what_they_hold_at_all_fronts() {
    let holdings = Arc::<Holdings>::default();
    let (one, other) = (holdings.add_front(), holdings.add_front());
    let memory = budget(10 * MIB);
    report(&one, &[(1, 30 * MIB), (2, 4 * MIB)], &memory);
    let shares = report(&other, &[(1, 2 * MIB), (3, 5 * MIB)], &memory);
    assert_eq!(shares.keeps(), 22 * MIB);
    assert_eq!(shares.total(client(2), 0), 4 * MIB, "it is at the other one");
    assert_eq!(shares.excess(client(1), 2 * MIB), 2 * MIB);
    assert_eq!(shares.excess(client(3), 5 * MIB), 0, "most of this front, and not of all");
    let shares = report(&one, &[(1, 30 * MIB), (2, 4 * MIB)], &memory);
    assert_eq!(shares.excess(client(1), 30 * MIB), 10 * MIB);
}

#[test]
fn what_a_front_has_reported_counts_until_the_next_measurement_but_one() {
    let holdings = Arc::<Holdings>::default();
    let (one, other) = (holdings.add_front(), holdings.add_front());
    let memory = budget(10 * MIB);
    report(&one, &[(1, 30 * MIB)], &memory);
    for expected in [30 * MIB, 30 * MIB, 0] {
        let shares = report(&other, &[], &memory);
        assert_eq!(shares.total(client(1), 0), expected);
        memory.measured(100 * MIB);
    }
}

#[test]
fn before_memory_is_short_only_who_holds_a_large_part_of_it_loses_any() {
    let holdings = Arc::<Holdings>::default();
    let front = holdings.add_front();
    let memory = budget(5 * MIB);
    assert!(!memory.is_short());
    let shares = report(&front, &[(1, 26 * MIB), (2, 25 * MIB)], &memory);
    assert_eq!(shares.keeps(), 25 * MIB);
    let shares = report(&front, &[(1, 60 * MIB), (2, 25 * MIB)], &memory);
    assert_eq!(shares.keeps(), 55 * MIB);
}

#[test]
fn clients_that_hold_a_little_each_keep_no_memory_short() {
    let front = Arc::<Holdings>::default().add_front();
    let memory = budget(10 * MIB);
    assert!(memory.is_short());
    let held: Vec<(u8, u64)> = (0..110).map(|number| (number, MIB - 1)).collect();
    let mut measurements = 1;
    while report(&front, &held, &memory).excess(client(0), MIB - 1) == 0 {
        memory.measured(100 * MIB);
        measurements += 1;
    }
    assert_eq!(measurements, PATIENCE);
    for _ in 0..100 {
        memory.measured(100 * MIB);
    }
    assert_eq!(report(&front, &[], &memory).keeps(), 2 * CONNECTION);
    memory.measured(0);
    memory.measured(100 * MIB);
    assert_eq!(report(&front, &[], &memory).keeps(), MIB);
}
