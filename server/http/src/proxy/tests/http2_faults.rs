//! Tests faults of upstreams that speak HTTP/2: the right status or a reset, never a short body that looks whole.

use bytes::Bytes;
use h2::Reason;
use tokio::time::Instant;

use super::http2_upstream::{
    Frames, Http2Conn, Http2Upstream, assert_ok, begin, ok, read, response,
};
use super::*;
use crate::exchange::message::ToFront;

/// Returns two upstreams, and an edge that tries the second after the first.
async fn two() -> (Http2Upstream, Http2Upstream, Edge) {
    let (first, second) = (Http2Upstream::new().await, Http2Upstream::new().await);
    let edge = Edge::new(proxy_to(vec![first.address(), second.address()]));
    (first, second, edge)
}

#[test]
fn a_body_that_does_not_end_as_announced_is_reset() {
    run(async {
        let reasons = [Some(Reason::NO_ERROR), Some(Reason::INTERNAL_ERROR), None];
        for (reason, length) in reasons.into_iter().flat_map(|r| [(r, None), (r, Some("4"))]) {
            let upstream = Http2Upstream::new().await;
            let edge = upstream.edge();
            let begun = upstream.asked(edge.get("/")).await;
            let (front, task, conn, (_request, sender)) = begun;
            let field = length.map(|length| ("content-length", length));
            let mut body = begin(sender, field.as_slice());
            body.send_data(Bytes::from_static(b"ok"), false).unwrap();
            assert!(matches!(front.next().await, ToFront::Head(_)));
            match reason {
                Some(reason) => body.send_reset(reason),
                None => conn.vanish().await,
            }
            let received = front.response().await;
            task.await.unwrap();
            assert!(!received.complete, "{reason:?} {length:?}");
            assert_eq!(edge.failures(Failure::BodyCut), 1, "{reason:?} {length:?}");
            assert_eq!(edge.state().active, 0);
        }
    });
}

#[test]
fn informational_responses_do_not_pile_up_behind_a_slow_client() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        // The client has room for the first one alone.
        let begun = edge.start(head("GET", "/", &[]), None, false, 1);
        let (front, _task, _conn, (_request, mut sender)) = upstream.asked(begun).await;
        let mut hint = || {
            let hints = response(103, &[("link", "</a>")]);
            sender.send_informational(hints).unwrap();
        };
        hint();
        assert!(matches!(front.next().await, ToFront::Interim(103, _)));
        // The second one waits for the client.
        hint();
        tokio::time::sleep(Duration::from_millis(50)).await;
        for _ in 2..17 {
            hint();
        }
        while edge.failures(Failure::TooManyInterim) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn a_body_shorter_or_longer_than_its_length_is_reset() {
    run(async {
        for length in ["1", "3"] {
            let upstream = Http2Upstream::new().await;
            let edge = upstream.edge();
            let begun = upstream.asked(edge.get("/")).await;
            let (front, task, _conn, (_request, sender)) = begun;
            let mut body = begin(sender, &[("content-length", length)]);
            assert!(matches!(front.next().await, ToFront::Head(_)));
            body.send_data(Bytes::from_static(b"ok"), true).unwrap();
            let received = front.response().await;
            task.await.unwrap();
            assert!(!received.complete, "{length}");
            assert_eq!(edge.failures(Failure::BodyCut), 1, "{length}");
        }
    });
}

