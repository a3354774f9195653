//! Tests upstreams with host names, and a name server that the test runs.

use std::net::Ipv4Addr;

use super::health::who;
use super::name_server::NameServer;
use super::*;

const A: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Address where nobody listens.
const NOBODY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// Longest time to live in these tests: it never ends.
const LONG: u32 = 86_400;

/// Starts an upstream that responds to every request with its name, and closes the connection.
fn serve_as(name: &'static str, listener: TcpListener) -> JoinHandle<()> {
    tokio::task::spawn_local(async move {
        loop {
            let mut conn = Conn(listener.accept().await.unwrap().0);
            conn.head().await;
            let response = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\nx-name: {name}\r\ncontent-length: 0\r\n\r\n"
            );
            conn.send(response.as_bytes()).await;
        }
    })
}

/// Starts two upstreams, which have the same port.
async fn two() -> (u16, [JoinHandle<()>; 2]) {
    loop {
        let a = TcpListener::bind((A, 0)).await.unwrap();
        let port = a.local_addr().unwrap().port();
        if let Ok(b) = TcpListener::bind((B, port)).await {
            return (port, [serve_as("a", a), serve_as("b", b)]);
        }
    }
}

/// Returns an edge whose upstream has a name that the name server knows.
fn edge(name: &str, port: u16, server: &NameServer) -> Edge {
    let upstream = UpstreamAddress::Tcp(format!("{name}:{port}"));
    Edge::new(with(Proxy { retries: 0, ..proxy_to(vec![upstream]) }, |settings| {
        settings.resolver = vec![server.address];
        settings.max_fails = 0;
    }))
}

#[test]
fn connections_begin_with_each_address_in_turn() {
    run(async {
        let (port, _tasks) = two().await;
        let server = NameServer::new(LONG, &[A, B]).await;
        let edge = edge("my_app.test", port, &server);
        let mut names = String::new();
        for _ in 0..6 {
            names += &who(&edge).await;
        }
        assert!(names == "ababab" || names == "bababa", "{names}");
        assert_eq!((edge.counters().lookups, server.asked()), (1, 1));
    });
}

#[test]
fn address_that_refuses_is_passed_over() {
    run(async {
        let (port, _tasks) = two().await;
        let server = NameServer::new(LONG, &[NOBODY, B]).await;
        let edge = edge("app.test", port, &server);
        for _ in 0..4 {
            assert_eq!(who(&edge).await, "b");
        }
        assert_eq!(edge.counters().lookups, 1);
        edge.assert_nothing_open();
    });
}

#[test]
fn name_is_resolved_again_when_its_time_to_live_is_over() {
    run(async {
        let (port, _tasks) = two().await;
        let server = NameServer::new(1, &[A]).await;
        let edge = edge("app.test", port, &server);
        assert_eq!(who(&edge).await, "a");
        server.set(&[B]);
        while who(&edge).await == "a" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(who(&edge).await, "b");
        // The old address served meanwhile.
        assert_eq!(edge.counters().failures[Failure::Refused], 0);
    });
}

#[test]
fn workers_share_the_answers_of_name_servers() {
    run(async {
        let (port, _tasks) = two().await;
        let server = NameServer::new(LONG, &[A]).await;
        for _ in 0..5 {
            let edge = edge("app.test", port, &server);
            assert_eq!(who(&edge).await, "a");
            assert_eq!(edge.counters().lookups, 1);
        }
        assert_eq!(server.asked(), 1);
    });
}

#[test]
fn name_whose_addresses_all_fail_is_resolved_again_at_once() {
    run(async {
        let (port, _tasks) = two().await;
        let server = NameServer::new(LONG, &[NOBODY]).await;
        let edge = edge("app.test", port, &server);
        assert_eq!(who(&edge).await, "502");
        server.set(&[B]);
        assert_eq!(who(&edge).await, "b");
        assert_eq!(server.asked(), 2);
    });
}

#[test]
fn addresses_that_have_failed_are_tried_again_while_name_servers_are_silent() {
    run(async {
        let free = TcpListener::bind((A, 0)).await.unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let server = NameServer::new(LONG, &[A]).await;
        let edge = edge("app.test", port, &server);
        assert_eq!(who(&edge).await, "502");
        server.hush();
        let _back = serve_as("a", TcpListener::bind((A, port)).await.unwrap());
        // The lookup takes longer than a connection may.
        assert_eq!(who(&edge).await, "a");
        assert_eq!(edge.counters().lookups_failed, 0);
        assert_eq!(who(&edge).await, "a");
    });
}

#[test]
fn addresses_found_last_stay_in_use_while_name_servers_fail() {
    run(async {
        let (port, _tasks) = two().await;
        let server = NameServer::new(1, &[A]).await;
        let edge = edge("app.test", port, &server);
        assert_eq!(who(&edge).await, "a");
        server.fail();
        while edge.counters().lookups_failed < 2 {
            assert_eq!(who(&edge).await, "a");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(who(&edge).await, "a");
    });
}

#[test]
fn address_that_does_not_respond_delays_a_connection_by_a_quarter_of_a_second() {
    run(async {
        let (port, _tasks) = two().await;
        // The backlog has room for one connection; the kernel drops the packets of others.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((NOBODY, port).into()).unwrap();
        let _silent = socket.listen(0).unwrap();
        let _first = TcpStream::connect((NOBODY, port)).await.unwrap();
        let server = NameServer::new(LONG, &[NOBODY, B]).await;
        let edge = edge("app.test", port, &server);
        assert_eq!(who(&edge).await, "b");
        assert_eq!(who(&edge).await, "b");
        tokio::time::pause();
        let begun = tokio::time::Instant::now();
        assert_eq!(who(&edge).await, "b");
        assert_eq!(who(&edge).await, "b");
        // One of two begins with the silent address.
        assert!(begun.elapsed() < edge.proxy.connect_timeout / 2);
    });
}
