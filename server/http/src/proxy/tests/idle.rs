//! Tests connections that are idle: their number, their time, and what the upstream does with them meanwhile.

use std::cell::Cell;

use tokio::time::pause;

use super::super::protocol::{PAUSE, SURPLUS};
use super::reuse::warm;
use super::*;

#[test]
fn idle_connections_are_bounded_in_number() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let mut running = Vec::new();
        for _ in 0..7 {
            let (front, task, conn) = server.asked(edge.get("/")).await;
            running.push((front, task, conn));
        }
        assert_eq!(edge.state().active, 7);
        for (front, task, conn) in &mut running {
            conn.send(OK).await;
            front.response().await;
            task.await.unwrap();
        }
        assert_eq!(edge.state().idle, 7, "for the next burst");
        pause();
        tokio::time::sleep(SURPLUS * 2).await;
        let state = edge.state();
        assert_eq!((state.idle, state.connections), (4, 4));
        assert_eq!(edge.counters().idle_dropped, 3);
        // The ones that have waited longest are closed.
        for (_, _, conn) in &mut running[..3] {
            conn.closed().await;
        }
    });
}

#[test]
fn bursts_open_no_connections_again() {
    const BURST: usize = 50;
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        assert!(BURST as u64 > 10 * edge.settings().keepalive);
        let accepted = Rc::new(Cell::new(0));
        let count = Rc::clone(&accepted);
        let upstream = tokio::task::spawn_local(async move {
            loop {
                let mut conn = server.accept().await;
                count.set(count.get() + 1);
                tokio::task::spawn_local(async move {
                    while conn.0.peek(&mut [0]).await.is_ok_and(|length| length > 0) {
                        conn.head().await;
                        conn.send(OK).await;
                    }
                });
            }
        });
        for _ in 0..10 {
            let burst: Vec<_> = (0..BURST).map(|_| edge.get("/")).collect();
            for (front, task) in burst {
                assert_eq!(status(&front.response().await), 200);
                task.await.unwrap();
            }
        }
        assert!(accepted.get() <= BURST, "{} connections", accepted.get());
        assert_eq!(edge.counters().opened, accepted.get() as u64);
        upstream.abort();
    });
}

#[test]
fn idle_connections_are_bounded_in_time() {
    run(async {
        let server = Server::new().await;
        let (edge, mut conn) = warm(&server).await;
        pause();
        tokio::time::sleep(edge.settings().keepalive_timeout - Duration::from_secs(1)).await;
        assert_eq!(edge.state().idle, 1);
        tokio::time::sleep(Duration::from_secs(2)).await;
        settle().await;
        assert_eq!(edge.state().idle, 0);
        assert_eq!(edge.counters().idle_dropped, 1);
        edge.assert_nothing_open();
        conn.closed().await;
    });
}

#[test]
fn a_connection_that_the_upstream_closes_or_talks_on_while_idle_is_gone() {
    run(async {
        for unasked in [&b""[..], b"HTTP/1.1 408 Late\r\n\r\n"] {
            let server = Server::new().await;
            let (edge, mut conn) = warm(&server).await;
            conn.send(unasked).await;
            conn.0.shutdown().await.unwrap();
            conn.closed().await;
            settle().await;
            assert_eq!((edge.state().idle, edge.counters().idle_closed), (0, 1));
            edge.assert_nothing_open();
        }
    });
}

#[test]
fn the_end_of_an_idle_connection_is_seen_before_its_timeout() {
    run(async {
        let server = Server::new().await;
        let (edge, mut first) = warm(&server).await;
        let until_idle = async |count| {
            while edge.state().idle != count {
                tokio::time::sleep(PAUSE / 8).await;
            }
        };
        // By now the watcher has swept, and waits.
        tokio::time::sleep(PAUSE * 2).await;
        let (front, task) = edge.get("/");
        first.head().await;
        let mut second = server.asked(edge.get("/")).await;
        first.send(OK).await;
        second.2.send(OK).await;
        for (front, task) in [(front, task), (second.0, second.1)] {
            front.response().await;
            task.await.unwrap();
        }
        until_idle(2).await;
        second.2.0.shutdown().await.unwrap();
        until_idle(1).await;
        tokio::time::sleep(PAUSE * 2).await;
        first.0.shutdown().await.unwrap();
        until_idle(0).await;
        assert_eq!(edge.counters().idle_closed, 2);
        edge.assert_nothing_open();
    });
}

#[test]
fn no_request_gets_one_of_many_connections_that_are_closed_at_once() {
    // More than a task may poll in a turn of the runtime.
    const MANY: usize = 160;
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let mut running = Vec::new();
        for _ in 0..MANY {
            running.push(server.asked(edge.get("/")).await);
        }
        for (front, task, mut conn) in running {
            conn.send(OK).await;
            front.response().await;
            task.await.unwrap();
        }
        settle().await;
        let (front, task, mut conn) = server.asked(edge.get("/")).await;
        conn.send(OK).await;
        front.response().await;
        task.await.unwrap();
        let counters = edge.counters();
        assert_eq!((counters.idle_closed, counters.retries), (MANY as u64, 0));
    });
}
