//! Tests connections that serve several requests, and retries on another one.

use tokio::time::pause;

use super::*;

/// Makes a GET that `conn` serves.
pub(super) async fn exchange(edge: &Edge, conn: &mut Conn) {
    let (front, task) = edge.get("/");
    conn.head().await;
    conn.send(OK).await;
    assert_eq!(front.response().await.body, b"ok");
    task.await.unwrap();
}

/// Returns an edge with one idle connection.
pub(super) async fn warm(server: &Server) -> (Edge, Conn) {
    let edge = server.edge();
    let (front, task, mut conn) = server.asked(edge.get("/")).await;
    conn.send(OK).await;
    front.response().await;
    task.await.unwrap();
    assert_eq!(edge.state().idle, 1);
    (edge, conn)
}

#[test]
fn one_connection_serves_one_request_after_another() {
    run(async {
        let server = Server::new().await;
        let (edge, mut conn) = warm(&server).await;
        for _ in 0..9 {
            exchange(&edge, &mut conn).await;
        }
        let counters = edge.counters();
        assert_eq!((counters.opened, counters.reused), (1, 9));
        let state = edge.state();
        assert_eq!((state.active, state.connections, state.idle), (0, 1, 1));
    });
}

#[test]
fn bodies_of_every_framing_leave_the_connection_usable() {
    run(async {
        let server = Server::new().await;
        let (edge, mut conn) = warm(&server).await;
        for length in [Some(4), None] {
            let (front, task) = edge.post(length);
            front.data(b"data");
            front.end(None);
            let request = conn.head().await;
            let (framing, rest) = match length {
                Some(_) => ("content-length: 4\r\n", 4),
                None => ("transfer-encoding: chunked\r\n", 14),
            };
            assert!(request.contains(framing), "{request}");
            conn.take(rest).await;
            conn.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-t: 1\r\n\r\n")
                .await;
            let received = front.response().await;
            task.await.unwrap();
            assert_eq!((received.body.as_slice(), received.complete), (&b"ok"[..], true));
            assert_eq!(received.trailers.unwrap()[0].0, "x-t");
        }
        assert_eq!(edge.counters().opened, 1);
    });
}

#[test]
fn what_ends_the_connection_leaves_none_idle() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        for response in [
            &b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"[..],
            b"HTTP/1.1 200 OK\r\n\r\nok",
            b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
        ] {
            let (front, task, mut conn) = server.asked(edge.get("/")).await;
            conn.send(response).await;
            conn.0.shutdown().await.unwrap();
            let received = front.response().await;
            task.await.unwrap();
            assert_eq!((received.body.as_slice(), received.complete), (&b"ok"[..], true));
            assert_eq!(edge.state().idle, 0);
            edge.assert_nothing_open();
        }
    });
}

/// Sends a request on an idle connection that the upstream closes when it sees the request. Returns the client's status.
async fn on_a_stale_connection(method: &str, body: Option<&'static [u8]>, retries: u64) -> u16 {
    let server = Server::new().await;
    let mut edge = server.edge();
    Rc::make_mut(&mut edge.proxy).retries = retries;
    let (edge, mut stale) = {
        let (front, task, mut conn) = server.asked(edge.get("/")).await;
        conn.send(OK).await;
        front.response().await;
        task.await.unwrap();
        (edge, conn)
    };
    let length = body.map(|body| body.len() as u64);
    let (front, task) = edge.start(head(method, "/", &[]), length, body.is_some(), PLENTY);
    if let Some(body) = body {
        front.data(body);
        front.end(None);
    }
    stale.head().await;
    drop(stale);
    let upstream = tokio::task::spawn_local(async move {
        let mut conn = server.accept().await;
        conn.head().await;
        conn.send(OK).await;
        conn
    });
    let received = front.response().await;
    task.await.unwrap();
    let counters = edge.counters();
    let ok = status(&received) == 200;
    assert_eq!(counters.retries, u64::from(ok), "{method}");
    assert_eq!(edge.failures(Failure::Closed), u64::from(!ok), "{method}");
    // A connection that had waited says nothing about the upstream's health.
    assert_eq!(edge.state().failures, 0, "{method}");
    upstream.abort();
    status(&received)
}

#[test]
fn only_what_may_be_done_twice_is_tried_again_after_a_stale_connection() {
    run(async {
        for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"] {
            assert_eq!(on_a_stale_connection(method, None, 1).await, 200, "{method}");
        }
        for method in ["POST", "PATCH", "BREW"] {
            assert_eq!(on_a_stale_connection(method, None, 1).await, 502, "{method}");
        }
        assert_eq!(on_a_stale_connection("PUT", Some(b"body"), 1).await, 502);
        // A connection that had waited is no failed attempt.
        assert_eq!(on_a_stale_connection("GET", None, 0).await, 200);
    });
}

