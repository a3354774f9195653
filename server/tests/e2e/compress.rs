//! Responses that are compressed while they are sent.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use flate2::read::GzDecoder;
use flate2::write::GzDecoder as GzWriter;

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, Session, run};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};
use crate::tcp::{PROTOCOLS, curl, value};

on_auto!(
    responses_that_a_client_accepts_compressed_are_compressed,
    an_event_is_sent_before_the_next_one_exists,
);

/// Returns an upstream that sends an HTML page of 50,000 bytes, or, for `/events`, an event for each message of `go`.
fn upstream(go: Receiver<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            respond(connection.unwrap(), &go);
        }
    });
    upstream
}

fn respond(mut connection: TcpStream, go: &Receiver<()>) {
    let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
    if first.starts_with("GET /events ") {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        connection.write_all(head.as_bytes()).unwrap();
        while go.recv().is_ok() {
            connection.write_all(b"data: tick\n\n").unwrap();
        }
    } else {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\netag: \"x\"\r\ncontent-length: 50000\r\n\
                    connection: close\r\n\r\n";
        connection.write_all(head.as_bytes()).unwrap();
        connection.write_all(&page()).unwrap();
    }
}

fn page() -> Vec<u8> {
    b"<p>It works.\n".iter().copied().cycle().take(50_000).collect()
}

fn server(backend: &str, folder: &Folder, upstream: SocketAddr) -> Server {
    let root = folder.path("www");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("large.html"), page().repeat(20)).unwrap();
    fs::write(root.join("small.html"), page()).unwrap();
    fs::write(root.join("picture.png"), page()).unwrap();
    let setup = Setup::new(backend)
        .with(ADMIN)
        .listener("one", "127.0.0.1:0", "cubic")
        .with(&format!(
            "[compress]\nenabled = true\ntypes = [\"text/*\", \"text/event-stream\"]\n\
             [[route]]\npath = \"/site/\"\nfiles = {{ root = \"www\" }}\n\
             [[route]]\npath = [\"/page\", \"/events\"]\nproxy = {{ upstreams = \"{upstream}\" }}\n\
             [[route]]\npath = \"/plain\"\ncompress = false\nproxy = {{ upstreams = \"{upstream}\" }}"
        ));
    Server::start(&setup, folder)
}

async fn get(session: &mut Session, path: &str, accepted: &str) -> (http::HeaderMap, Vec<u8>) {
    let fields = [("accept-encoding", accepted.as_bytes())];
    let response = session.get_with(path, &fields).await;
    assert_eq!(response.head.status(), 200, "{path}");
    (response.head.headers().clone(), response.bytes().await)
}

fn text<'a>(headers: &'a http::HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

