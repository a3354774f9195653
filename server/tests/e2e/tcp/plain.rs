//! Requests without TLS: redirects, routes, and what servers could read differently.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::raw::status;
use super::{program, text, value};
use crate::admin::{ADMIN, address, metrics};
use crate::proxy::Upstream;
use crate::server::{Folder, PAGE, Server, Setup, field};

/// Returns the setup of a listener with a free port for connections without TLS.
pub(crate) fn setup(keys: &str) -> Setup {
    let keys = format!("http_address = \"127.0.0.1:0\"\n{keys}\n[listener.tls]");
    Setup::new("mio").listener("main", "127.0.0.1:0", "cubic").replace("[listener.tls]", &keys)
}

/// Returns the address without TLS that a server announces.
pub(crate) fn plain_address(server: &mut Server) -> SocketAddr {
    let line = server.process.line_with(&["listening over TCP", "tls=false"]);
    field(&line, "address").parse().unwrap()
}

/// Sends bytes, and returns everything until the server closes the connection.
fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    text(&response)
}

/// Sends a request with a target and fields.
pub(crate) fn request(address: SocketAddr, target: &str, fields: &str) -> String {
    let request = format!("{target} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n");
    exchange(address, &request)
}

#[test]
fn curl_is_redirected_to_https_and_gets_the_page() {
    let folder = Folder::new();
    let mut server = Server::start(&setup(""), &folder);
    let (plain, https) = (plain_address(&mut server), server.address());
    let Some(mut curl) = program("curl") else {
        return;
    };
    let output = curl
        .args(["--silent", "--show-error", "--max-time", "60", "--include"])
        .args(["--location", "--data", "body", "--cacert"])
        .arg(folder.path("cert.pem"))
        .arg(format!("http://localhost:{}/?a=%2F&b", plain.port()))
        .output()
        .unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let (redirect, page) = said.split_once("\r\n\r\n").unwrap();
    assert!(redirect.starts_with("HTTP/1.1 308 "), "{redirect}");
    let expected = format!("https://localhost:{}/?a=%2F&b", https.port());
    assert_eq!(value(redirect, "location"), Some(expected.as_str()));
    assert_eq!(value(redirect, "alt-svc"), None);
    assert!(page.ends_with(PAGE), "{page}");
}

#[test]
fn redirects_name_the_host_and_the_path_of_the_request() {
    let folder = Folder::new();
    let log = "[access_log]\nfile = \"access.log\"";
    let mut server = Server::start(&setup("https_port = 443").with(log), &folder);
    let plain = plain_address(&mut server);
    for (target, host, location) in [
        ("GET /", "example.org", "https://example.org/"),
        ("POST /a//b?", "EXAMPLE.org.:80", "https://EXAMPLE.org/a//b?"),
        ("GET /%2e%2E/x;y?/../", "[::1]:1", "https://[::1]/x;y?/../"),
        ("GET /a%2fb", "a", "https://a/a%2fb"),
        ("GET /?q={\"a\"}", "a", "https://a/?q=%7B%22a%22%7D"),
        ("GET /<a|b>`%61", "a", "https://a/%3Ca%7Cb%3E%60%61"),
        ("GET http://a/b", "a", "https://a/b"),
        ("GET http://a:/b", "b:80", "https://a/b"),
        ("DELETE /c", "192.0.2.1", "https://192.0.2.1/c"),
    ] {
        let response = request(plain, target, &format!("Host: {host}\r\n"));
        assert_eq!(status(response.as_bytes()), Some(308), "{response}");
        assert_eq!(value(&response, "location"), Some(location));
    }
    drop(server);
    let log = std::fs::read_to_string(folder.path("access.log")).unwrap();
    let line = log.lines().next().unwrap();
    assert!(line.contains("\"status\":308"), "{line}");
    assert!(line.contains("\"tls_version\":null"), "{line}");
}

