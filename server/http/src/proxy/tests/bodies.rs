//! Tests bodies both ways: they stream, are bounded, and are cut off if the other side fails.

use std::cell::Cell;

use http::{HeaderName, HeaderValue};

use super::*;
use crate::exchange::message::{ToFront, cost};

/// Reads a chunked body up to its last chunk. Returns the content and the trailer lines.
async fn chunked(conn: &mut Conn) -> (Vec<u8>, String) {
    let mut content = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(conn.0.read_u8().await.unwrap());
        }
        let text = std::str::from_utf8(&line).unwrap().trim_end();
        let size = usize::from_str_radix(text, 16).unwrap();
        if size == 0 {
            break;
        }
        content.extend(conn.take(size).await);
        assert_eq!(conn.take(2).await, b"\r\n");
    }
    let mut rest = conn.take(2).await;
    while !rest.ends_with(b"\r\n\r\n") && rest != b"\r\n" {
        rest.push(conn.0.read_u8().await.unwrap());
    }
    (content, String::from_utf8(rest).unwrap())
}

#[test]
fn an_upload_is_passed_on_while_it_comes_in() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let trailer = [("trailer", "x-sum"), ("te", "trailers")];
        let (front, task) = edge.start(head("POST", "/", &trailer), None, true, PLENTY);
        let mut conn = server.accept().await;
        let request = conn.head().await;
        assert!(request.contains("transfer-encoding: chunked\r\n"), "{request}");
        assert!(!request.contains("content-length"), "{request}");
        front.data(b"first");
        assert_eq!(conn.take(10).await, b"5\r\nfirst\r\n");
        front.data(b"second");
        front.end(Some(vec![(HeaderName::from_static("x-sum"), HeaderValue::from_static("9"))]));
        let (content, trailers) = chunked(&mut conn).await;
        assert_eq!((content.as_slice(), trailers.as_str()), (&b"second"[..], "x-sum: 9\r\n\r\n"));
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        task.await.unwrap();
        assert_eq!(edge.state().idle, 1);
    });
}

#[test]
fn a_request_without_a_body_does_not_become_chunked() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
            // The client ends its stream only after the head.
            let (front, _task) = edge.start(head(method, "/", &[]), None, true, PLENTY);
            settle().await;
            front.end(None);
            let mut conn = server.accept().await;
            let request = conn.head().await;
            assert!(!request.contains("transfer-encoding"), "{request}");
            assert!(!request.contains("content-length"), "{request}");
            conn.send(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await;
            assert_eq!(status(&front.response().await), 204);
        }
        // But a body is a body.
        let (front, _task) = edge.start(head("GET", "/", &[]), None, true, PLENTY);
        front.data(b"x");
        front.end(None);
        let mut conn = server.accept().await;
        let request = conn.head().await;
        assert!(request.contains("transfer-encoding: chunked"), "{request}");
        assert_eq!(chunked(&mut conn).await.0, b"x");
    });
}

#[test]
fn an_upload_waits_for_a_slow_upstream() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, mut conn) = server.asked(edge.post(Some(1 << 40))).await;
        static BLOCK: [u8; 16 << 10] = [7; 16 << 10];
        // A client that keeps to a credit of 8 blocks.
        let (mut ahead, mut used) = (0_u64, 0_u64);
        let mut pump = async || {
            loop {
                while ahead - used < 8 {
                    front.data(&BLOCK);
                    ahead += 1;
                }
                let before = used;
                for _ in 0..20 {
                    settle().await;
                    while let Some(message) = front.try_next() {
                        if matches!(message, ToFront::Credit(_)) {
                            used += 1;
                        }
                    }
                }
                if used == before {
                    return used;
                }
            }
        };
        let stopped = pump().await;
        // What the sockets hold, and no more than the connection's buffer beyond.
        assert!(stopped < 2048, "{stopped} blocks were taken");
        // It goes on when the upstream takes some; a socket tells so only after a good part of what it holds.
        let mut rounds = 0;
        while pump().await == stopped {
            rounds += 1;
            assert!(rounds < 64);
            conn.take(64 * BLOCK.len()).await;
        }
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        edge.assert_nothing_open();
        conn.closed().await;
    });
}

