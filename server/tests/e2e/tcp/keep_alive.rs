//! What a response of HTTP/1.1 says about its connection, and what becomes of the connection (RFC 9112 §9.6).

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::sleep;

use super::plain::{plain_address, setup};
use super::{text, value};
use crate::client::run;
use crate::server::{Folder, Server};
use crate::upstream;

/// Longest wait for bytes.
const WAIT_LIMIT: Duration = Duration::from_secs(60);
/// Length of a body that no buffer of the server holds.
const LONG: usize = 900_000;
/// What proves that a connection serves a second request.
const SECOND: &str = "GET /second HTTP/1.1\r\nHost: a\r\n\r\n";

/// A connection of HTTP/1.1.
struct Client(TcpStream);

impl Client {
    fn open(server: SocketAddr) -> Client {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
        Client(stream)
    }

    /// Sends bytes; the server may have had enough of them.
    fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    /// Reads a response with a length; returns its head. Passes informational ones over.
    fn response(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = text(&head);
        if head.starts_with("HTTP/1.1 100") {
            return self.response();
        }
        let length = value(&head, "content-length").unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        head
    }

    /// Returns whether the server closes the connection before it sends anything more.
    fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// Returns the status of a response, and whether it says that its connection is closed.
fn said(head: &str) -> (u16, bool) {
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut options = lines.filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
    (status, options.any(|(_, option)| option.contains("close")))
}

/// Starts an upstream that responds to a head at once and reads nothing more.
fn hasty(response: &'static [u8]) -> SocketAddr {
    upstream::start(move |mut stream| async move {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else {
                return;
            };
            head.push(byte);
        }
        let _ = stream.write_all(response).await;
        let _ = stream.shutdown().await;
    })
}

fn routes() -> String {
    let small = "max_request_body = \"1KiB\"";
    let hasty = hasty(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok");
    let route = |path: &str, keys: &str| format!("[[route]]\npath = \"{path}\"\n{keys}\n");
    [
        route("/second", "fixed = { body = \"second\" }"),
        route("/fixed", "fixed = { body = \"fixed\" }"),
        route("/denied", "allow = \"192.0.2.1\"\nfixed = { body = \"\" }"),
        route("/protected", "basic_auth = { users_file = \"users\" }\nfixed = { body = \"\" }"),
        route("/rare", "rate_limit = { rate = \"1/h\" }\nfixed = { body = \"\" }"),
        route("/gone", &format!("{small}\nproxy.upstreams = \"127.0.0.1:1\"")),
        route("/files", "files = { root = \"www\" }"),
        route("/hasty", &format!("proxy.upstreams = \"{hasty}\"")),
        route(
            "/page",
            "allow = \"192.0.2.1\"\nerror_pages = { 403 = \"403.html\" }\nfixed = { body = \"\" }",
        ),
    ]
    .concat()
}

/// Returns a server without TLS, and its address.
fn start(folder: &Folder, keys: &str, tables: &str) -> (Server, SocketAddr) {
    std::fs::create_dir_all(folder.path("www")).unwrap();
    std::fs::write(folder.path("403.html"), "page").unwrap();
    let user = "ada:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";
    std::fs::write(folder.path("users"), user).unwrap();
    let mut server = Server::start(&setup(keys).with(&routes()).with(tables), folder);
    let address = plain_address(&mut server);
    (server, address)
}

/// Ways in which a client sends the body of a request: its fields, what it sends with the head, and what it sends behind the response if
/// the connection stays open.
fn bodies() -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let length = |length: usize| format!("Content-Length: {length}\r\n");
    let chunked = "Transfer-Encoding: chunked\r\n";
    let expect = "Expect: 100-continue\r\n";
    let chunk = |size: usize| [format!("{size:x}\r\n").into_bytes(), vec![7; size]].concat();
    vec![
        (String::new(), Vec::new(), Vec::new()),
        (length(0), Vec::new(), Vec::new()),
        (length(10), vec![7; 10], Vec::new()),
        (length(10), Vec::new(), vec![7; 10]),
        (length(10), vec![7; 5], vec![7; 5]),
        (length(LONG), vec![7; LONG], Vec::new()),
        (length(LONG), Vec::new(), vec![7; LONG]),
        (length(LONG), vec![7; 100_000], vec![7; LONG - 100_000]),
        (chunked.to_owned(), b"0\r\n\r\n".to_vec(), Vec::new()),
        (chunked.to_owned(), b"3\r\nabc\r\n0\r\n\r\n".to_vec(), Vec::new()),
        (chunked.to_owned(), b"3\r\nabc\r\n".to_vec(), b"0\r\n\r\n".to_vec()),
        (chunked.to_owned(), chunk(LONG), b"\r\n0\r\n\r\n".to_vec()),
        (length(10) + expect, Vec::new(), vec![7; 10]),
        (length(10) + expect, vec![7; 10], Vec::new()),
        (length(LONG) + expect, Vec::new(), vec![7; LONG]),
        (chunked.to_owned() + expect, Vec::new(), b"0\r\n\r\n".to_vec()),
    ]
}

