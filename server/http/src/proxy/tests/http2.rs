//! Tests upstreams that speak HTTP/2: requests and their connections.

use bytes::Bytes;

use super::http2_upstream::{
    Http2Conn, Http2Upstream, assert_ok, begin, ok, read, reset, response,
};
use super::tls_upstream::{Certified, TlsUpstream};
use super::*;
use crate::exchange::message::ToFront;

fn trailers(name: &'static str, value: &'static str) -> http::HeaderMap {
    let mut trailers = http::HeaderMap::new();
    trailers.insert(name, http::HeaderValue::from_static(value));
    trailers
}

#[test]
fn a_request_has_the_form_of_http2() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let fields = [("te", "trailers"), ("x-a", "1"), ("connection", "x-a")];
        let begun = edge.start(head("GET", "/a/b?c=d", &fields), None, false, PLENTY);
        let (front, task, mut conn, (request, mut sender)) = upstream.asked(begun).await;
        assert_eq!(request.uri(), "http://example.org/a/b?c=d");
        assert_eq!(request.method(), "GET");
        let mut names: Vec<_> = request.headers().keys().map(ToString::to_string).collect();
        names.sort();
        let expected =
            ["forwarded", "te", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];
        assert_eq!(names, expected);
        assert_eq!(request.headers()["te"], "trailers");
        assert!(request.body().is_end_stream());
        let fields = [("x-b", "2"), ("content-length", "2")];
        let mut body = sender.send_response(response(203, &fields), false).unwrap();
        body.send_data(Bytes::from_static(b"ok"), true).unwrap();
        let received = front.response().await;
        task.await.unwrap();
        assert_eq!((status(&received), field(&received, "x-b")), (203, Some("2")));
        assert_eq!(received.head.as_ref().unwrap().length, Some(2));
        assert_eq!(received.body, b"ok");
        assert!(received.complete);
        let (front, _task) = edge.start(head("OPTIONS", "*", &[]), None, false, PLENTY);
        assert_eq!(conn.respond().await.uri().path(), "*");
        assert_eq!(status(&front.response().await), 200);
        assert_eq!((edge.counters().opened, edge.counters().reused), (1, 1));
    });
}

#[test]
fn bodies_and_trailers_stream_both_ways_at_the_same_time() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let (front, task, _conn, (mut request, sender)) = upstream.asked(edge.post(None)).await;
        assert!(!request.headers().contains_key("content-length"));
        let mut body = begin(sender, &[("content-type", "application/grpc")]);
        assert!(matches!(next(&front).await, ToFront::Head(_)));
        for message in [&b"one"[..], b"two"] {
            front.data(message);
            assert_eq!(request.body_mut().data().await.unwrap().unwrap(), message);
            body.send_data(Bytes::from_static(message), false).unwrap();
            assert!(matches!(next(&front).await, ToFront::Data(data) if data == message));
        }
        let name = http::HeaderName::from_static("x-sum");
        front.end(Some(vec![(name, http::HeaderValue::from_static("6"))]));
        let (rest, sums) = read(request.body_mut()).await;
        assert!(rest.is_empty());
        assert_eq!(sums.unwrap()["x-sum"], "6");
        body.send_trailers(trailers("grpc-status", "0")).unwrap();
        assert!(
            matches!(next(&front).await, ToFront::End(Some(fields)) if fields[0].0 == "grpc-status")
        );
        task.await.unwrap();
        assert_eq!((edge.counters().answered, edge.state().idle), (1, 1));
    });
}

#[test]
fn a_response_of_a_head_alone_is_whole() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let (front, task, _conn, (request, mut sender)) = upstream.asked(edge.post(None)).await;
        // The client is still sending, so the upstream asks it to stop (RFC 9113 §8.1).
        let fields = [("grpc-status", "12")];
        sender.send_response(response(200, &fields), true).unwrap();
        drop((request, sender));
        let received = front.response().await;
        task.await.unwrap();
        assert!(received.complete && received.body.is_empty());
        assert_eq!(field(&received, "grpc-status"), Some("12"));
        assert_eq!(edge.counters().early_answers, 1);
    });
}

#[test]
fn informational_responses_pass() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let (front, _task, _conn, (_request, mut sender)) = upstream.asked(edge.get("/")).await;
        for status in [100, 103] {
            sender.send_informational(response(status, &[("link", "</a>")])).unwrap();
        }
        ok(sender);
        let received = front.response().await;
        assert_eq!((received.interim.as_slice(), status(&received)), (&[103][..], 200));
    });
}

#[test]
fn a_burst_of_requests_opens_one_connection() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let begun: Vec<_> = (0..50).map(|_| edge.get("/")).collect();
        let mut conn = upstream.accept().await;
        for _ in 0..50 {
            conn.respond().await;
        }
        assert_ok(begun).await;
        assert_eq!((edge.counters().opened, edge.counters().reused), (1, 49));
    });
}

#[test]
fn more_requests_than_the_upstream_allows_at_a_time_open_more_connections() {
    run(async {
        let mut upstream = Http2Upstream::new().await;
        upstream.builder.max_concurrent_streams(2);
        let edge = upstream.edge();
        let begun: Vec<_> = (0..5).map(|_| edge.get("/")).collect();
        let mut conns = Vec::new();
        let mut waiting = Vec::new();
        for streams in [2, 2, 1] {
            let mut conn = upstream.accept().await;
            for _ in 0..streams {
                waiting.push(conn.asked().await);
            }
            conns.push(conn);
        }
        assert_eq!(edge.state().connections, 3);
        for (_request, sender) in waiting {
            ok(sender);
        }
        assert_ok(begun).await;
        let (front, _task) = edge.get("/");
        conns[0].respond().await;
        assert!(front.response().await.complete);
        assert_eq!(edge.counters().opened, 3);
    });
}

