//! Tests the proxy between a front in the same process and upstreams of a few lines on real sockets.

mod balance;
mod bodies;
mod empty_bodies;
mod error_pages;
mod faults;
mod health;
mod health_checks;
mod http1_required;
mod http2;
mod http2_faults;
mod http2_upstream;
mod idle;
mod limits;
mod name_server;
mod names;
mod proxy_protocol;
mod reload;
mod reuse;
mod rewrite;
mod rules;
mod settings;
mod sockets;
mod timeouts;
mod times;
mod tls;
mod tls_sessions;
mod tls_upstream;
mod waits;
mod websocket;
mod websocket_http2;

use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_config::{
    Balance, HashBy, HostHeader, PoolChoice, PoolSettings, Proxy, UpstreamAddress, UpstreamTls,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) use self::settings::proxy;
use self::settings::proxy_to;
pub(super) use self::settings::with;
use self::waits::{late, next, pass, settle};
use super::properties::Unchanged;
use super::*;
use crate::exchange::RequestHead;
use crate::exchange::test_front::{ReceivedResponse, TestFront, head, pair, request};

/// Credit in bytes, more than a test uses up.
const PLENTY: u64 = 1 << 30;

/// Runs a test. One that hangs fails, and at once if the clock is paused.
pub(super) fn run<F: Future>(test: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let test = async { tokio::time::timeout(Duration::from_secs(600), test).await };
    let ended = tokio::task::LocalSet::new().block_on(&runtime, test);
    ended.expect("the test comes to its end")
}

/// Proxy of a thread, with one route.
struct Edge {
    pools: Rc<Pools>,
    proxy: Rc<Proxy>,
    /// Pools of the configuration in effect.
    site: RefCell<SitePools>,
}

impl Edge {
    fn new(proxy: Proxy) -> Edge {
        Edge { pools: Rc::default(), proxy: Rc::new(proxy), site: RefCell::default() }
    }

    /// Begins a request whose body, if it has one, the front sends later.
    fn start(
        &self,
        head: RequestHead,
        length: Option<u64>,
        has_body: bool,
        credit: u64,
    ) -> (TestFront, JoinHandle<()>) {
        let route = self.reload([&*self.proxy]).remove(0);
        self.pass(route, pair(request(head, length, has_body), credit))
    }

    /// Adopts a configuration that has these proxies, and returns them compiled.
    fn reload<'a>(&self, proxies: impl IntoIterator<Item = &'a Proxy>) -> Vec<RouteProxy> {
        let mut site = self.site.borrow_mut();
        let mut pools = PoolCompiler::new(&site);
        let compiled = proxies.into_iter().map(|proxy| pools.compile(proxy).unwrap()).collect();
        *site = pools.finish();
        self.pools.adopt(&site);
        compiled
    }

    /// Begins a GET by a compiled proxy, of this configuration or of an earlier one.
    fn get_by(&self, route: RouteProxy) -> (TestFront, JoinHandle<()>) {
        self.pass(route, pair(request(head("GET", "/", &[]), None, false), PLENTY))
    }

    fn pass(
        &self,
        route: RouteProxy,
        exchange: (Incoming, TestFront),
    ) -> (TestFront, JoinHandle<()>) {
        self.pass_by(Unchanged, route, exchange)
    }

    fn pass_by(
        &self,
        rules: impl RequestRules + 'static,
        route: RouteProxy,
        (incoming, front): (Incoming, TestFront),
    ) -> (TestFront, JoinHandle<()>) {
        let pools = Rc::clone(&self.pools);
        let task = tokio::task::spawn_local(async move {
            serve(&pools, &route, &rules, incoming).await;
        });
        (front, task)
    }

    fn get(&self, path: &str) -> (TestFront, JoinHandle<()>) {
        self.start(head("GET", path, &[]), None, false, PLENTY)
    }

    /// Begins a POST whose body the front sends later.
    fn post(&self, length: Option<u64>) -> (TestFront, JoinHandle<()>) {
        self.start(head("POST", "/", &[]), length, true, PLENTY)
    }

    fn counters(&self) -> ProxyCounters {
        self.pools.counters()
    }

    fn failures(&self, failure: Failure) -> u64 {
        self.counters().failures[failure]
    }

    /// Returns the address of the first upstream.
    fn first(&self) -> String {
        self.proxy.pool.pool().upstreams.0[0].address.to_string()
    }

    fn settings(&self) -> &PoolSettings {
        &self.proxy.pool.pool().settings
    }

    /// Returns the state of the first upstream.
    fn state(&self) -> UpstreamCounters {
        self.counters().upstreams[&self.first()]
    }

    /// Asserts that nothing is left of any exchange.
    fn assert_nothing_open(&self) {
        for (address, state) in self.counters().upstreams {
            assert_eq!((state.active, state.connections), (0, 0), "{address}");
        }
    }
}

/// Upstream that does what the test says.
struct Server(TcpListener);

