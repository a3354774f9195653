//! What operators know from other servers, over all versions of HTTP: included files, variables, CORS, files of redirects, and the
//! places that upstreams name.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};

use http::Method;

use crate::client::{Client, run};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};
use crate::tcp::{PROTOCOLS, curl, value};

on_auto!(
    included_sites_serve_scripts_redirects_and_applications_on_a_path,
    a_reload_reads_included_files_and_redirects_again,
);

const SITE: &str = r#"
[[site]]
name = "shop"
redirects = "redirects.csv"
[site.cors]
origins = "{env.TEST_ORIGIN}"
credentials = true
max_age = "1h"

[[route]]
path = "/app/"
site = "shop"
[route.proxy]
upstreams = "{env.TEST_UPSTREAM}"
strip_prefix = true
rewrite_location = "all"

[[route]]
path = "/shop"
site = "shop"
fixed = { body = "{env.TEST_BODY:-default}" }
"#;

const ORIGIN: &str = "https://app.example.com";

/// Starts an upstream that redirects each request to a path of its own, and sets a cookie.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut lines = BufReader::new(&stream).lines();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let response = format!(
                    "HTTP/1.1 302 Found\r\nconnection: close\r\ncontent-length: 0\r\n\
                     location: http://{address}/login\r\nset-cookie: id=1; Path=/; Secure\r\n\
                     access-control-allow-origin: *\r\n\r\n"
                );
                // The test ends where the client is gone.
                let _ = (&stream).write_all(response.as_bytes());
            });
        }
    });
    address
}

/// Starts a server that includes the site.
fn start(backend: &str, folder: &Folder) -> (Setup, Server) {
    fs::create_dir(folder.path("sites")).unwrap();
    fs::write(folder.path("sites/shop.toml"), SITE).unwrap();
    fs::write(folder.path("redirects.csv"), "/shop/old,/shop/new,301\n/shop/gone,,410\n").unwrap();
    let setup = Setup::new(backend)
        .listener("one", "127.0.0.1:0", "cubic")
        .replace("[[group]]", "include = \"sites/*.toml\"\n[[group]]");
    let upstream = upstream().to_string();
    let told = [("TEST_ORIGIN", ORIGIN), ("TEST_UPSTREAM", &*upstream)];
    let server = Server::start_told(&setup, folder, &told);
    (setup, server)
}

/// Request, status, and a field of the response with its value.
type Case = (Method, &'static str, u16, (&'static str, Option<&'static str>));

const CASES: [Case; 8] = [
    (Method::OPTIONS, "/shop", 204, ("access-control-max-age", Some("3600"))),
    (Method::OPTIONS, "/app/x", 204, ("access-control-allow-origin", Some(ORIGIN))),
    (Method::GET, "/shop", 200, ("access-control-allow-origin", Some(ORIGIN))),
    (Method::GET, "/shop/old", 301, ("location", Some("/shop/new"))),
    (Method::GET, "/shop/gone", 410, ("access-control-allow-origin", Some(ORIGIN))),
    (Method::GET, "/app", 308, ("location", Some("/app/"))),
    (Method::GET, "/app/x", 302, ("location", Some("/app/login"))),
    (Method::GET, "/app/x", 302, ("set-cookie", Some("id=1; Path=/app/; Secure"))),
];

fn included_sites_serve_scripts_redirects_and_applications_on_a_path(backend: &str) {
    let folder = Folder::new();
    let (_, server) = start(backend, &folder);
    run(async {
        let mut session = Client::new(&folder).connect(server.address()).await;
        let fields: [(&str, &[u8]); 1] = [("origin", ORIGIN.as_bytes())];
        for (method, path, status, (name, expected)) in CASES {
            if method != Method::GET {
                continue;
            }
            let response = session.get_with(path, &fields).await;
            assert_eq!(response.head.status(), status, "{path}");
            let found = response.head.headers().get(name).map(|value| value.to_str().unwrap());
            assert_eq!(found, expected, "{path}");
        }
        assert_eq!(session.get("/shop").await.text().await, "default");
    });
    for protocol in PROTOCOLS {
        for (method, path, status, (name, expected)) in CASES {
            let origin = format!("origin: {ORIGIN}");
            let words = [
                protocol,
                "--include",
                "--request",
                method.as_str(),
                "--header",
                &origin,
                "--header",
                "access-control-request-method: GET",
            ];
            let Some(output) = curl(&server, &folder, &words, path) else {
                return;
            };
            let output = String::from_utf8(output).unwrap();
            let first = output.lines().next().unwrap();
            assert!(first.contains(&format!(" {status}")), "{method} {path}: {first}");
            assert_eq!(value(&output, name), expected, "{method} {path}");
        }
    }
}

fn a_reload_reads_included_files_and_redirects_again(backend: &str) {
    let folder = Folder::new();
    let (setup, mut server) = start(backend, &folder);
    fs::write(folder.path("redirects.csv"), "/shop/old,/shop/newer\n").unwrap();
    let route = "[[route]]\npath = \"/more\"\nfixed = { status = 202 }\n";
    fs::write(folder.path("sites/more.toml"), route).unwrap();
    server.reload(&setup, &folder, "reloaded");
    run(async {
        let mut session = Client::new(&folder).connect(server.address()).await;
        let moved = session.get("/shop/old").await;
        assert_eq!(moved.head.headers()["location"], "/shop/newer");
        assert_eq!(session.get("/more").await.head.status(), 202);
    });
    fs::write(folder.path("redirects.csv"), "/shop/old,/shop/newer\n/shop/old,/x\n").unwrap();
    let line = server.reload(&setup, &folder, "refused");
    assert!(line.contains("redirects.csv:2:1: "), "{line}");
    fs::write(folder.path("redirects.csv"), "").unwrap();
    fs::write(folder.path("sites/more.toml"), "\n[[route]]\npth = \"/\"\n").unwrap();
    let line = server.reload(&setup, &folder, "refused");
    assert!(line.contains("sites/more.toml:3:1: unknown key `pth`"), "{line}");
}
