//! Fields that a route sets by the status of the response, over all versions of HTTP.

use std::fs;

use crate::client::{Client, run};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};
use crate::tcp::{PROTOCOLS, curl, value};

on_auto!(errors_have_no_field_for_successes_on_any_front_and_by_any_handler);

/// Fields for successes, for every response, and for errors, which several routes have from their site.
const SITE: &str = r#"
[[site]]
name = "all"
[[site.response_headers]]
set = { cache-control = "max-age=31536000, immutable" }
[[site.response_headers]]
always = true
set = { strict-transport-security = "max-age=31536000" }
[[site.response_headers]]
status = ["4xx", "5xx"]
set = { x-error = "{path}" }
"#;

const ROUTES: &str = r#"
[[route]]
path = "/assets/"
site = "all"
files = { root = "www" }

[[route]]
path = "/gone/"
site = "all"
proxy = { upstreams = "127.0.0.1:1", retries = 0 }

[[route]]
path = "/denied"
site = "all"
deny = "all"
fixed = {}

[[route]]
path = "/often"
site = "all"
rate_limit = { rate = "1/h" }
proxy = { upstreams = "127.0.0.1:1" }

[[route]]
path = "/moved"
site = "all"
redirect = "/assets/a.js"

[[route]]
path = "/later"
site = "all"
fixed = { status = 503 }
response_headers.set = { retry-after = "60" }

[[route]]
path = "/sized/"
site = "all"
generate = { max_size = 10 }
"#;

/// Requests, with a field that they have, and the status of the response.
const CASES: [(&str, (&str, &str), u16); 14] = [
    ("/assets/a.js", ("x", "x"), 200),
    ("/assets/a.js", ("range", "bytes=0-1"), 206),
    ("/assets/a.js", ("range", "bytes=9-"), 416),
    ("/assets/a.js", ("if-modified-since", "Fri, 01 Jan 2100 00:00:00 GMT"), 304),
    ("/assets/a.js", ("if-match", "\"other\""), 412),
    ("/assets/none.js", ("x", "x"), 404),
    ("/assets/none.js", ("x", "x"), 404),
    ("/assets/.env", ("x", "x"), 404),
    ("/gone/x", ("x", "x"), 502),
    ("/denied", ("x", "x"), 403),
    ("/moved", ("x", "x"), 308),
    ("/later", ("x", "x"), 503),
    ("/sized/10", ("x", "x"), 200),
    ("/sized/11", ("x", "x"), 404),
];

/// Checks the fields of a response.
fn check(path: &str, status: u16, field: &dyn Fn(&str) -> Option<String>) {
    let is_error = status >= 400;
    let found = ["cache-control", "strict-transport-security", "x-error", "retry-after"].map(field);
    let year = "max-age=31536000";
    let expected = [
        (!is_error).then(|| format!("{year}, immutable")),
        Some(year.to_owned()),
        is_error.then(|| path.to_owned()),
        match path {
            "/later" => Some("60".to_owned()),
            // The server's own.
            "/often" => found[3].clone(),
            _ => None,
        },
    ];
    assert_eq!(found, expected, "{path} {status}");
}

fn errors_have_no_field_for_successes_on_any_front_and_by_any_handler(backend: &str) {
    let folder = Folder::new();
    fs::create_dir(folder.path("www")).unwrap();
    fs::write(folder.path("www/a.js"), "start()").unwrap();
    let setup = Setup::new(backend).listener("one", "127.0.0.1:0", "cubic").with(SITE).with(ROUTES);
    let server = Server::start(&setup, &folder);
    run(async {
        let mut session = Client::new(&folder).connect(server.address()).await;
        let often = [("/often", ("x", "x"), 502), ("/often", ("x", "x"), 429)];
        for (path, (name, line), status) in CASES.into_iter().chain(often) {
            let response = session.get_with(path, &[(name, line.as_bytes())]).await;
            assert_eq!(response.head.status(), status, "{path}");
            let fields = response.head.headers().clone();
            let field = |name: &str| Some(fields.get(name)?.to_str().unwrap().to_owned());
            check(path, status, &field);
        }
    });
    for protocol in PROTOCOLS {
        for (path, (name, line), status) in CASES.into_iter().chain([("/often", ("x", "x"), 429)]) {
            let sent = format!("{name}: {line}");
            let words = [protocol, "--include", "--header", &sent];
            let Some(output) = curl(&server, &folder, &words, path) else {
                return;
            };
            let output = String::from_utf8(output).unwrap();
            let (head, _) = output.split_once("\r\n\r\n").unwrap();
            let first = head.lines().next().unwrap();
            assert!(first.contains(&format!(" {status}")), "{path}: {first}");
            check(path, status, &|name| value(head, name).map(str::to_owned));
        }
    }
}
