//! Requests that servers could read differently (RFC 9112).

use super::raw::{Raw, status};
use super::{server, text};
use crate::server::Folder;

/// Requests, and the statuses that they get.
const READ_DIFFERENTLY: &[(&str, u16)] = &[
    ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200),
    ("GET / HTTP/1.0\r\nHost: a\r\n\r\n", 200),
    ("GET http://a/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200),
    // The host.
    ("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
    ("GET / HTTP/1.0\r\n\r\n", 200),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\nConnection: close\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a, b\r\nConnection: close\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: x@a\r\nConnection: close\r\n\r\n", 400),
    ("GET http://b/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200),
    ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 400),
    // The path.
    ("GET /a%2fb HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 400),
    ("GET * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 400),
    // Framing.
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\na", 400),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, x\r\n\r\na", 400),
    ("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nx: \0\r\n\r\n", 400),
    // A tunnel.
    ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\n\r\n", 501),
];

#[test]
fn what_servers_could_read_differently_is_refused() {
    let folder = Folder::new();
    let server = server(&folder, "");
    let ask = |request: &str| status(&Raw::open(&server).all(request.as_bytes()));
    for (request, expected) in READ_DIFFERENTLY {
        assert_eq!(ask(request), Some(*expected), "{request:?}");
    }
    let long = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nx: {}\r\n\r\n",
        "y".repeat(20_000)
    );
    assert_eq!(ask(&long), Some(431));
    // A length beside chunks ends the connection after its response (RFC 9112 §6.1), so that nothing behind it is a request.
    let both = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\
                GET /bytes/1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let responses = text(&Raw::open(&server).all(both.as_bytes()));
    assert_eq!(responses.matches("HTTP/1.1 ").count(), 1, "{responses}");
}