#[test]
fn stale_connection_leaves_the_retry_for_another_upstream() {
    run(async {
        let (first, second) = (Server::new().await, Server::new().await);
        let edge = Edge::new(proxy(&[first.address(), second.address()]));
        let (front, task, mut conn) = first.asked(edge.get("/")).await;
        conn.send(OK).await;
        front.response().await;
        task.await.unwrap();
        let (front, task, mut other) = second.asked(edge.get("/")).await;
        other.send(OK).await;
        front.response().await;
        task.await.unwrap();
        // The first upstream stops: its idle connection ends with the request, and it takes no other.
        let (front, task) = edge.get("/");
        conn.head().await;
        drop(first);
        drop(conn);
        let mut other = second.accept().await;
        other.head().await;
        other.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        task.await.unwrap();
        let counters = edge.counters();
        assert_eq!((counters.retries, edge.failures(Failure::Refused)), (2, 1));
    });
}

#[test]
fn repeatable_request_that_an_upstream_dropped_goes_to_one_that_has_not_seen_it() {
    run(async {
        for (method, code) in [("GET", 200), ("DELETE", 200), ("POST", 502)] {
            let (first, second) = (Server::new().await, Server::new().await);
            let edge = Edge::new(proxy(&[first.address(), second.address()]));
            let begun = edge.start(head(method, "/", &[]), None, false, PLENTY);
            let (front, task, conn) = first.asked(begun).await;
            drop(conn);
            let upstream = tokio::task::spawn_local(async move {
                let mut conn = second.accept().await;
                conn.head().await;
                conn.send(OK).await;
                conn
            });
            assert_eq!(status(&front.response().await), code, "{method}");
            task.await.unwrap();
            upstream.abort();
            // The first one is to blame.
            assert_eq!(edge.state().failures, 1, "{method}");
        }
    });
}

#[test]
fn retries_end_with_their_budget() {
    run(async {
        pause();
        let down = [Server::new().await.address(), Server::new().await.address()];
        let edge = Edge::new(with(proxy(&down), |settings| settings.retry_budget = 10));
        for _ in 0..1000 {
            let (front, task) = edge.get("/");
            assert_eq!(status(&front.response().await), 502);
            task.await.unwrap();
        }
        let counters = edge.counters();
        // A tenth of the requests, and the hundred that were saved up.
        assert!((199..=250).contains(&counters.retries), "{counters:?}");
        assert_eq!(counters.retries + counters.retries_refused, 1000);
    });
}

#[test]
fn old_connection_serves_no_further_request() {
    run(async {
        let server = Server::new().await;
        let five_minutes = Duration::from_secs(300);
        let aging = with(proxy(&[server.address()]), |settings| {
            settings.keepalive_max_age = five_minutes;
        });
        let edge = Edge::new(aging);
        let (front, task, mut conn) = server.asked(edge.get("/")).await;
        conn.send(OK).await;
        front.response().await;
        task.await.unwrap();
        let half_a_minute = async || pass(Duration::from_secs(30)).await;
        // Busy all the time.
        for _ in 0..9 {
            half_a_minute().await;
            exchange(&edge, &mut conn).await;
        }
        assert_eq!(edge.state().idle, 1);
        half_a_minute().await;
        let (front, task, mut fresh) = server.asked(edge.get("/")).await;
        fresh.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        task.await.unwrap();
        conn.closed().await;
        let counters = edge.counters();
        assert_eq!((counters.opened, counters.idle_dropped), (2, 1));
    });
}

#[test]
fn nothing_is_tried_again_once_a_byte_of_the_response_was_there() {
    run(async {
        let server = Server::new().await;
        let (edge, mut conn) = warm(&server).await;
        let (front, task) = edge.get("/");
        conn.head().await;
        conn.send(b"H").await;
        settle().await;
        drop(conn);
        assert_eq!(status(&front.response().await), 502);
        task.await.unwrap();
        assert_eq!(edge.counters().retries, 0);
    });
}

#[test]
fn nothing_is_tried_again_on_a_fresh_connection_that_saw_the_request() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, conn) = server.asked(edge.get("/")).await;
        drop(conn);
        assert_eq!(status(&front.response().await), 502);
        task.await.unwrap();
        assert_eq!((edge.counters().retries, edge.state().failures), (0, 1));
    });
}
