//! Informational responses (RFC 9110 §15.2): 100 for clients that wait for it, and early hints (RFC 8297) of upstreams.

use std::future::{Future as _, poll_fn};
use std::io::Write as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::SendStream;
use h2::client::ResponseFuture;
use h3::client::RequestStream;
use h3_quinn::BidiStream;
use http::{Request, Response, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{program, server, text};
use crate::client::{Client, Session, run};
use crate::fronts::{Front, connect};
use crate::server::{Folder, Server};
use crate::upstream;

/// Body of each request.
const BODY: &[u8] = b"hello";
/// Longest wait for a head.
const WAIT_LIMIT: Duration = Duration::from_secs(60);
/// Most hints that are passed on: those of a response may be 16 with what is refused for being too many.
const MOST: usize = 16;
/// Protocols that have informational responses beside 100.
const WITH_HINTS: [Front; 2] = [Front::Http2, Front::Http3];

/// Notes the head of a request, sends the hints for which the path asks, and then, once it has the body, the response.
async fn respond(mut stream: TcpStream, heard: Sender<()>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else {
            return;
        };
        head.push(byte);
    }
    let _ = heard.send(());
    let count = match text(&head).split(' ').nth(1) {
        Some("/hint") => 1,
        Some("/flood") => 10 * MOST,
        _ => 0,
    };
    for number in 0..count {
        let hint = format!(
            "HTTP/1.1 103 Early Hints\r\nlink: </{number}>\r\nconnection: x-hop\r\nx-hop: 1\r\n\r\n"
        );
        let _ = stream.write_all(hint.as_bytes()).await;
    }
    let mut body = [0; BODY.len()];
    if stream.read_exact(&mut body).await.is_ok() {
        let length = body.len();
        let response =
            format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        let _ = stream.write_all(response.as_bytes()).await;
        let _ = stream.write_all(&body).await;
    }
}

/// Returns a server whose routes pass requests on, or refuse them before their bodies are read, and what its upstream has heard.
fn start(folder: &Folder) -> (Server, Receiver<()>) {
    let user = "ada:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";
    std::fs::write(folder.path("users"), user).unwrap();
    let (heard, heads) = channel();
    let upstream = upstream::start(move |stream| respond(stream, heard.clone()));
    let route = |path: &str, keys: &str| format!("[[route]]\npath = \"{path}\"\n{keys}\n");
    let proxy = format!("proxy.upstreams = \"{upstream}\"");
    let routes = [
        route("/upload", &proxy),
        route("/hint", &proxy),
        route("/flood", &proxy),
        route("/small", &format!("max_request_body = 1\n{proxy}")),
        route("/protected", "basic_auth = { users_file = \"users\" }\nfixed.body = \"\""),
        route("/rare", "rate_limit = { rate = \"1/h\" }\nfixed.body = \"\""),
    ];
    (server(folder, &routes.concat()), heads)
}

/// Request whose body is sent when the test says so.
enum Upload {
    Http2(ResponseFuture, SendStream<Bytes>),
    Http3 {
        stream: Box<RequestStream<BidiStream<Bytes>, Bytes>>,
        _session: Box<Session>,
        _client: Client,
    },
}

impl Upload {
    /// Sends the head of an upload, with `expect: 100-continue` if it waits.
    async fn begin(
        front: Front,
        (server, folder): (SocketAddr, &Folder),
        path: &str,
        waits: bool,
    ) -> Upload {
        let mut request = Request::post(format!("https://localhost{path}"));
        request = request.header("content-length", BODY.len());
        if waits {
            request = request.header("expect", "100-continue");
        }
        let request = request.body(()).unwrap();
        if front == Front::Http2 {
            let mut client = connect(server).await;
            let (response, body) = client.send_request(request, false).unwrap();
            return Upload::Http2(response, body);
        }
        let client = Client::new(folder);
        let mut session = client.connect(server).await;
        let stream = session.begin(request).await;
        Upload::Http3 { stream: Box::new(stream), _session: Box::new(session), _client: client }
    }

    /// Waits for the next head, informational or final.
    async fn head(&mut self) -> Response<()> {
        match self {
            Upload::Http2(response, _) => {
                let head = poll_fn(|context| match response.poll_informational(context) {
                    Poll::Ready(Some(head)) => Poll::Ready(head),
                    _ => { Pin::new(&mut *response).poll(context) }
                        .map_ok(|response| response.map(drop)),
                });
                head.await.unwrap()
            }
            Upload::Http3 { stream, .. } => stream.recv_response().await.unwrap(),
        }
    }

