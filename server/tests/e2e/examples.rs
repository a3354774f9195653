//! The examples of `deploy/examples/`, started and asked for what they promise.

mod application;
mod wordpress;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use bytes::Buf as _;

use crate::client::{Client, Session, run};
use crate::grpc;
use crate::server::{Folder, Server, Setup};
use crate::websocket;

/// Starts an upstream that responds to each request with its name and the request's host.
fn upstream(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let connection = connection.unwrap();
            std::thread::spawn(move || respond(connection, name));
        }
    });
    upstream
}

fn respond(mut connection: TcpStream, name: &str) {
    let mut request = BufReader::new(connection.try_clone().unwrap());
    let (mut host, mut length, mut line) = (String::new(), 0, String::new());
    loop {
        line.clear();
        request.read_line(&mut line).unwrap();
        let Some((field, value)) = line.trim_end().split_once(": ") else {
            if line.trim_end().is_empty() {
                break;
            }
            continue;
        };
        if field.eq_ignore_ascii_case("host") {
            value.clone_into(&mut host);
        } else if field.eq_ignore_ascii_case("content-length") {
            length = value.parse().unwrap();
        }
    }
    std::io::copy(&mut request.by_ref().take(length), &mut std::io::sink()).unwrap();
    let body = format!("{name} for {host}\n").repeat(100);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nx-powered-by: test\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    connection.write_all((head + &body).as_bytes()).unwrap();
}

/// Starts a server by an example, with what is of this test in place of what is of the reader's machine.
fn start(example: &str, folder: &Folder, replaced: &[(&str, &str)]) -> Server {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples");
    let mut text = fs::read_to_string(file.join(example)).unwrap();
    let everywhere = [
        ("[\"0.0.0.0:443\", \"[::]:443\"]", "\"127.0.0.1:0\""),
        ("[\"0.0.0.0:80\", \"[::]:80\"]", "\"127.0.0.1:0\""),
        ("tls/fullchain.pem", "cert.pem"),
        ("tls/privkey.pem", "key.pem"),
        ("/var/lib/sluicegate", "state"),
    ];
    for (from, to) in everywhere.iter().chain(replaced) {
        assert!(text.contains(from), "{example}: {from}");
        text = text.replace(from, to);
    }
    fs::create_dir(folder.path("state")).unwrap();
    Server::start(&Setup::of(text), folder)
}

/// Returns status, fields and body of the response to `GET`.
async fn get(session: &mut Session, url: &str, accepted: &str) -> (u16, http::HeaderMap, Vec<u8>) {
    let request = http::Request::get(url).header("accept-encoding", accepted);
    let mut stream = session.begin(request.body(()).unwrap()).await;
    stream.finish().await.unwrap();
    let head = stream.recv_response().await.unwrap();
    let mut body = Vec::new();
    while let Some(mut piece) = stream.recv_data().await.unwrap() {
        body.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
    }
    (head.status().as_u16(), head.headers().clone(), body)
}