impl Server {
    async fn new() -> Server {
        Server(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    async fn accept(&self) -> Conn {
        Conn(self.0.accept().await.unwrap().0)
    }

    /// Accepts the connection of a request that has begun, and reads the request's head.
    async fn asked(
        &self,
        (front, task): (TestFront, JoinHandle<()>),
    ) -> (TestFront, JoinHandle<()>, Conn) {
        let mut conn = self.accept().await;
        conn.head().await;
        (front, task, conn)
    }

    /// Returns an edge that has only this upstream.
    fn edge(&self) -> Edge {
        Edge::new(proxy(&[self.address()]))
    }
}

/// Upstream's end of a connection.
struct Conn(TcpStream);

impl Conn {
    /// Reads the head of a request, up to the empty line.
    async fn head(&mut self) -> String {
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            text.push(self.0.read_u8().await.unwrap());
        }
        String::from_utf8(text).unwrap()
    }

    async fn take(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// Waits until the proxy closes the connection, and drops what it still sends.
    async fn closed(&mut self) {
        let mut bytes = [0; 4096];
        while matches!(self.0.read(&mut bytes).await, Ok(1..)) {}
    }

    /// Resets the connection.
    fn reset(self) {
        self.0.set_zero_linger().unwrap();
    }
}

fn status(received: &ReceivedResponse) -> u16 {
    received.head.as_ref().expect("the response has a head").status
}

fn field<'a>(received: &'a ReceivedResponse, name: &str) -> Option<&'a str> {
    let fields = &received.head.as_ref()?.fields;
    let (_, value) = fields.iter().find(|(known, _)| known == name)?;
    value.to_str().ok()
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[test]
fn a_request_and_its_response_pass() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, task) = edge.get("/a/b?c=d");
        let mut conn = server.accept().await;
        let request = conn.head().await;
        let expected = "GET /a/b?c=d HTTP/1.1\r\nhost: example.org\r\nvia: 3 sluicegate\r\nforwarded: for=192.0.2.7;\
                        host=example.org;proto=https\r\nx-forwarded-for: 192.0.2.7\r\nx-forwarded-host: \
                        example.org\r\nx-forwarded-proto: https\r\n\r\n";
        assert_eq!(request, expected);
        conn.send(b"HTTP/1.1 203 Fine\r\nx-a: 1\r\nconnection: x-b\r\nx-b: 2\r\ncontent-length: 5\r\n\r\nhello")
            .await;
        let received = front.response().await;
        task.await.unwrap();
        assert_eq!(status(&received), 203);
        assert_eq!(received.head.as_ref().unwrap().length, Some(5));
        assert_eq!(field(&received, "x-a"), Some("1"));
        assert_eq!(received.head.as_ref().unwrap().fields.len(), 1);
        assert_eq!(received.body, b"hello");
        assert!(received.complete);
        let counters = edge.counters();
        assert_eq!((counters.requests, counters.answered), (1, 1));
    });
}

#[test]
fn a_raw_path_arrives_in_the_client_s_spelling() {
    run(async {
        let server = Server::new().await;
        let edge = Edge::new(Proxy { raw_path: true, ..proxy(&[server.address()]) });
        for (path, line) in [
            ("/a//%62|c?d=%65", "GET /a//%62|c?d=%65 HTTP/1.1"),
            ("//x/a/%62?d=//%65", "GET /x/a/b?d=//%65 HTTP/1.1"),
            ("/x/%2e%2e//a/%62?d", "GET /a/b?d HTTP/1.1"),
            ("/a%62\r\nx: y", "GET /ab%0D%0Ax:%20y HTTP/1.1"),
            ("/a%62 b", "GET /ab%20b HTTP/1.1"),
        ] {
            let (_front, task) = edge.get(path);
            let mut conn = server.accept().await;
            assert_eq!(conn.head().await.lines().next(), Some(line));
            task.abort();
        }
        let (front, _task) = edge.get("/a%62#c");
        assert_eq!(status(&front.response().await), 400);
    });
}

#[test]
fn what_has_no_body_ends_with_its_head_and_tells_its_length() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        for (method, response, code, length) in [
            ("HEAD", "200 OK\r\ncontent-length: 700", 200, Some(700)),
            ("GET", "304 Not Modified\r\ncontent-length: 700", 304, Some(700)),
            ("GET", "204 No Content", 204, None),
            ("GET", "200 OK\r\ncontent-length: 0", 200, Some(0)),
            ("HEAD", "200 OK\r\ntransfer-encoding: chunked", 200, None),
        ] {
            let begun = edge.start(head(method, "/", &[]), None, false, PLENTY);
            let (front, task, mut conn) = server.asked(begun).await;
            let response = format!("HTTP/1.1 {response}\r\nconnection: close\r\n\r\n");
            conn.send(response.as_bytes()).await;
            let received = front.response().await;
            task.await.unwrap();
            let head = received.head.unwrap();
            assert_eq!((head.status, head.length, head.end), (code, length, true));
        }
        edge.assert_nothing_open();
    });
}

#[test]
fn informational_responses_pass_but_100() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let (front, _task, mut conn) = server.asked(edge.get("/")).await;
        conn.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")
            .await;
        assert!(
            matches!(front.next().await, crate::exchange::message::ToFront::Interim(103, fields) if fields.len() == 1)
        );
        conn.send(b"HTTP/1.1 102 Processing\r\n\r\n").await;
        conn.send(OK).await;
        let received = front.response().await;
        assert_eq!((received.interim.as_slice(), status(&received)), (&[102][..], 200));
    });
}

#[test]
fn what_cannot_be_passed_on_is_refused_without_an_upstream() {
    run(async {
        let server = Server::new().await;
        let edge = server.edge();
        let mut tunnel = head("CONNECT", "", &[]);
        tunnel.scheme = None;
        let (front, _task) = edge.start(tunnel, None, true, PLENTY);
        assert_eq!(status(&front.response().await), 501);
        let (front, _task) = edge.get("*");
        assert_eq!(status(&front.response().await), 400);
        let (front, _task) = edge.start(head("POST", "/", &[]), Some(3), false, PLENTY);
        let received = front.response().await;
        assert_eq!(status(&received), 400);
        assert!(received.complete && !received.body.is_empty());
        settle().await;
        let counters = edge.counters();
        assert_eq!((counters.refused, counters.opened), (3, 0));
    });
}
