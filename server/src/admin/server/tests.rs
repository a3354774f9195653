use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Mutex;

use sluicegate_base::observe::lifecycle::{Lifecycle, Phase};

use super::*;
use crate::admin::connections::Connections;
use crate::admin::flamegraph::{FLAMEGRAPH, PPROF, Profiles};
use crate::admin::scrape::{Scraper, Sources};
use crate::admin::traces::Traces;
use crate::admin::worker_queries::WorkerQueries;

/// Starts a server, and returns its address with what keeps it.
fn served() -> (SocketAddr, (Arc<AdminState>, AdminServer)) {
    let lifecycle = Arc::new(Lifecycle::default());
    let admin_state = Arc::new(AdminState {
        scraper: Scraper::new(Sources { lifecycle: Arc::clone(&lifecycle), ..Sources::default() }),
        lifecycle,
        connections: Connections::default(),
        workers: WorkerQueries::default(),
        traces: Traces::new(Arc::default()),
        algorithms: sluicegate_cc::Registry::builtin(),
        profiles: Profiles::default(),
        hosts: Mutex::default(),
    });
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let socket = AdminServer::bind(any).unwrap();
    let server = AdminServer::on(any, socket, Arc::clone(&admin_state)).unwrap();
    (server.local(), (admin_state, server))
}

/// Sends a request and returns everything that comes until the connection ends.
fn send(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    // A connection that was closed with something unread ends with an error.
    let _ = stream.read_to_end(&mut response);
    String::from_utf8(response).unwrap()
}