#[test]
fn a_download_waits_for_a_slow_client() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let begun = edge.start(head("GET", "/", &[]), None, false, 64 << 10);
        let (front, task, mut conn) = server.asked(begun).await;
        conn.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n").await;
        let sent = Rc::new(Cell::new(0_usize));
        let progress = Rc::clone(&sent);
        let upstream = tokio::task::spawn_local(async move {
            let block = vec![9; 64 << 10];
            while conn.0.write_all(&block).await.is_ok() {
                progress.set(progress.get() + block.len());
            }
        });
        assert!(matches!(front.next().await, ToFront::Head(_)));
        let mut held = match front.next().await {
            ToFront::Data(block) => block.len(),
            other => panic!("{other:?}"),
        };
        let mut before = usize::MAX;
        while before != sent.get() {
            before = sent.get();
            for _ in 0..20 {
                settle().await;
            }
        }
        // The sockets are full, and the front has what its credit allows, and one block.
        assert!(before < 32 << 20, "{before} bytes were sent");
        while let Some(message) = front.try_next() {
            if let ToFront::Data(block) = message {
                held += block.len();
            }
        }
        assert!(held <= (64 << 10) + (64 << 10), "{held} bytes are held");
        // It goes on when the client takes some.
        front.credit(1 << 20);
        let mut held = 0;
        while held < 1 << 20 {
            if let ToFront::Data(block) = front.next().await {
                held += block.len();
                assert!(block.len() <= 64 << 10);
                // As a front does for what has left it: by cost, so that blocks of any size go on.
                front.credit(cost(block.len()));
            }
        }
        // Cancellation closes the upstream's connection.
        task.abort();
        upstream.await.unwrap();
        edge.assert_nothing_open();
    });
}

#[test]
fn upstream_that_gave_up_on_a_client_that_did_not_read_is_not_blamed() {
    run(async {
        for (pause, failure, blamed) in
            [(1, Failure::BodyCut, 1), (30, Failure::CutWhileClientPaused, 0)]
        {
            let server = Server::new().await;
            let edge = server.edge();
            let begun = edge.start(head("GET", "/", &[]), None, false, 1 << 10);
            let (front, task, mut conn) = server.asked(begun).await;
            conn.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n").await;
            conn.send(&vec![9; 200 << 10]).await;
            settle().await;
            pass(Duration::from_secs(pause)).await;
            conn.reset();
            front.credit(1 << 20);
            assert!(!front.response().await.complete);
            task.await.unwrap();
            assert_eq!(edge.failures(failure), 1, "{:?}", edge.counters());
            assert_eq!(edge.state().failures, blamed);
        }
    });
}

#[test]
fn no_byte_waits_for_another() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, _task, mut conn) = server.asked(edge.get("/events")).await;
        conn.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        assert!(matches!(front.next().await, ToFront::Head(_)));
        for event in 0..50 {
            let text = format!("data: {event:03}\n\n");
            conn.send(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await;
            match front.next().await {
                ToFront::Data(block) => assert_eq!(block, text),
                other => panic!("{other:?}"),
            }
        }
        conn.send(b"0\r\n\r\n").await;
        assert!(matches!(front.next().await, ToFront::End(None)));
    });
}

#[test]
fn small_chunks_that_are_there_together_become_few_blocks() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, _task, mut conn) = server.asked(edge.get("/")).await;
        let mut response = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        response.extend(b"1\r\nx\r\n".repeat(2000));
        response.extend(b"0\r\n\r\n");
        conn.send(&response).await;
        let (mut blocks, mut bytes) = (0, 0);
        loop {
            match front.next().await {
                ToFront::Data(block) => {
                    blocks += 1;
                    bytes += block.len();
                }
                ToFront::End(_) => break,
                _ => {}
            }
        }
        assert_eq!(bytes, 2000);
        assert!(blocks < 20, "{blocks} blocks");
    });
}

