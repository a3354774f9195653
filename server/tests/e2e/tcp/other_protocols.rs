//! Upgrades of HTTP/1.1 to protocols that this server does not know, upstreams that ignore an upgrade, and HTTP on a port for HTTPS.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use http::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream as UpstreamSide;

use super::plain::{plain_address, setup};
use super::raw::status;
use super::{program, server, text, value};
use crate::admin::{ADMIN, address, metrics};
use crate::client::run;
use crate::fronts::connect;
use crate::server::{Folder, Server};
use crate::upstream;

/// Fields of a request that asks for WebSocket.
const WEBSOCKET: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Reads a head.
async fn head(stream: &mut UpstreamSide) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

/// Starts an upstream that switches to the protocol that a request asks for, and then sends back what it gets; to any other request, it
/// responds with its head. Paths with `/no` are refused, and `/other` switches to another protocol.
fn switching() -> SocketAddr {
    upstream::start(|mut stream| async move {
        while let Some(head) = head(&mut stream).await {
            let protocol = value(&head, "upgrade").filter(|_| !head.contains("/no"));
            let Some(protocol) = protocol else {
                let length = head.len();
                let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{head}");
                stream.write_all(response.as_bytes()).await.unwrap();
                continue;
            };
            let protocol = if head.contains("/other") { "other" } else { protocol };
            let line = "HTTP/1.1 101 UPGRADED";
            let response = format!("{line}\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n");
            stream.write_all(response.as_bytes()).await.unwrap();
            let mut block = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut block).await {
                stream.write_all(&block[..count]).await.unwrap();
            }
            return;
        }
    })
}

fn start(folder: &Folder) -> (Server, SocketAddr) {
    let upstream = switching();
    let route = |path, keys| {
        format!("[[route]]\npath = \"{path}\"\nproxy = {{ upstreams = \"{upstream}\"{keys} }}\n")
    };
    let routes = [route("/open", ", upgrades = [\"tcp\", \"SPDY/3.1\"]"), route("/closed", "")];
    let setup = setup("http = \"serve\"").with(&routes.concat());
    let mut server = Server::start(&setup, folder);
    let address = plain_address(&mut server);
    (server, address)
}

/// Reads a head.
fn response(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    text(&head)
}

/// Reads a response with a length: its head, and its body.
fn whole(stream: &mut TcpStream) -> (String, String) {
    let head = response(stream);
    let length = value(&head, "content-length").unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (head, text(&body))
}

#[test]
fn an_upgrade_that_a_route_allows_opens_a_tunnel_with_its_upstream() {
    let folder = Folder::new();
    let (_server, address) = start(&folder);
    for (method, protocol, fields) in [
        ("POST", "tcp", "Content-Length: 0\r\n"),
        ("POST", "TCP", ""),
        ("GET", "SPDY/3.1", "X-Handshake: 1\r\n"),
    ] {
        let mut client = TcpStream::connect(address).unwrap();
        let upgrade = format!("Connection: Upgrade\r\nUpgrade: {protocol}\r\n");
        let request = format!("{method} /open HTTP/1.1\r\nHost: a\r\n{upgrade}{fields}\r\nearly");
        client.write_all(request.as_bytes()).unwrap();
        let head = response(&mut client);
        assert_eq!(status(head.as_bytes()), Some(101), "{head}");
        assert_eq!(value(&head, "upgrade"), Some(protocol));
        assert_eq!(value(&head, "connection"), Some("upgrade"));
        assert_eq!(value(&head, "sec-websocket-accept"), None);
        client.write_all(b" and late").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut echo = Vec::new();
        client.read_to_end(&mut echo).unwrap();
        assert_eq!(text(&echo), "early and late");
    }
}

#[test]
fn an_upgrade_that_a_route_does_not_allow_is_served_as_a_request_without_one() {
    let folder = Folder::new();
    let (_server, address) = start(&folder);
    for (path, protocol, fields) in [
        ("/closed", "tcp", ""),
        ("/closed", "h2c", "HTTP2-Settings: AAMAAABk\r\n"),
        ("/open", "h2c", "HTTP2-Settings: AAMAAABk\r\n"),
        ("/open", "tcpx", ""),
        ("/open", "tcp, other", ""),
        ("/open", "tcp", "Upgrade: other\r\n"),
        ("/open", "tcp", "Content-Length: 2\r\n"),
        ("/open", "tcp", "Transfer-Encoding: chunked\r\n"),
    ] {
        let body = if fields.contains("Length") {
            "ab"
        } else if fields.contains("chunked") {
            "0\r\n\r\n"
        } else {
            ""
        };
        let mut client = TcpStream::connect(address).unwrap();
        let upgrade = format!("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {protocol}\r\n");
        let request = format!("POST {path} HTTP/1.1\r\nHost: a\r\n{upgrade}{fields}\r\n{body}");
        client.write_all(request.as_bytes()).unwrap();
        let (head, seen) = whole(&mut client);
        assert_eq!(status(head.as_bytes()), Some(200), "{head}");
        for name in ["upgrade", "connection", "http2-settings"] {
            assert_eq!(value(&seen, name), None, "{path} {protocol}: {seen}");
        }
    }
}

