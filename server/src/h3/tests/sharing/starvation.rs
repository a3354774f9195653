//! No response keeps others waiting for long (RFC 9218 §10).

use super::link::{DOWNLOAD, Link, RATE, ROUND_TRIP};

/// Length of a small response, bytes.
const SMALL: u64 = 30_000;

/// Two round trips, and the time of a small response at half of the link's rate, ms.
const SOON: u64 = 2 * ROUND_TRIP + 2 * SMALL / RATE;

const PRIORITIES: [&str; 6] = ["", "i", "u=0", "u=0, i", "u=5", "u=7, i"];

#[test]
fn a_small_response_comes_soon_beside_a_download_whatever_their_priorities() {
    for first in PRIORITIES {
        for priority in PRIORITIES {
            for head_start in [1, 500] {
                let mut link = Link::warm();
                let download = link.bytes(DOWNLOAD, first);
                link.pass(head_start);
                let small = link.bytes(SMALL, priority);
                let took = link.wait(small);
                assert!(took <= SOON, "{first:?}, {priority:?}, {head_start}: {took} ms");
                assert!(link.done(download).is_none());
            }
        }
    }
}

#[test]
fn a_small_response_comes_soon_beside_one_without_an_end() {
    for first in PRIORITIES {
        let mut link = Link::new();
        let (endless, exchange) = link.app(first);
        link.bench.head(exchange, None, false);
        link.endless = Some(exchange);
        link.pass(1000);
        for priority in PRIORITIES {
            let before = link.received(endless);
            let small = link.bytes(SMALL, priority);
            let took = link.wait(small);
            assert!(took <= SOON, "{first:?}, {priority:?}: {took} ms");
            assert!(link.received(endless) > before);
            link.pass(200);
        }
    }
}

#[test]
fn an_upload_beside_a_download_is_answered() {
    let mut link = Link::new();
    let download = link.bytes(DOWNLOAD, "u=0, i");
    link.pass(500);
    let pair = &mut link.bench.pair;
    let upload = pair.request("GET", "/page", &[], false);
    pair.h3.send_body(&mut pair.client, upload, &[0; 900], true).unwrap();
    link.pass(2 * ROUND_TRIP);
    assert!(link.done(upload).is_some() && link.done(download).is_none());
}

#[test]
fn downloads_share_whatever_their_priorities() {
    for (priorities, least) in [
        (["", ""], 0.45),
        (["u=0, i", "u=0, i"], 0.45),
        (["u=0", "u=3"], 0.3),
        (["u=7", "u=0"], 0.08),
        (["u=0, i", "u=7"], 0.08),
    ] {
        let mut link = Link::new();
        let downloads = priorities.map(|priority| link.bytes(DOWNLOAD, priority));
        link.pass(500);
        let before = downloads.map(|stream| link.received(stream));
        link.pass(3000);
        let after = downloads.map(|stream| link.received(stream));
        let moved: Vec<u64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
        let sum: u64 = moved.iter().sum();
        assert!(sum > 3000 * RATE * 9 / 10, "{priorities:?}: {moved:?}");
        let shares: Vec<f64> = moved.iter().map(|one| *one as f64 / sum as f64).collect();
        assert!(shares.iter().all(|share| *share > least), "{priorities:?}: {shares:?}");
    }
}

#[test]
fn of_two_downloads_the_more_urgent_gets_more() {
    let mut link = Link::new();
    let (later, first) = (link.bytes(DOWNLOAD, "u=6"), link.bytes(DOWNLOAD, "u=1"));
    link.pass(3000);
    assert!(link.received(first) > 2 * link.received(later));
}

/// Lets time pass, in which the client always has small requests open that are more urgent than others.
fn pass_beside_small_ones(link: &mut Link, ms: u64) {
    let mut open: Vec<u64> = Vec::new();
    for _ in 0..ms {
        open.retain(|stream| link.done(*stream).is_none());
        while open.len() < 20 {
            open.push(link.bytes(SMALL, "u=1"));
        }
        link.pass(1);
    }
}

#[test]
fn a_download_goes_on_beside_small_responses_without_end() {
    let mut link = Link::new();
    let download = link.bytes(DOWNLOAD, "u=5");
    link.pass(500);
    let before = link.received(download);
    pass_beside_small_ones(&mut link, 4000);
    let moved = link.received(download) - before;
    let share = moved as f64 / (4000 * RATE) as f64;
    assert!((0.04..0.1).contains(&share), "{share}");
}

#[test]
fn a_less_urgent_response_ends_beside_small_ones_without_end() {
    for priority in ["u=5", "u=5, i"] {
        let mut link = Link::new();
        pass_beside_small_ones(&mut link, 100);
        let late = link.bytes(5 * SMALL, priority);
        pass_beside_small_ones(&mut link, 4000);
        assert!(link.done(late).is_some(), "{priority}: {}", link.received(late));
    }
}

/// Of two that wait too long, the first is one that the client does not read.
#[test]
fn a_response_that_its_client_does_not_take_keeps_no_other_waiting() {
    let mut link = Link::new();
    let stuck = link.bytes(2_000_000, "u=5");
    link.bench.pair.unread = Some(stuck);
    link.pass(2000);
    let late = link.bytes(5 * SMALL, "u=6");
    pass_beside_small_ones(&mut link, 4000);
    assert!(link.done(stuck).is_none());
    assert!(link.done(late).is_some(), "{}", link.received(late));
}

/// A head is sent whole or not at all, and a download takes all room as it comes.
#[test]
fn a_long_head_finds_room_beside_a_download() {
    let mut link = Link::new();
    link.bytes(DOWNLOAD, "");
    link.pass(1000);
    let long = link.ask("/long-head", "");
    let took = link.wait(long);
    assert!(took <= 2 * ROUND_TRIP, "{took} ms");
}

#[test]
fn a_download_that_its_client_does_not_take_holds_nobody_up() {
    let mut link = Link::new();
    let stuck = link.bytes(DOWNLOAD, "u=0");
    let other = link.bytes(DOWNLOAD, "u=0");
    // No more of it is read, so its window stays shut.
    link.bench.pair.unread = Some(stuck);
    link.pass(4000);
    let (before, at) = (link.received(other), link.now);
    link.pass(1000);
    let moved = link.received(other) - before;
    assert!(moved > (link.now - at) * RATE * 8 / 10, "{moved}");
    let small = link.bytes(SMALL, "u=7");
    let took = link.wait(small);
    assert!(took <= SOON, "{took} ms");
}
