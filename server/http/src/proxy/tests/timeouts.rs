//! Tests timeouts. The paused clock advances only to the next timer.

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::*;
use crate::exchange::message::ToFront;

/// Waits for the next block of a response.
async fn block(front: &TestFront) -> Bytes {
    match front.next().await {
        ToFront::Data(block) => block,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_head_that_does_not_come_is_504() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let before = Instant::now();
        let (front, task, mut conn) = server.asked(edge.get("/")).await;
        let received = late(&front).await;
        task.await.unwrap();
        assert_eq!(status(&received), 504);
        assert_eq!(edge.failures(Failure::HeadTimeout), 1);
        assert!(before.elapsed() >= edge.proxy.head_timeout);
        // Nothing that was sent is sent again.
        assert_eq!(edge.counters().retries, 0);
        edge.assert_nothing_open();
        conn.closed().await;
    });
}

#[test]
fn neither_drops_of_a_head_nor_informational_responses_prolong_the_wait() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let before = Instant::now();
        let (front, task, mut conn) = server.asked(edge.get("/")).await;
        let drip = tokio::task::spawn_local(async move {
            let text = b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nx: ";
            for byte in text.iter().chain(std::iter::repeat(&b'a')) {
                sleep(Duration::from_secs(2)).await;
                if conn.0.write_all(&[*byte]).await.is_err() {
                    return;
                }
            }
        });
        let received = late(&front).await;
        task.await.unwrap();
        assert_eq!(status(&received), 504);
        let took = before.elapsed();
        // A paused clock may run ahead while bytes are on their way. If they prolonged the wait, it would take hours.
        assert!(took >= edge.proxy.head_timeout && took < edge.proxy.head_timeout * 20);
        drip.await.unwrap();
        edge.assert_nothing_open();
    });
}

#[test]
fn a_body_that_stands_still_is_reset_and_one_that_drips_is_not() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, mut conn) = server.asked(edge.get("/")).await;
        conn.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n").await;
        assert!(matches!(front.next().await, ToFront::Head(_)));
        for _ in 0..5 {
            pass(edge.proxy.idle_timeout - Duration::from_secs(1)).await;
            conn.send(b"x").await;
            assert_eq!(block(&front).await, "x");
        }
        let received = late(&front).await;
        task.await.unwrap();
        assert!(received.body.is_empty() && !received.complete);
        assert_eq!(edge.failures(Failure::BodyTimeout), 1);
        edge.assert_nothing_open();
        conn.closed().await;
    });
}

#[test]
fn a_client_that_reads_late_is_not_the_upstreams_fault() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let begun = edge.start(head("GET", "/", &[]), None, false, 1);
        let (front, task, mut conn) = server.asked(begun).await;
        conn.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab").await;
        assert!(matches!(front.next().await, ToFront::Head(_)));
        assert_eq!(block(&front).await, "ab");
        conn.send(b"c").await;
        settle().await;
        pass(edge.proxy.idle_timeout * 3).await;
        front.credit(PLENTY);
        assert_eq!(block(&front).await, "c");
        // The last byte has some time to come after the client has taken the others.
        pass(edge.proxy.idle_timeout / 2).await;
        conn.send(b"d").await;
        let received = front.response().await;
        task.await.unwrap();
        assert_eq!((received.body.as_slice(), received.complete), (&b"d"[..], true));
    });
}

#[test]
fn an_upload_that_the_upstream_does_not_take_is_504() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, _conn) = server.asked(edge.post(Some(1 << 30))).await;
        // More than sockets take.
        for _ in 0..2000 {
            front.data(&[0; 16 << 10]);
        }
        let received = late(&front).await;
        task.await.unwrap();
        assert_eq!(status(&received), 504);
        assert_eq!(edge.failures(Failure::WriteTimeout), 1);
        edge.assert_nothing_open();
    });
}

#[test]
fn an_upload_that_the_client_does_not_send_is_408() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        // Once it is known that there is a body, and once before.
        for (method, length, sockets) in [("POST", Some(10), 1), ("GET", None, 0)] {
            let (front, task) = edge.start(head(method, "/", &[]), length, true, PLENTY);
            let conn = match sockets {
                0 => None,
                _ => {
                    let mut conn = server.accept().await;
                    conn.head().await;
                    front.data(b"12345");
                    conn.take(5).await;
                    Some(conn)
                }
            };
            let received = late(&front).await;
            task.await.unwrap();
            assert_eq!(status(&received), 408, "{method}");
            drop(conn);
        }
        let counters = edge.counters();
        assert_eq!((counters.cancelled, counters.opened), (2, 1));
        assert_eq!(counters.failures, ProxyCounters::default().failures);
        edge.assert_nothing_open();
    });
}

#[test]
fn the_time_for_the_head_begins_when_the_upload_is_through() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, mut conn) = server.asked(edge.post(Some(6))).await;
        for _ in 0..3 {
            pass(Duration::from_secs(50)).await;
            front.data(b"ab");
            conn.take(2).await;
        }
        settle().await;
        pass(Duration::from_secs(50)).await;
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        task.await.unwrap();
    });
}

#[test]
fn an_upstream_that_does_not_let_anyone_in_is_504() {
    run(async {
        // A listener whose queue is full takes no further connection.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queue = Vec::new();
        for _ in 0..8 {
            queue.push(tokio::task::spawn_local(TcpStream::connect(address)));
        }
        settle().await;
        let edge = Edge::new(proxy(&[address]));
        let (front, task) = edge.get("/");
        let received = late(&front).await;
        task.await.unwrap();
        assert_eq!(status(&received), 504);
        assert_eq!(edge.failures(Failure::ConnectTimeout), 2);
        for waiting in queue {
            waiting.abort();
        }
    });
}
