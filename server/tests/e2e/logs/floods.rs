//! Floods of everything that strangers can send: the process's log grows by a few kilobytes a second at most, at every level.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use sluicegate_raw_client::{Client as RawClient, Setup as RawSetup};
use socket2::SockRef;
use tokio::time::Instant;

use super::unused;
use crate::admin::{ADMIN, address};
use crate::server::{Folder, Server, Setup};
use crate::tcp::assert_serves;
use crate::tcp::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, frame,
    get, http2, window_update,
};
use crate::tcp::raw::Raw;

const PRIORITY: u8 = 2;
const GOAWAY: u8 = 7;
/// Bytes by which the log may grow in a second of a flood, on top of the first lines of each kind.
const PER_SECOND: usize = 4096;
const FIRST_LINES: usize = 48 * 1024;
/// Most times of a flood: each connection that the client ends keeps its port for a while.
const MOST: u32 = 2000;
/// Line of a file of users: `ada` with the password `secret`.
const ADA: &str = "ada:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";

/// Addresses of a server.
struct Target {
    main: SocketAddr,
    /// Listener that expects the PROXY protocol.
    behind: SocketAddr,
    admin: SocketAddr,
}

/// What a stranger does again and again, with the number of the time.
type Act = fn(&Target, u32);

/// Sends frames of HTTP/2, a batch at a time, on one connection as long as the server keeps it.
fn frames(target: &Target, make: impl Fn(u32) -> Vec<u8>) {
    let mut client = http2(target.main);
    for batch in 0..200 {
        let numbers = batch * 500..(batch + 1) * 500;
        if client.try_send_soon(&numbers.flat_map(&make).collect::<Vec<_>>()).is_err() {
            return;
        }
    }
}

/// Sends bytes over TCP, and reads a response if there is one.
fn bytes(to: SocketAddr, bytes: &[u8]) {
    let Ok(mut stream) = TcpStream::connect(to) else {
        return;
    };
    let second = Some(Duration::from_secs(1));
    stream.set_read_timeout(second).unwrap();
    // The server may have closed the connection.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.read(&mut [0; 1024]);
}

/// Sends a request of HTTP/1.1 over TLS, and reads the response to its end.
fn ask(target: &Target, request: &str) {
    let mut client = Raw::open_with(target.main, b"");
    if client.try_send(request.as_bytes()).is_ok() {
        client.rest();
    }
}

/// Sends datagrams.
fn datagrams(target: &Target, make: impl Fn(u32) -> Vec<u8>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 0..200 {
        let _ = socket.send_to(&make(number), target.main);
    }
}

fn request(line: &str, fields: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n")
}

/// Floods of HTTP/2.
const HTTP2: &[(&str, Act)] = &[
    ("PING that nobody asked for", |t, _| frames(t, |_| frame(PING, ACK, 0, &[1; 8]))),
    ("PING", |t, _| frames(t, |_| frame(PING, 0, 0, &[1; 8]))),
    ("SETTINGS", |t, _| frames(t, |_| frame(SETTINGS, 0, 0, &[]))),
    ("SETTINGS that nobody sent", |t, _| frames(t, |_| frame(SETTINGS, ACK, 0, &[]))),
    ("WINDOW_UPDATE", |t, _| frames(t, |_| window_update(0, 1))),
    ("WINDOW_UPDATE of no stream", |t, n| frames(t, |_| window_update(2 * n + 1, 1))),
    ("PRIORITY", |t, _| frames(t, |n| frame(PRIORITY, 0, 2 * n + 1, &[0, 0, 0, 0, 15]))),
    ("unknown frames", |t, _| frames(t, |n| frame(0xfa, 0, n, &[0; 100]))),
    ("CONTINUATION", |t, _| frames(t, |_| frame(CONTINUATION, 0, 1, b"x"))),
    ("GOAWAY", |t, _| frames(t, |_| frame(GOAWAY, 0, 0, &[0; 8]))),
    ("cancelled requests", |t, _| {
        frames(t, |n| {
            let stream = 2 * n + 1;
            [get(stream, "/"), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
        });
    }),
    ("malformed heads", |t, _| {
        frames(t, |n| {
            // A name in capitals.
            let section = [0x82, 0x87, 0x84, 0x00, 1, b'X', 1, b'y'];
            frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &section)
        });
    }),
    ("references to fields that are none", |t, _| {
        frames(t, |n| frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &[0xfe; 9]));
    }),
    ("DATA of no stream", |t, n| frames(t, |_| frame(DATA, 0, 2 * n + 1, b"x"))),
    ("frames that are cut", |t, _| frames(t, |_| vec![0xff; 7])),
];