#[test]
fn an_early_response_gets_through_and_stops_the_upload() {
    run(async {
        for reset in [false, true] {
            let server = Server::new().await;
            let edge = server.edge();
            let (front, task, mut conn) = server.asked(edge.post(Some(1 << 30))).await;
            for _ in 0..100 {
                front.data(&[1; 16 << 10]);
            }
            conn.take(100).await;
            conn.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig").await;
            if reset {
                // The upstream leaves what it has not read, which makes its system reset the connection.
                drop(conn);
            } else {
                tokio::task::spawn_local(async move { conn.closed().await });
            }
            let mut stopped = false;
            let mut body = Vec::new();
            loop {
                match front.next().await {
                    ToFront::Head(head) => assert_eq!(head.status, 413),
                    ToFront::Data(block) => body.extend_from_slice(&block),
                    ToFront::StopBody => stopped = true,
                    ToFront::End(_) => break,
                    ToFront::Credit(_) => front.data(&[1; 16 << 10]),
                    other => panic!("{other:?}"),
                }
            }
            task.await.unwrap();
            while let Some(message) = front.try_next() {
                stopped |= matches!(message, ToFront::StopBody);
            }
            assert_eq!(body, b"big");
            assert!(stopped);
            assert_eq!(edge.counters().early_answers, 1);
            edge.assert_nothing_open();
        }
    });
}

#[test]
fn a_client_that_breaks_off_its_upload_leaves_no_whole_request() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, mut conn) = server.asked(edge.post(None)).await;
        front.data(b"half");
        conn.take(9).await;
        front.cancel();
        task.await.unwrap();
        let mut rest = Vec::new();
        let _ = conn.0.read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "{rest:?}");
        let counters = edge.counters();
        assert_eq!((counters.cancelled, counters.answered), (1, 0));
        assert_eq!(counters.failures, ProxyCounters::default().failures);
        edge.assert_nothing_open();
    });
}

#[test]
fn a_body_of_another_length_than_promised_is_not_passed_on() {
    run(async {
        for body in [&b"ab"[..], b"abcd"] {
            let server = Server::new().await;
            let edge = server.edge();
            let (front, task, mut conn) = server.asked(edge.post(Some(3))).await;
            front.data(body);
            front.end(None);
            task.await.unwrap();
            let mut rest = Vec::new();
            let _ = conn.0.read_to_end(&mut rest).await;
            assert!(rest.len() < 3, "{rest:?}");
            edge.assert_nothing_open();
        }
    });
}

#[test]
fn cancellation_before_the_response_closes_the_connection() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, mut conn) = server.asked(edge.get("/")).await;
        assert_eq!(edge.state().active, 1);
        front.cancel();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        edge.assert_nothing_open();
        conn.closed().await;
    });
}

#[test]
fn both_bodies_move_at_the_same_time() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, mut conn) = server.asked(edge.post(None)).await;
        conn.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        assert!(matches!(front.next().await, ToFront::Head(_)));
        for _ in 0..20 {
            front.data(b"ping");
            assert_eq!(conn.take(9).await, b"4\r\nping\r\n");
            conn.send(b"4\r\npong\r\n").await;
            loop {
                match front.next().await {
                    ToFront::Data(block) => break assert_eq!(block, "pong"),
                    ToFront::Credit(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        front.end(None);
        assert_eq!(chunked(&mut conn).await.0, b"");
        conn.send(b"0\r\n\r\n").await;
        assert!(front.response().await.complete);
        task.await.unwrap();
        assert_eq!(edge.state().idle, 1);
    });
}
