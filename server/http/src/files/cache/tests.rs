use http::HeaderValue;
use sluicegate_sim::Rng;

use super::super::fixture::files;
use super::*;
use crate::exchange::Coding;
use crate::exchange::test_front::head;
use crate::representation::Metadata;

const VALID: Duration = Duration::from_secs(10);

fn key(number: usize) -> Key {
    let path = format!("/{number:04}");
    Key::of(&folder(1, true), &head("GET", &path, &[]), &path).unwrap()
}

fn folder(id: u64, precompressed: bool) -> Folder {
    let files = Arc::new(files(precompressed));
    Folder { id, files, compress: None, scripts: Arc::default() }
}

fn entry(size: usize) -> Representation {
    let metadata = Metadata {
        size: size as u64,
        etag: HeaderValue::from_static("\"x\""),
        modified: None,
        content_type: HeaderValue::from_static("text/plain"),
        encoding: Coding::Identity,
        varies: false,
        compressed: false,
    };
    let bytes = vec![0; size].into();
    Representation::new(metadata, bytes)
}

/// Returns the weight of an entry of `size` bytes.
fn cost(size: usize) -> u64 {
    let (one, t) = (cache_of(1 << 20, VALID), start());
    one.store.put(&key(1), Some(entry(size)), t);
    one.store.held()
}

/// Returns the way to an empty store of up to `capacity` bytes.
fn cache_of(capacity: u64, valid: Duration) -> Cache {
    let limits = sluicegate_config::Config::embedded().limits;
    let limits = Limits { file_cache: capacity, file_cache_valid: valid, ..limits };
    Cache::new(&FileStore::new(&limits))
}

fn start() -> Instant {
    sluicegate_base::clock::now()
}

#[test]
fn a_key_is_what_decides_which_file_is_sent() {
    let of = |id, precompressed, method: &str, path: &str, accept: &'static str| {
        let head = head(method, path, &[("accept-encoding", accept)]);
        Key::of(&folder(id, precompressed), &head, path)
    };
    let key = of(1, true, "GET", "/a/b", "gzip");
    assert!(key.is_some());
    assert_eq!(key, of(1, true, "HEAD", "//%61/b", "gzip;q=0.3, br;q=0"));
    for other in [
        of(2, true, "GET", "/a/b", "gzip"),
        of(1, true, "GET", "/a/b/", "gzip"),
        of(1, true, "GET", "/a", "gzip"),
        of(1, true, "GET", "/a/b", "gzip, br"),
    ] {
        assert!(other.is_some() && other != key);
    }
    let plain = of(1, false, "GET", "/a/b", "gzip");
    assert_eq!(plain, of(1, false, "GET", "/a/b", "identity;q=0"));
    for none in [
        of(1, true, "POST", "/a/b", ""),
        of(1, true, "GET", "/../b", ""),
        of(1, true, "GET", "/.git", ""),
    ] {
        assert_eq!(none, None);
    }
}

#[test]
fn an_entry_is_served_while_it_is_valid() {
    let (mut cache, t) = (cache_of(1 << 20, VALID), start());
    assert!(cache.get(&key(1), t).is_none());
    cache.store.put(&key(1), Some(entry(5)), t);
    assert!(cache.get(&key(1), t).is_some());
    assert!(cache.get(&key(2), t).is_none());
    let last = VALID - Duration::from_nanos(1);
    assert!(cache.get(&key(1), t + last).is_some());
    // The clock of another thread may be a little ahead.
    assert!(cache.get(&key(1), t - Duration::from_millis(1)).is_some());
    cache.store.put(&key(1), Some(entry(6)), t + VALID);
    assert_eq!(cache.get(&key(1), t + VALID).unwrap().bytes.len(), 6);
    assert!(cache.get(&key(1), t + VALID + last).is_some());
    cache.store.put(&key(1), None, t);
    assert!(cache.get(&key(1), t + VALID).is_none());
    cache.store.put(&key(1), None, t);
    assert_eq!(cache.store.held(), 0);
}

#[test]
fn one_request_looks_again_while_the_others_get_what_is_there() {
    let (mut cache, t) = (cache_of(1 << 20, VALID), start());
    cache.store.put(&key(1), Some(entry(5)), t);
    assert!(cache.get(&key(1), t + VALID).is_none());
    assert!(cache.get(&key(1), t + VALID).is_some());
    assert!(cache.get(&key(1), t + VALID * 3 / 2).is_some());
    // Nobody put the file in: all look.
    assert!(cache.get(&key(1), t + VALID * 2).is_none());
    assert!(cache.get(&key(1), t + VALID * 2).is_none());
    // What is put in is asked for once more when its own time is over.
    cache.store.put(&key(1), Some(entry(5)), t + VALID * 2);
    assert!(cache.get(&key(1), t + VALID * 3).is_none());
    assert!(cache.get(&key(1), t + VALID * 3).is_some());
}

