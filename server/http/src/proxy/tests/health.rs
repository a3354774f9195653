//! Tests which of several upstreams gets a request.

use tokio::time::Instant;

use super::*;
use crate::proxy::health::Health;

/// Returns an address where nobody listens.
pub(super) async fn nobody() -> SocketAddr {
    Server::new().await.address()
}

/// Starts an upstream that responds to every request with its name, and closes the connection.
pub(super) async fn named(name: &'static str) -> (SocketAddr, JoinHandle<()>) {
    let server = Server::new().await;
    let address = server.address();
    let task = tokio::task::spawn_local(async move {
        loop {
            let mut conn = server.accept().await;
            conn.head().await;
            let response = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\nx-name: {name}\r\ncontent-length: 0\r\n\r\n"
            );
            conn.send(response.as_bytes()).await;
        }
    });
    (address, task)
}

/// Returns the name of the upstream that has responded, or the status of the proxy's own response.
pub(super) async fn who(edge: &Edge) -> String {
    let (front, task) = edge.get("/");
    let received = front.response().await;
    task.await.unwrap();
    match field(&received, "x-name") {
        Some(name) => name.to_owned(),
        None => status(&received).to_string(),
    }
}

#[test]
fn upstreams_take_turns() {
    run(async {
        let (a, _a) = named("a").await;
        let (b, _b) = named("b").await;
        let (c, _c) = named("c").await;
        let edge = Edge::new(proxy(&[a, b, c]));
        let mut names = Vec::new();
        for _ in 0..6 {
            names.push(who(&edge).await);
        }
        assert_eq!(names.join(""), "abcabc");
    });
}

#[test]
fn a_request_goes_on_to_the_next_upstream_where_one_refuses() {
    run(async {
        let (b, _b) = named("b").await;
        let edge = Edge::new(proxy(&[nobody().await, b]));
        assert_eq!(who(&edge).await, "b");
        assert_eq!(edge.failures(Failure::Refused), 1);
        // Whatever the request is: nothing of it was sent.
        for (length, has_body) in [(None, false), (Some(4), true)] {
            let (front, task) = edge.start(head("POST", "/", &[]), length, has_body, PLENTY);
            front.data(b"body");
            front.end(None);
            assert_eq!(status(&front.response().await), 200);
            task.await.unwrap();
        }
        let edge = Edge::new(Proxy { retries: 0, ..proxy(&[nobody().await, b]) });
        assert_eq!(who(&edge).await, "502");
        edge.assert_nothing_open();
    });
}

#[test]
fn an_upstream_that_fails_often_is_left_out_then_tried_once() {
    run(async {
        let (b, _b) = named("b").await;
        let down = nobody().await;
        let edge = Edge::new(Proxy { retries: 0, ..proxy(&[down, b]) });
        let mut seen = Vec::new();
        for _ in 0..10 {
            seen.push(who(&edge).await);
        }
        // Three in a row, and then it is out.
        assert_eq!(seen.join(" "), "502 b 502 b 502 b b b b b");
        let state = |edge: &Edge| edge.counters().upstreams[&edge.first()];
        assert_eq!((state(&edge).out, state(&edge).failures), (1, 3));

        pass(edge.settings().fail_timeout).await;
        assert_eq!(state(&edge).out, 0);
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(who(&edge).await);
        }
        // One trial is enough to be out again.
        assert_eq!(seen.iter().filter(|name| *name == "502").count(), 1, "{seen:?}");
        assert_eq!(state(&edge).out, 1);

        // And one is enough to be back.
        pass(edge.settings().fail_timeout).await;
        let listener = TcpListener::bind(down).await.unwrap();
        let back = tokio::task::spawn_local(async move {
            loop {
                let mut conn = Conn(listener.accept().await.unwrap().0);
                conn.head().await;
                conn.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\nx-name: a\r\ncontent-length: 0\r\n\r\n")
                    .await;
            }
        });
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(who(&edge).await);
        }
        assert_eq!(seen.iter().filter(|name| *name == "a").count(), 2, "{seen:?}");
        back.abort();
    });
}

#[test]
fn only_one_request_tries_an_upstream_that_was_out() {
    run(async {
        let server = Server::new().await;
        let (b, _b) = named("b").await;
        let strict = with(proxy(&[server.address(), b]), |s| s.max_fails = 1);
        let edge = Edge::new(Proxy { retries: 0, ..strict });
        let (front, task) = edge.get("/");
        drop(server.accept().await);
        assert_eq!(status(&front.response().await), 502);
        task.await.unwrap();
        pass(edge.settings().fail_timeout).await;
        assert_eq!(who(&edge).await, "b");
        let (front, trial, mut conn) = server.asked(edge.get("/")).await;
        for _ in 0..4 {
            assert_eq!(who(&edge).await, "b");
        }
        // A client that cancels leaves the trial to the next one.
        trial.abort();
        drop(front);
        conn.closed().await;
        assert_eq!(who(&edge).await, "b", "its turn");
        let (front, _task, mut conn) = server.asked(edge.get("/")).await;
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
    });
}

