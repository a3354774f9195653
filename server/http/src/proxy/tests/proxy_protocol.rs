//! Tests connections that name their clients by the PROXY protocol.

use sluicegate_config::{HealthCheck, ProxyProtocolVersion, StatusRange};

use super::tls_upstream::{Certified, TlsConn, TlsUpstream};
use super::*;
use crate::exchange::test_front::{peer, tunnel};
use crate::peer::Peer;

/// Header of version 1 for the client of the tests.
const LINE: &[u8] = b"PROXY TCP4 192.0.2.7 0.0.0.0 50000 0\r\n";
/// Length of a header of version 2 for an IPv4 client.
const BINARY: usize = 28;

fn naming(proxy: Proxy, version: ProxyProtocolVersion) -> Edge {
    Edge::new(with(proxy, |pool| pool.proxy_protocol = Some(version)))
}

#[test]
fn each_request_has_a_connection_that_begins_with_its_client() {
    run(async {
        let server = Server::new().await;
        let edge = naming(proxy(&[server.address()]), ProxyProtocolVersion::V1);
        let route = edge.reload([&*edge.proxy]).remove(0);
        for host in 7..10 {
            let mut request = request(head("GET", "/", &[]), None, false);
            request.peer = Peer { address: ([192, 0, 2, host], 50_000).into(), ..peer(false) };
            let (front, task) = edge.pass(route.clone(), pair(request, PLENTY));
            let mut conn = server.accept().await;
            let line = format!("PROXY TCP4 192.0.2.{host} 0.0.0.0 50000 0\r\nGET / HTTP/1.1\r\n");
            assert_eq!(conn.take(line.len()).await, line.as_bytes());
            conn.head().await;
            conn.send(OK).await;
            assert!(front.response().await.complete);
            task.await.unwrap();
            conn.closed().await;
        }
        let counters = edge.counters();
        assert_eq!((counters.opened, counters.reused), (3, 0));
        edge.assert_nothing_open();
    });
}

#[test]
fn header_goes_ahead_of_tls_and_an_upstream_is_offered_http1_alone() {
    run(async {
        let certified = Certified::new("app.test", None);
        let upstream = TlsUpstream::new(&certified).await;
        let tls = UpstreamTls { tls_name: Some("app.test".to_owned()), ..certified.trusted() };
        let edge = naming(upstream.proxy(tls), ProxyProtocolVersion::V2);
        let (front, task) = edge.get("/");
        let mut conn = upstream.server.accept().await;
        let header = conn.take(BINARY).await;
        assert_eq!(header[..16], *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c");
        assert_eq!(header[16..20], [192, 0, 2, 7]);
        let mut acceptor = certified.acceptor();
        acceptor.set_alpn_select_callback(|_, offered| {
            assert_eq!(offered, b"\x08http/1.1");
            Ok(&offered[1..])
        });
        let stream = tokio_boring::accept(&acceptor.build(), conn.0).await;
        let mut conn = TlsConn(stream.unwrap());
        assert!(conn.head().await.starts_with("GET / HTTP/1.1\r\n"));
        conn.send(OK).await;
        assert_eq!(front.response().await.body, b"ok");
        task.await.unwrap();
        edge.assert_nothing_open();
    });
}

#[test]
fn retry_names_the_client_to_the_other_upstream_too() {
    run(async {
        let (one, other) = (Server::new().await, Server::new().await);
        let upstreams = [one.address(), other.address()];
        let edge = naming(proxy(&upstreams), ProxyProtocolVersion::V1);
        let (front, task) = edge.get("/");
        let mut conn = one.accept().await;
        assert_eq!(conn.take(LINE.len()).await, LINE);
        conn.head().await;
        conn.reset();
        let mut conn = other.accept().await;
        assert_eq!(conn.take(LINE.len()).await, LINE);
        conn.head().await;
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        task.await.unwrap();
    });
}

#[test]
fn tunnel_begins_with_its_client() {
    run(async {
        let server = Server::new().await;
        let edge = naming(proxy(&[server.address()]), ProxyProtocolVersion::V1);
        let (_front, task) = edge.start(tunnel(Some("websocket")), None, true, PLENTY);
        let mut conn = server.accept().await;
        assert_eq!(conn.take(LINE.len()).await, LINE);
        assert!(conn.head().await.contains("upgrade: websocket\r\n"));
        task.abort();
    });
}

#[test]
fn health_check_names_no_client() {
    for (version, header) in [
        (ProxyProtocolVersion::V1, &b"PROXY UNKNOWN\r\n"[..]),
        (ProxyProtocolVersion::V2, b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"),
    ] {
        run(async {
            let server = Server::new().await;
            let mut proxy = with(proxy(&[server.address()]), |pool| {
                pool.proxy_protocol = Some(version);
            });
            let (PoolChoice::Inline(pool) | PoolChoice::Named(pool)) = &mut proxy.pool;
            Arc::make_mut(pool).health_check = HealthCheck {
                path: Some("/health".to_owned()),
                host: None,
                interval: Duration::from_millis(5),
                timeout: Duration::from_secs(60),
                status: vec![StatusRange { first: 200, last: 299 }],
                rises: 1,
                falls: 1,
            };
            let edge = Edge { pools: Rc::new(Pools::new(true)), ..Edge::new(proxy) };
            edge.reload([&*edge.proxy]);
            let mut conn = server.accept().await;
            assert_eq!(conn.take(header.len()).await, header);
            assert!(conn.head().await.starts_with("GET /health HTTP/1.1\r\n"));
            conn.send(OK).await;
            // The next check shows that this one has succeeded.
            let _next = server.accept().await;
            assert_eq!(edge.state().down, 0);
        });
    }
}
