//! Requests for upgrades that the server does not make, as Java and `curl --http2` send them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::plain::{plain_address, setup};
use super::raw::{Raw, status};
use super::{server, text};
use crate::server::{Folder, PAGE, Server};

/// Fields of a request for HTTP/2 (RFC 7540 §3.2).
const UPGRADE: &str = "Host: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
/// Length of a body that no socket holds, and that is read on after a response.
const LENGTH: usize = 900_000;

#[test]
fn a_redirect_arrives_whole_though_the_body_of_the_request_is_not_read() {
    let folder = Folder::new();
    let mut server = Server::start(&setup("https_port = 443"), &folder);
    let mut stream = TcpStream::connect(plain_address(&mut server)).unwrap();
    let head = format!("POST /a HTTP/1.1\r\n{UPGRADE}Content-Length: {LENGTH}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 308");
    stream.write_all(&vec![7; LENGTH]).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    let rest = text(&rest);
    assert!(rest.contains("location: https://a/a\r\n"), "{rest}");
}

#[test]
fn a_connection_over_tls_ends_with_close_notify() {
    let folder = Folder::new();
    let server = server(&folder, "");
    let fields = UPGRADE.replace("Connection: ", "Connection: close, ");
    let request = format!("GET / HTTP/1.1\r\n{fields}\r\n");
    let mut raw = Raw::open(&server);
    raw.send(request.as_bytes());
    raw.read_past(PAGE.as_bytes());
    assert!(raw.ends());
    let response = Raw::open(&server).all(request.as_bytes());
    assert_eq!(status(&response), Some(200));
}