/// Asserts that a connection is closed behind a response if and only if the response says so; returns its status, and whether it does.
fn check(
    server: SocketAddr,
    request: &str,
    (fields, sent, rest): &(String, Vec<u8>, Vec<u8>),
) -> (u16, bool) {
    let mut client = Client::open(server);
    let head = format!("{request}{fields}\r\n");
    // In one write: what arrives later may be too late to keep the connection.
    client.send(&[head.as_bytes(), sent].concat());
    let head = client.response();
    let (status, closes) = said(&head);
    let shown = format!("{request:?} {fields:?} {}: {head}", sent.len());
    if closes {
        assert!(client.is_closed(), "{shown}");
    } else {
        client.send(rest);
        client.send(SECOND.as_bytes());
        assert_eq!(said(&client.response()), (200, false), "{shown}");
    }
    (status, closes)
}

#[test]
fn a_response_says_whether_its_connection_is_closed() {
    let folder = Folder::new();
    let (_server, address) = start(&folder, "http = \"serve\"", "");
    let host = "Host: a\r\n";
    let once = format!("GET /rare HTTP/1.1\r\n{host}");
    assert_eq!(check(address, &once, &bodies()[0]).0, 200);
    for (target, fields, statuses) in [
        ("/fixed", "", [200].as_slice()),
        ("/denied", "", &[403]),
        ("/page", "", &[403]),
        ("/protected", "", &[401]),
        ("/protected", "Authorization: Basic eDp5\r\n", &[401]),
        ("/rare", "", &[429]),
        ("/gone", "", &[502, 413]),
        ("/files", "", &[405, 404]),
        ("/hasty", "", &[200]),
        ("/nowhere", "", &[200, 404, 413]),
        ("/fixed", "Host: b\r\n", &[400]),
        ("/fixed", "x: \u{1}\r\n", &[400]),
    ] {
        for body in bodies() {
            let is_whole = body.2.is_empty() || body.0.contains("Expect");
            if ["/fixed", "/nowhere"].contains(&target) && fields.is_empty() && !is_whole {
                // The response waits for the end of the body.
                continue;
            }
            let request = format!("POST {target} HTTP/1.1\r\n{host}{fields}");
            let (status, closes) = check(address, &request, &body);
            assert!(statuses.contains(&status), "{target} {status}");
            let arrives = body.2.is_empty() && body.1.len() < 1000;
            // A body that comes with its head costs no connection.
            let keeps = arrives && !body.0.contains("Expect") && !fields.contains("x: ");
            assert!(!(keeps && closes), "{target} {fields} {body:?}");
        }
    }
}