#[test]
fn requests_that_wait_for_a_connection_share_its_failure() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let begun: Vec<_> = (0..20).map(|_| edge.get("/")).collect();
        drop(upstream.server.accept().await);
        for (front, task) in begun {
            assert_eq!(status(&front.response().await), 502);
            task.await.unwrap();
        }
        assert_eq!(edge.counters().opened, 1);
        assert_eq!(edge.failures(Failure::Closed), 20);
        edge.assert_nothing_open();
    });
}

#[test]
fn a_request_that_opens_a_connection_and_is_cancelled_leaves_that_to_another() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let (_first, cancelled) = edge.get("/");
        let (front, _task) = edge.get("/");
        let mut silent = upstream.server.accept().await;
        cancelled.abort();
        let mut conn = upstream.accept().await;
        conn.respond().await;
        assert_eq!(status(&front.response().await), 200);
        silent.closed().await;
    });
}

#[test]
fn an_upstream_without_http2_is_502() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let (front, task, mut conn) = upstream.server.asked(edge.get("/")).await;
        conn.send(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        let received = front.response().await;
        task.await.unwrap();
        assert_eq!((status(&received), edge.failures(Failure::NoHttp2)), (502, 1));
        conn.closed().await;
    });
}

#[test]
fn an_idle_connection_is_closed_in_time_and_a_removed_upstream_keeps_none() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        for reload in [false, true] {
            let conn = upstream.warm(&edge).await;
            assert_eq!((edge.state().idle, edge.state().connections), (1, 1));
            if reload {
                edge.reload([]);
                conn.closed().await;
            } else {
                tokio::time::pause();
                conn.closed().await;
                tokio::time::resume();
            }
        }
    });
}

#[test]
fn without_keepalive_a_connection_is_closed_after_its_last_exchange() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let proxy = Proxy::clone(&upstream.edge().proxy);
        let edge = Edge::new(with(proxy, |settings| settings.keepalive = 0));
        for _ in 0..2 {
            let begun = [edge.get("/"), edge.get("/")];
            let mut conn = upstream.accept().await;
            let asked = [conn.asked().await, conn.asked().await];
            for (_request, sender) in asked {
                ok(sender);
            }
            assert_ok(begun).await;
            conn.closed().await;
        }
        assert_eq!(edge.counters().opened, 2);
    });
}

#[test]
fn a_request_that_finds_its_connection_closed_is_repeated_once_on_another() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let mut conn = upstream.warm(&edge).await;
        // The upstream vanishes while several requests are on their way.
        let begun: Vec<_> = (0..3).map(|_| edge.get("/")).collect();
        for _ in 0..3 {
            drop(conn.asked().await.0);
        }
        conn.vanish().await;
        let mut second = upstream.accept().await;
        for _ in 0..3 {
            drop(second.asked().await.0);
        }
        second.vanish().await;
        for (front, task) in begun {
            assert_eq!(status(&front.response().await), 502);
            task.await.unwrap();
        }
        assert_eq!((edge.counters().opened, edge.counters().retries), (2, 3));
        edge.assert_nothing_open();
    });
}

#[test]
fn alpn_chooses_the_protocol() {
    run(async {
        let certified = Certified::new("127.0.0.1", None);
        let mut acceptor = certified.acceptor();
        acceptor.set_alpn_select_callback(|_, offered| {
            boring::ssl::select_next_proto(b"\x02h2", offered).ok_or(boring::ssl::AlpnError::NOACK)
        });
        let upstream = TlsUpstream::with(acceptor).await;
        let edge = Edge::new(upstream.proxy(certified.trusted()));
        let begun: Vec<_> = (0..3).map(|_| edge.get("/")).collect();
        let stream = upstream.accept().await.unwrap().0;
        let mut conn = Http2Conn::new(stream, &h2::server::Builder::new()).await;
        for _ in 0..3 {
            let request = conn.respond().await;
            assert_eq!(request.uri(), "https://example.org/");
        }
        assert_ok(begun).await;
        assert_eq!(edge.counters().opened, 1);
    });
}

#[test]
fn connections_of_an_upstream_that_chose_http1_are_opened_at_the_same_time() {
    run(async {
        let certified = Certified::new("127.0.0.1", None);
        let upstream = TlsUpstream::new(&certified).await;
        let edge = Edge::new(upstream.proxy(certified.trusted()));
        let first = edge.get("/");
        let mut conn = upstream.accept().await.unwrap();
        conn.head().await;
        let others = [edge.get("/"), edge.get("/")];
        // Neither handshake waits for the other.
        let _both = (upstream.server.accept().await, upstream.server.accept().await);
        conn.send(OK).await;
        assert_eq!(first.0.response().await.body, b"ok");
        for (_front, task) in others {
            task.abort();
        }
    });
}

#[test]
fn a_cancelled_request_resets_its_stream_and_no_other() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let (other, other_task, mut conn, (_request, sender)) = upstream.asked(edge.get("/")).await;
        // Before the head, while the body is sent.
        let (front, task) = edge.post(None);
        front.data(b"part");
        let (mut request, _sender) = conn.asked().await;
        task.abort();
        assert_eq!(reset(request.body_mut()).await, Some(h2::Reason::CANCEL));
        // After the head.
        let (front, task) = edge.post(None);
        let (mut request, response) = conn.asked().await;
        let _body = begin(response, &[]);
        assert!(matches!(next(&front).await, ToFront::Head(_)));
        task.abort();
        assert_eq!(reset(request.body_mut()).await, Some(h2::Reason::CANCEL));
        ok(sender);
        assert_ok([(other, other_task)]).await;
        assert_eq!(edge.state().active, 0);
    });
}
