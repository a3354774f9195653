//! Tests reloads: which pools and upstreams keep their state, and which are retired.

use super::health::{nobody, who};
use super::reuse::{exchange, warm};
use super::*;

#[test]
fn a_configuration_that_keeps_an_upstream_keeps_its_connections() {
    run(async {
        let server = Server::new().await;
        let (edge, mut conn) = warm(&server).await;
        let other = Proxy { strip_prefix: true, ..Proxy::clone(&edge.proxy) };
        edge.reload([&other]);
        assert_eq!(edge.state().idle, 1);
        exchange(&edge, &mut conn).await;
        // Another limit is another pool.
        let other = with(other, |settings| settings.keepalive = 2);
        edge.reload([&other]);
        assert_eq!(edge.state().idle, 0);
        conn.closed().await;
        edge.reload([]);
        assert_eq!(edge.counters().upstreams.len(), 0);
    });
}

#[test]
fn a_late_request_does_not_bring_back_a_removed_upstream() {
    run(async {
        let server = Server::new().await;
        let (edge, mut warm) = warm(&server).await;
        let route = edge.reload([&*edge.proxy]).remove(0);
        edge.reload([]);
        warm.closed().await;
        let (front, task, mut conn) = server.asked(edge.get_by(route)).await;
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        task.await.unwrap();
        // It is answered, but neither its connection nor its upstream is kept.
        conn.closed().await;
        assert_eq!(edge.counters().upstreams.len(), 0);
    });
}

/// Returns a proxy that leaves an upstream out after one failure and does not retry.
fn strict(upstreams: &[SocketAddr]) -> Proxy {
    Proxy { retries: 0, ..with(proxy(upstreams), |settings| settings.max_fails = 1) }
}

#[test]
fn unchanged_pool_keeps_its_health() {
    run(async {
        let down = nobody().await;
        let edge = Edge::new(strict(&[down]));
        assert_eq!(who(&edge).await, "502");
        let other = strict(&[nobody().await]);
        edge.reload([&other, &edge.proxy]);
        assert_eq!((edge.state().out, edge.state().failures), (1, 1));
        edge.reload([&other]);
        edge.reload([&*edge.proxy]);
        assert_eq!((edge.state().out, edge.state().failures), (0, 0));
    });
}

#[test]
fn unchanged_pool_keeps_its_turn_over_reloads_and_routes() {
    run(async {
        let (a, b) = (Server::new().await, Server::new().await);
        let edge = Edge::new(proxy(&[a.address(), b.address()]));
        let other = Proxy { strip_prefix: true, ..Proxy::clone(&edge.proxy) };
        for (route, server) in [(0, &a), (1, &b), (1, &a), (0, &b)] {
            let mut routes = edge.reload([&*edge.proxy, &other]);
            let (front, task, mut conn) = server.asked(edge.get_by(routes.remove(route))).await;
            conn.send(OK).await;
            assert_eq!(status(&front.response().await), 200);
            task.await.unwrap();
        }
    });
}

#[test]
fn late_request_of_an_unchanged_pool_uses_its_connections() {
    run(async {
        let server = Server::new().await;
        let (edge, mut conn) = warm(&server).await;
        let late = edge.reload([&*edge.proxy]).remove(0);
        edge.reload([&*edge.proxy]);
        let (front, task) = edge.get_by(late);
        conn.head().await;
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        task.await.unwrap();
        assert_eq!(edge.state().idle, 1);
    });
}

#[test]
fn upstream_that_a_changed_pool_still_has_keeps_its_connections() {
    run(async {
        let (server, added) = (Server::new().await, Server::new().await);
        let (edge, mut conn) = warm(&server).await;
        let late = edge.reload([&*edge.proxy]).remove(0);
        let grown = proxy(&[server.address(), added.address()]);
        edge.reload([&grown]);
        assert_eq!(edge.state().idle, 1);
        assert_eq!(edge.counters().upstreams.len(), 2);
        // The earlier pool is gone, its upstream is not.
        let (front, task) = edge.get_by(late);
        conn.head().await;
        conn.send(OK).await;
        assert_eq!(status(&front.response().await), 200);
        task.await.unwrap();
        assert_eq!(edge.counters().opened, 1);
    });
}

#[test]
fn request_outlives_the_removal_of_its_pool() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task, mut conn) = server.asked(edge.get("/")).await;
        edge.reload([]);
        conn.send(OK).await;
        let received = front.response().await;
        assert!(received.complete && received.body == b"ok");
        task.await.unwrap();
        conn.closed().await;
        assert_eq!(edge.counters().upstreams.len(), 0);
    });
}
