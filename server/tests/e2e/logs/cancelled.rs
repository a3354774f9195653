//! Lines of requests that their clients cancel.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::server::{Folder, Server, Setup};
use crate::tcp::frames::{DATA, END_HEADERS, HEADERS, RST_STREAM, frame, http2, ping, section};
use crate::tcp::raw::Raw;

/// A server whose route waits for an upstream.
fn server(folder: &Folder, upstream: &TcpListener) -> Server {
    let route = format!(
        "[access_log]\nfile = \"access.log\"\n\
         [[route]]\npath = \"/app/\"\nproxy.upstreams = \"{}\"",
        upstream.local_addr().unwrap()
    );
    let setup = Setup::new("mio").listener("main", "127.0.0.1:0", "cubic").with(&route);
    Server::start(&setup, folder)
}

/// Has the upstream take a request, and respond with a part of the body if `begins`; the client has received that.
fn respond(upstream: &TcpListener, client: &mut Raw, begins: bool) -> TcpStream {
    let (mut stream, _) = upstream.accept().unwrap();
    // A response before the request would be none.
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    if begins {
        let part = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nxyz";
        stream.write_all(part).unwrap();
        client.read_past(b"xyz");
    }
    stream
}

/// The handler is dropped for the client's sake, and does not count as failed, whether its response had begun or not.
#[test]
fn an_upload_that_its_client_cancels_over_tcp_has_no_cause() {
    for begins in [false, true] {
        let folder = Folder::new();
        let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut server = server(&folder, &upstream);
        let mut http1 = Raw::open(&server);
        http1.send(b"POST /app/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
        let _first = respond(&upstream, &mut http1, begins);
        drop(http1);
        let mut http2 = http2(server.address());
        let mut post = section("/app/2");
        // The method is POST (RFC 7541, appendix A).
        post[0] = 0x83;
        http2.send(&frame(HEADERS, END_HEADERS, 1, &post));
        http2.send(&frame(DATA, 0, 1, b"abc"));
        let _second = respond(&upstream, &mut http2, begins);
        http2.send(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes()));
        ping(&mut http2).unwrap();
        drop(http2);
        server.process.last_words();
        let text = std::fs::read_to_string(folder.path("access.log")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let lines: Vec<Value> = lines.collect();
        assert_eq!(lines.len(), 2, "{text}");
        for line in lines {
            let told = (&line["outcome"], &line["cause"]);
            assert_eq!(told, (&json!("cancelled"), &Value::Null), "{line}");
        }
    }
}
