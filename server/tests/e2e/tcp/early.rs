//! Responses that come before the request has ended, for clients that read none before they have sent everything.

use std::future::poll_fn;
use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::raw::{Raw, status};
use super::{curl, server, text};
use crate::client::run;
use crate::fronts::connect;
use crate::server::{Folder, Server};
use crate::upstream;

/// Length of an upload that no buffer of the server holds.
const LONG: usize = 5 << 20;
/// Most bytes that the server may read of an upload which nobody needs, its buffers included.
const MOST: usize = 48 << 20;
const BLOCK: usize = 16 * 1024;

/// Starts an upstream that responds to the head of a request, and reads nothing more.
fn hasty() -> SocketAddr {
    upstream::start(|mut stream| async move {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else {
                return;
            };
            head.push(byte);
        }
        let response = b"HTTP/1.1 401 No\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno";
        let _ = stream.write_all(response).await;
        let _ = stream.shutdown().await;
    })
}

/// Starts an upstream that reads everything, and does not respond.
fn patient() -> SocketAddr {
    upstream::start(|mut stream| async move {
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    })
}

/// Returns a server whose routes respond early, with the paths and their statuses.
fn start(folder: &Folder) -> (Server, Vec<(&'static str, u16)>) {
    let (hasty, patient) = (hasty(), patient());
    let routes = format!(
        "[[route]]\npath = \"/small\"\nmax_request_body = \"1MiB\"\nproxy.upstreams = \"{patient}\"\n\
         [[route]]\npath = \"/denied\"\nallow = \"192.0.2.1\"\nfixed = {{ body = \"\" }}\n\
         [[route]]\npath = \"/hasty\"\nmax_request_body = \"1GiB\"\nproxy.upstreams = \"{hasty}\"\n\
         [[route]]\npath = \"/gone\"\nmax_request_body = \"1GiB\"\nproxy.upstreams = \"127.0.0.1:1\"\n"
    );
    let paths = vec![("/small", 413), ("/denied", 403), ("/hasty", 401), ("/gone", 502)];
    (server(folder, &routes), paths)
}

/// Begins an upload of HTTP/2, with its length or without.
fn begin(
    client: &mut SendRequest<Bytes>,
    path: &str,
    length: Option<usize>,
) -> (ResponseFuture, SendStream<Bytes>) {
    let mut request = Request::post(format!("https://localhost{path}"));
    if let Some(length) = length {
        request = request.header("content-length", length);
    }
    let request = request.body(()).unwrap();
    client.send_request(request, false).unwrap()
}

/// Sends so many bytes; returns how many the server took, and why it took no more.
async fn send(upload: &mut SendStream<Bytes>, length: usize) -> (usize, Option<Reason>) {
    let mut sent = 0;
    while sent < length {
        upload.reserve_capacity(BLOCK.min(length - sent));
        match poll_fn(|context| upload.poll_capacity(context)).await {
            Some(Ok(room)) => {
                let count = room.min(length - sent);
                upload.send_data(vec![7; count].into(), false).unwrap();
                sent += count;
            }
            Some(Err(error)) => return (sent, error.reason()),
            None => {
                let reason = poll_fn(|context| upload.poll_reset(context)).await;
                return (sent, reason.ok());
            }
        }
    }
    (sent, None)
}

#[test]
fn a_client_of_http2_that_finishes_its_upload_first_gets_the_response() {
    let folder = Folder::new();
    let (server, paths) = start(&folder);
    for (path, expected) in paths {
        for announced in [Some(LONG), None] {
            run(async {
                let mut client = connect(server.address()).await;
                let (response, mut upload) = begin(&mut client, path, announced);
                assert_eq!(send(&mut upload, LONG).await, (LONG, None), "{path}");
                upload.send_data(Bytes::new(), true).unwrap();
                let response = response.await.unwrap();
                assert_eq!(response.status().as_u16(), expected, "{path} {announced:?}");
            });
        }
    }
}

#[test]
fn an_upload_that_nobody_needs_ends_without_an_error_after_a_bounded_number_of_bytes() {
    let folder = Folder::new();
    let (server, paths) = start(&folder);
    for (path, expected) in paths {
        run(async {
            let mut client = connect(server.address()).await;
            let (response, mut upload) = begin(&mut client, path, None);
            let (sent, reason) = send(&mut upload, 2 * MOST).await;
            assert!((LONG..MOST).contains(&sent), "{path}: {sent}");
            assert_eq!(reason, Some(Reason::NO_ERROR), "{path}");
            let response = response.await.unwrap();
            assert_eq!(response.status().as_u16(), expected, "{path}");
            // The connection serves further requests.
            let request = Request::get("https://localhost/").body(()).unwrap();
            let (response, _) = client.send_request(request, true).unwrap();
            assert_eq!(response.await.unwrap().status(), 200);
        });
    }
}

#[test]
fn a_client_of_http1_that_finishes_its_upload_first_gets_the_response() {
    let folder = Folder::new();
    let (server, paths) = start(&folder);
    for (path, expected) in paths {
        for is_chunked in [false, true] {
            let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\n");
            let body = vec![7; LONG];
            let request = if is_chunked {
                let begin = format!("{head}Transfer-Encoding: chunked\r\n\r\n{LONG:x}\r\n");
                [begin.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat()
            } else {
                let begin = format!("{head}Content-Length: {LONG}\r\n\r\n");
                [begin.as_bytes(), &body].concat()
            };
            let response = Raw::open(&server).all(&request);
            assert_eq!(status(&response), Some(expected), "{path} {is_chunked}");
        }
    }
}

#[test]
fn curl_reads_the_status_of_an_upload_that_is_refused() {
    let folder = Folder::new();
    let (server, paths) = start(&folder);
    std::fs::write(folder.path("upload.bin"), vec![7; LONG]).unwrap();
    let file = folder.path("upload.bin");
    let file = file.to_str().unwrap();
    for (path, expected) in paths {
        for protocol in super::PROTOCOLS {
            for fields in [["--header", "x: y"], ["--header", "Expect:"]] {
                let words = ["--upload-file", file, "--write-out", "%{http_code}"];
                let output = ["--output", "/dev/null", protocol];
                let words = [&words, output.as_slice(), &fields].concat();
                let Some(said) = curl(&server, &folder, &words, path) else {
                    return;
                };
                assert_eq!(text(&said), expected.to_string(), "{protocol} {path}");
            }
        }
    }
}
