//! Tests active health checks, and what they do to the rotation.

use std::cell::Cell;

use sluicegate_config::{HealthCheck, StatusRange};

use super::health::{named, nobody, who};
use super::http2_upstream::{Http2Upstream, begin};
use super::*;

/// Time between two checks in the tests.
const INTERVAL: Duration = Duration::from_millis(5);

fn checked(upstreams: Vec<UpstreamAddress>, change: impl FnOnce(&mut HealthCheck)) -> Edge {
    let mut proxy = Proxy { retries: 0, ..proxy_to(upstreams) };
    let PoolChoice::Inline(pool) = &mut proxy.pool else {
        panic!("the route lists its upstreams");
    };
    let pool = Arc::make_mut(pool);
    // Requests tell nothing, so that only the checks decide.
    pool.settings.max_fails = 0;
    pool.health_check = HealthCheck {
        path: Some("/health?deep=1".to_owned()),
        host: None,
        interval: INTERVAL,
        timeout: Duration::from_secs(60),
        status: vec![StatusRange { first: 200, last: 299 }],
        rises: 2,
        falls: 2,
    };
    change(&mut pool.health_check);
    Edge { pools: Rc::new(Pools::new(true)), ..Edge::new(proxy) }
}

fn tcp(address: SocketAddr) -> UpstreamAddress {
    UpstreamAddress::Tcp(address.to_string())
}

