//! Tests the bound on the requests of an upstream, and the queue in front of it.

use tokio::time::{advance, pause, resume};

use super::health::{named, nobody, who};
use super::http2_upstream::{Http2Upstream, ok};
use super::*;
use crate::exchange::test_front::peer;

/// Returns an edge whose upstreams handle `limit` requests at a time.
pub(super) fn limited(
    upstreams: &[SocketAddr],
    limit: u64,
    change: impl FnOnce(&mut PoolSettings),
) -> Edge {
    Edge::new(with(proxy(upstreams), |settings| {
        settings.max_connections = limit;
        change(settings);
    }))
}

#[test]
fn requests_beyond_the_limit_wait_in_order_and_use_the_same_connection() {
    run(async {
        let server = Server::new().await;
        let edge = limited(&[server.address()], 1, |_| {});
        let (front, _task, mut conn) = server.asked(edge.get("/0")).await;
        let waiting: Vec<_> = ["/1", "/2", "/3"].map(|path| edge.get(path)).into();
        settle().await;
        assert_eq!((edge.counters().waiting, edge.counters().queued), (3, 3));
        assert_eq!((edge.state().active, edge.state().connections), (1, 1));
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        for (number, (front, _task)) in (1..).zip(waiting) {
            let request = conn.head().await;
            assert!(request.starts_with(&format!("GET /{number} ")), "{request}");
            conn.send(OK).await;
            assert_eq!(status(&front.response().await), 200);
        }
        settle().await;
        let counters = edge.counters();
        assert_eq!((counters.waiting, counters.queued, counters.opened), (0, 3, 1));
        assert_eq!(edge.state().active, 0);
    });
}

#[test]
fn request_that_finds_the_queue_full_gets_503_at_once() {
    run(async {
        let server = Server::new().await;
        for queue in [0, 1] {
            let edge = limited(&[server.address()], 1, |settings| settings.queue = queue);
            let (_front, _task, _conn) = server.asked(edge.get("/")).await;
            let waiting: Vec<_> = (0..queue).map(|_| edge.get("/")).collect();
            settle().await;
            let (front, task) = edge.get("/");
            let received = front.response().await;
            task.await.unwrap();
            assert_eq!(status(&received), 503);
            let cause = field(&received, "proxy-status");
            assert_eq!(cause, Some("sluicegate; error=connection_limit_reached"));
            assert_eq!(edge.failures(Failure::QueueFull), 1);
            let counters = edge.counters();
            assert_eq!((counters.waiting, edge.state().failures), (queue, 0));
            drop(waiting);
        }
    });
}

/// Uploads that stand still, for instance.
#[test]
fn one_client_takes_neither_all_slots_nor_the_whole_queue() {
    run(async {
        let server = Server::new().await;
        let edge = limited(&[server.address()], 8, |settings| settings.queue = 8);
        let route = edge.reload([&*edge.proxy]).remove(0);
        let mut held = Vec::new();
        for _ in 0..7 {
            held.push(server.asked(edge.get_by(route.clone())).await);
        }
        let waiting: Vec<_> = (0..8).map(|_| edge.get_by(route.clone())).collect();
        settle().await;
        assert_eq!(edge.counters().waiting, 7);
        assert_eq!(edge.failures(Failure::QueueFull), 1);
        let of_another = || {
            let mut request = request(head("GET", "/other", &[]), None, false);
            request.peer.address = "198.51.100.9:1".parse().unwrap();
            edge.pass(route.clone(), pair(request, PLENTY))
        };
        let (_front, _task, mut conn) = server.asked(of_another()).await;
        let (front, _task) = of_another();
        settle().await;
        assert_eq!(edge.counters().waiting, 8);
        // It is its turn.
        held.pop();
        conn.send(OK).await;
        assert!(conn.head().await.starts_with("GET /other "));
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        drop((held, waiting));
    });
}

#[test]
fn request_that_waits_for_too_long_gets_503_and_leaves_the_queue() {
    run(async {
        let server = Server::new().await;
        let edge = limited(&[server.address()], 1, |settings| settings.queue = 1);
        let (held, _task, mut conn) = server.asked(edge.get("/")).await;
        pause();
        let (front, task) = edge.get("/");
        settle().await;
        advance(edge.settings().queue_timeout).await;
        assert_eq!(status(&front.response().await), 503);
        task.await.unwrap();
        resume();
        assert_eq!(edge.failures(Failure::QueueTimeout), 1);
        // The place is free again, and the slot goes to whoever waits now.
        let (front, _task) = edge.get("/next");
        settle().await;
        assert_eq!(edge.counters().waiting, 1);
        conn.send(OK).await;
        assert_eq!(status(&held.response().await), 200);
        assert!(conn.head().await.starts_with("GET /next "));
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
    });
}

#[test]
fn client_that_cancels_leaves_the_queue_or_its_slot() {
    run(async {
        let server = Server::new().await;
        let edge = limited(&[server.address()], 1, |settings| settings.queue = 1);
        let (held, first, mut conn) = server.asked(edge.get("/")).await;
        let (waiting, second) = edge.get("/");
        settle().await;
        second.abort();
        drop(waiting);
        settle().await;
        assert_eq!(edge.counters().waiting, 0);
        let (front, _task) = edge.get("/third");
        settle().await;
        first.abort();
        drop(held);
        conn.closed().await;
        let mut conn = server.accept().await;
        assert!(conn.head().await.starts_with("GET /third "));
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
    });
}

