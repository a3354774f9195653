//! Tests WebSockets to upstreams that speak HTTP/1.1.

use super::tls_upstream::{Certified, TlsUpstream};
use super::*;
use crate::exchange::message::{Head, ToFront, cost};
use crate::exchange::test_front::tunnel;
use crate::websocket::accept;

/// Begins a request for a WebSocket.
pub(super) fn ask(edge: &Edge, credit: u64) -> (TestFront, JoinHandle<()>) {
    let mut head = tunnel(Some("websocket"));
    let fields = [("sec-websocket-protocol", "chat"), ("sec-websocket-key", "from the client")];
    head.headers = crate::exchange::test_front::head("GET", "/", &fields).headers;
    edge.start(head, None, true, credit)
}

/// Returns the head by which an upstream accepts a request.
pub(super) fn switching(request: &str) -> String {
    let mut lines = request.lines();
    let key = lines.find_map(|line| line.strip_prefix("sec-websocket-key: "));
    let accept = accept(key.expect("a request with a key").as_bytes());
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nconnection: keep-alive, Upgrade\r\n\
         sec-websocket-protocol: chat\r\nsec-websocket-accept: {accept}\r\n\r\n"
    )
}

/// Opens a WebSocket.
async fn open(
    server: &Server,
    edge: &Edge,
    credit: u64,
) -> (TestFront, JoinHandle<()>, Conn, Head) {
    let (front, task) = ask(edge, credit);
    let mut conn = server.accept().await;
    let request = conn.head().await;
    conn.send(switching(&request).as_bytes()).await;
    match next(&front).await {
        ToFront::Head(head) => (front, task, conn, head),
        other => panic!("{other:?}"),
    }
}

async fn ends(conn: &mut Conn) {
    assert_eq!(conn.0.read(&mut [0; 8]).await.unwrap(), 0);
}

#[test]
fn bytes_pass_both_ways_and_each_way_ends_by_itself() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task) = ask(&edge, PLENTY);
        let mut conn = server.accept().await;
        let request = conn.head().await;
        assert!(request.starts_with("GET /chat HTTP/1.1\r\nhost: example.org\r\n"));
        for line in [
            "connection: upgrade",
            "upgrade: websocket",
            "sec-websocket-version: 13",
            "sec-websocket-protocol: chat",
            "x-forwarded-for: 192.0.2.7",
        ] {
            assert!(request.lines().any(|known| known == line), "{request}");
        }
        assert!(!request.contains("from the client"));
        // The first bytes come with the head.
        conn.send(format!("{}hi", switching(&request)).as_bytes()).await;
        let ToFront::Head(head) = next(&front).await else {
            panic!("no head");
        };
        let names: Vec<_> = head.fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((head.status, head.length, head.end), (200, None, false));
        assert_eq!(names, ["sec-websocket-protocol"]);
        assert!(matches!(next(&front).await, ToFront::Data(data) if data == b"hi"[..]));
        for message in [&b"one"[..], b"two"] {
            front.data(message);
            assert_eq!(conn.take(3).await, message);
            conn.send(message).await;
            assert!(matches!(next(&front).await, ToFront::Data(data) if data == message));
        }
        front.end(None);
        ends(&mut conn).await;
        conn.send(b"bye").await;
        drop(conn);
        let received = front.response().await;
        assert_eq!((received.body.as_slice(), received.complete), (&b"bye"[..], true));
        task.await.unwrap();
        let counters = edge.counters();
        assert_eq!((counters.answered, counters.opened), (1, 1));
        edge.assert_nothing_open();
    });
}

#[test]
fn an_upstream_that_ends_first_ends_the_tunnel() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, conn, _) = open(&server, &edge, PLENTY).await;
        drop(conn);
        assert!(matches!(next(&front).await, ToFront::StopBody));
        assert!(front.response().await.complete);
        task.await.unwrap();
        edge.assert_nothing_open();
    });
}

#[test]
fn a_tunnel_that_breaks_does_not_look_ended() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, conn, _) = open(&server, &edge, PLENTY).await;
        conn.reset();
        let received = front.response().await;
        assert!(!received.complete);
        assert_eq!(received.report.cause, Some("body_cut"));
        task.await.unwrap();
        // A client that cancels closes the upstream's connection.
        let (_front, task, mut conn, _) = open(&server, &edge, PLENTY).await;
        task.abort();
        conn.closed().await;
        settle().await;
        edge.assert_nothing_open();
    });
}