    /// Sends the body.
    async fn send(&mut self) {
        let body = Bytes::from_static(BODY);
        match self {
            Upload::Http2(_, stream) => stream.send_data(body, true).unwrap(),
            Upload::Http3 { stream, .. } => {
                stream.send_data(body).await.unwrap();
                stream.finish().await.unwrap();
            }
        }
    }
}

#[test]
fn client_that_expects_100_gets_it_before_it_sends_the_body() {
    let folder = Folder::new();
    let (server, _heads) = start(&folder);
    for front in WITH_HINTS {
        run(async {
            let mut upload =
                Upload::begin(front, (server.address(), &folder), "/upload", true).await;
            let head = upload.head().await;
            assert_eq!(head.status(), StatusCode::CONTINUE, "{front:?}");
            assert!(head.headers().is_empty(), "{front:?}: {head:?}");
            upload.send().await;
            assert_eq!(upload.head().await.status(), StatusCode::OK, "{front:?}");
        });
    }
}

#[test]
fn request_that_is_refused_before_its_body_is_read_gets_no_100() {
    let folder = Folder::new();
    let (server, _heads) = start(&folder);
    for front in WITH_HINTS {
        for (path, expected) in [("/small", 413), ("/protected", 401), ("/rare", 429)] {
            if path == "/rare" {
                front.get(server.address(), &folder, path);
            }
            run(async {
                let to = (server.address(), &folder);
                let mut upload = Upload::begin(front, to, path, true).await;
                let status = upload.head().await.status();
                assert_eq!(status.as_u16(), expected, "{front:?} {path}");
            });
        }
    }
}

#[test]
fn request_of_http2_whose_body_has_arrived_gets_no_100() {
    let folder = Folder::new();
    let (server, _heads) = start(&folder);
    run(async {
        let to = (server.address(), &folder);
        let mut upload = Upload::begin(Front::Http2, to, "/upload", true).await;
        // Head and body leave in one write: the connection's task has not run between.
        upload.send().await;
        assert_eq!(upload.head().await.status(), StatusCode::OK);
    });
}

#[test]
fn hint_arrives_while_the_upstream_waits_for_the_body() {
    let folder = Folder::new();
    let (server, _heads) = start(&folder);
    for front in WITH_HINTS {
        run(async {
            let to = (server.address(), &folder);
            let mut upload = Upload::begin(front, to, "/hint", false).await;
            let head = upload.head().await;
            assert_eq!(head.status(), StatusCode::EARLY_HINTS, "{front:?}");
            let fields: Vec<_> = head.headers().iter().collect();
            let [(name, link)] = fields[..] else {
                panic!("{front:?}: {fields:?}");
            };
            assert_eq!((name.as_str(), link.as_bytes()), ("link", &b"</0>"[..]));
            upload.send().await;
            assert_eq!(upload.head().await.status(), StatusCode::OK, "{front:?}");
        });
    }
}

#[test]
fn flood_of_hints_is_502_after_a_bounded_number() {
    let folder = Folder::new();
    let (server, _heads) = start(&folder);
    for front in WITH_HINTS {
        run(async {
            let to = (server.address(), &folder);
            let mut upload = Upload::begin(front, to, "/flood", false).await;
            let mut hints = 0;
            let last = loop {
                let head = upload.head().await;
                if !head.status().is_informational() {
                    break head;
                }
                hints += 1;
            };
            assert_eq!(last.status(), StatusCode::BAD_GATEWAY, "{front:?}");
            assert!(hints <= MOST, "{front:?}: {hints}");
        });
    }
}

#[test]
fn curl_over_http2_gets_100_while_it_has_nothing_to_send() {
    let folder = Folder::new();
    let (server, heads) = start(&folder);
    let Some(mut curl) = program("curl") else {
        return;
    };
    let port = server.address().port();
    let curl = curl
        .args(["--silent", "--insecure", "--http2", "--include"])
        .args(["--header", "expect: 100-continue", "--upload-file", "."])
        .arg(format!("https://localhost:{port}/upload"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut curl = curl.spawn().unwrap();
    heads.recv_timeout(WAIT_LIMIT).unwrap();
    curl.stdin.take().unwrap().write_all(BODY).unwrap();
    let output = text(&curl.wait_with_output().unwrap().stdout);
    assert!(output.starts_with("HTTP/2 100"), "{output}");
    assert!(output.contains("HTTP/2 200"), "{output}");
}
