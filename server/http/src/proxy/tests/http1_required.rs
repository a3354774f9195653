//! Tests upstreams that choose HTTP/2 and then require HTTP/1.1 (RFC 9113 §7).

use boring::ssl::{AlpnError, select_next_proto};
use h2::Reason;
use h2::server::Builder;

use super::http2_upstream::{Http2Conn, Http2Upstream};
use super::tls_upstream::{Certified, TlsConn, TlsUpstream};
use super::*;

/// Returns an upstream that prefers HTTP/2, its certificate, and an edge that makes one attempt.
async fn start() -> (TlsUpstream, Certified, Edge) {
    let certified = Certified::new("127.0.0.1", None);
    let mut acceptor = certified.acceptor();
    acceptor.set_alpn_select_callback(|_, offered| {
        select_next_proto(b"\x02h2\x08http/1.1", offered).ok_or(AlpnError::NOACK)
    });
    let upstream = TlsUpstream::with(acceptor).await;
    let edge = Edge::new(Proxy { retries: 0, ..upstream.proxy(certified.trusted()) });
    (upstream, certified, edge)
}

/// Accepts a connection, and returns it with the protocol that was chosen.
async fn accept(upstream: &TlsUpstream) -> (TlsConn, Vec<u8>) {
    let conn = upstream.accept().await.unwrap();
    let protocol = conn.0.ssl().selected_alpn_protocol().unwrap().to_vec();
    (conn, protocol)
}

/// Accepts a connection of HTTP/2, and resets the stream of its request.
async fn refuse(upstream: &TlsUpstream) {
    let (conn, protocol) = accept(upstream).await;
    assert_eq!(protocol, b"h2");
    let mut conn = Http2Conn::new(conn.0, &Builder::new()).await;
    let (_, mut response) = conn.asked().await;
    response.send_reset(Reason::HTTP_1_1_REQUIRED);
    // The connection stays open meanwhile.
    drop(tokio::task::spawn_local(conn.closed()));
}

#[test]
fn a_request_goes_on_over_http1_and_so_do_those_after_it() {
    run(async {
        let (upstream, _certified, edge) = start().await;
        let begun = edge.get("/a");
        refuse(&upstream).await;
        let (mut conn, protocol) = accept(&upstream).await;
        assert_eq!(protocol, b"http/1.1");
        assert!(conn.head().await.starts_with("GET /a HTTP/1.1\r\n"));
        conn.send(OK).await;
        assert_eq!(begun.0.response().await.body, b"ok");
        begun.1.await.unwrap();
        let begun = edge.get("/b");
        assert!(conn.head().await.starts_with("GET /b HTTP/1.1\r\n"));
        conn.send(OK).await;
        assert_eq!(begun.0.response().await.body, b"ok");
        begun.1.await.unwrap();
        assert_eq!(edge.counters().retries, 1);
        assert_eq!(edge.state().failures, 0);
    });
}

#[test]
fn a_request_with_effects_fails_and_the_next_goes_over_http1() {
    run(async {
        let (upstream, _certified, edge) = start().await;
        let (front, task) = edge.post(Some(0));
        front.end(None);
        refuse(&upstream).await;
        let received = front.response().await;
        assert_eq!(status(&received), 502);
        assert_eq!(received.report.cause, Some("http1_required"));
        task.await.unwrap();
        let begun = edge.get("/");
        let (mut conn, protocol) = accept(&upstream).await;
        assert_eq!(protocol, b"http/1.1");
        conn.head().await;
        conn.send(OK).await;
        assert_eq!(status(&begun.0.response().await), 200);
        begun.1.await.unwrap();
    });
}

#[test]
fn an_upstream_that_speaks_http2_alone_gets_no_second_attempt() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = upstream.edge();
        let (front, task, _conn, (_, mut response)) = upstream.asked(edge.get("/")).await;
        response.send_reset(Reason::HTTP_1_1_REQUIRED);
        let received = front.response().await;
        assert_eq!(status(&received), 502);
        assert_eq!(received.report.cause, Some("http1_required"));
        task.await.unwrap();
        assert_eq!(edge.counters().retries, 0);
    });
}
