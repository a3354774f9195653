//! Memory that the endpoint holds for a connection without requests.

use sluicegate_raw_client::{Setup, http3};

use super::*;

/// Requests of a page with many parts.
const BURST: u64 = 100;

/// Bytes of a response.
const RESPONSE: usize = 1_000;

/// Bytes that nginx 1.31 holds for an idle connection of HTTP/3: 70.9 KiB, of which half is to suffice.
const MOST: i64 = 70_900 / 2;

/// Returns what the endpoint holds for a connection after so many requests at once, and a second of silence.
fn held_after(requests: u64) -> i64 {
    let mut attack = attack(|_| {});
    // Tables that all connections share are allocated with the first one.
    let mut first = attack.connect(HONEST, Setup::new(77));
    attack.ask(&mut first, 0, RESPONSE);
    attack.pass(Duration::from_secs(1), &mut first);
    let before = attack.held;
    let mut peer = attack.connect(PEER, Setup::new(1));
    for stream in (0..requests).map(|number| number * 4) {
        let head = http3::get(&format!("/bytes/{RESPONSE}"), &[]);
        peer.client.write(stream, &head, true);
    }
    attack.exchange(&mut peer);
    attack.pass(Duration::from_secs(1), &mut peer);
    for stream in (0..requests).map(|number| number * 4) {
        assert_eq!(peer.response(stream), (Some(200), RESPONSE));
    }
    attack.held - before
}

#[test]
fn idle_connection_holds_little() {
    let held = held_after(1);
    assert!((1..=MOST).contains(&held), "{held} bytes");
}

#[test]
fn burst_of_requests_leaves_no_memory_behind() {
    let (one, many) = (held_after(1), held_after(BURST));
    assert!(many <= one + one / 8, "{one} and {many} bytes");
}
