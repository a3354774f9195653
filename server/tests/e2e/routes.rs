//! Routes by method, over all versions of HTTP.

use bytes::Buf as _;

use crate::client::{Client, run};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};
use crate::tcp::{PROTOCOLS, curl, value};

on_auto!(a_fixed_reply_takes_any_method_and_other_methods_fall_through);

const ROUTES: &str = r#"
[[route]]
host = "localhost"
path = "/api"
method = ["GET", "HEAD"]
fixed = { body = "read" }

[[route]]
host = "localhost"
path = "/api/"
method = "PUT"
fixed = { body = "write" }

[[route]]
host = "localhost"
path = "/"
fixed = { status = 503, body = "later" }
response_headers.set = { x-asked = "{method} {path}" }

[[route]]
host = "localhost"
path = "= /only"
method = "GET"
match_query = "a"
fixed = { body = "only" }
"#;

/// Requests with the status and the content of their responses.
const CASES: [(&str, &str, u16, &str); 14] = [
    ("GET", "/api", 200, "read"),
    ("HEAD", "/api/x", 200, ""),
    ("PUT", "/api/x", 200, "write"),
    ("PUT", "/api", 503, "later"),
    ("POST", "/api", 503, "later"),
    ("DELETE", "/api/x", 503, "later"),
    ("GET", "/only?a", 200, "only"),
    ("POST", "/only?a", 503, "later"),
    ("GET", "/only?b", 503, "later"),
    ("OPTIONS", "/x", 503, "later"),
    ("PATCH", "/x", 503, "later"),
    ("PURGE", "/x", 503, "later"),
    ("HEAD", "/x", 503, ""),
    ("GET", "/x", 503, "later"),
];

fn a_fixed_reply_takes_any_method_and_other_methods_fall_through(backend: &str) {
    let folder = Folder::new();
    let setup = Setup::new(backend).listener("one", "127.0.0.1:0", "cubic").with(ROUTES);
    let server = Server::start(&setup, &folder);
    let asked = |method: &str, path: &str| {
        let path = path.split('?').next().unwrap();
        format!("{method} {path}")
    };
    for protocol in PROTOCOLS {
        for (method, path, status, content) in CASES {
            let sent: &[&str] = match method {
                "HEAD" => &["--head"],
                "GET" | "OPTIONS" => &["--request", method],
                _ => &["--request", method, "--data", "a body"],
            };
            let words = [&[protocol, "--include"], sent].concat();
            let Some(output) = curl(&server, &folder, &words, path) else {
                return;
            };
            let output = String::from_utf8(output).unwrap();
            let (head, body) = output.split_once("\r\n\r\n").unwrap();
            let first = head.lines().next().unwrap();
            assert!(first.contains(&format!(" {status}")), "{method} {path}: {first}");
            assert_eq!(body, content, "{protocol} {method} {path}");
            let expected = (status == 503).then(|| asked(method, path));
            assert_eq!(value(head, "x-asked"), expected.as_deref());
        }
    }
    run(async {
        let mut session = Client::new(&folder).connect(server.address()).await;
        for (method, path, status, content) in CASES {
            let url = format!("https://localhost{path}");
            let request = http::Request::builder().method(method).uri(url);
            let mut stream = session.begin(request.body(()).unwrap()).await;
            if !["GET", "HEAD", "OPTIONS"].contains(&method) {
                stream.send_data("a body".into()).await.unwrap();
            }
            stream.finish().await.unwrap();
            let head = stream.recv_response().await.unwrap();
            assert_eq!(head.status(), status, "{method} {path}");
            let mut body = Vec::new();
            while let Some(mut piece) = stream.recv_data().await.unwrap() {
                body.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
            }
            assert_eq!(body, content.as_bytes(), "{method} {path}");
            let expected = (status == 503).then(|| asked(method, path));
            let found = head.headers().get("x-asked");
            assert_eq!(found.map(|value| value.to_str().unwrap()), expected.as_deref());
        }
    });
}
