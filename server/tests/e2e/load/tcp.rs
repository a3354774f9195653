//! `sluicegate load` over HTTP/2 and HTTP/1.1, with TLS and without.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use boring::ssl::{AlpnError, SslAcceptor, SslFiletype, SslMethod};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{failed, load, measured, server, text, url};
use crate::server::{Folder, Server, Setup};
use crate::{admin, nginx, tcp, upstream};

/// Options that choose each protocol over TLS, and its name in the report.
const PROTOCOLS: [(&str, &str); 2] = [("--alpn-list=h2", "h2"), ("--h1", "http/1.1")];

#[test]
fn every_request_is_made_and_counted() {
    let folder = Folder::new();
    let mut server = server(&folder);
    let urls = [url(&server, "/bytes/1000")];
    for (option, name) in PROTOCOLS {
        let output = load(&["-n1000", "-c10", "-m8", "-t2", option], &urls);
        let (report, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{report}{said}");
        let protocol = format!("Application protocol: {name}");
        for line in [
            "progress: 100% done",
            "TLS Protocol: TLSv1.3",
            "Negotiated Group: X25519",
            &protocol,
            "requests: 1000 total, 1000 started, 1000 done, 1000 succeeded, 0 failed, 0 errored, 0 timeout",
            "status codes: 1000 2xx, 0 3xx, 0 4xx, 0 5xx",
        ] {
            let found = report.lines().any(|found| found.starts_with(line));
            assert!(found, "{line}: {report}");
        }
        assert!(report.contains("(1000000) data"), "{report}");
        for part in ["UDP", "RTT", "packets"] {
            assert!(!report.contains(part), "{report}");
        }
        let one_at_a_time = "-m 8: a connection of HTTP/1.1 has one request";
        assert_eq!(said.contains(one_at_a_time), option == "--h1", "{said}");
    }
    let admin = admin::address(&mut server);
    let metrics = admin::metrics(admin);
    let served = admin::sum(&metrics, "sluicegate_http_requests_total");
    assert!((served - 2000.0).abs() < 0.5, "{served}");
}

#[test]
fn a_list_leaves_the_choice_to_the_server() {
    let folder = Folder::new();
    let server = server(&folder);
    let output = load(&["--alpn-list=h2,http/1.1"], &[url(&server, "/")]);
    let report = text(&output.stdout);
    assert!(report.contains("Application protocol: h2\n"), "{report}");
    for (words, part) in [
        (&["--alpn-list=h2,spdy/3"][..], "known are h3, h2"),
        (&["--alpn-list=h2c"], "use http://"),
    ] {
        failed(words, &[url(&server, "/")], part);
    }
}

/// Accepts so many connections with TLS, and lets the handshake end. The server picks `protocol`, or knows nothing of ALPN.
fn accept(count: usize, protocol: Option<&'static [u8]>) -> (SocketAddr, JoinHandle<()>) {
    let folder = Folder::new();
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
    let (chain, key) = (folder.path("cert.pem"), folder.path("key.pem"));
    acceptor.set_certificate_chain_file(chain).unwrap();
    acceptor.set_private_key_file(key, SslFiletype::PEM).unwrap();
    if let Some(protocol) = protocol {
        acceptor.set_alpn_select_callback(move |_, offered| {
            boring::ssl::select_next_proto(protocol, offered).ok_or(AlpnError::ALERT_FATAL)
        });
    }
    let acceptor = acceptor.build();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        for _ in 0..count {
            let (stream, _) = listener.accept().unwrap();
            if let Ok(mut stream) = acceptor.accept(stream) {
                // The client closes it.
                let _ = stream.read_to_end(&mut Vec::new());
            }
        }
    });
    (address, thread)
}

#[test]
fn a_server_that_picks_no_protocol_is_not_spoken_to_in_another_one() {
    for protocol in [None, Some(&b"\x08http/1.1"[..])] {
        let (address, thread) = accept(2, protocol);
        let words = ["-n2", "-c2", "--alpn-list=h2"];
        let cause =
            format!("2 connections failed: {address} speaks no protocol of the list h2; change");
        let report = failed(&words, &[format!("https://{address}/")], &cause);
        thread.join().unwrap();
        assert!(!report.contains("Application protocol"), "{report}");
    }
}

#[test]
fn certificates_are_checked_if_asked_for() {
    let folder = Folder::new();
    let server = server(&folder);
    let own = folder.path("cert.pem");
    let other = Folder::new();
    let issuers = other.path("cert.pem");
    for (file, trusted) in [(own, true), (issuers, false)] {
        let words = ["--alpn-list=h2", "--cacert", file.to_str().unwrap()];
        let output = load(&words, &[url(&server, "/")]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(i32::from(!trusted)), "{said}");
        assert_eq!(said.contains("is not trusted"), !trusted, "{said}");
    }
}

