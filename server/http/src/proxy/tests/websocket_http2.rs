//! Tests WebSockets to upstreams that speak HTTP/2.

use bytes::Bytes;
use h2::Reason;
use h2::ext::Protocol;

use super::http2_upstream::{
    Asked, Http2Conn, Http2Upstream, assert_ok, begin, read, reset, response,
};
use super::tls_upstream::{Certified, TlsUpstream};
use super::websocket::{ask, switching};
use super::*;
use crate::exchange::message::ToFront;

/// Starts an upstream that takes WebSockets.
async fn upstream() -> Http2Upstream {
    let mut upstream = Http2Upstream::new().await;
    upstream.builder.enable_connect_protocol();
    upstream
}

/// Opens a WebSocket.
async fn open(
    upstream: &Http2Upstream,
    edge: &Edge,
    credit: u64,
) -> (TestFront, JoinHandle<()>, Http2Conn, h2::RecvStream, h2::SendStream<Bytes>) {
    let (front, task, conn, asked) = upstream.asked(ask(edge, credit)).await;
    let (body, sender) = accept(asked);
    assert!(matches!(next(&front).await, ToFront::Head(head) if head.status == 200));
    (front, task, conn, body, sender)
}

/// Accepts a request for a WebSocket.
fn accept((request, sender): Asked) -> (h2::RecvStream, h2::SendStream<Bytes>) {
    assert_eq!(request.method(), "CONNECT");
    (request.into_body(), begin(sender, &[]))
}

/// Returns a TLS upstream that chooses HTTP/2 where it is offered.
async fn tls_upstream(certified: &Certified) -> TlsUpstream {
    let mut acceptor = certified.acceptor();
    acceptor.set_alpn_select_callback(|_, offered| {
        let known = b"\x02h2\x08http/1.1";
        boring::ssl::select_next_proto(known, offered).ok_or(boring::ssl::AlpnError::NOACK)
    });
    TlsUpstream::with(acceptor).await
}

#[test]
fn bytes_pass_both_ways_and_each_way_ends_by_itself() {
    run(async {
        let upstream = upstream().await;
        let edge = upstream.edge();
        let (front, task, _conn, (request, sender)) = upstream.asked(ask(&edge, PLENTY)).await;
        assert_eq!(request.uri(), "http://example.org/chat");
        assert_eq!(request.method(), "CONNECT");
        let protocol = request.extensions().get::<Protocol>().unwrap();
        assert_eq!(protocol.as_str(), "websocket");
        let field = |name| request.headers().get(name).map(|value| value.as_bytes());
        assert_eq!(field("sec-websocket-version"), Some(&b"13"[..]));
        assert_eq!(field("sec-websocket-protocol"), Some(&b"chat"[..]));
        for name in ["host", "connection", "upgrade", "sec-websocket-key"] {
            assert_eq!(field(name), None, "{name}");
        }
        let mut body = request.into_body();
        let mut sender = begin(sender, &[("sec-websocket-protocol", "chat")]);
        let ToFront::Head(head) = next(&front).await else {
            panic!("no head");
        };
        let names: Vec<_> = head.fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((head.status, head.length, head.end), (200, None, false));
        assert_eq!(names, ["sec-websocket-protocol"]);
        for message in [&b"one"[..], b"two"] {
            front.data(message);
            assert_eq!(body.data().await.unwrap().unwrap(), message);
            let data = Bytes::copy_from_slice(message);
            sender.send_data(data, false).unwrap();
            assert!(matches!(next(&front).await, ToFront::Data(data) if data == message));
        }
        front.end(None);
        assert_eq!(read(&mut body).await.0, b"");
        sender.send_data(Bytes::from_static(b"bye"), true).unwrap();
        let received = front.response().await;
        assert_eq!((received.body.as_slice(), received.complete), (&b"bye"[..], true));
        task.await.unwrap();
        assert_eq!(edge.counters().answered, 1);
        assert_eq!(edge.state().active, 0);
    });
}