#[test]
fn threads_share_the_limit_and_the_queue() {
    run(async {
        let server = Server::new().await;
        let edge = limited(&[server.address()], 2, |settings| settings.queue = 1);
        let route = edge.reload([&*edge.proxy]).remove(0);
        let other =
            Edge { pools: Rc::default(), proxy: Rc::clone(&edge.proxy), site: RefCell::default() };
        other.pools.adopt(&edge.site.borrow());
        let (_front, _task, _conn) = server.asked(edge.get_by(route.clone())).await;
        let (front, _task, mut conn) = server.asked(other.get_by(route.clone())).await;
        let waiting = edge.get_by(route.clone());
        settle().await;
        assert_eq!((edge.counters().waiting, other.counters().waiting), (1, 0));
        let (refused, _task) = other.get_by(route);
        assert_eq!(status(&refused.response().await), 503);
        // What one thread frees, a request of the other gets.
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        let (front, _task, mut conn) = server.asked(waiting).await;
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
    });
}

#[test]
fn requests_go_where_there_is_room_but_to_no_backup() {
    run(async {
        let (first, second) = (Server::new().await, Server::new().await);
        let (b, _b) = named("b").await;
        let mut edge = limited(&[first.address(), second.address(), b], 1, |_| {});
        let mut settings = (*edge.proxy).clone();
        let PoolChoice::Inline(pool) = &mut settings.pool else {
            panic!("the route lists its upstreams");
        };
        Arc::make_mut(pool).upstreams.0[2].backup = true;
        Arc::make_mut(pool).upstreams.0[1].max_connections = Some(2);
        edge.proxy = Rc::new(settings);
        let _first = first.asked(edge.get("/")).await;
        let _second = second.asked(edge.get("/")).await;
        // The first one's turn, but it is busy.
        let (_front, _task, mut conn) = second.asked(edge.get("/")).await;
        let (front, _task) = edge.get("/waits");
        settle().await;
        assert_eq!(edge.counters().waiting, 1);
        conn.send(OK).await;
        assert!(conn.head().await.starts_with("GET /waits "));
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
    });
}

#[test]
fn request_that_waits_goes_to_the_backup_once_the_others_are_out() {
    run(async {
        let server = Server::new().await;
        let (b, _b) = named("b").await;
        let mut edge = limited(&[server.address(), b], 1, |settings| {
            settings.max_fails = 1;
            settings.queue_timeout = Duration::from_secs(60);
        });
        let mut settings = (*edge.proxy).clone();
        let PoolChoice::Inline(pool) = &mut settings.pool else {
            panic!("the route lists its upstreams");
        };
        Arc::make_mut(pool).upstreams.0[1].backup = true;
        edge.proxy = Rc::new(Proxy { retries: 0, ..settings });
        let (front, _task, conn) = server.asked(edge.get("/")).await;
        let route = edge.reload([&*edge.proxy]).remove(0);
        let state = route.pool.members[0].state.clone();
        // Another thread gets the slot that the failure frees.
        let taken =
            tokio::task::spawn_local(
                async move { state.slots.take(peer(false).address.into()).await },
            );
        settle().await;
        let (waiting, task) = edge.get_by(route);
        settle().await;
        drop(conn);
        assert_eq!(status(&front.response().await), 502);
        let _taken = taken.await.unwrap();
        assert_eq!((edge.state().out, edge.counters().waiting), (1, 1));
        pass(Duration::from_secs(1)).await;
        assert_eq!(field(&waiting.response().await, "x-name"), Some("b"));
        task.await.unwrap();
    });
}

#[test]
fn repeated_request_keeps_its_slot() {
    run(async {
        let server = Server::new().await;
        let edge = limited(&[server.address()], 1, |settings| settings.queue = 0);
        let (front, _task, mut conn) = server.asked(edge.get("/")).await;
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        settle().await;
        // The idle connection is closed as the request is on its way; a fresh one needs no second slot.
        let (front, _task) = edge.get("/");
        conn.head().await;
        drop(conn);
        let mut conn = server.accept().await;
        conn.head().await;
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
    });
}

#[test]
fn upstream_that_refuses_frees_its_slot_for_the_next() {
    run(async {
        let (b, _b) = named("b").await;
        let edge = limited(&[nobody().await, b], 1, |settings| settings.queue = 0);
        for _ in 0..10 {
            assert_eq!(who(&edge).await, "b");
        }
        edge.assert_nothing_open();
    });
}

#[test]
fn limit_outlives_a_reload_that_changes_the_policy() {
    run(async {
        let server = Server::new().await;
        let edge = limited(&[server.address()], 1, |settings| settings.queue = 0);
        let _held = server.asked(edge.get("/")).await;
        let other = with((*edge.proxy).clone(), |settings| {
            settings.balance = Balance::LeastRequests;
        });
        let route = edge.reload([&other]).remove(0);
        let (front, _task) = edge.get_by(route);
        assert_eq!(status(&front.response().await), 503);
    });
}

#[test]
fn streams_of_a_connection_have_a_slot_each() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = Edge::new(with(proxy_to(vec![upstream.address()]), |settings| {
            settings.max_connections = 2;
        }));
        let (_first, _task, mut conn, _held) = upstream.asked(edge.get("/1")).await;
        let (second, _task) = edge.get("/2");
        let (_, response) = conn.asked().await;
        let (third, _task) = edge.get("/3");
        settle().await;
        assert_eq!((edge.state().active, edge.counters().waiting), (2, 1));
        ok(response);
        assert_eq!(status(&second.response().await), 200);
        assert_eq!(conn.respond().await.uri().path(), "/3");
        assert_eq!(status(&third.response().await), 200);
        assert_eq!(edge.counters().opened, 1);
    });
}
