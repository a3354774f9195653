//! Tests faults of upstreams: the client gets 502 or a reset, never a short body that looks whole, and nothing is left.

use sluicegate_base::observe::access::UpstreamTimes;
use sluicegate_base::observe::metrics::Label as _;

use super::*;
use crate::exchange::message::{HandlerReport, ToFront};

/// Returns what a client receives if the upstream sends `response` and closes, without retries.
async fn received_for(response: &[u8]) -> (ReceivedResponse, Edge) {
    let server = Server::new().await;
    let edge = Edge::new(Proxy { retries: 0, ..proxy(&[server.address()]) });
    let (front, task, mut conn) = server.asked(edge.get("/")).await;
    // The proxy may have closed the connection before all is sent.
    let _ = conn.0.write_all(response).await;
    drop(conn);
    let received = front.response().await;
    task.await.unwrap();
    edge.assert_nothing_open();
    (received, edge)
}

async fn assert_502(response: &[u8], failure: Failure) {
    let (received, edge) = received_for(response).await;
    let shown = String::from_utf8_lossy(&response[..response.len().min(60)]);
    assert_eq!(status(&received), 502, "{shown}");
    assert!(received.complete, "{shown}");
    let cause = field(&received, "proxy-status").unwrap();
    assert!(cause.starts_with("sluicegate; error="), "{cause}");
    assert_eq!(edge.failures(failure), 1, "{shown}: {:?}", edge.counters());
    assert_eq!(edge.counters().answered, 0);
    assert_eq!(received.report.cause, Some(failure.name()));
}

#[test]
fn what_is_no_response_is_502() {
    run(async {
        for response in [
            &b"no HTTP at all\r\n\r\n"[..],
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"HTTP/1.1 99999 x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nna me: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nx: a\r\n folded\r\n\r\n",
            b"HTTP/1.1 600 Odd\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nabc",
            b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ] {
            assert_502(response, Failure::Malformed).await;
        }
        assert_502(
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
            Failure::Switched,
        )
        .await;
    });
}

#[test]
fn a_head_that_breaks_off_is_502() {
    run(async {
        assert_502(b"", Failure::Closed).await;
        assert_502(b"HTTP/1.1 200 OK\r\ncontent-le", Failure::Closed).await;
        assert_502(b"HTTP/1.1 103 Early Hints\r\n\r\n", Failure::Closed).await;
    });
}

#[test]
fn a_reset_is_502() {
    run(async {
        for part in [&b""[..], b"HTTP/1.1 200 O"] {
            let server = Server::new().await;
            let edge = server.edge();
            let (front, task, mut conn) = server.asked(edge.get("/")).await;
            conn.send(part).await;
            conn.reset();
            assert_eq!(status(&front.response().await), 502);
            task.await.unwrap();
            assert_eq!(edge.failures(Failure::Closed), 1);
            edge.assert_nothing_open();
        }
    });
}

#[test]
fn endless_heads_are_502_long_before_memory_ends() {
    run(async {
        let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
        for line in 0..50 {
            head.extend_from_slice(format!("x-{line}: {}\r\n", "a".repeat(1000)).as_bytes());
        }
        assert_502(&head, Failure::HeadTooLarge).await;
        // More lines than are taken, in fewer bytes than are.
        let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
        head.extend(b"a:b\r\n".repeat(1000));
        head.extend(b"\r\n");
        assert_502(&head, Failure::HeadTooLarge).await;

        // 100 MB: the upstream gets rid of no more than what is in the sockets.
        let server = Server::new().await;
        let edge = server.edge();
        let (front, _task, mut conn) = server.asked(edge.get("/")).await;
        conn.send(b"HTTP/1.1 200 OK\r\nx: ").await;
        let block = vec![b'a'; 1 << 20];
        let mut sent = 0;
        while sent < 100 && conn.0.write_all(&block).await.is_ok() {
            sent += 1;
        }
        assert!(sent < 100);
        assert_eq!(status(&front.response().await), 502);
    });
}

#[test]
fn a_flood_of_informational_responses_is_502() {
    run(async {
        let flood = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(100);
        assert_502(&flood, Failure::TooManyInterim).await;
        let flood = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(5000);
        assert_502(&flood, Failure::TooManyInterim).await;
    });
}

#[test]
fn a_body_that_breaks_off_does_not_look_whole() {
    run(async {
        for (response, arrived) in [
            (&b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort"[..], &b"short"[..]),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n", b""),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n", b"abcd"),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nab", b"ab"),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\nzz\r\n", b"a"),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\naXX0\r\n\r\n", b"a"),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n", b""),
        ] {
            let (received, edge) = received_for(response).await;
            let shown = String::from_utf8_lossy(response);
            assert_eq!(status(&received), 200, "{shown}");
            assert!(!received.complete, "{shown}");
            assert!(arrived.starts_with(&received.body), "{shown}");
            assert_eq!(edge.failures(Failure::BodyCut), 1, "{shown}");
            assert_eq!(edge.counters().answered, 0);
            let report = received.report;
            assert_eq!(report.cause, Some("body_cut"), "{shown}");
            let UpstreamTimes { connect, head, total, .. } = report.upstream_times;
            assert!(connect.is_some() && connect <= head, "{shown}");
            assert_eq!(total, None, "{shown}");
        }
    });
}

#[test]
fn a_body_reset_half_way_does_not_look_whole() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, mut conn) = server.asked(edge.get("/")).await;
        // Even one that would end with its connection.
        conn.send(b"HTTP/1.1 200 OK\r\n\r\nsome").await;
        assert!(matches!(front.next().await, ToFront::Head(head) if head.status == 200));
        conn.reset();
        let received = front.response().await;
        task.await.unwrap();
        assert!(!received.complete);
        assert_eq!(edge.failures(Failure::BodyCut), 1);
        edge.assert_nothing_open();
    });
}

#[test]
fn more_than_was_promised_is_not_passed_and_ends_the_connection() {
    run(async {
        let (received, edge) =
            received_for(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n")
                .await;
        assert_eq!((received.body.as_slice(), received.complete), (&b"ok"[..], true));
        assert_eq!(edge.state().idle, 0);
    });
}

#[test]
fn an_upstream_that_is_not_there_is_502() {
    run(async {
        let address = Server::new().await.address();
        let edge = Edge::new(proxy(&[address]));
        let (front, task) = edge.get("/");
        let received = front.response().await;
        task.await.unwrap();
        assert_eq!(status(&received), 502);
        assert_eq!(field(&received, "proxy-status"), Some("sluicegate; error=connection_refused"));
        // The retry has failed too.
        assert_eq!(edge.failures(Failure::Refused), 2);
        let expected = HandlerReport {
            upstream: Some(address.to_string().into()),
            attempts: 2,
            upstream_times: UpstreamTimes {
                begun: received.report.upstream_times.begun,
                ..UpstreamTimes::default()
            },
            cause: Some("refused"),
        };
        assert_eq!(received.report, expected);
        edge.assert_nothing_open();
    });
}

#[test]
fn a_head_request_gets_its_error_without_a_body() {
    run(async {
        let address = Server::new().await.address();
        let edge = Edge::new(proxy(&[address]));
        let (front, _task) = edge.start(head("HEAD", "/", &[]), None, false, PLENTY);
        let received = front.response().await;
        let head = received.head.unwrap();
        assert_eq!((head.status, head.end), (502, true));
        assert!(head.length.is_some_and(|length| length > 0));
    });
}