#[test]
fn websockets_and_requests_share_a_connection() {
    run(async {
        let upstream = upstream().await;
        let edge = upstream.edge();
        let mut conn = upstream.warm(&edge).await;
        let (front, _task) = ask(&edge, PLENTY);
        let (_body, mut sender) = accept(conn.asked().await);
        let request = edge.get("/");
        conn.respond().await;
        assert_ok([request]).await;
        // The upstream ends the tunnel before the client.
        sender.send_data(Bytes::new(), true).unwrap();
        assert!(front.response().await.complete);
        let counters = edge.counters();
        assert_eq!((counters.opened, counters.reused), (1, 2));
    });
}

#[test]
fn an_upstream_without_extended_connect_is_502_and_sees_no_request() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let (front, task) = ask(&edge, PLENTY);
        let mut conn = upstream.accept().await;
        let received = front.response().await;
        assert_eq!(status(&received), 502);
        assert_eq!(received.report.cause, Some("no_websocket"));
        task.await.unwrap();
        assert_eq!(edge.failures(Failure::NoWebsocket), 1);
        assert_eq!(edge.state().failures, 0);
        // The connection serves other requests.
        let next = edge.get("/");
        assert_eq!(conn.respond().await.uri().path(), "/");
        assert_ok([next]).await;
        assert_eq!(edge.counters().opened, 1);
    });
}

#[test]
fn a_refusal_passes() {
    run(async {
        let upstream = upstream().await;
        let edge = upstream.edge();
        let (front, task, mut conn, (request, mut sender)) =
            upstream.asked(ask(&edge, PLENTY)).await;
        // Nothing of the client passes before the upstream has opened the tunnel.
        front.data(b"early");
        settle().await;
        let mut refusal = sender.send_response(response(403, &[]), false).unwrap();
        refusal.send_data(Bytes::from_static(b"no"), true).unwrap();
        let received = front.response().await;
        assert_eq!((status(&received), received.body.as_slice()), (403, &b"no"[..]));
        task.await.unwrap();
        assert_eq!(reset(&mut request.into_body()).await, Some(Reason::CANCEL));
        let next = edge.get("/");
        conn.respond().await;
        assert_ok([next]).await;
    });
}

#[test]
fn a_tunnel_that_breaks_does_not_look_ended() {
    run(async {
        let upstream = upstream().await;
        let edge = upstream.edge();
        for reason in [Reason::NO_ERROR, Reason::CANCEL, Reason::INTERNAL_ERROR] {
            let (front, task) = ask(&edge, PLENTY);
            let mut conn = upstream.accept().await;
            let (_body, mut sender) = accept(conn.asked().await);
            assert!(matches!(next(&front).await, ToFront::Head(_)));
            sender.send_reset(reason);
            let received = front.response().await;
            assert!(!received.complete, "{reason}");
            assert_eq!(received.report.cause, Some("body_cut"));
            task.await.unwrap();
            conn.abort(Reason::NO_ERROR);
            conn.closed().await;
        }
        // A client that cancels resets the stream.
        let (_front, task, _conn, mut body, _sender) = open(&upstream, &edge, PLENTY).await;
        task.abort();
        assert_eq!(reset(&mut body).await, Some(Reason::CANCEL));
    });
}

#[test]
fn a_silent_tunnel_ends_after_its_timeout() {
    run(async {
        let upstream = upstream().await;
        let limit = Duration::from_secs(10);
        let edge = Edge::new(Proxy { tunnel_timeout: limit, ..proxy_to(vec![upstream.address()]) });
        let (front, _task, _conn, mut body, mut sender) = open(&upstream, &edge, PLENTY).await;
        for _ in 0..3 {
            // Either direction keeps the tunnel.
            pass(limit - Duration::from_secs(1)).await;
            front.data(b"ping");
            assert_eq!(body.data().await.unwrap().unwrap(), b"ping"[..]);
            pass(limit - Duration::from_secs(1)).await;
            sender.send_data(Bytes::from_static(b"pong"), false).unwrap();
            assert!(matches!(next(&front).await, ToFront::Data(_)));
        }
        pass(limit).await;
        let received = front.response().await;
        assert!(!received.complete);
        assert_eq!(received.report.cause, Some("tunnel_timeout"));
        assert_eq!(reset(&mut body).await, Some(Reason::CANCEL));
    });
}