#[test]
fn a_stream_that_is_reset_before_the_head_is_502_unless_its_work_may_be_repeated() {
    run(async {
        let (first, second, edge) = two().await;
        let asked = first.asked(edge.get("/")).await;
        let (front, task, _conn, (_request, mut sender)) = asked;
        sender.send_reset(Reason::INTERNAL_ERROR);
        let mut other = second.accept().await;
        other.respond().await;
        assert_ok([(front, task)]).await;
        assert_eq!(edge.failures(Failure::StreamReset), 1);

        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let asked = upstream.asked(edge.post(Some(0))).await;
        let (front, task, mut conn, (_request, mut sender)) = asked;
        sender.send_reset(Reason::INTERNAL_ERROR);
        let received = front.response().await;
        task.await.unwrap();
        assert_eq!((status(&received), received.complete), (502, true));
        assert_eq!(received.report.cause, Some("stream_reset"));
        // The connection serves others.
        let next = edge.get("/");
        conn.respond().await;
        assert_ok([next]).await;
        assert_eq!(edge.counters().opened, 1);
    });
}

#[test]
fn a_request_whose_stream_is_refused_goes_elsewhere_whatever_its_method() {
    run(async {
        let (first, second, edge) = two().await;
        let asked = first.asked(edge.post(Some(4))).await;
        let (front, task, _conn, (_request, mut sender)) = asked;
        sender.send_reset(Reason::REFUSED_STREAM);
        let mut other = second.accept().await;
        let (mut request, sender) = other.asked().await;
        front.data(b"data");
        front.end(None);
        assert_eq!(read(request.body_mut()).await.0, b"data");
        ok(sender);
        assert_ok([(front, task)]).await;
        assert_eq!(edge.failures(Failure::StreamRefused), 1);
        // A body that has begun cannot begin again.
        let (front, task) = edge.post(Some(4));
        front.data(b"da");
        let (mut request, mut sender) = other.asked().await;
        assert_eq!(request.body_mut().data().await.unwrap().unwrap(), "da");
        sender.send_reset(Reason::REFUSED_STREAM);
        assert_eq!(status(&front.response().await), 502);
        task.await.unwrap();
    });
}

#[test]
fn goaway_lets_requests_end_and_sends_others_to_a_new_connection() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let (front, task) = edge.get("/");
        let mut frames = Frames::accept(&upstream.server).await;
        assert_eq!(frames.asked().await, 1);
        // These are sent, but the upstream does not process them: its last stream is the first.
        let late: Vec<_> = (0..3).map(|_| edge.post(Some(0))).collect();
        for stream in [3, 5, 7] {
            assert_eq!(frames.asked().await, stream);
        }
        frames.send(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]).await;
        let mut second = upstream.accept().await;
        for _ in 0..3 {
            second.respond().await;
        }
        assert_ok(late).await;
        // The first ends with `:status: 200` and nothing else.
        frames.send(1, 5, 1, &[0x88]).await;
        assert!(front.response().await.complete);
        task.await.unwrap();
        frames.0.closed().await;
        let counters = edge.counters();
        assert_eq!((counters.opened, counters.retries), (2, 3));
        assert_eq!(counters.failures, ProxyCounters::default().failures);
    });
}

#[test]
fn a_connection_that_the_upstream_aborts_fails_what_it_has_begun() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let (front, task, conn, _asked) = upstream.asked(edge.post(Some(0))).await;
        conn.abort(Reason::ENHANCE_YOUR_CALM);
        let received = front.response().await;
        task.await.unwrap();
        assert_eq!(status(&received), 502);
        conn.closed().await;
        edge.assert_nothing_open();
    });
}

#[test]
fn garbage_is_502() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let (front, task) = edge.post(Some(0));
        let mut frames = Frames::accept(&upstream.server).await;
        frames.asked().await;
        // A frame that is longer than any may be.
        frames.0.send(&[0xff, 0xff, 0xff, 1, 4, 0, 0, 0, 1]).await;
        let received = front.response().await;
        task.await.unwrap();
        assert_eq!(status(&received), 502);
        assert_eq!(received.report.cause, Some("malformed"));
        frames.0.closed().await;
    });
}