#[test]
fn an_upstream_that_ignores_an_upgrade_responds_as_to_any_request() {
    let folder = Folder::new();
    let (_server, address) = start(&folder);
    for upgrade in [WEBSOCKET, "Connection: upgrade\r\nUpgrade: tcp\r\n"] {
        let mut client = TcpStream::connect(address).unwrap();
        let request = format!("GET /open/no HTTP/1.1\r\nHost: a\r\n{upgrade}\r\n");
        // The connection stays one of HTTP/1.1.
        for _ in 0..2 {
            client.write_all(request.as_bytes()).unwrap();
            let (head, seen) = whole(&mut client);
            assert_eq!(status(head.as_bytes()), Some(200), "{head}");
            assert_eq!(value(&head, "upgrade"), None);
            assert!(value(&seen, "upgrade").is_some(), "{seen}");
        }
    }
}

#[test]
fn an_upstream_that_switches_to_another_protocol_is_502() {
    let folder = Folder::new();
    let (_server, address) = start(&folder);
    let mut client = TcpStream::connect(address).unwrap();
    let upgrade = "Connection: upgrade\r\nUpgrade: tcp\r\n";
    let request = format!("GET /open/other HTTP/1.1\r\nHost: a\r\n{upgrade}\r\n");
    client.write_all(request.as_bytes()).unwrap();
    let head = response(&mut client);
    assert_eq!(status(head.as_bytes()), Some(502), "{head}");
}

/// 2xx would open the tunnel.
#[test]
fn an_upstream_that_ignores_websocket_is_502_for_extended_connect() {
    let folder = Folder::new();
    let (server, _) = start(&folder);
    run(async {
        let mut client = connect(server.address()).await;
        let request = Request::connect("https://localhost/open/no");
        let mut request = request.body(()).unwrap();
        let protocol = h2::ext::Protocol::from_static("websocket");
        request.extensions_mut().insert(protocol);
        request.headers_mut().insert("sec-websocket-version", "13".parse().unwrap());
        while !client.is_extended_connect_protocol_enabled() {
            tokio::task::yield_now().await;
        }
        let (response, _body) = client.send_request(request, false).unwrap();
        assert_eq!(response.await.unwrap().status(), 502);
    });
}

#[test]
fn http_on_a_port_for_https_gets_a_status_that_says_so() {
    let folder = Folder::new();
    let mut server = server(&folder, ADMIN);
    let admin = address(&mut server);
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n",
    ] {
        let mut client = TcpStream::connect(server.address()).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut response = Vec::new();
        client.read_to_end(&mut response).unwrap();
        let response = text(&response);
        assert_eq!(status(response.as_bytes()), Some(400), "{response}");
        assert_eq!(value(&response, "connection"), Some("close"), "{response}");
        assert_eq!(value(&response, "alt-svc"), None);
        assert!(response.contains("HTTPS"), "{response}");
    }
    if let Some(mut curl) = program("curl") {
        let url = format!("http://{}/", server.address());
        let output = curl.args(["--silent", "--include", &url]).output().unwrap();
        assert!(text(&output.stdout).starts_with("HTTP/1.1 400"));
    }
    // What is neither TLS nor HTTP gets nothing.
    for bytes in [b"\x80\x2e\x01\x03\x01".as_slice(), b"get / HTTP/1.1\r\n\r\n"] {
        let mut client = TcpStream::connect(server.address()).unwrap();
        client.write_all(bytes).unwrap();
        // The server may have closed the connection.
        let _ = client.shutdown(std::net::Shutdown::Write);
        let mut response = Vec::new();
        let _ = client.read_to_end(&mut response);
        assert!(!response.starts_with(b"HTTP"), "{response:?}");
    }
    let found = metrics(admin);
    let responses = found["sluicegate_http_responses_total{code=\"400\"}"];
    assert!(responses >= 3.0, "{responses}");
}
