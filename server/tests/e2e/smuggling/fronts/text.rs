//! Messages of HTTP/1.1 that servers could read differently (RFC 9112 §11.2).

use super::arrival::Arrival;
use super::{Case, Sent, check};
use crate::fronts::Front;

/// Bytes that a server could take for a request of their own.
const SMUGGLED: &str = "GET /p/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn text(text: String, arrives: Option<Arrival>) -> Case {
    Case { sent: Sent::Text(text), arrives }
}

fn lines(line: &str, fields: &str, body: &str) -> String {
    let fields = format!("Host: localhost\r\nConnection: close\r\n{fields}");
    format!("{line} HTTP/1.1\r\n{fields}\r\n{body}")
}

/// Returns a message that is refused.
fn refused(line: &str, fields: &str, body: &str) -> Case {
    text(lines(line, fields, body), None)
}

/// Returns a message that arrives with that body and no field.
fn passed(line: &str, fields: &str, (body, arrives): (&str, &str)) -> Case {
    text(lines(line, fields, body), Some(Arrival::of(line, arrives)))
}

/// Values of Content-Length that do not name one length.
const LENGTHS: &[&str] = &[
    "5\r\nContent-Length: 6",
    "6\r\nContent-Length: 5",
    "5, 5",
    "5, 6",
    "+5",
    "-5",
    "0x5",
    "5_0",
    "5 5",
    "5;",
    "",
    "five",
    "99999999999999999999999",
    "5\0",
];

/// Values of Transfer-Encoding but `chunked` alone.
const CODINGS: &[&str] = &[
    "xchunked",
    "chunkedx",
    "identity",
    "gzip",
    "gzip, chunked",
    "chunked, gzip",
    "chunked, identity",
    "chunked, chunked",
    "chunked\r\nTransfer-Encoding: chunked",
    "identity\r\nTransfer-Encoding: chunked",
    "chunked\r\nTransfer-Encoding: identity",
    "chunked;q=1",
    "\"chunked\"",
    "\u{b}chunked",
    "chunked\0",
    "chu nked",
    "",
    ",chunked",
    "chunked,",
];

/// Lines that servers could take for fields that frame.
const NO_FIELDS: &[&str] = &[
    "Transfer-Encoding : chunked\r\n",
    "Transfer-Encoding\t: chunked\r\n",
    " Transfer-Encoding: chunked\r\n",
    "X-A: b\r\n Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding:\r\n chunked\r\n",
    "Content-Length : 5\r\n",
];

/// Chunks, and trailers, that are malformed.
const CHUNKS: &[&str] = &[
    "0x5\r\n12345\r\n0\r\n\r\n",
    "-5\r\n12345\r\n0\r\n\r\n",
    "+5\r\n12345\r\n0\r\n\r\n",
    "g\r\n12345\r\n0\r\n\r\n",
    "\r\n12345\r\n0\r\n\r\n",
    "5\n12345\r\n0\r\n\r\n",
    "5\r12345\r\n0\r\n\r\n",
    "5\r\n12345\n0\r\n\r\n",
    "5\r\n123450\r\n\r\n",
    "5;a\nb\r\n12345\r\n0\r\n\r\n",
    "10000000000000005\r\n12345\r\n0\r\n\r\n",
    "5 5\r\n12345\r\n0\r\n\r\n",
    "5\r\n12345\r\n0\r\nContent-Length: 5\r\n\r\n",
    "5\r\n12345\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "5\r\n12345\r\n0\r\nHost: other\r\n\r\n",
    "5\r\n12345\r\n0\r\nX A: b\r\n\r\n",
    "5\r\n12345\r\n0\r\nX-A: \0\r\n\r\n",
];