#[test]
fn an_unchanged_file_is_kept_in_one_copy() {
    let (mut cache, t) = (cache_of(1 << 20, VALID), start());
    let first = entry(5);
    cache.store.put(&key(1), Some(first), t);
    let first = cache.get(&key(1), t).unwrap().clone();
    cache.store.put(&key(1), Some(entry(5)), t + VALID);
    let found = cache.get(&key(1), t + VALID * 3 / 2).unwrap();
    assert_eq!(first.bytes.as_ptr(), found.bytes.as_ptr());
    // The same tag with other bytes: the file was written twice within a tick of its clock.
    let mut other = first.clone();
    other.bytes = vec![1; 5].into();
    cache.store.put(&key(1), Some(other.clone()), t + VALID * 2);
    assert_eq!(*cache.get(&key(1), t + VALID * 2).unwrap(), other);
}

#[test]
fn without_a_time_of_validity_nothing_is_served() {
    let (mut cache, t) = (cache_of(1 << 20, Duration::ZERO), start());
    cache.store.put(&key(1), Some(entry(5)), t);
    assert!((0..3).all(|_| cache.get(&key(1), t).is_none()));
    assert_eq!(cache.store.held(), 0);
}

#[test]
fn what_is_too_large_is_not_kept_and_drops_what_was_known() {
    let (mut cache, t) = (cache_of(cost(130), VALID), start());
    cache.store.put(&key(1), Some(entry(100)), t);
    assert_eq!(cache.store.held(), cost(100));
    cache.store.put(&key(1), Some(entry(131)), t);
    assert!(cache.store.held() == 0 && cache.get(&key(1), t).is_none());
    let mut none = cache_of(0, VALID);
    none.store.put(&key(1), Some(entry(0)), t);
    assert!(none.store.held() == 0 && none.get(&key(1), t).is_none());
}

#[test]
fn what_is_asked_for_outlives_what_is_not() {
    let (mut cache, t) = (cache_of(4 * cost(100), VALID), start());
    cache.store.put(&key(0), Some(entry(100)), t);
    for number in 1..1000 {
        cache.store.put(&key(number), Some(entry(100)), t);
        assert!(cache.get(&key(0), t).is_some(), "after {number}");
        assert!(cache.store.held() <= 4 * cost(100));
    }
    // Once others are asked for in its place, it goes too.
    for number in 1000..1009 {
        cache.store.put(&key(number), Some(entry(100)), t);
        cache.get(&key(number), t);
    }
    assert!(cache.get(&key(0), t).is_none());
}

/// The cache holds the latest entries after any operations, and its weight is that of its entries.
#[test]
fn bytes_are_counted_through_any_history() {
    for seed in 1..=40_u64 {
        let mut rng = Rng::new(seed);
        let mut random = |bound: usize| rng.below(bound);
        let capacity = cost(100) * (1 + random(12) as u64);
        let (mut cache, t) = (cache_of(capacity, VALID), start());
        let mut last = vec![None; 20];
        for _ in 0..2000 {
            let number = random(last.len());
            match random(8) {
                0 => {
                    cache.store.put(&key(number), None, t);
                    last[number] = None;
                }
                1..4 => {
                    let size = random(400);
                    cache.store.put(&key(number), Some(entry(size)), t);
                    last[number] = Some(size);
                }
                _ => {
                    if let Some(found) = cache.get(&key(number), t) {
                        assert_eq!(Some(found.bytes.len()), last[number], "seed {seed}");
                    }
                }
            }
            let held = cache.store.entries.weight();
            assert_eq!(cache.store.held(), held, "seed {seed}");
            assert!(held <= capacity, "seed {seed}");
        }
    }
}

#[test]
fn entries_that_have_left_and_are_still_sent_take_no_more_than_the_cache() {
    let size = 1000;
    let room = 8 * cost(size);
    let (mut cache, t) = (cache_of(room, VALID), start());
    let mut sent = Vec::new();
    // Slow readers of many files, each of which leaves the cache for the next one.
    for number in 0..100 {
        cache.store.put(&key(number), Some(entry(size)), t);
        sent.extend(cache.get(&key(number), t).map(|entry| entry.bytes.clone()));
    }
    let kept = sent.len() as u64 * cost(size);
    assert!((room..=2 * room + cost(size)).contains(&kept), "{kept}");
    assert!(cache.store.held() <= room);
    assert!(cache.get(&key(99), t).is_none());
    sent.truncate(1);
    cache.store.put(&key(99), Some(entry(size)), t);
    assert!(cache.get(&key(99), t).is_some());
    cache.clear();
    drop(sent);
    assert_eq!(cache.store.entries.usage(), (0, 0));
}