fn responses_that_a_client_accepts_compressed_are_compressed(backend: &str) {
    let folder = Folder::new();
    let (_go, stop) = channel();
    let mut server = server(backend, &folder, upstream(stop));
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        for (path, original) in [
            ("/page", page()),
            ("/site/small.html", page()),
            ("/site/large.html", page().repeat(20)),
            // Perhaps from memory.
            ("/site/small.html", page()),
        ] {
            let (headers, body) = get(&mut session, path, "deflate, gzip").await;
            assert_eq!(text(&headers, "content-encoding"), Some("gzip"), "{path}");
            assert_eq!(text(&headers, "vary"), Some("accept-encoding"), "{path}");
            let tag = text(&headers, "etag").unwrap();
            assert!(tag.starts_with("W/\""), "{path}: {tag}");
            assert!(body.len() < original.len() / 20, "{path}");
            let mut decoded = Vec::new();
            GzDecoder::new(&body[..]).read_to_end(&mut decoded).unwrap();
            assert!(decoded == original, "{path}");

            let fields = [("if-none-match", tag.as_bytes()), ("accept-encoding", &b"gzip"[..])];
            let response = session.get_with(path, &fields).await;
            if path.starts_with("/site/") {
                assert_eq!(response.head.status(), 304, "{path}");
                assert_eq!(text(response.head.headers(), "etag"), Some(tag), "{path}");
                assert_eq!(text(response.head.headers(), "vary"), Some("accept-encoding"));
            }

            let (headers, body) = get(&mut session, path, "identity").await;
            assert_eq!(text(&headers, "content-encoding"), None, "{path}");
            assert_eq!(text(&headers, "vary"), Some("accept-encoding"), "{path}");
            assert!(body == original, "{path}");
        }
        for (accepted, expected) in [("br, gzip", "br"), ("gzip, br, zstd", "zstd")] {
            for path in ["/page", "/site/small.html", "/site/large.html"] {
                let (headers, body) = get(&mut session, path, accepted).await;
                assert_eq!(text(&headers, "content-encoding"), Some(expected), "{path}");
                assert!(body.len() < 10_000, "{path}");
            }
        }
        for path in ["/plain", "/site/picture.png"] {
            let (headers, body) = get(&mut session, path, "gzip").await;
            assert_eq!(text(&headers, "content-encoding"), None, "{path}");
            assert_eq!(text(&headers, "vary").is_some(), path == "/site/picture.png");
            assert!(body == page(), "{path}");
        }
        let range = [("range", &b"bytes=0-9"[..]), ("accept-encoding", b"gzip")];
        let response = session.get_with("/site/small.html", &range).await;
        assert_eq!(response.head.status(), 206);
        assert_eq!(text(response.head.headers(), "content-encoding"), None);
        assert_eq!(response.bytes().await, page()[..10]);
    });
    let found = metrics(admin);
    let of = |name: &str| found[&format!("sluicegate_compress_{name}{{algorithm=\"gzip\"}}")];
    assert!(of("responses_total") >= 3.0);
    assert!(of("input_bytes_total") > 20.0 * of("output_bytes_total"));
}

fn an_event_is_sent_before_the_next_one_exists(backend: &str) {
    let folder = Folder::new();
    let (go, stop) = channel();
    let server = server(backend, &folder, upstream(stop));
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        go.send(()).unwrap();
        let fields = [("accept-encoding", &b"gzip"[..])];
        let mut response = session.get_with("/events", &fields).await;
        let encoding = text(response.head.headers(), "content-encoding");
        assert_eq!(encoding, Some("gzip"));
        let mut decoder = GzWriter::new(Vec::new());
        for count in 1..=5 {
            let expected = "data: tick\n\n".repeat(count);
            while decoder.get_ref() != expected.as_bytes() {
                decoder.write_all(&response.piece().await.unwrap()).unwrap();
                decoder.flush().unwrap();
            }
            go.send(()).unwrap();
        }
    });
}

/// Its decoders are those of zlib, Brotli and Zstandard in C.
#[test]
fn curl_decodes_each_algorithm_over_tcp() {
    let folder = Folder::new();
    let (_go, stop) = channel();
    let server = server("mio", &folder, upstream(stop));
    for (path, original) in
        [("/page", page()), ("/site/small.html", page()), ("/site/large.html", page().repeat(20))]
    {
        for (protocol, algorithm) in PROTOCOLS
            .iter()
            .flat_map(|protocol| ["gzip", "br", "zstd"].map(|algorithm| (*protocol, algorithm)))
        {
            let accepted = format!("accept-encoding: {algorithm}");
            let words = [protocol, "--compressed", "--include", "--header", &accepted];
            let Some(output) = curl(&server, &folder, &words, path) else {
                return;
            };
            let output = String::from_utf8(output).unwrap();
            let (head, body) = output.split_once("\r\n\r\n").unwrap();
            assert_eq!(value(head, "content-encoding"), Some(algorithm), "{head}");
            assert_eq!(value(head, "vary"), Some("accept-encoding"), "{head}");
            assert!(body.as_bytes() == original, "{protocol} {algorithm} {path}");
        }
    }
}