/// First lines, before the version, that name no path or another one to some servers.
const REQUEST_LINES: &[&str] = &[
    "GET /p x",
    "GET /p\tx",
    "GET\t/p",
    "G T /p",
    "GET /p\0",
    "GET p",
    "GET ?p",
    "GET *",
    "GET",
    "GET ftp://localhost/p",
    "GET http:///p",
    "GET http://user@localhost/p",
    "GET //p%2f..",
    "GET /p%00",
    "GET /p\\..\\x",
    "GET /p%zz",
    "GET /p/..;/x",
    "PRI *",
    "CONNECT localhost:80",
    "CONNECT /p",
    "G\r\nET /p",
];

/// Lines that are no fields, and hosts beside another one.
const MALFORMED_FIELDS: &[&str] = &[
    "Host: localhost\r\n",
    "Host: other\r\n",
    "X-A: a\0b\r\n",
    "X-A: a\rb\r\n",
    "X A: b\r\n",
    ": b\r\n",
    "X-A\0: b\r\n",
    "X-A\r\n",
    "X-\u{e9}: b\r\n",
    "X-A: b\r\n c\r\n",
    "(x): b\r\n",
];

/// Messages without a host, or of another version.
const HEADS: &[&str] = &[
    "GET /p HTTP/1.1\r\nConnection: close\r\n\r\n",
    "GET /p HTTP/1.1\r\nHost: \r\nConnection: close\r\n\r\n",
    "GET /p HTTP/1.1\r\nHost: localhost/p\r\nConnection: close\r\n\r\n",
    "GET /p HTTP/1.1\r\nHost: localhost#p\r\nConnection: close\r\n\r\n",
    "GET /p HTTP/1.1\r\nHost: localhost::\r\nConnection: close\r\n\r\n",
    "GET /p HTTP/1.1\r\n Host: localhost\r\nConnection: close\r\n\r\n",
    "GET /p HTTP/1.1\r\nHost : localhost\r\nConnection: close\r\n\r\n",
    "GET /p\r\n\r\n",
    "GET /p HTTP/2.0\r\nHost: localhost\r\n\r\n",
    "GET /p HTTP/1.2\r\nHost: localhost\r\n\r\n",
    "GET /p http/1.1\r\nHost: localhost\r\n\r\n",
    "GET /p HTTP/1.1x\r\nHost: localhost\r\n\r\n",
    "POST /p HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

fn good() -> Case {
    passed("GET /p/good", "", ("", ""))
}

fn check_each(cases: &[Case]) {
    check(&[Front::Http1], cases, &good());
}

#[test]
fn bodies_of_http1_arrive_framed_once_whatever_they_hold() {
    let chunks = format!("0\r\n\r\n{SMUGGLED}");
    let mut cases = vec![
        passed("POST /p", "Content-Length: 5\r\n", ("12345", "12345")),
        passed("POST /p", "Transfer-Encoding: chunked\r\n", ("5\r\n12345\r\n0\r\n\r\n", "12345")),
        passed("POST /p", "Transfer-Encoding: Chunked\r\n", ("5\r\n12345\r\n0\r\n\r\n", "12345")),
        // What follows the last message is none.
        passed("GET /p", "", (SMUGGLED, "")),
        passed("POST /p", "Content-Length: 0\r\n", (SMUGGLED, "")),
        // Bodies of methods that rarely have one.
        passed("GET /p", &format!("Content-Length: {}\r\n", SMUGGLED.len()), (SMUGGLED, SMUGGLED)),
        passed("DELETE /p", "Transfer-Encoding: chunked\r\n", ("5\r\n12345\r\n0\r\n\r\n", "12345")),
        // Names that upstreams could take for others.
        passed(
            "POST /p",
            "Content_Length: 5\r\nTransfer_Encoding: chunked\r\nContent-Length: 0\r\n",
            ("", ""),
        ),
        // The connection names what frames the message.
        passed(
            "POST /p",
            "Content-Length: 5\r\nConnection: content-length, host\r\n",
            ("12345", "12345"),
        ),
        passed(
            "POST /p",
            "Transfer-Encoding: chunked\r\nConnection: transfer-encoding\r\n",
            ("5\r\n12345\r\n0\r\n\r\n", "12345"),
        ),
    ];
    for both in [
        "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n",
    ] {
        cases.push(passed("POST /p", both, (&chunks, "")));
    }
    check_each(&cases);
}

#[test]
fn lengths_and_codings_of_http1_that_servers_read_differently_are_refused() {
    let chunks = format!("0\r\n\r\n{SMUGGLED}");
    let mut cases = Vec::new();
    for length in LENGTHS {
        cases.push(refused("POST /p", &format!("Content-Length: {length}\r\n"), "12345"));
    }
    for coding in CODINGS {
        cases.push(refused("POST /p", &format!("Transfer-Encoding: {coding}\r\n"), &chunks));
    }
    for fields in NO_FIELDS {
        cases.push(refused("POST /p", fields, &chunks));
    }
    check_each(&cases);
}

#[test]
fn chunks_and_trailers_of_http1_that_servers_read_differently_never_become_whole() {
    let chunked = "Transfer-Encoding: chunked\r\n";
    let mut cases = vec![
        passed("POST /p", chunked, ("5;a=b\r\n12345\r\n0\r\n\r\n", "12345")),
        passed("POST /p", chunked, ("005\r\n12345\r\n000\r\n\r\n", "12345")),
    ];
    for body in CHUNKS {
        cases.push(refused("POST /p", chunked, body));
    }
    check_each(&cases);
}

#[test]
fn targets_and_fields_of_http1_arrive_in_one_form() {
    let one = |line: &str, arrives: &str| text(lines(line, "", ""), Some(Arrival::of(arrives, "")));
    let cases = [
        one("GET http://localhost/p", "GET /p"),
        one("GET https://LOCALHOST/p?a=b", "GET /p?a=b"),
        one("\r\nGET /p", "GET /p"),
        text(
            "GET http://localhost/p HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n"
                .to_owned(),
            Some(Arrival::of("GET /p", "")),
        ),
        text(
            "GET /p HTTP/1.1\r\nHost: localhost:\r\nConnection: close\r\n\r\n".to_owned(),
            Some(Arrival::of("GET /p", "")),
        ),
        one("GET //p//a", "GET /p/a"),
        one("GET /p%0d%0aX:%20y", "GET /p%0D%0AX:%20y"),
        text(
            lines("GET /p", "X-A: 1\r\nConnection: x-a, x-b\r\nX-B: 2\r\nX-C: 3\r\n", ""),
            Some(Arrival::of("GET /p", "").with("x-c", "3")),
        ),
        // What would change the protocol.
        passed(
            "GET /p",
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n",
            ("", ""),
        ),
        passed(
            "POST /p",
            "Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n",
            ("12345", "12345"),
        ),
        passed("GET /p", "Connection: Upgrade\r\nUpgrade: TLS/1.3\r\n", ("", "")),
        // The upstream is not asked for a 100.
        passed("POST /p", "Expect: 100-continue\r\nContent-Length: 5\r\n", ("12345", "12345")),
        passed(
            "POST /p",
            "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n",
            ("5\r\n12345\r\n0\r\n\r\n", "12345"),
        ),
        passed(
            "GET /p",
            "Proxy-Connection: keep-alive\r\nKeep-Alive: timeout=9\r\nProxy: x\r\nTrailer: x\r\n",
            ("", ""),
        ),
    ];
    check_each(&cases);
}

#[test]
fn lines_of_http1_that_servers_read_differently_are_refused() {
    let mut cases = Vec::new();
    for line in REQUEST_LINES {
        cases.push(refused(line, "", ""));
    }
    for fields in MALFORMED_FIELDS {
        cases.push(refused("GET /p", fields, ""));
    }
    for whole in HEADS {
        cases.push(text((*whole).to_owned(), None));
    }
    check_each(&cases);
}
