//! Trailers of requests and responses, between both protocols of clients and both of upstreams.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};

use super::raw::Raw;
use super::{server, text};
use crate::client::run;
use crate::fronts::connect;
use crate::server::{Folder, Server};

/// Starts an upstream of HTTP/1.1 that responds to each connection's request with the request's trailers.
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
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n";
            let response = format!("{head}trailer: x-sum\r\n\r\n2\r\nok\r\n0\r\n{trailers}");
            stream.write_all(response.as_bytes()).unwrap();
        }
    });
    address
}

/// Starts an upstream of HTTP/2 that responds with the request's trailers.
fn http2() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async {
                    let mut connection = h2::server::handshake(stream).await.unwrap();
                    while let Some(Ok((request, mut sender))) = connection.accept().await {
                        tokio::spawn(async move {
                            let mut body = request.into_body();
                            while let Some(Ok(_)) = body.data().await {}
                            let trailers = body.trailers().await.unwrap().unwrap_or_default();
                            let head = Response::builder().header("trailer", "x-sum");
                            let head = head.body(()).unwrap();
                            let mut response = sender.send_response(head, false).unwrap();
                            response.send_data("ok".into(), false).unwrap();
                            response.send_trailers(trailers).unwrap();
                        });
                    }
                });
            }
        });
    });
    address
}

/// Sends a request with a trailer over HTTP/2; returns the body and the trailers of the response.
async fn ask(server: &Server, path: &str) -> (Bytes, HeaderMap) {
    let mut client = connect(server.address()).await;
    let request = Request::post(format!("https://localhost{path}"))
        .header("te", "trailers")
        .header("trailer", "x-sum");
    let request = request.body(()).unwrap();
    let (response, mut body) = client.send_request(request, false).unwrap();
    body.send_data("hello".into(), false).unwrap();
    let trailer = ("x-sum".parse().unwrap(), HeaderValue::from_static("15"));
    body.send_trailers(HeaderMap::from_iter([trailer])).unwrap();
    let mut response = response.await.unwrap().into_body();
    let content = response.data().await.unwrap().unwrap();
    while let Some(more) = response.data().await {
        assert_eq!(more.unwrap(), "");
    }
    (content, response.trailers().await.unwrap().unwrap())
}

#[test]
fn trailers_pass_both_ways_between_all_protocols() {
    let folder = Folder::new();
    let route = |path, upstream| {
        format!("[[route]]\npath = \"{path}\"\nproxy.upstreams = \"{upstream}\"\n")
    };
    let routes = [
        route("/1/", http1().to_string()),
        route("/2/", format!("h2c://{}", http2())),
    ];
    let server = server(&folder, &routes.concat());
    for path in ["/1/", "/2/"] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: te, close\r\n\
             Transfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 15\r\n\r\n"
        );
        let response = text(&Raw::open(&server).all(request.as_bytes()));
        let end = "2\r\nok\r\n0\r\nx-sum: 15\r\n\r\n";
        assert!(response.ends_with(end), "{path}: {response}");
        let (content, trailers) = run(ask(&server, path));
        assert_eq!(content, "ok", "{path}");
        assert_eq!(trailers["x-sum"], "15", "{path}");
    }
}
