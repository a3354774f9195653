//! Uploads that nobody needs, and streams with next to nothing in their frames.

use sluicegate_http::exchange::stall::LINGERING_BYTES;
use sluicegate_quic::application::Application as _;

use super::Pair;
use crate::h3::session::FREE_OVERHEAD;

#[test]
fn a_large_body_gets_413_before_its_end() {
    let mut pair = Pair::new();
    for (more, body) in [(&[][..], 1001_usize), (&[("content-length", "1001")][..], 10)] {
        let stream = pair.upload(more, &vec![0; body], false);
        assert_eq!(pair.streams[&stream].status(), "413");
        assert!(pair.streams[&stream].finished);
    }
    // Clients exist that lose the response if they are stopped before they have sent all.
    assert_eq!(pair.client.stats().stopped_stream_count_remote, 0);
    let fits = pair.upload(&[("content-length", "1000")], &[0; 1000], true);
    assert_eq!(pair.streams[&fits].status(), "200");
}

#[test]
fn an_upload_that_nobody_needs_may_be_finished_and_no_more_than_a_bounded_one() {
    let mut pair = Pair::new();
    let refused = [("content-length", "20000")];
    let stream = pair.upload(&refused, &[0; 10_000], false);
    assert_eq!(pair.streams[&stream].status(), "413");
    let send = |pair: &mut Pair, stream, body: &[u8], fin| {
        let sent = pair.h3.send_body(&mut pair.client, stream, body, fin);
        pair.settle();
        sent.unwrap_or(0)
    };
    assert_eq!(send(&mut pair, stream, &[0; 10_000], true), 10_000);
    assert_eq!(pair.client.stats().stopped_stream_count_remote, 0);
    assert!(pair.session.is_idle());
    let stream = pair.upload(&[], &[0; 10_000], false);
    let mut sent = 10_000;
    while pair.client.stats().stopped_stream_count_remote == 0 {
        sent += send(&mut pair, stream, &[0; 50_000], false);
        assert!(sent <= 2 * LINGERING_BYTES, "{sent}");
    }
    assert!(sent >= LINGERING_BYTES, "{sent}");
    assert!(pair.session.is_idle());
}

/// Takes long: a client may send 8 MiB beside heads and bodies, and here they are frames of two bytes.
#[test]
fn frames_that_are_empty_or_unknown_close_their_connection_and_bodies_do_not() {
    // DATA of no bytes, and frames of a reserved type (RFC 9114 §7.2.8).
    for frame in [&[0, 0][..], &[0x21, 0]] {
        let mut pair = Pair::new();
        let stream = pair.upload(&[], b"a beginning", false);
        let frames = frame.repeat(20_000);
        let mut sent = 0;
        while pair.server.local_error().is_none() {
            let count = pair.client.stream_send(stream, &frames, false);
            sent += count.unwrap_or(0) / 2 * 2;
            pair.settle();
            assert!(sent <= 2 * usize::try_from(FREE_OVERHEAD).unwrap(), "{sent}");
        }
        let error = pair.server.local_error().map(|error| error.error_code);
        assert_eq!(error, Some(0x107));
    }
}

#[test]
fn who_does_not_finish_an_upload_that_nobody_needs_is_stopped_after_a_while() {
    let mut pair = Pair::new();
    let stream = pair.upload(&[("content-length", "20000")], &[0; 10_000], false);
    assert_eq!(pair.streams[&stream].status(), "413");
    for _ in 0..14 {
        pair.ping();
    }
    assert_eq!(pair.client.stats().stopped_stream_count_remote, 0);
    assert!(!pair.session.is_idle());
    for _ in 14..30 {
        pair.ping();
    }
    assert_eq!(pair.client.stats().stopped_stream_count_remote, 1);
    assert!(pair.session.is_idle());
    assert_eq!(pair.stalled(), (0, 0));
}