/// Floods of TCP, TLS and HTTP/1.1.
const TCP: &[(&str, Act)] = &[
    ("bytes that are no TLS", |t, _| bytes(t.main, &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3])),
    ("HTTP on the port of TLS", |t, _| bytes(t.main, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")),
    ("resets", |t, _| {
        let stream = TcpStream::connect(t.main).unwrap();
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    }),
    ("connections that close at once", |t, _| drop(TcpStream::connect(t.main))),
    ("malformed heads", |t, _| ask(t, "GET / HTTP/1.1\r\nHo st: a\r\n\r\n")),
    ("large heads", |t, _| ask(t, &request("GET /", &format!("x: {}\r\n", "y".repeat(60_000))))),
    ("no HTTP", |t, _| ask(t, "\u{1b}]0;x\u{7}\u{202e}\r\n\r\n")),
    ("paths that are refused", |t, _| ask(t, &request("GET /a%00\u{202e}/../b", ""))),
    ("upgrades to nothing", |t, _| {
        ask(t, &request("GET /app/", "Upgrade: websocket\r\nSec-WebSocket-Key: x\r\n"));
    }),
    ("requests to an upstream that is not there", |t, _| ask(t, &request("GET /app/", ""))),
    ("wrong passwords", |t, _| {
        ask(t, &request("GET /secret", "Authorization: Basic YWRhOlNlY3JldA==\r\n"));
    }),
    ("challenges", |t, _| ask(t, &request("GET /.well-known/acme-challenge/x", ""))),
    ("headers of the PROXY protocol", |t, _| bytes(t.behind, b"PROXY TCP4 \x1b[31m 1 2 3 4\r\n")),
    ("nonsense to the admin address", |t, _| bytes(t.admin, b"\x1b[31m\xff\r\n\r\n")),
    ("requests to the admin address", |t, _| {
        bytes(t.admin, b"GET /debug/flamegraph?seconds=x HTTP/1.1\r\nHost: evil\r\n\r\n");
    }),
];

/// Floods of QUIC.
const QUIC: &[(&str, Act)] = &[
    ("datagrams without sense", |t, _| datagrams(t, |n| vec![n.to_be_bytes()[3]; 1200])),
    ("unknown versions", |t, _| {
        datagrams(t, |_| [&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8][..], &[7; 1194]].concat());
    }),
    ("first packets", |t, times| datagrams(t, |n| initial(200 * times + n, &[]))),
    ("tokens", |t, times| datagrams(t, |n| initial(200 * times + n, &[0x5a; 64]))),
];

/// Returns the first packet of a client.
fn initial(number: u32, token: &[u8]) -> Vec<u8> {
    let mut setup = RawSetup::new(u64::from(number));
    setup.token = token.to_vec();
    RawClient::new(setup).take_datagrams().remove(0)
}

fn start(folder: &Folder, log: &str) -> (Server, Target) {
    std::fs::write(folder.path("users"), ADA).unwrap();
    let setup = Setup::new("mio")
        .with(ADMIN)
        .with(&format!("[log]\n{log}"))
        .listener("main", "127.0.0.1:0", "cubic")
        .listener("behind", "127.0.0.1:0", "cubic")
        .replace("name = \"behind\"", "name = \"behind\"\nproxy_protocol = \"127.0.0.1\"")
        .with(&format!(
            "[[route]]\npath = \"/app/\"\n[route.proxy]\nupstreams = \"{}\"\n\
             [[route]]\npath = \"/secret\"\nbasic_auth = {{ users_file = \"users\" }}\nfixed = {{ body = \"page\" }}",
            unused()
        ));
    let mut server = Server::start(&setup, folder);
    let admin = address(&mut server);
    let target = Target { main: server.address(), behind: server.listener("behind").0, admin };
    (server, target)
}

/// Returns the bytes of the log so far, once no more come.
fn size(server: &mut Server) -> usize {
    let mut last = usize::MAX;
    loop {
        server.process.has_said("\0");
        let lines = server.process.said.iter();
        let size = lines.map(|line| line.len() + 1).sum();
        if size == last {
            return size;
        }
        last = size;
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

/// Has each flood go on for `seconds`, and the log grow no more than it may.
fn floods_leave_the_log_small(log: &str, seconds: u64) {
    let folder = Folder::new();
    let (mut server, target) = start(&folder, log);
    for (name, act) in HTTP2.iter().chain(TCP).chain(QUIC) {
        let before = size(&mut server);
        let begin = Instant::now();
        let mut times = 0;
        while begin.elapsed() < Duration::from_secs(seconds) && times < MOST {
            act(&target, times);
            times += 1;
        }
        let grown = size(&mut server) - before;
        let took = usize::try_from(begin.elapsed().as_secs()).unwrap() + 1;
        println!("{log:?}: {name}: {times} times, {grown} bytes in {took} s");
        let allowed = took * PER_SECOND + FIRST_LINES;
        assert!(grown <= allowed, "{name}: {grown} bytes in {took} s");
        assert_serves(target.main);
    }
    server.process.last_words();
    let said = server.process.said.join("\n");
    let misleading = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(!said.contains(misleading), "{said}");
}

/// Takes long: each of the many floods lasts for a second, so that a log that grows with it exceeds what first lines may take.
#[test]
fn no_flood_of_strangers_makes_the_log_grow_fast() {
    floods_leave_the_log_small("level = \"trace\"", 1);
}

/// Takes long: each of the many floods lasts for a second, so that a log that grows with it exceeds what first lines may take.
#[test]
fn no_flood_of_strangers_makes_the_log_of_an_ordinary_level_grow_fast() {
    floods_leave_the_log_small("level = \"info\"", 1);
}

#[test]
#[ignore = "long"]
fn no_long_flood_of_strangers_makes_the_log_grow_fast() {
    floods_leave_the_log_small("level = \"trace\"", 20);
}