/// Makes requests until one goes to the server and not to the upstream `b`.
async fn next_at(server: &Server, edge: &Edge) -> (TestFront, JoinHandle<()>, Conn) {
    loop {
        let (front, task) = edge.get("/");
        tokio::select! {
            mut conn = server.accept() => {
                conn.head().await;
                return (front, task, conn);
            }
            received = front.response() => assert_eq!(field(&received, "x-name"), Some("b")),
        }
    }
}

#[test]
fn trial_that_takes_too_long_leaves_another_to_the_next_request() {
    run(async {
        let server = Server::new().await;
        let (b, _b) = named("b").await;
        let patient = with(proxy(&[server.address(), b]), |s| s.max_fails = 2);
        let edge = Edge::new(Proxy { retries: 0, ..patient });
        for _ in 0..2 {
            let (front, task, conn) = next_at(&server, &edge).await;
            drop(conn);
            assert_eq!(status(&front.response().await), 502);
            task.await.unwrap();
        }
        let fail_timeout = edge.settings().fail_timeout;
        pass(fail_timeout).await;
        // Its response does not come, as with a slow upload.
        let (slow, slow_task, slow_conn) = next_at(&server, &edge).await;
        for _ in 0..4 {
            assert_eq!(who(&edge).await, "b");
        }
        pass(fail_timeout).await;
        let (front, task, mut conn) = next_at(&server, &edge).await;
        for _ in 0..4 {
            assert_eq!(who(&edge).await, "b", "one more trial, no more");
        }
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        task.await.unwrap();
        // The upstream is back, and a late failure of the first trial is one like any other.
        slow_conn.reset();
        assert_eq!(status(&slow.response().await), 502);
        slow_task.await.unwrap();
        assert_eq!((edge.state().out, edge.state().failures), (0, 3));
    });
}

#[test]
fn an_overdue_trial_that_ends_leaves_the_later_one_alone() {
    let health = Health::new(1, Duration::from_secs(10));
    let start = Instant::now();
    health.on_failure(Failure::Refused, false, "pool", "upstream");
    let late = |seconds| start + Duration::from_secs(seconds);
    let first = health.begin_trial(late(20)).unwrap();
    assert_eq!(health.begin_trial(late(29)), None);
    let second = health.begin_trial(late(31)).unwrap();
    health.end_trial(first);
    assert_eq!(health.begin_trial(late(32)), None, "the second one runs");
    health.end_trial(second);
    assert!(health.begin_trial(late(32)).is_some());
}

#[test]
fn where_all_are_out_they_are_asked_all_the_same() {
    run(async {
        let down = nobody().await;
        let edge = Edge::new(proxy(&[down]));
        for _ in 0..3 {
            assert_eq!(who(&edge).await, "502");
        }
        assert_eq!(edge.state().out, 1);
        let listener = TcpListener::bind(down).await.unwrap();
        let back = tokio::task::spawn_local(async move {
            let mut conn = Conn(listener.accept().await.unwrap().0);
            conn.head().await;
            conn.send(OK).await;
            conn
        });
        assert_eq!(who(&edge).await, "200");
        assert_eq!(edge.state().out, 0);
        drop(back);
    });
}

#[test]
fn a_name_with_an_address_is_found_and_one_without_is_502() {
    run(async {
        let server = Server::new().await;
        let port = server.address().port();
        let mut edge = server.edge();
        let named = |server: String| Rc::new(proxy_to(vec![UpstreamAddress::Tcp(server)]));
        edge.proxy = named(format!("localhost:{port}"));
        let (front, task, mut conn) = server.asked(edge.get("/")).await;
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        task.await.unwrap();
        // No resolver has to be asked to know that this is no name.
        edge.proxy = named("a..b:80".to_owned());
        assert_eq!(who(&edge).await, "502");
        assert_eq!(edge.failures(Failure::Resolve), 2);
    });
}

/// RFC 8470 §5.2: an intermediary that does not repeat the request itself forwards a 425.
#[test]
fn a_425_of_the_upstream_passes_and_is_no_failure() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let mut early = request(head("GET", "/", &[]), None, false);
        early.peer.early_data = true;
        let route = edge.reload([&*edge.proxy]).remove(0);
        let (front, task) = edge.pass(route, pair(early, PLENTY));
        let mut conn = server.accept().await;
        assert!(conn.head().await.contains("early-data: 1\r\n"));
        conn.send(b"HTTP/1.1 425 Too Early\r\ncontent-length: 0\r\n\r\n").await;
        assert_eq!(status(&front.response().await), 425);
        task.await.unwrap();
        let counters = edge.counters();
        assert_eq!((counters.retries, edge.state().failures), (0, 0));
    });
}