#[test]
fn a_head_that_is_too_large_or_no_response_is_502() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let mut conn: Option<Http2Conn> = None;
        let large = "x".repeat(40 << 10);
        for head in [response(600, &[]), response(200, &[("x-a", &large)])] {
            let (front, task) = edge.get("/");
            let conn = match &mut conn {
                Some(conn) => conn,
                none => none.insert(upstream.accept().await),
            };
            let mut sender = conn.asked().await.1;
            sender.send_response(head, true).unwrap();
            let received = front.response().await;
            task.await.unwrap();
            assert_eq!((status(&received), received.report.cause), (502, Some("malformed")));
        }
        assert_eq!(edge.counters().opened, 1);
    });
}

#[test]
fn slow_clients_hold_up_no_other_and_bound_what_the_upstream_sends() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let begun = edge.start(head("GET", "/", &[]), None, false, 1);
        let (slow, _slow_task, mut conn, (_request, sender)) = upstream.asked(begun).await;
        let mut body = begin(sender, &[]);
        body.reserve_capacity(16 << 20);
        let mut sent = 0;
        for _ in 0..50 {
            settle().await;
            let room = body.capacity();
            if room > 0 {
                body.send_data(Bytes::from(vec![0; room]), false).unwrap();
                sent += room;
                body.reserve_capacity(16 << 20);
            }
        }
        assert!((256 << 10..=512 << 10).contains(&sent), "{sent}");
        let other = edge.get("/");
        conn.respond().await;
        assert_ok([other]).await;
        // The rest comes once the client reads.
        body.send_data(Bytes::from_static(b"end"), true).unwrap();
        slow.credit(PLENTY);
        let received = slow.response().await;
        assert!(received.complete);
        assert_eq!(received.body.len(), sent + 3);
    });
}

/// Waits for the end of a request in virtual time, and returns what the client has received. The timeout runs since `begun` or
/// later.
async fn timed_out(begun: Instant, front: &TestFront, task: JoinHandle<()>) -> ReceivedResponse {
    let received = late(front).await;
    assert!(begun.elapsed() >= Duration::from_secs(60));
    task.await.unwrap();
    received
}

#[test]
fn timeouts_of_requests_leave_the_connection_to_others() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        // The upstream does not respond.
        let begun = Instant::now();
        let (front, task, mut conn, _asked) = upstream.asked(edge.post(Some(0))).await;
        assert_eq!(status(&timed_out(begun, &front, task).await), 504);
        assert_eq!(edge.failures(Failure::HeadTimeout), 1);
        // It does not read: more than its window and the buffers hold.
        let begun = Instant::now();
        let (front, task) = edge.post(None);
        let _asked = conn.asked().await;
        for _ in 0..20 {
            front.data(&[7; 64 << 10]);
        }
        assert_eq!(status(&timed_out(begun, &front, task).await), 504);
        assert_eq!(edge.failures(Failure::WriteTimeout), 1);
        // The client does not send.
        let begun = Instant::now();
        let (front, task) = edge.post(None);
        let _asked = conn.asked().await;
        assert_eq!(status(&timed_out(begun, &front, task).await), 408);
        // The body of the response pauses.
        let begun = Instant::now();
        let (front, task) = edge.get("/");
        let _body = begin(conn.asked().await.1, &[]);
        assert!(matches!(front.next().await, ToFront::Head(_)));
        assert!(!timed_out(begun, &front, task).await.complete);
        assert_eq!(edge.failures(Failure::BodyTimeout), 1);
        let next = edge.get("/");
        conn.respond().await;
        assert_ok([next]).await;
        assert_eq!(edge.counters().opened, 1);
    });
}

#[test]
fn a_connection_whose_upstream_is_silent_gets_no_further_request() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let mut conn = upstream.warm(&edge).await;
        // Its machine is gone: nobody reads or closes.
        let (silent, _task) = edge.get("/");
        let _asked = conn.asked().await;
        conn.freeze();
        settle().await;
        pass(Duration::from_secs(45)).await;
        let _second = upstream.warm(&edge).await;
        assert!(silent.try_next().is_none(), "it has a timeout of its own");
        drop(conn);
    });
}
