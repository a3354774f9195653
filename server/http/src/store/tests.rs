//! Tests of a store with its fronts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sluicegate_base::clock;
use sluicegate_sim::Rng;

use super::shared::OVERHEAD;
use super::*;

const VALID: Duration = Duration::from_secs(10);
const LIFETIME: Lifetime = Lifetime { fresh: VALID, stale: VALID };
const MIB: u64 = 1 << 20;
/// Largest value of the tests' stores, bytes.
const LARGEST: u64 = 4096;

/// Bytes with nothing beside them.
#[derive(Clone, Debug, PartialEq)]
struct Block(Bytes);

impl Stored for Block {
    fn weight(&self) -> u64 {
        self.0.len() as u64
    }

    fn bytes(&mut self) -> &mut Bytes {
        &mut self.0
    }

    fn own_head(&mut self) {}
}

impl StoreKey for u32 {
    fn weight(&self) -> u64 {
        4
    }
}

type Blocks = Store<u32, Block>;

fn store(capacity: u64) -> Arc<Blocks> {
    Arc::new(Store::new(capacity, LARGEST))
}

/// Returns a block whose bytes name it.
fn block(name: u8, size: usize) -> Block {
    Block(vec![name; size].into())
}

fn put(store: &Blocks, key: u32, block: Block, now: Instant) {
    store.put(key, block, LIFETIME, now);
}

/// Returns a front that keeps the entries, after as many hits as that takes.
fn front_with(store: &Arc<Blocks>, keys: &[u32], now: Instant) -> StoreFront<u32, Block> {
    let mut front = StoreFront::new(Arc::clone(store));
    for key in keys {
        for _ in 0..20 {
            assert!(front.get(key, now).is_some());
        }
    }
    front
}

fn cost(size: usize) -> u64 {
    OVERHEAD + 4 + size as u64
}

#[test]
fn threads_see_the_entries_of_each_other() {
    let (store, t) = (store(MIB), clock::now());
    let mut here = StoreFront::new(Arc::clone(&store));
    put(&store, 1, block(1, 10), t);
    let there = std::thread::spawn({
        let store = Arc::clone(&store);
        move || {
            let mut front = StoreFront::new(Arc::clone(&store));
            let found = front.get(&1, t).map(|block| block.clone());
            put(&store, 2, block(2, 10), t);
            found
        }
    });
    assert_eq!(there.join().unwrap(), Some(block(1, 10)));
    assert_eq!(here.get(&2, t).as_deref(), Some(&block(2, 10)));
}

#[test]
fn a_front_keeps_what_is_asked_for_often_and_nothing_that_the_store_has_dropped() {
    let (store, t) = (store(MIB), clock::now());
    let mut fronts: Vec<_> = (0..3)
        .map(|_| {
            put(&store, 1, block(1, 10), t);
            front_with(&store, &[1], t)
        })
        .collect();
    assert!(fronts.iter().all(|front| front.kept() == 1));
    put(&store, 1, block(2, 10), t);
    for front in &mut fronts {
        assert_eq!(front.get(&1, t).as_deref(), Some(&block(2, 10)));
        assert_eq!(front.kept(), 1, "what was renewed is kept again at once");
    }
    store.remove(&1);
    assert!(fronts.iter_mut().all(|front| front.get(&1, t).is_none() && front.kept() == 0));
    put(&store, 1, block(3, 10), t);
    fronts[0] = front_with(&store, &[1], t);
    fronts[1].clear();
    assert!(fronts.iter_mut().all(|front| front.get(&1, t).is_none()));
    assert_eq!((store.held(), store.usage()), (0, (0, 0)));
}

#[test]
fn one_request_of_all_threads_renews_a_stale_entry() {
    let (store, t) = (store(MIB), clock::now());
    put(&store, 1, block(1, 10), t);
    let mut fronts = [(); 4].map(|()| front_with(&store, &[1], t));
    let late = t + VALID;
    let missed = fronts.iter_mut().filter_map(|front| front.get(&1, late).is_none().then_some(()));
    assert_eq!(missed.count(), 1);
    put(&store, 1, block(2, 10), late);
    for front in &mut fronts {
        assert_eq!(front.get(&1, late).as_deref(), Some(&block(2, 10)));
    }
    let missed = |front: &mut StoreFront<u32, Block>| front.get(&1, late + 2 * VALID).is_none();
    assert!(fronts.iter_mut().all(missed));
}

