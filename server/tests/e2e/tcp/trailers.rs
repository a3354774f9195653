//! Trailers of requests and responses, and early hints (RFC 8297), between all protocols of clients and both of upstreams.

use std::future::{Future as _, poll_fn};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::task::Poll;

use bytes::{Buf as _, Bytes};
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};

use super::raw::Raw;
use super::{server, text};
use crate::client::{Client, run};
use crate::fronts::{FRONTS, Front, connect};
use crate::server::{Folder, Server};
use crate::upstream::start_http2;

/// Field of an early hint.
const LINK: &str = "</style.css>; rel=preload";

/// Starts an upstream of HTTP/1.1 that responds to each connection's request with a hint and with the request's trailers.
fn http1() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut read, mut byte) = (Vec::new(), [0]);
            let trailers = loop {
                stream.read_exact(&mut byte).unwrap();
                read.push(byte[0]);
                let request = String::from_utf8_lossy(&read);
                let end = request.split_once("\r\n0\r\n").map(|(_, end)| end);
                if let Some(end) = end.filter(|end| *end == "\r\n" || end.ends_with("\r\n\r\n")) {
                    break end.to_owned();
                }
            };
            let hint = format!("HTTP/1.1 103 Early Hints\r\nlink: {LINK}\r\n\r\n");
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n";
            let response = format!("{hint}{head}trailer: x-sum\r\n\r\n2\r\nok\r\n0\r\n{trailers}");
            stream.write_all(response.as_bytes()).unwrap();
        }
    });
    address
}

/// Does the same as an upstream of HTTP/2.
async fn exchange(request: Request<h2::RecvStream>, mut sender: SendResponse<Bytes>) {
    let mut body = request.into_body();
    while let Some(Ok(_)) = body.data().await {}
    let trailers = body.trailers().await.unwrap().unwrap_or_default();
    let hint = Response::builder().status(103).header("link", LINK);
    sender.send_informational(hint.body(()).unwrap()).unwrap();
    let head = Response::builder().header("trailer", "x-sum");
    let head = head.body(()).unwrap();
    let mut response = sender.send_response(head, false).unwrap();
    response.send_data("ok".into(), false).unwrap();
    response.send_trailers(trailers).unwrap();
}

/// Response as its client sees it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// Values of `link` in informational responses.
    hints: Vec<String>,
    body: Vec<u8>,
    trailers: HeaderMap,
}

/// Returns a request whose body is to have a trailer.
fn request(path: &str) -> Request<()> {
    let request = Request::post(format!("https://localhost{path}"));
    let request = request.header("te", "trailers").header("trailer", "x-sum");
    request.body(()).unwrap()
}

fn trailers() -> HeaderMap {
    let trailer = ("x-sum".parse().unwrap(), HeaderValue::from_static("15"));
    HeaderMap::from_iter([trailer])
}

fn link(fields: &HeaderMap) -> String {
    fields["link"].to_str().unwrap().to_owned()
}

async fn over_http2(server: &Server, path: &str) -> Seen {
    let mut client = connect(server.address()).await;
    let (mut response, mut body) = client.send_request(request(path), false).unwrap();
    body.send_data("hello".into(), false).unwrap();
    body.send_trailers(trailers()).unwrap();
    let mut hints = Vec::new();
    let head = poll_fn(|context| {
        while let Poll::Ready(Some(hint)) = response.poll_informational(context) {
            hints.push(link(hint.unwrap().headers()));
        }
        Pin::new(&mut response).poll(context)
    });
    let mut response = head.await.unwrap().into_body();
    let mut body = Vec::new();
    while let Some(block) = response.data().await {
        body.extend_from_slice(&block.unwrap());
    }
    Seen { hints, body, trailers: response.trailers().await.unwrap().unwrap_or_default() }
}

async fn over_http3(server: &Server, folder: &Folder, path: &str) -> Seen {
    let client = Client::new(folder);
    let mut session = client.connect(server.address()).await;
    let mut stream = session.begin(request(path)).await;
    stream.send_data("hello".into()).await.unwrap();
    stream.send_trailers(trailers()).await.unwrap();
    stream.finish().await.unwrap();
    let mut hints = Vec::new();
    let mut head = stream.recv_response().await.unwrap();
    while head.status().is_informational() {
        hints.push(link(head.headers()));
        head = stream.recv_response().await.unwrap();
    }
    let mut body = Vec::new();
    while let Some(mut block) = stream.recv_data().await.unwrap() {
        body.extend_from_slice(&block.copy_to_bytes(block.remaining()));
    }
    Seen { hints, body, trailers: stream.recv_trailers().await.unwrap().unwrap_or_default() }
}

fn over_http1(server: &Server, path: &str) -> Seen {
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: te, close\r\n\
         Transfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 15\r\n\r\n"
    );
    let response = text(&Raw::open(server).all(request.as_bytes()));
    let end = "2\r\nok\r\n0\r\nx-sum: 15\r\n\r\n";
    assert!(response.ends_with(end), "{path}: {response}");
    let (_, lines) = response.rsplit_once("\r\n0\r\n").unwrap();
    let trailers = lines.lines().filter_map(|line| line.split_once(": "));
    let trailers = trailers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let hints = response.split("HTTP/1.1 103").skip(1);
    Seen {
        hints: hints.map(str::to_owned).collect(),
        body: b"ok".to_vec(),
        trailers: trailers.collect(),
    }
}

#[test]
fn trailers_and_hints_pass_between_all_protocols_but_hints_over_http1() {
    let folder = Folder::new();
    let route = |path, upstream| {
        format!("[[route]]\npath = \"{path}\"\nproxy.upstreams = \"{upstream}\"\n")
    };
    let routes = [
        route("/1/", http1().to_string()),
        route("/2/", format!("h2c://{}", start_http2(exchange))),
    ];
    let server = server(&folder, &routes.concat());
    for path in ["/1/", "/2/"] {
        for front in FRONTS {
            let seen = match front {
                Front::Http1 => over_http1(&server, path),
                Front::Http2 => run(over_http2(&server, path)),
                Front::Http3 => run(over_http3(&server, &folder, path)),
            };
            // hyper sends no informational responses but 100.
            let hints = if front == Front::Http1 { Vec::new() } else { vec![LINK.to_owned()] };
            let expected = Seen { hints, body: b"ok".to_vec(), trailers: trailers() };
            assert_eq!(seen, expected, "{front:?} {path}");
        }
    }
}