#[test]
fn a_redirect_to_https_says_whether_its_connection_is_closed() {
    let folder = Folder::new();
    let (_server, address) = start(&folder, "", "");
    for (fields, sent, rest) in bodies() {
        let mut client = Client::open(address);
        client.send(format!("POST /a HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
        client.send(&sent);
        let (status, closes) = said(&client.response());
        assert_eq!(status, 308);
        if closes {
            assert!(client.is_closed(), "{fields}");
        } else {
            client.send(&rest);
            client.send(SECOND.as_bytes());
            assert_eq!(said(&client.response()), (308, false), "{fields}");
        }
    }
}

#[test]
fn the_last_response_of_a_connection_says_so() {
    let folder = Folder::new();
    let limits = "[limits]\nrequests_per_connection = 3";
    let (_server, address) = start(&folder, "http = \"serve\"", limits);
    for request in ["GET /fixed", "GET /denied", "GET /nowhere", "GET /gone"] {
        let mut client = Client::open(address);
        for number in 1..=3 {
            client.send(format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            let (_, closes) = said(&client.response());
            assert_eq!(closes, number == 3, "{request} {number}");
        }
        assert!(client.is_closed(), "{request}");
    }
}

#[test]
fn a_client_of_http10_learns_whether_its_connection_is_closed() {
    let folder = Folder::new();
    let (_server, address) = start(&folder, "http = \"serve\"", "");
    for (target, body, keeps) in [
        ("/fixed", 0, true),
        ("/denied", 0, true),
        ("/denied", LONG, false),
        ("/fixed", LONG, true),
    ] {
        for asks in [true, false] {
            let mut client = Client::open(address);
            let connection = if asks { "Connection: keep-alive\r\n" } else { "" };
            let fields = format!("{connection}Content-Length: {body}\r\n");
            let head = format!("POST {target} HTTP/1.0\r\n{fields}\r\n");
            client.send(&[head.as_bytes(), &vec![7; body]].concat());
            let head = client.response();
            let is_kept = value(&head, "connection") == Some("keep-alive");
            assert_eq!(is_kept, asks && keeps, "{target} {body}: {head}");
            if is_kept {
                client.send(SECOND.as_bytes());
                assert_eq!(said(&client.response()).0, 200);
            } else {
                assert!(!head.contains("keep-alive"), "{head}");
                assert!(client.is_closed(), "{target} {body}: {head}");
            }
        }
    }
}

/// The end of the connection is that of the body.
#[test]
fn a_client_of_http10_learns_that_a_body_without_a_length_ends_its_connection() {
    let folder = Folder::new();
    let upstream = hasty(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nok");
    let route = format!("[[route]]\npath = \"/endless\"\nproxy.upstreams = \"{upstream}\"");
    let (_server, address) = start(&folder, "http = \"serve\"", &route);
    for asks in ["", "Connection: keep-alive\r\n"] {
        let mut client = Client::open(address);
        client.send(format!("GET /endless HTTP/1.0\r\n{asks}\r\n").as_bytes());
        assert_eq!(said(&client.response()), (200, true), "{asks}");
        let mut body = String::new();
        client.0.read_to_string(&mut body).unwrap();
        assert_eq!(body, "ok");
    }
    let mut client = Client::open(address);
    client.send(b"HEAD /endless HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(said(&client.response()), (200, false));
    client.send(SECOND.as_bytes());
    assert_eq!(said(&client.response()).0, 200);
}

/// A body that was left unread has the server read on before it closes the connection.
#[test]
fn a_connection_whose_bodies_have_arrived_is_closed_at_once() {
    let folder = Folder::new();
    let (_server, address) = start(&folder, "http = \"serve\"", "");
    let mut client = Client::open(address);
    for (target, expected) in [("/denied", 403), ("/gone", 502), ("/files/a", 405)] {
        let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
        client.send(&[head.as_bytes(), b"body"].concat());
        assert_eq!(said(&client.response()), (expected, false), "{target}");
    }
    client.send(b"GET /second HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(said(&client.response()), (200, true));
    assert!(client.is_closed());
    // A socket that is closed takes nothing, and one that is read on takes it for 15 s.
    let is_refused = (0..200).any(|_| {
        run(async { sleep(Duration::from_millis(20)).await });
        client.0.write_all(b"x").is_err()
    });
    assert!(is_refused);
}