/// Writes files below `www`.
fn write(folder: &Folder, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.path("www").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn static_site_has_fallbacks_and_a_page_for_what_is_not_there() {
    let folder = Folder::new();
    let front = "<h1>Front page</h1>\n".repeat(200);
    write(
        &folder,
        &[
            ("site/index.html", &front),
            ("site/about.html", "<h1>About</h1>"),
            ("site/404.html", "<h1>Not here</h1>"),
            ("site/assets/app.123.js", "start()"),
            ("app/index.html", "<h1>Application</h1>"),
        ],
    );
    let server = start("static-site.toml", &folder, &[("/srv/www", "www")]);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        for (path, status, text) in [
            ("/", 200, &*front),
            ("/about", 200, "<h1>About</h1>"),
            ("/nothing", 404, "<h1>Not here</h1>"),
            ("/assets/app.123.js", 200, "start()"),
            ("/assets/none.js", 404, "<h1>Not here</h1>"),
            ("/app/", 200, "<h1>Application</h1>"),
            ("/app/orders/7", 200, "<h1>Application</h1>"),
        ] {
            let url = format!("https://www.example.com{path}");
            let (found, headers, body) = get(&mut session, &url, "identity").await;
            assert_eq!((found, &*body), (status, text.as_bytes()), "{path}");
            let age = headers.get("cache-control").map(|value| value.to_str().unwrap());
            let expected = match path {
                _ if status == 404 => None,
                path if path.starts_with("/app/") => None,
                path if path.starts_with("/assets/") => Some("max-age=31536000, immutable"),
                _ => Some("max-age=60"),
            };
            assert_eq!(age, expected, "{path}");
        }
        let (_, headers, body) =
            get(&mut session, "https://www.example.com/", "gzip, br, zstd").await;
        assert_eq!(headers["content-encoding"], "zstd");
        assert!(body.len() < front.len() / 10);
        let (status, headers, _) = get(&mut session, "https://example.com/a?b=c", "gzip").await;
        assert_eq!(status, 301);
        assert_eq!(headers["location"], "https://www.example.com/a?b=c");
    });
}

#[test]
fn api_goes_on_while_one_of_its_servers_is_gone() {
    let folder = Folder::new();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (up, gone) = (upstream("one").to_string(), gone.to_string());
    let replaced =
        [("10.0.0.1:8080", &*up), ("10.0.0.2:8080", &*gone), ("127.0.0.1:9180", "127.0.0.1:0")];
    let server = start("api.toml", &folder, &replaced);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        for _ in 0..10 {
            let url = "https://api.example.com/v1/orders";
            let (status, headers, body) = get(&mut session, url, "identity").await;
            assert_eq!(status, 200);
            assert!(body.starts_with(b"one for api.example.com\n"));
            assert!(!headers.contains_key("x-powered-by"));
        }
        for (url, expected) in [
            ("https://api.example.com/internal/state", 403),
            ("https://api.example.com/v2/orders", 404),
            ("https://other.example/v1/orders", 404),
        ] {
            let (status, headers, _) = get(&mut session, url, "identity").await;
            assert_eq!(status, expected, "{url}");
            if status == 404 {
                assert_eq!(headers["content-type"], "application/json");
            }
        }
        let request = http::Request::put("https://api.example.com/v1/files/large")
            .header("content-length", 2 << 20)
            .body(());
        let mut upload = session.begin(request.unwrap()).await;
        upload.send_data(vec![7; 2 << 20].into()).await.unwrap();
        upload.finish().await.unwrap();
        assert_eq!(upload.recv_response().await.unwrap().status(), 200);
    });
}

/// Returns the algorithms of one connection each, by the access log of a server with these networks and this share.
fn algorithms(networks: &str, share: &str) -> Vec<String> {
    let folder = Folder::new();
    fs::create_dir(folder.path("qlog")).unwrap();
    let up = upstream("one").to_string();
    let replaced = [
        ("127.0.0.1:8080", &*up),
        ("/var/log/sluicegate", "."),
        ("203.0.113.0/24", networks),
        ("share = 0.1", share),
    ];
    let mut server = start("bbr-trial.toml", &folder, &replaced);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let (status, ..) = get(&mut session, "https://www.example.com/", "identity").await;
        assert_eq!(status, 200);
        drop(session);
        client.endpoint.wait_idle().await;
    });
    server.process.last_words();
    let log = fs::read_to_string(folder.path("access.log")).unwrap();
    let names = log.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["congestion_control"].as_str().unwrap().to_owned()
    });
    names.collect()
}

#[test]
fn trial_gives_bbr3_to_a_share_of_the_networks_alone() {
    assert_eq!(algorithms("127.0.0.0/8", "share = 1.0"), ["bbr3"]);
    assert_eq!(algorithms("127.0.0.0/8", "share = 0.0"), ["cubic"]);
    assert_eq!(algorithms("203.0.113.0/24", "share = 1.0"), ["cubic"]);
}