#[test]
fn without_tls_a_server_is_loaded_over_http1_or_h2c() {
    let folder = Folder::new();
    let h2c = upstream::start_http2(|_, mut respond| async move {
        let response = http::Response::builder().status(200).body(()).unwrap();
        let mut body = respond.send_response(response, false).unwrap();
        body.send_data("hello".into(), true).unwrap();
    });
    let mut server = Server::start(&tcp::plain::setup("http = \"serve\""), &folder);
    let http1 = tcp::plain::plain_address(&mut server);
    let cases = [
        (&["--rps=0"][..], http1, "http/1.1", "/bytes/5"),
        (&["-p", "h2c"], h2c, "h2c", "/"),
        (&["--alpn-list=h2c", "-m4"], h2c, "h2c", "/"),
    ];
    for (words, address, name, path) in cases {
        let words = [words, &["-n40", "-c4"]].concat();
        let output = load(&words, &[format!("http://{address}{path}")]);
        let report = text(&output.stdout);
        assert!(report.contains(" 40 succeeded"), "{words:?}: {report}");
        assert!(report.contains("(200) data"), "{words:?}: {report}");
        let line = format!("Application protocol: {name}\n");
        assert!(report.contains(&line) && !report.contains("TLS"), "{report}");
    }
    // That address has no h2c.
    failed(&["-p", "h2c"], &[format!("http://{http1}/")], "use --h1");
}

/// The upstream sends the length of each body back, as the status of its response says: 204 if it is whole.
fn body_counter() -> SocketAddr {
    upstream::start(|mut stream| async move {
        let mut bytes = Vec::new();
        while stream.read_buf(&mut bytes).await.is_ok_and(|len| len > 0) {
            let head = bytes.windows(4).position(|end| end == b"\r\n\r\n");
            let Some(head) = head.map(|at| at + 4) else {
                continue;
            };
            if bytes.len() >= head + BODY {
                let whole = bytes[head..].iter().all(|byte| *byte == b'x');
                let post = bytes.starts_with(b"POST /") && bytes.len() == head + BODY;
                let status = if whole && post { 204 } else { 400 };
                let response = format!("HTTP/1.1 {status} Known\r\n\r\n");
                stream.write_all(response.as_bytes()).await.unwrap();
                bytes.clear();
            }
        }
    })
}

/// Length of a request's body, bytes: more than the windows of HTTP/2 are at the beginning.
const BODY: usize = 300_000;

#[test]
fn bodies_arrive_as_they_are_and_the_log_has_a_line_for_each() {
    let folder = Folder::new();
    let upstream = body_counter();
    let route = format!(
        "[[route]]\npath = \"/body\"\nmethod = \"POST\"\nproxy = {{ upstreams = \"{upstream}\" }}"
    );
    let setup = Setup::new("mio").with(&route);
    let server = Server::start(&setup.listener("main", "127.0.0.1:0", "cubic"), &folder);
    let body = folder.path("body");
    std::fs::write(&body, vec![b'x'; BODY]).unwrap();
    for (option, _) in PROTOCOLS {
        let log = folder.path("log");
        let files = ["-d", body.to_str().unwrap(), "--log-file"];
        let words = [&["-n40", "-c4", "-m5", option][..], &files].concat();
        let words = [&words[..], &[log.to_str().unwrap()]].concat();
        let measured = measured(&words, &[url(&server, "/body")]);
        assert_eq!(measured["status_codes"]["2xx"], 40, "{option}: {measured}");
        let lines = std::fs::read_to_string(&log).unwrap();
        let good = lines.lines().filter(|line| line.contains("\t204\t"));
        assert_eq!(good.count(), 40, "{lines}");
        std::fs::remove_file(&log).unwrap();
    }
}

#[test]
fn nginx_is_loaded_too() {
    let folder = Folder::new();
    // It tells no port, so it gets one that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    // Each connection ends after 50 requests.
    let block = format!(
        "keepalive_requests 50;\nserver {{\nlisten {address} ssl http2;\nssl_certificate cert.pem;\n\
         ssl_certificate_key key.pem;\nroot .;\n}}"
    );
    std::fs::write(folder.path("page"), vec![b'x'; 10_000]).unwrap();
    let is_ready = || TcpStream::connect(address).is_ok();
    let Some(_nginx) = nginx::start(&folder, &block, is_ready) else {
        return;
    };
    for (option, _) in PROTOCOLS {
        let words = ["-n400", "-c4", "-m8", option];
        let measured = measured(&words, &[format!("https://{address}/page")]);
        assert_eq!(measured["requests"]["succeeded"], 400, "{measured}");
        assert_eq!(measured["traffic"]["data"], 4_000_000, "{measured}");
        let established = measured["connections"]["established"].as_u64();
        assert!(established >= Some(8), "{measured}");
    }
}
