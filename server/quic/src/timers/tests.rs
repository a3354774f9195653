//! Deadlines that are set, moved, removed and taken.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// More entries than a test has.
const ENOUGH: usize = 1_000_000;

/// A start, and times after it in milliseconds.
fn times() -> (Instant, impl Fn(u64) -> Option<Instant>) {
    let start = sluicegate_base::clock::now();
    (start, move |ms| Some(start + Duration::from_millis(ms)))
}

fn entries(timers: &Timers) -> [usize; 2] {
    timers.queues.each_ref().map(BinaryHeap::len)
}

fn take(timers: &mut Timers, now: Option<Instant>) -> Option<usize> {
    timers.take_due(&mut { ENOUGH }, now.unwrap())
}

#[test]
fn deadlines_are_taken_once_and_in_time() {
    let (start, at) = times();
    let mut timers = Timers::default();
    for (key, ms) in [(3, 20), (0, 10), (1, 30_000)] {
        timers.set(key, at(ms), start);
    }
    let mut taken = Vec::new();
    while let Some(next) = timers.earliest() {
        assert_eq!(take(&mut timers, next.checked_sub(Duration::from_nanos(1))), None);
        taken.push((Some(next), take(&mut timers, Some(next))));
    }
    let expected = [(10, 0), (20, 3), (30_000, 1)].map(|(ms, key)| (at(ms), Some(key)));
    assert_eq!(taken, expected);
    assert_eq!(take(&mut timers, at(3_600_000)), None);
}

#[test]
fn a_deadline_can_move_to_either_side_or_be_removed() {
    let (start, at) = times();
    let mut timers = Timers::default();
    for ms in [10, 30_000, 25, 500, 40_000, 20] {
        timers.set(7, at(ms), start);
        assert_eq!(timers.earliest(), at(ms));
    }
    timers.set(7, None, start);
    assert_eq!(timers.earliest(), None);
    timers.set(7, at(50), start);
    assert_eq!(take(&mut timers, at(50)), Some(7));
    assert_eq!(timers.earliest(), None);
}

#[test]
fn a_connection_with_the_key_of_another_has_its_own_deadline_alone() {
    let (start, at) = times();
    let mut timers = Timers::default();
    timers.set(2, at(26), start);
    timers.set(2, at(30_000), start);
    timers.clear(2);
    timers.set(2, at(10_000), start);
    assert_eq!(take(&mut timers, at(9_999)), None);
    assert_eq!(take(&mut timers, at(10_000)), Some(2));
    assert_eq!(take(&mut timers, at(60_000)), None);
}

#[test]
fn probe_timeouts_leave_the_entry_of_the_idle_timeout_alone() {
    let (start, at) = times();
    let mut timers = Timers::default();
    timers.set(0, at(30_000), start);
    for ms in (0..20_000).step_by(100) {
        let now = at(ms).unwrap();
        timers.set(0, at(ms + 26), now);
        assert_eq!(timers.earliest(), at(ms + 26));
        timers.set(0, at(ms + 30_000), now);
        timers.set(1, at(ms + 50), now);
        assert_eq!(timers.earliest(), at(ms + 50));
        assert_eq!(timers.slots[0].entries, [None, at(30_000)]);
        assert_eq!(take(&mut timers, at(ms + 50)), Some(1));
    }
    assert_eq!(timers.earliest(), at(19_900 + 30_000));
}

#[test]
fn deadlines_that_moved_are_put_right_a_few_at_a_time() {
    const COUNT: usize = 4 * MAX_MOVES;
    let (start, at) = times();
    let mut timers = Timers::default();
    for key in 0..COUNT {
        timers.set(key, at(30_000), start);
    }
    for key in 0..COUNT {
        timers.set(key, at(60_000), start);
    }
    assert_eq!(timers.earliest(), at(30_000));
    let mut budget = 2 * MAX_MOVES;
    let late = at(50_000).unwrap();
    assert_eq!((timers.take_due(&mut budget, late), budget), (None, 0));
    assert_eq!(timers.earliest(), at(60_000));
}

#[test]
fn useless_entries_are_dropped_and_no_other() {
    let (start, at) = times();
    let mut timers = Timers::default();
    timers.set(1, at(25_000), start);
    for ms in (1..20_000).rev() {
        timers.set(0, at(ms), start);
        let count: usize = entries(&timers).iter().sum();
        assert!(count <= SPARE + 8, "{count} entries");
    }
    assert_eq!(timers.earliest(), at(1));
    assert_eq!(take(&mut timers, at(24_999)), Some(0));
    assert_eq!(take(&mut timers, at(24_999)), None);
    assert_eq!(timers.earliest(), at(25_000));
    assert_eq!(take(&mut timers, at(30_000)), Some(1));
    assert_eq!(take(&mut timers, at(30_000)), None);
}

/// An event of one of a few connections.
#[derive(Clone, Copy, Debug)]
enum Step {
    Set(usize, Option<u64>),
    Clear(usize),
    /// Milliseconds pass, and all that is due is taken, by calls with this budget.
    Pass(u64, usize),
    /// The earliest deadline is looked at.
    Earliest,
}

fn step() -> impl Strategy<Value = Step> {
    let distance = prop_oneof![0..40_u64, 900..1_100_u64, 29_000..31_000_u64];
    prop_oneof![
        6 => (0..5_usize, proptest::option::weighted(0.9, distance)).prop_map(|(k, d)| Step::Set(k, d)),
        1 => (0..5_usize).prop_map(Step::Clear),
        4 => (prop_oneof![0..30_u64, 0..2_000_u64, 0..40_000_u64], 1..5_usize).prop_map(|(t, b)| Step::Pass(t, b)),
        2 => Just(Step::Earliest),
    ]
}

/// Takes all that is due, by calls with a budget of entries.
fn take_all(timers: &mut Timers, budget: usize, now: Instant) -> Vec<usize> {
    let mut due = Vec::new();
    let mut left = 0;
    while left == 0 {
        left = budget;
        due.extend(std::iter::from_fn(|| timers.take_due(&mut left, now)));
    }
    due.sort_unstable();
    due
}

proptest! {
    #[test]
    fn no_deadline_is_lost_or_early(steps in proptest::collection::vec(step(), 1..300)) {
        let (_, at) = times();
        let mut timers = Timers::default();
        let mut expected = BTreeMap::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Set(key, distance) => {
                    let deadline = distance.map(|distance| now + distance);
                    timers.set(key, deadline.and_then(&at), at(now).unwrap());
                    expected.remove(&key);
                    expected.extend(deadline.map(|deadline| (key, deadline)));
                }
                Step::Clear(key) => {
                    timers.clear(key);
                    expected.remove(&key);
                }
                Step::Pass(time, budget) => {
                    now += time;
                    let due = take_all(&mut timers, budget, at(now).unwrap());
                    let is_due = |(_, deadline): &(_, &u64)| **deadline <= now;
                    let keys: Vec<usize> = expected.iter().filter(is_due).map(|(key, _)| *key).collect();
                    prop_assert_eq!(due, keys);
                    expected.retain(|_, deadline| *deadline > now);
                }
                Step::Earliest => {
                    let next = expected.values().min().copied();
                    prop_assert_eq!(timers.earliest(), next.and_then(&at));
                }
            }
        }
    }
}