#[test]
fn neither_side_sends_more_than_the_other_reads() {
    run(async {
        let upstream = upstream().await;
        let edge = upstream.edge();
        let (front, task, _conn, mut body, mut sender) = open(&upstream, &edge, 1000).await;
        sender.reserve_capacity(16 << 20);
        let mut sent = 0;
        let mut room = async || {
            let room = std::future::poll_fn(|cx| sender.poll_capacity(cx));
            let room = tokio::time::timeout(Duration::from_millis(200), room).await;
            room.ok().map(|room| {
                let room = room.unwrap().unwrap();
                sender.send_data(vec![7; room].into(), false).unwrap();
                room
            })
        };
        while let Some(more) = room().await {
            sent += more;
            assert!(sent <= 512 << 10, "{sent}");
        }
        // The upstream does not read, and has a window of 65,535 bytes: the client gets no credit for more.
        let credited = |message| match message {
            ToFront::Credit(amount) => amount,
            _ => 0,
        };
        let mut credit = 0;
        for _ in 0..50 {
            front.data(&[7; 4096]);
            settle().await;
            credit += std::iter::from_fn(|| front.try_next()).map(credited).sum::<u64>();
        }
        assert!(credit < 150 << 10, "{credit}");
        let first = body.data().await.unwrap().unwrap();
        assert_eq!(first[0], 7);
        task.abort();
    });
}

#[test]
fn an_upstream_with_tls_gets_websockets_on_the_connection_that_it_has() {
    run(async {
        let certified = Certified::new("127.0.0.1", None);
        let upstream = tls_upstream(&certified).await;
        let edge = Edge::new(upstream.proxy(certified.trusted()));
        let request = edge.get("/");
        let stream = upstream.accept().await.unwrap().0;
        let mut builder = h2::server::Builder::new();
        let mut conn = Http2Conn::new(stream, builder.enable_connect_protocol()).await;
        conn.respond().await;
        assert_ok([request]).await;
        let (front, _task) = ask(&edge, PLENTY);
        let (request, sender) = conn.asked().await;
        assert_eq!(request.uri(), "https://example.org/chat");
        let _tunnel = accept((request, sender));
        assert!(matches!(next(&front).await, ToFront::Head(head) if head.status == 200));
        assert_eq!(edge.counters().opened, 1);
    });
}

#[test]
fn an_upstream_with_tls_that_takes_none_over_http2_is_asked_over_http1() {
    run(async {
        let certified = Certified::new("127.0.0.1", None);
        let upstream = tls_upstream(&certified).await;
        let edge = Edge::new(upstream.proxy(certified.trusted()));
        let request = edge.get("/");
        let stream = upstream.accept().await.unwrap().0;
        let mut conn = Http2Conn::new(stream, &h2::server::Builder::new()).await;
        conn.respond().await;
        assert_ok([request]).await;
        let (front, _task) = ask(&edge, PLENTY);
        let mut conn = upstream.accept().await.unwrap();
        let request = conn.head().await;
        conn.send(switching(&request).as_bytes()).await;
        assert!(matches!(next(&front).await, ToFront::Head(head) if head.status == 200));
        assert_eq!(edge.counters().opened, 2);
    });
}

#[test]
fn an_upstream_with_tls_that_speaks_http2_alone_is_502_and_not_to_blame() {
    run(async {
        let certified = Certified::new("127.0.0.1", None);
        let mut acceptor = certified.acceptor();
        acceptor.set_alpn_select_callback(|_, offered| {
            let selected = boring::ssl::select_next_proto(b"\x02h2", offered);
            selected.ok_or(boring::ssl::AlpnError::ALERT_FATAL)
        });
        let upstream = TlsUpstream::with(acceptor).await;
        let edge = Edge::new(Proxy { retries: 0, ..upstream.proxy(certified.trusted()) });
        let (front, task) = ask(&edge, PLENTY);
        assert!(upstream.accept().await.is_err(), "no protocol in common");
        let received = front.response().await;
        task.await.unwrap();
        assert_eq!(status(&received), 502);
        assert_eq!(received.report.cause, Some("no_websocket"));
        assert_eq!(edge.state().failures, 0);
    });
}
