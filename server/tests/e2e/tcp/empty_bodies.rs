//! Requests whose body turns out to be empty, as upstreams receive them.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::raw::{Raw, status};
use super::{server, value};
use crate::client::{Client, run};
use crate::fronts::{FRONTS, Front, connect};
use crate::server::{Folder, Server};
use crate::upstream;

/// Starts an upstream of HTTP/1.1 that passes on each head.
fn http1(heads: Sender<String>) -> SocketAddr {
    upstream::start(move |mut stream| {
        let heads = heads.clone();
        async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else {
                    return;
                };
                head.push(byte);
            }
            heads.send(String::from_utf8(head).unwrap()).unwrap();
            let response = b"HTTP/1.1 204 No\r\nconnection: close\r\n\r\n";
            stream.write_all(response).await.unwrap();
        }
    })
}

/// Starts an upstream of HTTP/2 that passes on whether the head ended the request, and its length.
fn http2(heads: Sender<String>) -> SocketAddr {
    upstream::start_http2(move |request: Request<h2::RecvStream>, mut sender| {
        let heads = heads.clone();
        async move {
            let ended = request.body().is_end_stream();
            let length = request.headers().get("content-length");
            let length = length.map_or("none", |length| length.to_str().unwrap());
            let head = format!("ended: {ended}\r\ncontent-length: {length}\r\n");
            heads.send(head).unwrap();
            let response = http::Response::builder().status(204).body(()).unwrap();
            sender.send_response(response, true).unwrap();
        }
    })
}

/// End of a request without a byte of its body, after its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Bare,
    Trailers,
}

fn trailers() -> HeaderMap {
    let trailer = ("x-sum".parse().unwrap(), HeaderValue::from_static("0"));
    HeaderMap::from_iter([trailer])
}

async fn over_http2(server: &Server, method: &Method, path: &str, end: End) -> u16 {
    let mut client = connect(server.address()).await;
    let request = Request::builder().method(method);
    let request = request.uri(format!("https://localhost{path}"));
    let request = request.body(()).unwrap();
    let (response, mut body) = client.send_request(request, false).unwrap();
    match end {
        End::Bare => body.send_data(Bytes::new(), true).unwrap(),
        End::Trailers => body.send_trailers(trailers()).unwrap(),
    }
    response.await.unwrap().status().as_u16()
}

async fn over_http3(
    (server, folder): (&Server, &Folder),
    method: &Method,
    path: &str,
    end: End,
) -> u16 {
    let client = Client::new(folder);
    let mut session = client.connect(server.address()).await;
    let request = Request::builder().method(method);
    let request = request.uri(format!("https://localhost{path}"));
    let mut stream = session.begin(request.body(()).unwrap()).await;
    // The end is in a packet of its own.
    tokio::task::yield_now().await;
    if end == End::Trailers {
        stream.send_trailers(trailers()).await.unwrap();
    }
    stream.finish().await.unwrap();
    stream.recv_response().await.unwrap().status().as_u16()
}

fn over_http1(server: &Server, method: &Method, path: &str, end: End) -> u16 {
    let trailers = match end {
        End::Bare => "",
        End::Trailers => "x-sum: 0\r\n",
    };
    let fields = "Host: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n";
    let request = format!("{method} {path} HTTP/1.1\r\n{fields}\r\n0\r\n{trailers}\r\n");
    status(&Raw::open(server).all(request.as_bytes())).unwrap()
}

fn ask(
    (server, folder): (&Server, &Folder),
    front: Front,
    method: &Method,
    path: &str,
    end: End,
) -> u16 {
    match front {
        Front::Http1 => over_http1(server, method, path, end),
        Front::Http2 => run(over_http2(server, method, path, end)),
        Front::Http3 => run(over_http3((server, folder), method, path, end)),
    }
}

/// Returns a server with routes to an upstream of each protocol, and the heads that these get.
fn start(folder: &Folder) -> (Server, Receiver<String>) {
    let (sender, heads) = channel();
    let route = |path, upstream| {
        format!("[[route]]\npath = \"{path}\"\nproxy.upstreams = \"{upstream}\"\n")
    };
    let routes = [
        route("/1", http1(sender.clone()).to_string()),
        route("/2", format!("h2c://{}", http2(sender))),
    ];
    (server(folder, &routes.concat()), heads)
}

/// Asserts that upstreams get requests with an end of this kind as ones without a body.
fn assert_no_body(end: End) {
    let folder = Folder::new();
    let (server, heads) = start(&folder);
    let methods = [Method::GET, Method::DELETE, Method::OPTIONS, Method::HEAD];
    for method in methods {
        for front in FRONTS {
            let ask = |path| ask((&server, &folder), front, &method, path, end);
            assert_eq!(ask("/1"), 204);
            let head = heads.recv().unwrap();
            let framing = ["transfer-encoding", "content-length"];
            let framing = framing.map(|name| value(&head, name));
            assert_eq!(framing, [None, None], "{front:?} {method}: {head}");
            assert_eq!(ask("/2"), 204);
            let head = heads.recv().unwrap();
            assert_eq!(value(&head, "ended"), Some("true"), "{front:?} {method}");
            assert_eq!(value(&head, "content-length"), Some("none"));
        }
    }
}

#[test]
fn a_body_that_turns_out_to_be_empty_reaches_no_upstream() {
    assert_no_body(End::Bare);
}

#[test]
fn trailers_without_a_body_reach_no_upstream() {
    assert_no_body(End::Trailers);
}

#[test]
fn an_empty_body_that_ends_with_the_head_of_a_post_has_the_length_0_upstream() {
    let folder = Folder::new();
    let (server, heads) = start(&folder);
    // Over HTTP/3 the end may arrive after the head has gone upstream.
    for front in [Front::Http1, Front::Http2] {
        for method in [Method::POST, Method::PUT, Method::PATCH] {
            let ask = |path| ask((&server, &folder), front, &method, path, End::Bare);
            assert_eq!(ask("/1"), 204);
            let head = heads.recv().unwrap();
            assert_eq!(value(&head, "content-length"), Some("0"), "{front:?}");
            assert_eq!(value(&head, "transfer-encoding"), None, "{head}");
            assert_eq!(ask("/2"), 204);
            let head = heads.recv().unwrap();
            assert_eq!(value(&head, "ended"), Some("true"), "{front:?} {method}");
        }
    }
}