/// A front absorbs hits, and the store drops what nobody asks for.
#[test]
fn an_entry_that_a_front_has_outlives_those_that_are_asked_for_once() {
    let (store, t) = (store(MIB), clock::now());
    put(&store, 0, block(0, 1000), t);
    let mut front = front_with(&store, &[0], t);
    for key in 1..20_000 {
        put(&store, key, block(1, 1000), t);
        front.get(&key, t);
        assert!(front.get(&0, t).is_some(), "after {key}");
    }
}

#[test]
fn fronts_share_a_bounded_part_of_the_memory() {
    let (store, t) = (store(MIB), clock::now());
    let keys: Vec<u32> = (0..64).collect();
    for key in &keys {
        put(&store, *key, block(1, 1000), t);
    }
    let fronts: Vec<_> = (0..200).map(|_| front_with(&store, &keys, t)).collect();
    let (_, pinned) = store.usage();
    assert!(pinned <= MIB / 8 && pinned > MIB / 10, "{pinned}");
    let kept: usize = fronts.iter().map(StoreFront::kept).sum();
    assert_eq!(pinned, kept as u64 * cost(1000));
    store.clear();
    let (alive, _) = store.usage();
    assert!(alive <= MIB / 8, "{alive}");
    drop(fronts);
    assert_eq!(store.usage(), (0, 0));
}

#[test]
fn a_large_entry_is_not_kept_by_a_front() {
    let (store, t) = (Arc::new(Store::new(16 * MIB, MIB)), clock::now());
    put(&store, 1, block(1, 20_000), t);
    assert_eq!(front_with(&store, &[1], t).kept(), 0);
}

/// Eight threads fill the store with many small entries and read them.
#[test]
fn memory_does_not_grow_with_the_number_of_threads() {
    let (store, t) = (store(MIB), clock::now());
    let threads = (0..8_u32).map(|thread| {
        let store = Arc::clone(&store);
        std::thread::spawn(move || {
            let mut front = StoreFront::new(Arc::clone(&store));
            for number in 0..20_000 {
                let key = thread * 20_000 + number;
                put(&store, key, block(1, 0), t);
                for _ in 0..number % 12 {
                    front.get(&key, t);
                }
            }
            front
        })
    });
    let threads: Vec<_> = threads.collect();
    let fronts: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let (alive, pinned) = store.usage();
    assert_eq!(store.held(), store.weight());
    assert!(store.held() <= MIB && store.held() > MIB / 2, "{}", store.held());
    assert!(alive <= store.held() + pinned && pinned <= MIB / 8, "{alive} {pinned}");
    drop(fronts);
    assert_eq!(store.usage(), (store.held(), 0));
}

