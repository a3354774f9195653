//! Initials that come to nothing, and the filter that the endpoint then wants. Time is the test's own.

use sluicegate_dataplane::InitialFilter;

use super::*;
use crate::cid::tests::schemes;
use crate::endpoint::{Change, InitialShares};
use crate::testing::{Bench, Client, settings};

/// As long as a window in which Initials are counted.
const WINDOW: Duration = Duration::from_millis(100);
/// Initials of a flood in a window.
const FLOOD: usize = 10_000;

/// Returns a bench whose endpoint asks every client to retry, or refuses it.
fn bench() -> Bench {
    Bench::new(settings(|s| s.quic.retry_above = Some(0)))
}

/// Returns a long header of version 1 to `cid`, 1200 bytes.
fn long(first: u8, cid: &[u8]) -> Vec<u8> {
    let mut packet = vec![first, 0, 0, 0, 1, u8::try_from(cid.len()).unwrap()];
    packet.extend(cid);
    packet.resize(1200, 0);
    packet
}

/// Floods for two windows. Returns what the second one changes.
fn flood(bench: &mut Bench, packet: &[u8]) -> Option<Change> {
    let mut packet = packet.to_vec();
    let mut change = None;
    for _ in 0..2 {
        assert_eq!(change, None, "one window is not enough");
        for _ in 0..FLOOD {
            bench.endpoint.ingest(&meta(), &mut packet, bench.now, UNIX);
        }
        bench.said();
        bench.now += WINDOW;
        change = bench.endpoint.end_initial_window(bench.now);
    }
    change
}

fn own_cid(bench: &Bench) -> Vec<u8> {
    let generation = bench.endpoint.settings.secrets.generation();
    generate(0, generation).as_bytes().to_vec()
}

#[test]
fn flood_of_initials_asks_for_a_filter_of_what_the_kernel_drops() {
    let all = InitialFilter::ALL;
    let all_pass = InitialShares::default();
    let bad_token = {
        let mut packet = long(0xc0, &[7; 8]);
        // No source connection ID, and a token of 60 bytes that claims to be a Retry token.
        packet[14..17].copy_from_slice(&[0, 60, 1]);
        packet
    };
    for (mut packet, of_known) in [
        (long(0xc0, &[7; 8]), false),
        (long(0xc0, &[7; 16]), false),
        (bad_token, false),
        (unknown_version(), false),
        (long(0xc0, &[7; 8])[..1199].to_vec(), false),
        (unknown_version()[..1199].to_vec(), false),
        (long(0xc0, &[7; 16]), true),
    ] {
        let mut bench = bench();
        let own = own_cid(&bench);
        if of_known {
            packet[6..22].copy_from_slice(&own);
        }
        let per_second = FLOOD as u64 * 10;
        assert_eq!(flood(&mut bench, &packet), Some(Change::Begins(per_second)));
        let shares = bench.endpoint.initial_shares();
        let (flooded, other) =
            if of_known { (shares.known, shares.unknown) } else { (shares.unknown, shares.known) };
        assert!((all / 5..all / 3).contains(&flooded), "{flooded}");
        assert_eq!(other, all);
        let filter = bench.endpoint.initial_filter().unwrap();
        assert_eq!((filter.known, filter.unknown), (shares.known, shares.unknown));
        let mark = filter.mark.unwrap();
        assert!(mark.is_on(&own) && !mark.is_on(&[7; 16]));
        assert!(bench.endpoint.next_deadline().is_some_and(|at| at <= bench.now + WINDOW));
        // It passes, and the worker sleeps.
        let mut last = None;
        while bench.endpoint.initial_shares() != all_pass || last != Some(Change::Ends) {
            bench.now = bench.endpoint.next_deadline().unwrap();
            last = bench.endpoint.end_initial_window(bench.now).or(last);
        }
        assert_eq!(bench.endpoint.initial_filter(), None);
        assert_eq!(bench.endpoint.next_deadline(), None);
    }
}

#[test]
fn initials_are_counted_as_the_filter_tells_them_apart_whatever_the_scheme() {
    for scheme in schemes() {
        let mut bench = Bench::new(settings(|s| {
            s.quic.retry_above = Some(0);
            s.cid_scheme = scheme;
        }));
        let settings = &bench.endpoint.settings;
        let mark = settings.cid_scheme.mark(settings.secrets.generation());
        let own = bench.endpoint.generate_cid(CidPurpose::Connection);
        assert!(flood(&mut bench, &long(0xc0, own.as_bytes())).is_some());
        let filter = bench.endpoint.initial_filter().unwrap();
        assert_eq!(filter.mark, mark);
        let dropped = [filter.known, filter.unknown].map(|share| share < InitialFilter::ALL);
        assert_eq!(dropped, [mark.is_some(), mark.is_none()]);
    }
}

#[test]
fn packets_that_the_filter_passes_ask_for_none() {
    let own = own_cid(&bench());
    for packet in [
        short(100),
        long(0xe0, &own),
        long(0xd0, &[7; 8]),
        long(0xd0, &[7; 4]),
        vec![0x40],
        Vec::new(),
    ] {
        let mut bench = bench();
        assert_eq!(flood(&mut bench, &packet), None);
        assert_eq!(bench.endpoint.initial_filter(), None);
    }
}

#[test]
fn initials_of_open_connections_ask_for_none() {
    let mut bench = Bench::new(settings(|_| {}));
    let mut client = Client::new("192.0.2.1:5000");
    let mut first = vec![0; 1500];
    let (length, _) = client.quic.send(&mut first).unwrap();
    assert_eq!(flood(&mut bench, &first[..length]), None);
    assert_eq!(bench.endpoint.counters.accepted, 1);
}

#[test]
fn refused_filter_is_not_asked_for_again() {
    let mut bench = bench();
    let packet = long(0xc0, &[7; 8]);
    assert!(flood(&mut bench, &packet).is_some());
    bench.endpoint.on_filter_refused();
    assert_eq!(flood(&mut bench, &packet), None);
    assert_eq!(bench.endpoint.initial_filter(), None);
    assert_eq!(bench.endpoint.initial_shares(), InitialShares::default());
    assert_eq!(bench.endpoint.next_deadline(), None);
}
