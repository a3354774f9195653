//! Tests contents in place of those of error responses.

use super::rules::Rules;
use super::*;

/// Error of an upstream, with a body that has a length.
const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\netag: \"x\"\r\nset-cookie: a=b\r\ncontent-length: 4\r\n\r\ngone";

fn get(edge: &Edge, rules: Rules) -> (TestFront, JoinHandle<()>) {
    edge.by(rules, head("GET", "/", &[]))
}

fn intercepting(server: &Server) -> Edge {
    Edge::new(Proxy { intercept_errors: true, ..proxy(&[server.address()]) })
}

#[test]
fn a_failure_of_the_upstream_has_the_page_and_keeps_its_cause() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, mut conn) = server.asked(get(&edge, Rules::with_page(5, "sorry"))).await;
        conn.send(b"garbage\r\n\r\n").await;
        let received = front.response().await;
        task.await.unwrap();
        assert_eq!((status(&received), &*received.body), (502, &b"sorry"[..]));
        assert_eq!(field(&received, "content-type"), Some("text/html"));
        let cause = field(&received, "proxy-status");
        assert_eq!(cause, Some("sluicegate; error=http_protocol_error"));
    });
}

#[test]
fn an_error_of_the_upstream_passes_unless_it_is_intercepted() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let begun = get(&edge, Rules::with_page(4, "page"));
        let (front, task, mut conn) = server.asked(begun).await;
        conn.send(NOT_FOUND).await;
        let received = front.response().await;
        task.await.unwrap();
        assert_eq!((status(&received), &*received.body), (404, &b"gone"[..]));
        assert_eq!(field(&received, "etag"), Some("\"x\""));
    });
}

#[test]
fn an_intercepted_error_has_the_page_and_its_connection_serves_the_next_request() {
    run(async {
        let server = Server::new().await;
        let edge = intercepting(&server);
        let begun = get(&edge, Rules::with_page(4, "page"));
        let (front, task, mut conn) = server.asked(begun).await;
        conn.send(NOT_FOUND).await;
        let received = front.response().await;
        task.await.unwrap();
        assert_eq!((status(&received), &*received.body), (404, &b"page"[..]));
        let fields = ["content-type", "set-cookie", "etag"].map(|name| field(&received, name));
        assert_eq!(fields, [Some("text/html"), Some("a=b"), None]);
        assert!(received.complete);

        let (front, task) = get(&edge, Rules::with_page(4, "page"));
        conn.head().await;
        conn.send(OK).await;
        assert_eq!(front.response().await.body, b"ok");
        task.await.unwrap();
        assert_eq!(edge.counters().opened, 1);
    });
}

#[test]
fn an_intercepted_error_with_a_long_body_costs_its_connection_and_no_more() {
    run(async {
        let server = Server::new().await;
        let edge = intercepting(&server);
        let begun = get(&edge, Rules::with_page(5, "page"));
        let (front, task, mut conn) = server.asked(begun).await;
        conn.send(b"HTTP/1.1 500 Oops\r\ncontent-length: 100000\r\n\r\n").await;
        let received = front.response().await;
        assert_eq!((status(&received), &*received.body), (500, &b"page"[..]));
        assert!(received.complete);
        conn.send(&[b'x'; 70_000]).await;
        conn.closed().await;
        task.await.unwrap();
        edge.assert_nothing_open();
    });
}

#[test]
fn the_response_to_head_has_the_length_of_the_page() {
    run(async {
        let server = Server::new().await;
        let edge = intercepting(&server);
        let begun = edge.by(Rules::with_page(4, "page"), head("HEAD", "/", &[]));
        let (front, task, mut conn) = server.asked(begun).await;
        conn.send(b"HTTP/1.1 404 Not Found\r\ncontent-length: 700\r\n\r\n").await;
        let head = front.response().await.head.unwrap();
        task.await.unwrap();
        assert_eq!((head.status, head.length, head.end), (404, Some(4), true));
    });
}
