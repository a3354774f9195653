//! Tests which upstream of a pool with weights, backups or another policy gets a request.

use std::collections::BTreeSet;

use super::health::{named, nobody, who};
use super::*;

/// Returns a proxy to upstreams of these weights; one without weight is a backup. It does not retry.
fn weighted(upstreams: &[(SocketAddr, u64)]) -> Proxy {
    let mut proxy = Proxy {
        retries: 0,
        ..proxy(&upstreams.iter().map(|(address, _)| *address).collect::<Vec<_>>())
    };
    let (PoolChoice::Inline(pool) | PoolChoice::Named(pool)) = &mut proxy.pool;
    let members = &mut Arc::make_mut(pool).upstreams.0;
    for (member, (_, weight)) in members.iter_mut().zip(upstreams) {
        member.weight = (*weight).max(1);
        member.backup = *weight == 0;
    }
    proxy
}

async fn names(edge: &Edge, count: usize) -> String {
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(who(edge).await);
    }
    names.join(" ")
}

#[test]
fn heavier_upstream_gets_more_requests() {
    run(async {
        let (a, _a) = named("a").await;
        let (b, _b) = named("b").await;
        let edge = Edge::new(weighted(&[(a, 3), (b, 1)]));
        assert_eq!(names(&edge, 8).await, "a a b a a a b a");
    });
}

#[test]
fn backup_serves_only_while_all_others_are_out() {
    run(async {
        let (b, _b) = named("b").await;
        let down = nobody().await;
        let proxy = weighted(&[(b, 0), (down, 1)]);
        let edge = Edge::new(with(proxy, |settings| settings.max_fails = 2));
        assert_eq!(names(&edge, 4).await, "502 502 b b");
        pass(edge.settings().fail_timeout).await;
        let listener = TcpListener::bind(down).await.unwrap();
        let back = tokio::task::spawn_local(async move {
            let mut conn = Conn(listener.accept().await.unwrap().0);
            for _ in 0..3 {
                conn.head().await;
                conn.send(OK).await;
            }
            conn
        });
        assert_eq!(names(&edge, 3).await, "200 200 200");
        drop(back);
    });
}

#[test]
fn trial_ends_with_the_head_of_its_response_however_long_the_body_lasts() {
    run(async {
        let server = Server::new().await;
        let (b, _b) = named("b").await;
        let proxy = weighted(&[(server.address(), 1), (b, 0)]);
        let edge = Edge::new(with(proxy, |settings| settings.max_fails = 2));
        let fail_until_out = async || {
            for _ in 0..2 {
                let (front, task, conn) = server.asked(edge.get("/")).await;
                drop(conn);
                assert_eq!(status(&front.response().await), 502);
                task.await.unwrap();
            }
            assert_eq!(who(&edge).await, "b");
            pass(edge.settings().fail_timeout).await;
        };
        fail_until_out().await;
        let (long, long_task, mut long_conn) = server.asked(edge.get("/")).await;
        long_conn.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome").await;
        long.next().await;
        fail_until_out().await;
        let (front, task) = edge.get("/");
        settle().await;
        assert_eq!(edge.state().active, 2, "another trial is due");
        let mut conn = server.accept().await;
        conn.head().await;
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        task.await.unwrap();
        // What becomes of the body is no result of a trial.
        drop(long_conn);
        assert!(!long.response().await.complete);
        long_task.await.unwrap();
        assert_eq!((edge.state().failures, edge.state().out), (5, 0));
    });
}

#[test]
fn request_that_all_others_failed_goes_to_a_backup() {
    run(async {
        let (b, _b) = named("b").await;
        let proxy = weighted(&[(nobody().await, 1), (b, 0)]);
        let edge = Edge::new(Proxy { retries: 1, ..proxy });
        assert_eq!(names(&edge, 1).await, "b");
    });
}

#[test]
fn slow_start_lets_the_share_of_a_returned_upstream_grow() {
    run(async {
        let (b, _b) = named("b").await;
        let down = nobody().await;
        let slow = Duration::from_secs(100);
        let proxy = with(weighted(&[(down, 1), (b, 1)]), |settings| {
            settings.max_fails = 1;
            settings.slow_start = slow;
        });
        let edge = Edge::new(proxy);
        assert_eq!(names(&edge, 2).await, "502 b");
        let listener = TcpListener::bind(down).await.unwrap();
        let _back = tokio::task::spawn_local(async move {
            loop {
                let mut conn = Conn(listener.accept().await.unwrap().0);
                conn.head().await;
                conn.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\nx-name: a\r\ncontent-length: 0\r\n\r\n")
                    .await;
            }
        });
        pass(edge.settings().fail_timeout).await;
        while who(&edge).await != "a" {}
        let share = async || names(&edge, 44).await.matches('a').count();
        let early = share().await;
        assert!((3..=5).contains(&early), "a tenth of the weight: {early}");
        pass(slow / 2).await;
        let later = share().await;
        assert!((13..=16).contains(&later), "half of the weight: {later}");
        pass(slow).await;
        let full = share().await;
        assert!((21..=23).contains(&full), "the whole weight: {full}");
    });
}

#[test]
fn hashed_requests_keep_their_upstream_until_it_fails() {
    run(async {
        let mut tasks = Vec::new();
        let mut addresses = Vec::new();
        for name in ["a", "b", "c"] {
            let (address, task) = named(name).await;
            addresses.push((address, 1));
            tasks.push((name, task));
        }
        let proxy = with(weighted(&addresses), |settings| {
            settings.balance = Balance::Hash;
            settings.hash_by = HashBy::Field("x-user".to_owned());
        });
        let edge = Edge::new(Proxy { retries: 1, ..proxy });
        let of = async |user: usize| {
            let mut head = head("GET", "/", &[]);
            let user = user.to_string().parse().unwrap();
            let name = http::HeaderName::from_static("x-user");
            head.headers.push((name, user));
            let (front, task) = edge.start(head, None, false, PLENTY);
            let received = front.response().await;
            task.await.unwrap();
            field(&received, "x-name").unwrap().to_owned()
        };
        let mut before = Vec::new();
        for user in 0..30 {
            before.push(of(user).await);
        }
        assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 3);
        let (gone, task) = tasks.remove(0);
        task.abort();
        let _ = task.await;
        for (user, name) in before.iter().enumerate() {
            let now = of(user).await;
            assert!(now == *name || *name == gone && now != gone, "{user}: {now}");
        }
    });
}
