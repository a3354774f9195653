//! Tests upstreams on Unix sockets.

use std::os::unix::fs::PermissionsExt as _;

use h2::server::Builder;
use nix::unistd::Uid;
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};

use super::http2_upstream::{Http2Conn, assert_ok, ok};
use super::*;

/// Returns an edge whose only upstream is `app.sock` in a folder.
fn edge(folder: &TempDir) -> Edge {
    Edge::new(Proxy {
        host: HostHeader::Upstream,
        ..proxy_to(vec![UpstreamAddress::Unix(folder.path().join("app.sock"))])
    })
}

/// Checks that a request and its retry fail, with this error for the client and this failure in the counters.
async fn assert_unreachable(edge: &Edge, error: &str, failure: Failure) {
    let (front, task) = edge.get("/");
    let received = front.response().await;
    task.await.unwrap();
    assert_eq!(status(&received), 502);
    let expected = format!("sluicegate; error={error}");
    assert_eq!(field(&received, "proxy-status"), Some(expected.as_str()));
    assert_eq!(edge.failures(failure), 2);
    assert_eq!(edge.state().failures, 2);
}

async fn head(stream: &mut UnixStream) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn a_socket_serves_requests_of_http2_on_one_connection() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let edge = Edge::new(proxy_to(vec![UpstreamAddress::UnixH2c(path)]));
        let first = edge.get("/a");
        let stream = listener.accept().await.unwrap().0;
        let mut conn = Http2Conn::new(stream, &Builder::new()).await;
        let (request, response) = conn.asked().await;
        assert_eq!(request.uri().path(), "/a");
        let second = edge.get("/b");
        assert_eq!(conn.respond().await.uri().path(), "/b");
        ok(response);
        assert_ok([first, second]).await;
        let counters = edge.counters();
        assert_eq!((counters.opened, counters.reused), (1, 1));
    });
}

#[test]
fn a_socket_serves_several_requests_on_one_connection() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("app.sock")).unwrap();
        let edge = edge(&folder);
        let (front, task) = edge.get("/a?b");
        let mut stream = listener.accept().await.unwrap().0;
        let request = head(&mut stream).await;
        assert!(request.starts_with("GET /a?b HTTP/1.1\r\nhost: localhost\r\n"), "{request}");
        stream.write_all(OK).await.unwrap();
        assert_eq!(front.response().await.body, b"ok");
        task.await.unwrap();

        let (front, task) = edge.post(Some(4));
        front.data(b"data");
        front.end(None);
        assert!(head(&mut stream).await.starts_with("POST / "));
        let mut body = [0; 4];
        stream.read_exact(&mut body).await.unwrap();
        assert_eq!(&body, b"data");
        stream.write_all(OK).await.unwrap();
        assert_eq!(status(&front.response().await), 200);
        task.await.unwrap();
        let counters = edge.counters();
        assert_eq!((counters.opened, counters.reused, counters.lookups), (1, 1, 0));
        let label = format!("unix:{}", folder.path().join("app.sock").display());
        assert_eq!(counters.upstreams[&label].idle, 1);
    });
}

#[test]
fn a_socket_that_does_not_exist_is_502_until_its_server_starts() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let edge = edge(&folder);
        assert_unreachable(&edge, "connection_refused", Failure::NoSocket).await;

        let listener = UnixListener::bind(folder.path().join("app.sock")).unwrap();
        let (front, task) = edge.get("/");
        let mut stream = listener.accept().await.unwrap().0;
        head(&mut stream).await;
        stream.write_all(OK).await.unwrap();
        assert_eq!(status(&front.response().await), 200);
        task.await.unwrap();
    });
}

/// The kernel lets root in everywhere, so the test has another user for its file accesses, in a thread of its own.
#[test]
fn a_socket_without_permission_is_502_with_a_cause_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    let as_nobody = || {
        nix::unistd::setfsuid(Uid::from_raw(65_534));
        run(async {
            let edge = edge(&folder);
            assert_unreachable(&edge, "proxy_configuration_error", Failure::Forbidden).await;
        });
    };
    std::thread::scope(|scope| scope.spawn(as_nobody).join().unwrap());
}