#[test]
fn each_domain_has_its_content_and_the_shared_fields() {
    let folder = Folder::new();
    let sites = ["docs", "blog", "press"];
    for site in sites {
        let index = format!("{site}.example/index.html");
        write(&folder, &[(&index, site)]);
    }
    let ups = [upstream("shops").to_string(), upstream("shops").to_string()];
    let replaced =
        [("/srv/www", "www"), ("127.0.0.1:8080", &*ups[0]), ("127.0.0.1:8081", &*ups[1])];
    let server = start("domains.toml", &folder, &replaced);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let shops = ["shop", "toys", "books", "tools"];
        for name in shops.iter().chain(&sites) {
            let url = format!("https://{name}.example/");
            let (status, headers, body) = get(&mut session, &url, "identity").await;
            assert_eq!(status, 200, "{name}");
            assert_eq!(headers["strict-transport-security"], "max-age=31536000");
            assert!(!headers.contains_key("x-powered-by") && !headers.contains_key("server"));
            let is_framed = !headers.contains_key("x-frame-options");
            assert_eq!(is_framed, *name == "press", "{name}");
            let expected = if sites.contains(name) {
                (*name).to_owned()
            } else {
                format!("shops for {name}.example\n").repeat(100)
            };
            assert_eq!(body, expected.as_bytes(), "{name}");
        }
        for name in ["www.shop.example", "old-shop.example", "shop-online.example"] {
            let url = format!("https://{name}/cart?id=1");
            let (status, headers, _) = get(&mut session, &url, "gzip").await;
            assert_eq!(status, 308, "{name}");
            assert_eq!(headers["location"], "https://shop.example/cart?id=1");
            assert_eq!(headers["strict-transport-security"], "max-age=31536000");
        }
        let (status, ..) = get(&mut session, "https://else.example/", "gzip").await;
        assert_eq!(status, 421);
    });
}

#[test]
fn application_has_calls_chats_and_pages() {
    let folder = Folder::new();
    let (calls, pages) = (grpc::start().to_string(), upstream("pages").to_string());
    let chats = websocket::upstream("1");
    let chat = chats.as_ref().map_or("1", |upstream| &upstream.port);
    let chat = format!("127.0.0.1:{chat}");
    let replaced = [
        // The only host that both clients can ask for.
        ("app.example.com", "localhost"),
        ("127.0.0.1:8090", &*chat),
        ("127.0.0.1:50051", &*calls),
        (", \"h2c://127.0.0.1:50052\"", ""),
        ("127.0.0.1:8080", &*pages),
        ("acme[.]orders[.]v1", "test"),
    ];
    let server = start("grpc.toml", &folder, &replaced);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let request = http::Request::post("https://localhost/test.Echo/Echo")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("accept-encoding", "gzip");
        let mut call = session.begin(request.body(()).unwrap()).await;
        let head = call.recv_response().await.unwrap();
        assert!(!head.headers().contains_key("content-encoding"));
        for message in ["\0\0\0\0\x03one", "\0\0\0\0\x03two"] {
            call.send_data(message.into()).await.unwrap();
            let mut back = call.recv_data().await.unwrap().unwrap();
            assert_eq!(back.copy_to_bytes(back.remaining()), message);
        }
        call.finish().await.unwrap();
        assert!(call.recv_data().await.unwrap().is_none());
        let trailers = call.recv_trailers().await.unwrap().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
        let (status, headers, _) = get(&mut session, "https://localhost/", "gzip").await;
        assert_eq!((status, &headers["content-encoding"]), (200, &"gzip".parse().unwrap()));
    });
    if chats.is_some() {
        for (version, scheme) in [("1", "wss"), ("2", "https"), ("3", "https")] {
            let url = format!("{scheme}://localhost:{}/chat", server.address().port());
            let seen = websocket::ask(version, &url, &folder);
            assert_eq!(seen.last().map(String::as_str), Some("closed 4321"), "{seen:?}");
        }
    }
}
