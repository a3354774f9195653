use sluicegate_base::clock;

use super::*;

/// Reads of `size` bytes each, as many as a turn allows. Returns the bytes read.
fn turn(progress: &Progress, now: Instant, size: u64) -> u64 {
    progress.begin_turn(now);
    let mut read = 0;
    while progress.allowance() > 0 {
        let count = size.min(progress.allowance());
        progress.on_read(count);
        read += count;
    }
    read
}

#[test]
fn what_achieves_nothing_soon_has_short_turns_and_earns_little_by_waiting() {
    let (progress, start) = (Progress::default(), clock::now());
    assert!(turn(&progress, start, 17) <= TURN);
    let mut read = 0;
    for n in 0..1000 {
        read += turn(&progress, start + Duration::from_millis(n), 1000);
    }
    assert!(!progress.is_in_credit());
    assert!(read <= 1000 * LITTLE + 2 * TURN, "{read}");
    // What it sent before counts, but not for ever.
    progress.begin_turn(start + Duration::from_secs(6));
    assert!(progress.is_in_credit());
}

#[test]
fn reads_of_a_byte_cost_more_than_they_bring() {
    let (progress, start) = (Progress::default(), clock::now());
    assert!(turn(&progress, start, 1) <= TURN / READ);
    assert!(!progress.is_in_credit());
    assert!(turn(&progress, start, 1) <= LITTLE / READ);
}

#[test]
fn uploads_downloads_and_requests_keep_their_credit_at_any_rate() {
    let start = clock::now();
    // What a client sends in reads, and what that achieves.
    type Achieve = fn(&Progress);
    let honest: [(&str, u64, Achieve); 6] = [
        ("upload", 16_384, |progress| progress.on_received(16_375)),
        ("windows of a download", 26, |progress| {
            (0..4).for_each(|_| progress.on_sent(8192));
        }),
        ("small requests", 200, |progress| progress.on_request()),
        ("messages both ways", 60, |progress| {
            progress.on_received(40);
            progress.on_sent(40);
        }),
        ("requests with large cookies", 32_000, |progress| {
            progress.on_request();
            progress.on_head(32_000);
        }),
        ("requests with cookies", 3000, |progress| {
            progress.on_request();
            progress.on_sent(10_000);
        }),
    ];
    for (what, bytes, achieve) in honest {
        let progress = Progress::default();
        for _ in 0..100_000 {
            progress.begin_turn(start);
            progress.on_read(bytes);
            achieve(&progress);
            assert!(progress.is_in_credit(), "{what}");
        }
    }
}

#[test]
fn bodies_in_single_bytes_and_windows_for_them_achieve_nothing() {
    let start = clock::now();
    for (what, bytes, received) in [("chunks", 6_000, 1_000), ("frames", 10_000, 1_000)] {
        let progress = Progress::default();
        for _ in 0..100 {
            progress.begin_turn(start);
            progress.on_read(bytes);
            progress.on_received(received);
        }
        assert!(!progress.is_in_credit(), "{what}");
    }
}

#[test]
fn too_many_pauses_in_vain_end_a_connection_and_progress_forgives_them() {
    let progress = Progress::default();
    let pauses = || -> Vec<_> { std::iter::from_fn(|| progress.next_pause()).collect() };
    let first = pauses();
    assert_eq!(first.len(), PAUSES as usize);
    assert!(first.is_sorted() && first[0] == PAUSE);
    assert!(first.iter().sum::<Duration>() < Duration::from_secs(10));
    assert_eq!(progress.next_pause(), None);
    progress.on_request();
    assert_eq!(pauses(), first);
}