fn get(address: SocketAddr, path: &str) -> String {
    send(address, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"))
}

fn status(response: &str) -> &str {
    response.split_whitespace().nth(1).unwrap_or("nothing")
}

#[test]
fn readiness_follows_the_process() {
    let (address, (admin_state, _server)) = served();
    for (phase, expected, word) in [
        (Phase::Starting, "503", "starting"),
        (Phase::Serving, "200", "ready"),
        (Phase::Draining, "503", "draining"),
    ] {
        admin_state.lifecycle.set(phase);
        let response = get(address, "/readyz");
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        assert_eq!(status(&response), expected);
        assert!(body.starts_with(word), "{response}");
        assert_eq!(status(&get(address, "/healthz")), "200");
    }
}

#[test]
fn metrics_have_the_media_type_that_scrapers_want() {
    let (address, _panel) = served();
    let response = get(address, "/metrics");
    assert_eq!(status(&response), "200");
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8"));
    assert!(body.contains("\nprocess_start_time_seconds "));
    let head_only = send(address, "HEAD /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(status(&head_only), "200");
    assert!(head_only.ends_with("\r\n\r\n"), "{head_only}");
}

#[test]
fn everything_else_is_refused() {
    let (address, _panel) = served();
    // As much as is read: what stays unread would reset the connection.
    let long = format!("GET /{}", "x".repeat(HEAD_BYTES - 5));
    for (request, expected) in [
        ("GET /index.html HTTP/1.1\r\nhost: x\r\n\r\n", "404"),
        ("GET /metrics/ HTTP/1.1\r\nhost: x\r\n\r\n", "404"),
        ("GET /debug/ HTTP/1.1\r\nhost: x\r\n\r\n", "404"),
        ("HEAD /debug/flamegraph HTTP/1.1\r\nhost: localhost\r\n\r\n", "405"),
        ("HEAD /debug/pprof/profile HTTP/1.1\r\nhost: localhost\r\n\r\n", "405"),
        ("HEAD /debug/pprof/heap HTTP/1.1\r\nhost: localhost\r\n\r\n", "405"),
        ("DELETE /healthz HTTP/1.1\r\nhost: x\r\n\r\n", "405"),
        ("POST /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", "405"),
        ("GET /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello", "413"),
        ("GET /healthz HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n", "413"),
        ("nonsense\r\n\r\n", "400"),
        (&long, "431"),
    ] {
        let response = send(address, request);
        let line = request.lines().next().map(|line| &line[..line.len().min(40)]);
        assert_eq!(status(&response), expected, "{line:?}: {response}");
    }
    let response = send(address, "PUT /readyz HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(response.contains("\r\nallow: GET, HEAD\r\n"), "{response}");
}

#[test]
fn silent_connections_give_way_to_a_request() {
    let (address, _panel) = served();
    let connect = |_| TcpStream::connect(address).unwrap();
    let silent: Vec<TcpStream> = (0..MAX_CONNECTIONS + 8).map(connect).collect();
    let mut waiting = TcpStream::connect(address).unwrap();
    waiting.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut response = String::new();
    waiting.read_to_string(&mut response).unwrap();
    assert_eq!(status(&response), "200");
    // It took the place of the first ones, and the last ones are open still.
    let is_open = |stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let read = (&*stream).read(&mut [0]);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    };
    assert!(!is_open(&silent[0]) && !is_open(&silent[8]));
    assert!(is_open(&silent[MAX_CONNECTIONS + 7]));
    // Each is closed for its silence in the end.
    for mut stream in silent {
        stream.set_nonblocking(false).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
}

/// A connection has its place for good once its request is whole, and not while its form is on the way.
#[test]
fn forms_that_do_not_arrive_give_way_to_a_request() {
    let (address, (admin_state, _server)) = served();
    admin_state.profiles.allow(true);
    admin_state.connections.allow(true, false);
    let begin = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        let form = "content-type: application/x-www-form-urlencoded\r\ncontent-length: 9";
        write!(stream, "POST /debug/trace HTTP/1.1\r\nhost: localhost\r\n{form}\r\n\r\n").unwrap();
        stream
    };
    let _cut: Vec<TcpStream> = (0..MAX_CONNECTIONS + 8).map(begin).collect();
    assert_eq!(status(&get(address, "/healthz")), "200");
    let mut late = begin(0);
    let mut response = String::new();
    late.read_to_string(&mut response).unwrap();
    assert_eq!(status(&response), "408");
}

#[test]
fn a_taken_address_is_named_with_a_remedy() {
    let (address, (_, _server)) = served();
    let error = AdminServer::bind(address).unwrap_err().to_string();
    assert!(error.contains(&address.to_string()), "{error}");
    assert!(error.contains("already in use") && error.contains("choose another"));
}

#[test]
fn profiles_are_refused_until_they_are_allowed() {
    let (address, (admin_state, _server)) = served();
    let refused = get(address, "/debug/flamegraph?seconds=1");
    assert_eq!(status(&refused), "403");
    assert!(refused.contains("`profiles = true`"), "{refused}");
    admin_state.profiles.allow(true);
    let wrong = get(address, "/debug/flamegraph?seconds=0");
    assert_eq!(status(&wrong), "400");
    assert!(wrong.contains("`seconds`"), "{wrong}");
    admin_state.profiles.allow(false);
    assert_eq!(status(&get(address, "/debug/flamegraph")), "403");
}

#[test]
fn no_page_of_another_site_records_a_profile_or_reads_metrics() {
    let (address, (admin_state, _server)) = served();
    admin_state.profiles.allow(true);
    for path in [FLAMEGRAPH, PPROF] {
        for (lines, word) in [
            ("host: localhost\r\nsec-fetch-site: cross-site", "another site"),
            ("host: localhost\r\norigin: http://site.example", "another site"),
            ("host: site.example", "use localhost"),
        ] {
            // It would be recorded for a minute.
            let request = format!("GET {path}?seconds=60 HTTP/1.1\r\n{lines}\r\n\r\n");
            let refused = send(address, &request);
            assert_eq!(status(&refused), "403", "{lines}");
            assert!(refused.contains(word), "{refused}");
        }
        // What a browser sends when its user opens the address.
        let opened = format!(
            "GET {path}?seconds=0 HTTP/1.1\r\nhost: {address}\r\nsec-fetch-site: none\r\n\r\n"
        );
        assert_eq!(status(&send(address, &opened)), "400");
    }
    // Nor does one read the metrics; health checks may have any name.
    let with_host = |path: &str, host: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        status(&send(address, &request)).to_owned()
    };
    assert_eq!(with_host("/metrics", "site.example"), "403");
    assert_eq!(with_host("/healthz", "site.example"), "200");
    assert_eq!(with_host("/metrics", "127.0.0.1:9180"), "200");
    let foreign = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: cross-site\r\n\r\n";
    assert_eq!(status(&send(address, foreign)), "403");
    admin_state.set_hosts(&["edge1.example".to_owned()]);
    assert_eq!(with_host("/metrics", "edge1.example"), "200");
    assert_eq!(with_host("/metrics", "site.example"), "403");
}

#[test]
fn connections_are_shown_where_the_operator_allows_it() {
    let (address, (admin_state, _server)) = served();
    let refused = get(address, "/debug/connections");
    assert_eq!(status(&refused), "403");
    assert!(refused.contains("connections = true"), "{refused}");
    admin_state.connections.allow(true, false);
    for (path, expected, part) in [
        ("/debug/connections", "200", "\"count\": 0"),
        ("/debug/connections?client=192.0.2.1&sort=lost", "200", "\"connections\": []"),
        ("/debug/connections?client=%5B2001%3Adb8::1%5D", "200", "\"connections\": []"),
        ("/debug/connections?wait=luck", "400", "expected one of"),
        ("/debug/connections/8a0f", "404", "no open connection has this ID"),
        ("/debug/connections/xyz", "400", "hexadecimal"),
        ("/debug/connectionsx", "404", "/debug/connections,"),
    ] {
        let response = get(address, path);
        assert_eq!(status(&response), expected, "{response}");
        assert!(response.contains(part), "{response}");
    }
    let posted = send(address, "POST /debug/connections HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(status(&posted), "405");
    let foreign =
        "GET /debug/connections HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: cross-site\r\n\r\n";
    assert_eq!(status(&send(address, foreign)), "403");
}

/// Sends an order with a form.
fn post(address: SocketAddr, path: &str, kind: &str, form: &str) -> String {
    let length = form.len();
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}");
    send(address, &format!("{head}\r\ncontent-length: {length}\r\n\r\n{form}"))
}

#[test]
fn orders_are_taken_from_those_who_may_record_profiles() {
    let (address, (admin_state, _server)) = served();
    const FORM: &str = "application/x-www-form-urlencoded";
    let refused = post(address, "/debug/trace", FORM, "connection=8a0f");
    assert_eq!(status(&refused), "403");
    assert!(refused.contains("`profiles = true`"), "{refused}");
    admin_state.profiles.allow(true);
    // The replies name connections.
    let refused = post(address, "/debug/trace", FORM, "connection=8a0f");
    assert_eq!(status(&refused), "403");
    assert!(refused.contains("`connections = true`"), "{refused}");
    admin_state.connections.allow(true, false);
    let long = "x".repeat(5000);
    for (path, kind, form, expected, part) in [
        ("/debug/trace", FORM, "connection=8a0f", "409", "set `directory` in [qlog]"),
        ("/debug/trace?connection=8a0f", FORM, "", "409", "set `directory` in [qlog]"),
        ("/debug/trace?sni=a", "application/X-WWW-form-urlencoded; x", "for=5s", "409", "[qlog]"),
        ("/debug/trace", FORM, "connection=xyz", "400", "hexadecimal"),
        ("/debug/trace?sni=a", FORM, "sni=b", "400", "once"),
        ("/debug/trace", "text/plain", "sni=a", "415", "form"),
        ("/debug/trace", FORM, "\0", "400", "unknown parameter"),
        ("/debug/trace", FORM, &long, "413", "4096"),
    ] {
        let response = post(address, path, kind, form);
        assert_eq!(status(&response), expected, "{path} {form}: {response}");
        assert!(response.contains(part), "{response}");
    }
    let path = "/debug/connections/8a0f/congestion_control";
    for (form, expected, part) in [
        ("algorithm=bbr3&min_window=8", "404", "no open connection has this ID"),
        ("algorithm=vegas", "400", "bbr3"),
        ("", "400", "which algorithm"),
    ] {
        let response = post(address, path, FORM, form);
        assert_eq!(status(&response), expected, "{form}: {response}");
        assert!(response.contains(part), "{response}");
    }
    assert_eq!(status(&get(address, path)), "405");
    let got = get(address, "/debug/trace?connection=8a0f");
    assert_eq!(status(&got), "405");
    assert!(got.contains("\r\nallow: POST\r\n"), "{got}");
    let foreign =
        "POST /debug/trace?sni=a HTTP/1.1\r\nhost: localhost\r\norigin: http://a.example\r\n\r\n";
    assert_eq!(status(&send(address, foreign)), "403");
}