#[test]
fn requests_without_a_valid_host_or_path_are_refused_and_not_redirected() {
    let folder = Folder::new();
    let mut server = Server::start(&setup(""), &folder);
    let plain = plain_address(&mut server);
    for (target, fields, expected) in [
        ("GET /", "", 400),
        ("GET /", "Host: \r\n", 400),
        ("GET /", "Host: a, b\r\n", 400),
        ("GET /", "Host: a/b\r\n", 400),
        ("GET /", "Host: x@a\r\n", 400),
        ("GET /", "Host: a\r\nHost: b\r\n", 400),
        ("GET http://b/", "Host: a, b\r\n", 400),
        ("GET /a%2f..", "Host: a\r\n", 400),
        ("GET /a#b", "Host: a\r\n", 400),
        ("get /", "Host: a\r\n", 400),
        ("CONNECT a:443", "Host: a:443\r\n", 501),
        ("OPTIONS *", "Host: a\r\n", 204),
    ] {
        let response = request(plain, target, fields);
        let found = status(response.as_bytes());
        assert_eq!(found, Some(expected), "{target} {fields}: {response}");
        assert_eq!(value(&response, "location"), None, "{target} {fields}");
    }
}

/// HAProxy checks servers in this way.
#[test]
fn a_request_of_http10_needs_no_host() {
    let folder = Folder::new();
    let log = "[access_log]\nfile = \"access.log\"";
    let heads = Upstream::start();
    let routes = format!(
        "[[route]]\nhost = \"other.example\"\npath = \"/\"\nfixed = {{ status = 403 }}\n\
         [[route]]\npath = \"/moved\"\nredirect = \"https://{{host}}/new\"\n\
         [[route]]\npath = \"/here\"\nredirect = \"/new\"\n{}{log}",
        heads.route()
    );
    let setup = setup("").with(&routes).with(ADMIN);
    let mut server = Server::start(&setup, &folder);
    let plain = plain_address(&mut server);
    let admin = address(&mut server);
    let response = exchange(plain, "OPTIONS / HTTP/1.0\r\n\r\n");
    assert_eq!(status(response.as_bytes()), Some(308), "{response}");
    let location = format!("https://127.0.0.1:{}/", server.address().port());
    assert_eq!(value(&response, "location"), Some(location.as_str()));
    let serving = setup.replace("[listener.tls]", "http = \"serve\"\n[listener.tls]");
    server.reload(&serving, &folder, "reloaded");
    // Fronts respond behind the reload.
    metrics(admin);
    for (target, expected) in [
        ("OPTIONS /", 200),
        ("GET /", 200),
        ("HEAD /", 200),
        // A redirect to the host that the request names has nowhere to lead.
        ("GET /moved", 404),
        ("GET /here", 308),
        ("GET http://other.example/", 403),
        ("GET /app/up", 200),
    ] {
        let response = exchange(plain, &format!("{target} HTTP/1.0\r\n\r\n"));
        let found = status(response.as_bytes());
        assert_eq!(found, Some(expected), "{target}: {response}");
    }
    server.process.last_words();
    let log = std::fs::read_to_string(folder.path("access.log")).unwrap();
    assert!(log.contains("\"authority\":\"\""), "{log}");
}

#[test]
fn routes_respond_without_tls_once_a_reload_says_so() {
    let folder = Folder::new();
    let setup = setup("").with(ADMIN);
    let mut server = Server::start(&setup, &folder);
    let plain = plain_address(&mut server);
    let admin = address(&mut server);
    let get = || request(plain, "GET /", "Host: a\r\n");
    assert_eq!(status(get().as_bytes()), Some(308));
    let serving = setup.replace("[listener.tls]", "http = \"serve\"\n[listener.tls]");
    server.reload(&serving, &folder, "reloaded");
    // Fronts respond behind the reload.
    metrics(admin);
    let page = get();
    assert_eq!(status(page.as_bytes()), Some(200));
    assert!(page.ends_with(PAGE), "{page}");
    let found = metrics(admin);
    assert_eq!(found["sluicegate_tcp_connections_accepted_total"], 2.0);
    assert_eq!(found["sluicegate_http_responses_total{code=\"308\"}"], 1.0);
}

#[test]
fn a_taken_port_without_tls_is_named_with_its_remedy() {
    let folder = Folder::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let setup =
        setup("").replace("http_address = \"127.0.0.1:0\"", &format!("http_address = {address:?}"));
    let file = Server::write(&setup, &folder);
    let mut refused = crate::server::Process::start(&["run", "-c", &file], &folder.path(""));
    let line = refused.line_with(&["for TCP"]);
    assert!(line.contains(&address) && line.contains("choose another port"), "{line}");
    assert_ne!(refused.wait().code(), Some(0));
}