/// Waits until `is_so`.
async fn wait(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Upstream whose health the test decides. It responds to other requests with its name.
struct Patient {
    address: SocketAddr,
    status: Rc<Cell<u16>>,
    checks: Rc<Cell<u64>>,
    /// Head of the last check.
    last: Rc<RefCell<String>>,
}

impl Patient {
    async fn new() -> Patient {
        let server = Server::new().await;
        let patient = Patient {
            address: server.address(),
            status: Rc::new(Cell::new(204)),
            checks: Rc::default(),
            last: Rc::default(),
        };
        let (status, checks) = (Rc::clone(&patient.status), Rc::clone(&patient.checks));
        let last = Rc::clone(&patient.last);
        tokio::task::spawn_local(async move {
            loop {
                let mut conn = server.accept().await;
                let head = conn.head().await;
                let is_check = head.starts_with("GET /health");
                let code = if is_check { status.get() } else { 200 };
                let response = format!(
                    "HTTP/1.1 {code} x\r\nconnection: close\r\nx-name: patient\r\n\
                     content-length: 0\r\n\r\n"
                );
                conn.send(response.as_bytes()).await;
                if is_check {
                    checks.set(checks.get() + 1);
                    *last.borrow_mut() = head;
                }
            }
        });
        patient
    }

    /// Waits for as many more checks.
    async fn wait_for_checks(&self, count: u64) {
        let enough = self.checks.get() + count;
        wait(|| self.checks.get() >= enough).await;
    }
}

#[test]
fn upstream_whose_checks_fail_gets_no_requests_until_they_succeed() {
    run(async {
        let patient = Patient::new().await;
        let (b, _b) = named("b").await;
        let edge = checked(vec![tcp(patient.address), tcp(b)], |_| {});
        let both = [who(&edge).await, who(&edge).await].concat();
        assert_eq!(both, "patientb");
        patient.wait_for_checks(1).await;
        assert!(patient.last.borrow().starts_with("GET /health?deep=1 HTTP/1.1\r\n"));
        assert!(patient.last.borrow().contains(&format!("host: {}\r\n", patient.address)));

        patient.status.set(503);
        wait(|| edge.state().down == 1).await;
        for _ in 0..6 {
            assert_eq!(who(&edge).await, "b");
        }
        patient.status.set(200);
        wait(|| edge.state().down == 0).await;
        let both = [who(&edge).await, who(&edge).await].concat();
        assert!(both == "patientb" || both == "bpatient", "{both}");
        let state = edge.state();
        assert!(state.checks_failed >= 2 && state.checks > state.checks_failed + 2);
        // Requests have not failed.
        assert_eq!((state.failures, edge.counters().requests), (0, 10));
    });
}

#[test]
fn other_threads_go_by_the_same_verdict_and_check_nothing() {
    run(async {
        let patient = Patient::new().await;
        let (b, _b) = named("b").await;
        let edge = checked(vec![tcp(patient.address), tcp(b)], |_| {});
        let route = edge.reload([&*edge.proxy]).remove(0);
        let other =
            Edge { pools: Rc::default(), proxy: Rc::clone(&edge.proxy), site: RefCell::default() };
        other.pools.adopt(&edge.site.borrow());
        patient.status.set(500);
        wait(|| edge.state().down == 1).await;
        for _ in 0..4 {
            let (front, task) = other.get_by(route.clone());
            assert_eq!(field(&front.response().await, "x-name"), Some("b"));
            task.await.unwrap();
        }
        assert_eq!((other.state().down, other.state().checks), (0, 0));
    });
}

#[test]
fn an_upstream_that_is_down_from_the_start_leaves_at_the_first_check() {
    run(async {
        let (b, _b) = named("b").await;
        let edge = checked(vec![tcp(nobody().await), tcp(b)], |check| {
            check.falls = 100;
            check.host = Some("app.test".to_owned());
        });
        edge.reload([&*edge.proxy]);
        wait(|| edge.state().down == 1).await;
        assert_eq!(edge.state().checks_failed, 1);
        for _ in 0..4 {
            assert_eq!(who(&edge).await, "b");
        }
    });
}

#[test]
fn where_the_checks_of_all_fail_requests_are_sent_nevertheless() {
    run(async {
        let patient = Patient::new().await;
        patient.status.set(404);
        let edge = checked(vec![tcp(patient.address)], |_| {});
        edge.reload([&*edge.proxy]);
        wait(|| edge.state().down == 1).await;
        assert_eq!(who(&edge).await, "patient");
    });
}

#[test]
fn check_without_a_response_fails_in_time() {
    run(async {
        let server = Server::new().await;
        let edge = checked(vec![tcp(server.address())], |check| {
            check.timeout = Duration::from_millis(20);
        });
        edge.reload([&*edge.proxy]);
        let mut conn = server.accept().await;
        conn.head().await;
        conn.closed().await;
        wait(|| edge.state().down == 1).await;
    });
}

#[test]
fn checks_end_when_a_reload_removes_the_upstream() {
    run(async {
        let patient = Patient::new().await;
        let edge = checked(vec![tcp(patient.address)], |_| {});
        edge.reload([&*edge.proxy]);
        patient.wait_for_checks(2).await;
        // The same configuration goes on with the same checks.
        edge.reload([&*edge.proxy]);
        patient.wait_for_checks(2).await;
        edge.reload([]);
        settle().await;
        let last = patient.checks.get();
        tokio::time::sleep(20 * INTERVAL).await;
        assert_eq!(patient.checks.get(), last);
    });
}

#[test]
fn upstreams_of_http2_are_checked_over_http2() {
    run(async {
        let upstream = Http2Upstream::new().await;
        let edge = checked(vec![upstream.address()], |check| {
            check.host = Some("app.test".to_owned());
            check.status = vec![StatusRange { first: 200, last: 200 }];
        });
        edge.reload([&*edge.proxy]);
        for _ in 0..2 {
            let mut conn = upstream.accept().await;
            let (request, response) = conn.asked().await;
            assert_eq!(request.uri(), "http://app.test/health?deep=1");
            let mut body = begin(response, &[]);
            body.send_data(bytes::Bytes::new(), true).unwrap();
            conn.closed().await;
        }
        assert_eq!((edge.state().down, edge.state().checks_failed), (0, 0));
        assert!(edge.state().checks >= 1);
    });
}