#[test]
fn a_refusal_passes_and_its_connection_serves_the_next_request() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task) = ask(&edge, PLENTY);
        let mut conn = server.accept().await;
        conn.head().await;
        // Nothing of the client passes before the upstream has switched, or it would be read as another request.
        front.data(b"GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n");
        settle().await;
        conn.send(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno").await;
        let received = front.response().await;
        assert_eq!((status(&received), received.body.as_slice()), (403, &b"no"[..]));
        task.await.unwrap();
        let (front, _task) = edge.get("/next");
        assert!(conn.head().await.starts_with("GET /next "));
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
    });
}

#[test]
fn an_upstream_that_does_not_speak_websocket_is_502() {
    run(async {
        let server = Server::new().await;
        let edge = Edge::new(Proxy { retries: 0, ..proxy(&[server.address()]) });
        let responses: [fn(&str) -> String; 5] = [
            |_| "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned(),
            |request| {
                switching(request).replace("sec-websocket-accept: ", "sec-websocket-accept: x")
            },
            |request| switching(request).replace("WebSocket", "h2c"),
            |request| switching(request).replace("keep-alive, Upgrade", "keep-alive"),
            |_| "HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned(),
        ];
        for response in responses {
            let (front, task) = ask(&edge, PLENTY);
            let mut conn = server.accept().await;
            let request = conn.head().await;
            conn.send(response(&request).as_bytes()).await;
            assert_eq!(status(&front.response().await), 502);
            task.await.unwrap();
            conn.closed().await;
        }
        assert_eq!(edge.failures(Failure::NoWebsocket), 5);
        assert_eq!(edge.state().failures, 0);
        edge.assert_nothing_open();
    });
}

#[test]
fn a_silent_tunnel_ends_after_its_timeout_and_never_before() {
    run(async {
        let server = Server::new().await;
        let limit = Duration::from_secs(10);
        for (tunnel_timeout, ends) in [(limit, true), (Duration::ZERO, false)] {
            let edge = Edge::new(Proxy { tunnel_timeout, ..proxy(&[server.address()]) });
            let (front, task, mut conn, _) = open(&server, &edge, PLENTY).await;
            for _ in 0..3 {
                // Either direction keeps the tunnel.
                pass(limit - Duration::from_secs(1)).await;
                front.data(b"ping");
                conn.take(4).await;
                pass(limit - Duration::from_secs(1)).await;
                conn.send(b"pong").await;
                assert!(matches!(next(&front).await, ToFront::Data(_)));
            }
            if ends {
                pass(limit).await;
                let received = front.response().await;
                assert!(!received.complete);
                assert_eq!(received.report.cause, Some("tunnel_timeout"));
                conn.closed().await;
            } else {
                pass(30 * limit).await;
                conn.send(b"pong").await;
                assert!(matches!(next(&front).await, ToFront::Data(_)));
                task.abort();
            }
        }
    });
}

#[test]
fn a_client_that_does_not_read_stops_its_upstream() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, mut conn, _) = open(&server, &edge, 1000).await;
        let flood = tokio::task::spawn_local(async move {
            for _ in 0..1000 {
                if conn.0.write_all(&[7; 65_536]).await.is_err() {
                    return;
                }
            }
            panic!("somebody has read 64 MiB");
        });
        assert!(matches!(next(&front).await, ToFront::Data(_)));
        settle().await;
        assert!(front.try_next().is_none());
        front.credit(cost(16 << 10));
        assert!(matches!(next(&front).await, ToFront::Data(_)));
        settle().await;
        assert!(front.try_next().is_none());
        task.abort();
        flood.await.unwrap();
    });
}

#[test]
fn an_upstream_with_tls_is_offered_http1_alone() {
    run(async {
        let certified = Certified::new("127.0.0.1", None);
        let mut acceptor = certified.acceptor();
        acceptor.set_alpn_select_callback(|_, offered| {
            let known = b"\x02h2\x08http/1.1";
            boring::ssl::select_next_proto(known, offered).ok_or(boring::ssl::AlpnError::NOACK)
        });
        let upstream = TlsUpstream::with(acceptor).await;
        let edge = Edge::new(upstream.proxy(certified.trusted()));
        let (front, _task) = ask(&edge, PLENTY);
        let mut stream = upstream.accept().await.unwrap().0;
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.unwrap());
        }
        let request = String::from_utf8(request).unwrap();
        stream.write_all(switching(&request).as_bytes()).await.unwrap();
        assert!(matches!(next(&front).await, ToFront::Head(head) if head.status == 200));
        front.data(b"ping");
        assert_eq!(stream.read_u8().await.unwrap(), b'p');
    });
}