/// Threads put, remove, clear and read the same few keys. Whatever they find is what somebody has put under that key.
#[test]
fn threads_that_change_the_same_entries_find_whole_ones() {
    let (store, t) = (store(64 * 1024), clock::now());
    let threads = (0..4_u64).map(|seed| {
        let store = Arc::clone(&store);
        std::thread::spawn(move || {
            let mut rng = Rng::new(seed + 1);
            let mut front = StoreFront::new(Arc::clone(&store));
            for _ in 0..20_000 {
                let key = u8::try_from(rng.below(60)).unwrap();
                match rng.below(100) {
                    0..10 => put(&store, key.into(), block(key, rng.below(3000)), t),
                    10 => store.remove(&key.into()),
                    11 if rng.below(50) == 0 => front.clear(),
                    _ => {
                        if let Some(found) = front.get(&key.into(), t) {
                            assert!(found.0.iter().all(|byte| *byte == key), "{key}");
                        }
                    }
                }
                assert!(store.weight() <= 64 * 1024);
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(store.held(), store.weight());
    assert_eq!(store.usage(), (store.held(), 0));
}

/// Compares with a map of what was put last, and when: a store may miss, but what it returns is that, and not too old.
#[test]
fn fronts_agree_with_a_map_through_any_history() {
    for seed in 1..=30_u64 {
        let mut rng = Rng::new(seed);
        let capacity = cost(100) * (8 + rng.below(200) as u64);
        let store = store(capacity);
        let mut fronts = [(); 3].map(|()| StoreFront::new(Arc::clone(&store)));
        let (mut now, mut last, mut hits) = (clock::now(), HashMap::new(), 0);
        for _ in 0..4000 {
            now += VALID / 100 * u32::try_from(rng.below(3)).unwrap();
            let key = u32::try_from(rng.below(12)).unwrap();
            match rng.below(60) {
                0 => {
                    store.remove(&key);
                    last.remove(&key);
                }
                1 if rng.below(20) == 0 => {
                    fronts[0].clear();
                    last.clear();
                }
                2..5 => {
                    let block = block(rng.below(3).to_le_bytes()[0], rng.below(200));
                    put(&store, key, block.clone(), now);
                    last.insert(key, (block, now));
                }
                _ => {
                    let front = &mut fronts[rng.below(3)];
                    if let Some(found) = front.get(&key, now) {
                        let (block, put) = &last[&key];
                        assert_eq!(&*found, block, "seed {seed}");
                        assert!(now < *put + 2 * VALID, "seed {seed}");
                        hits += 1;
                    }
                }
            }
            assert_eq!(store.held(), store.weight(), "seed {seed}");
            assert!(store.held() <= capacity, "seed {seed}");
        }
        assert!(hits > 100, "seed {seed}: {hits}");
    }
}

#[test]
fn a_shard_has_room_for_many_of_the_largest_values() {
    for (capacity, largest, shards) in [
        (0, 1 << 18, 1),
        (64 * MIB, 1 << 18, 16),
        (60 * MIB, 1 << 18, 8),
        (64 * MIB, 8 * MIB, 1),
        (1 << 40, 1 << 10, 64),
        (1 << 40, u64::MAX, 1),
    ] {
        let store: Blocks = Store::new(capacity, largest);
        assert_eq!(store.shards(), shards, "{capacity} {largest}");
        assert!(store.suits(capacity, largest) && !store.suits(capacity + 1, largest));
    }
    // Lower bounds of values leave the entries where they are.
    let store: Blocks = Store::new(64 * MIB, 1 << 18);
    assert!(store.suits(64 * MIB, 1 << 10) && !store.suits(64 * MIB, MIB));
}

/// Readers keep all that the store ever had, and nobody asks it again.
#[test]
fn entries_that_readers_keep_are_bounded_whatever_is_put() {
    let (store, t) = (store(MIB), clock::now());
    let mut front = StoreFront::new(Arc::clone(&store));
    let mut readers = Vec::new();
    for key in 0..2000 {
        put(&store, key, block(1, 3000), t);
        readers.extend(front.get(&key, t).map(|hit| hit.clone()));
    }
    for key in 2000..6000 {
        put(&store, key, block(1, 3000), t);
    }
    let (alive, _) = store.usage();
    assert!(alive <= 2 * MIB + 2 * LARGEST, "{alive}");
    drop(readers);
    assert!(store.usage().0 <= MIB, "what the readers kept is free");
    put(&store, 1, block(1, 3000), t);
    assert!(front.get(&1, t).is_some());
}

#[test]
fn late_readings_replace_nothing() {
    let (store, t) = (store(MIB), clock::now());
    let later = t + Duration::from_secs(1);
    put(&store, 1, block(2, 10), later);
    put(&store, 1, block(1, 10), t);
    let mut front = front_with(&store, &[1], later);
    assert_eq!(front.get(&1, later).as_deref(), Some(&block(2, 10)));
    // The same bytes again: fronts need not copy them again, and they are no longer fresh than they were.
    put(&store, 1, block(2, 10), later + VALID / 2);
    assert_eq!(front.kept(), 1);
    assert!(front.get(&1, later + VALID).is_none());
}
