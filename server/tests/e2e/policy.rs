//! The table of policy that HTTP/3 passes in memory, over TCP. Without the cases that need early data, or several requests at a time.

#[path = "../../src/h3/tests/policy/cases.rs"]
mod cases;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::str::FromStr as _;

use bytes::Bytes;
use h2::ext::Protocol;
use http::uri::PathAndQuery;
use http::{Method, Request, Uri, Version};

use crate::client::run;
use crate::fronts::connect;
use crate::server::{Folder, Server, Setup};
use crate::tcp::raw::{Raw, status};
use cases::{Body, Case, cases};

/// Status of the handler's response.
const HANDLED: u16 = 418;

/// Starts an upstream that responds to the head of each request, and reads no body.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut lines = BufReader::new(&stream).lines();
                while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
                let fields = "connection: close\r\ncontent-length: 0\r\n";
                let response = format!("HTTP/1.1 {HANDLED} Handled\r\n{fields}\r\n");
                (&stream).write_all(response.as_bytes()).unwrap();
                // The other side closes the connection.
                lines.for_each(drop);
            });
        }
    });
    address
}

/// Sends a request of HTTP/1.1, and returns the status of its response.
fn over_http1(server: &Server, case: &Case) -> Option<u16> {
    let (method, target) = match (case.method, case.protocol()) {
        (method, None) if case.path.is_empty() => (method, "localhost:443"),
        (_, Some(_)) => ("GET", case.path),
        (method, None) => (method, case.path),
    };
    let host = if case.path.is_empty() { target } else { "localhost" };
    let mut request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
    request += if case.protocol().is_some() {
        "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    } else {
        "Connection: close\r\n"
    };
    let (fields, content) = match case.body {
        Body::None => (String::new(), String::new()),
        Body::Sent(length) => {
            let chunk = format!("{length:x}\r\n{}\r\n0\r\n\r\n", ".".repeat(length));
            ("Transfer-Encoding: chunked\r\n".to_owned(), chunk)
        }
        Body::Announced(length) => (format!("Content-Length: {length}\r\n"), String::new()),
        Body::Expecting(length) => {
            (format!("Content-Length: {length}\r\nExpect: 100-continue\r\n"), String::new())
        }
    };
    request += &format!("{fields}\r\n{content}");
    let mut client = Raw::open(server);
    client.send(request.as_bytes());
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    status(&head)
}

/// Sends a request of HTTP/2, and returns the status of its response.
async fn over_http2(server: &Server, case: &Case) -> Option<u16> {
    let mut request = Request::new(());
    *request.version_mut() = Version::HTTP_2;
    *request.method_mut() = Method::from_str(case.method).unwrap();
    let mut uri = Uri::from_static("https://localhost/").into_parts();
    if case.path.is_empty() {
        uri = Uri::from_static("localhost:443").into_parts();
    } else {
        uri.path_and_query = Some(PathAndQuery::from_static(case.path));
    }
    *request.uri_mut() = Uri::from_parts(uri).unwrap();
    if let Some(protocol) = case.protocol() {
        let fields = request.headers_mut();
        fields.insert("sec-websocket-version", "13".parse().unwrap());
        request.extensions_mut().insert(Protocol::from_static(protocol));
    }
    if let Some(length) = case.announced() {
        request.headers_mut().insert("content-length", length.into());
    }
    if matches!(case.body, Body::Expecting(_)) {
        let expected = "100-continue".parse().unwrap();
        request.headers_mut().insert("expect", expected);
    }
    let mut client = connect(server.address()).await;
    while case.protocol().is_some() && !client.is_extended_connect_protocol_enabled() {
        // The server's settings arrive meanwhile.
        tokio::task::yield_now().await;
    }
    let (response, mut body) = client.send_request(request, case.ends_with_head()).unwrap();
    if let Body::Sent(length) = case.body {
        // A refusal may come before.
        let _ = body.send_data(Bytes::from(vec![b'.'; length]), true);
    }
    Some(response.await.ok()?.status().as_u16())
}

#[test]
fn http1_and_http2_keep_to_the_policy() {
    let folder = Folder::new();
    let setup = Setup::of(format!(
        "[limits]\nmax_request_body = 1000\nmax_concurrent_streams = 4\n\
         [[route]]\npath = \"/page\"\nfixed.body = \"page\"\n\
         [[route]]\npath = \"/bytes/\"\ngenerate.max_size = \"1MiB\"\n\
         [[route]]\npath = \"/app/\"\nmax_request_body = 60000\nproxy.upstreams = \"{}\"\n",
        upstream()
    ));
    let server = Server::start(&setup.listener("main", "127.0.0.1:0", "cubic"), &folder);
    let cases = cases().into_iter();
    let alone = cases.filter(|case| !case.early_data && !case.no_memory && case.running == 0);
    let mut others = Vec::new();
    for case in alone {
        let found = [over_http1(&server, &case), run(over_http2(&server, &case))];
        let expected = case.outcome.unwrap_or(HANDLED);
        if found != [Some(expected); 2] {
            let Case { method, path, body, .. } = case;
            others.push(format!("{method} {path}, {body:?}: {found:?} is not {expected}"));
        }
    }
    assert!(others.is_empty(), "{others:#?}");
}
