//! A load balancer in front that names the clients of its connections by the PROXY protocol.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use serde_json::Value;

use super::raw::{Raw, status};
use super::{plain, program, text};
use crate::admin::{ADMIN, address, metrics, until};
use crate::client::run;
use crate::server::{Folder, PAGE, Server, Setup, field};

/// Address of the balancer; other addresses of this host are no balancers.
const BALANCER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 8);
const REQUEST: &str =
    "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9\r\nConnection: close\r\n\r\n";
const HEADER: &str = "PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\r\n";

fn setup(keys: &str) -> Setup {
    plain::setup(&format!("http = \"serve\"\nproxy_protocol = \"{BALANCER}\"\n{keys}"))
        .with(ADMIN)
        .with("[access_log]\nfile = \"access.log\"")
}

/// Connects from an address of this host.
fn connect(from: Ipv4Addr, server: SocketAddr) -> TcpStream {
    let stream = run(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(server).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}

/// Returns everything until the server closes the connection.
fn exchange(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    let mut response = Vec::new();
    // A server that refuses may have closed.
    let _ = stream.write_all(bytes);
    let _ = stream.read_to_end(&mut response);
    response
}

/// Sends a request without TLS behind these bytes; returns the response's status.
fn plain_status(from: Ipv4Addr, server: SocketAddr, before: &[u8]) -> Option<u16> {
    let bytes = [before, REQUEST.as_bytes()].concat();
    status(&exchange(connect(from, server), &bytes))
}

/// Sends a request over TLS behind these bytes; returns its status, `None` if there is no handshake.
fn tls_status(from: Ipv4Addr, server: SocketAddr, before: &[u8]) -> Option<u16> {
    let mut stream = connect(from, server);
    stream.write_all(before).unwrap();
    let raw = Raw::try_over(stream, b"")?;
    status(&raw.all(REQUEST.as_bytes()))
}

/// Returns the clients of the access log.
fn clients(folder: &Folder) -> Vec<String> {
    let log = std::fs::read_to_string(folder.path("access.log")).unwrap();
    let records = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let clients = records.map(|record| record["client"].as_str().unwrap().to_owned());
    clients.collect()
}

#[test]
fn clients_that_a_balancer_names_count_and_those_of_others_do_not() {
    let folder = Folder::new();
    let mut server = Server::start(&setup(""), &folder);
    let (tls, http) = (server.address(), plain::plain_address(&mut server));
    let admin = address(&mut server);
    let second = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24";
    let v6: [&[u8]; 3] =
        [&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7], &[0; 16], &[1, 0, 0, 80]];
    let second = [&second[..], &v6.concat()].concat();
    for header in [HEADER.as_bytes(), &second] {
        assert_eq!(tls_status(BALANCER, tls, header), Some(200));
        assert_eq!(plain_status(BALANCER, http, header), Some(200));
    }
    // A health check.
    assert_eq!(plain_status(BALANCER, http, b"PROXY UNKNOWN\r\n"), Some(200));
    // Others are served without a header, and not believed with one.
    assert_eq!(tls_status(STRANGER, tls, b""), Some(200));
    assert_eq!(plain_status(STRANGER, http, b""), Some(200));
    assert_eq!(tls_status(STRANGER, tls, HEADER.as_bytes()), None);
    assert_eq!(plain_status(STRANGER, http, HEADER.as_bytes()), Some(400));
    // Without one, a balancer is refused; one that sends nothing may have checked the port.
    drop(connect(BALANCER, http));
    assert_eq!(tls_status(BALANCER, tls, b""), None);
    assert_eq!(plain_status(BALANCER, http, b""), None);
    let refused = "sluicegate_tcp_connections_refused_total{reason=\"proxy_header\"}";
    until(admin, refused, 3.0);
    let said = server.process.last_words();
    let warnings = said.iter().filter(|line| line.contains("do not begin with a header"));
    let warnings: Vec<_> = warnings.collect();
    assert_eq!(warnings.len(), 1, "once a minute: {warnings:?}");
    assert_eq!(field(warnings[0], "listener"), "main");
    assert_eq!(field(warnings[0], "sender"), BALANCER.to_string());
    let clients = clients(&folder);
    // Threads write their lines in any order.
    let count = |start: &str| clients.iter().filter(|c| c.starts_with(start)).count();
    for (start, expected) in [("192.0.2.7:50000", 2), ("[2001:db8::7]:256", 2), ("127.0.0.9:", 1)] {
        assert_eq!(count(start), expected, "{clients:?}");
    }
    assert!(count("127.0.0.8:") >= 2, "{clients:?}");
}

#[test]
fn limits_of_a_client_hold_for_the_clients_behind_a_balancer() {
    let folder = Folder::new();
    let limits = "[limits]\nconnections_per_client = 1\nhandshake_timeout = \"1s\"";
    let setup = setup("").replace("[[group]]", "[[group]]\ncores = [0]").with(limits);
    let mut server = Server::start(&setup, &folder);
    let http = plain::plain_address(&mut server);
    let admin = address(&mut server);
    let header = |host: u8| format!("PROXY TCP4 192.0.2.{host} 198.51.100.1 50000 443\r\n");
    let open = |host: u8| {
        let mut stream = connect(BALANCER, http);
        let request = format!("{}GET / HTTP/1.1\r\nHost: a\r\n\r\n", header(host));
        stream.write_all(request.as_bytes()).unwrap();
        let mut read = Vec::new();
        while !read.ends_with(PAGE.as_bytes()) {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            read.push(byte[0]);
        }
        stream
    };
    let first = open(1);
    let _second = open(2);
    assert_eq!(plain_status(BALANCER, http, header(1).as_bytes()), None);
    drop(first);
    // A header that does not become whole in time.
    assert_eq!(exchange(connect(BALANCER, http), b"PROXY TCP4 "), b"");
    assert_eq!(plain_status(BALANCER, http, header(1).as_bytes()), Some(200));
    let found = metrics(admin);
    let refused =
        |by: &str| found[&format!("sluicegate_tcp_connections_refused_total{{reason=\"{by}\"}}")];
    assert_eq!((refused("client"), refused("proxy_header")), (1.0, 1.0));
}

#[test]
fn curl_as_a_balancer_gets_the_page_over_tls() {
    let folder = Folder::new();
    let mut server = Server::start(&setup("").replace(&BALANCER.to_string(), "127.0.0.1"), &folder);
    let Some(mut curl) = program("curl") else {
        return;
    };
    let output = curl
        .args(["--silent", "--show-error", "--haproxy-protocol", "--max-time", "60"])
        .args(["--interface", "127.0.0.1", "--cacert"])
        .arg(folder.path("cert.pem"))
        .arg(format!("https://localhost:{}/", server.address().port()))
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), PAGE, "{output:?}");
    server.process.last_words();
    assert!(clients(&folder)[0].starts_with("127.0.0.1:"));
}
