//! Files of a folder.

use std::fs;

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, Session, run};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};

on_auto!(
    files_are_served,
    no_spelling_of_a_path_passes_a_route_that_refuses_it,
    a_file_that_shrinks_is_a_broken_stream,
    clients_that_go_away_leave_no_file_open,
    a_small_file_is_answered_from_memory_until_it_changes,
    an_error_has_the_page_of_its_route_and_keeps_its_status,
    fields_of_a_response_have_values_of_its_request,
);

/// Larger than all that waits between a disk and a client that reads nothing.
const LARGE: usize = 40_000_000;

fn server(backend: &str, folder: &Folder) -> Server {
    let root = folder.path("www");
    fs::create_dir_all(root.join("docs")).unwrap();
    fs::write(root.join("docs/index.html"), "<p>index").unwrap();
    fs::write(root.join("app.js"), "original").unwrap();
    fs::write(root.join("app.js.br"), "smaller").unwrap();
    fs::write(root.join("large"), large()).unwrap();
    fs::write(folder.path("secret"), "secret").unwrap();
    let route = "[[route]]\npath = \"/static/\"\n[route.files]\nroot = \"www\"";
    let setup = Setup::new(backend)
        .with(ADMIN)
        .with("[limits]\nfile_cache_valid = \"100ms\"")
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("one", "127.0.0.1:0", "cubic");
    Server::start(&setup.with(route), folder)
}

/// Returns the content of the large file. It makes whole words: this code is not optimised.
fn large() -> Vec<u8> {
    let mut bytes = vec![0; LARGE];
    for (word, place) in (0_u32..).zip(bytes.chunks_exact_mut(4)) {
        place.copy_from_slice(&word.wrapping_mul(0x9e37_79b9).to_le_bytes());
    }
    bytes
}

async fn get(
    session: &mut Session,
    path: &str,
    fields: &[(&str, &str)],
) -> (http::HeaderMap, u16, Vec<u8>) {
    let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let response = session.get_with(path, &fields).await;
    let (status, headers) = (response.head.status().as_u16(), response.head.headers().clone());
    (headers, status, response.bytes().await)
}

fn files_are_served(backend: &str) {
    let folder = Folder::new();
    let server = server(backend, &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let (headers, status, body) = get(&mut session, "/static/docs/", &[]).await;
        assert_eq!((status, &body[..]), (200, &b"<p>index"[..]));
        assert_eq!(headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(headers["content-length"], "8");
        let tag = headers["etag"].to_str().unwrap();
        let (headers, status, body) =
            get(&mut session, "/static/docs/", &[("if-none-match", tag)]).await;
        assert_eq!((status, body.len()), (304, 0));
        assert!(!headers.contains_key("content-length"));
        let (headers, status, _) = get(&mut session, "/static/docs?a=b", &[]).await;
        assert_eq!((status, headers["location"].to_str().unwrap()), (301, "/static/docs/?a=b"));
        let (headers, _, body) =
            get(&mut session, "/static/app.js", &[("accept-encoding", "br")]).await;
        assert_eq!(
            (headers["content-encoding"].to_str().unwrap(), &body[..]),
            ("br", &b"smaller"[..])
        );
        let all = large();
        let (headers, status, body) = get(&mut session, "/static/large", &[]).await;
        assert_eq!((status, headers["content-length"].to_str().unwrap()), (200, "40000000"));
        assert!(body == all);
        let range = ("range", "bytes=1000000-1999999");
        let (headers, status, body) = get(&mut session, "/static/large", &[range]).await;
        assert_eq!(status, 206);
        assert_eq!(headers["content-range"], "bytes 1000000-1999999/40000000");
        assert!(body == all[1_000_000..2_000_000]);
        for (path, expected) in [
            ("/static/nothing", 404),
            ("/static/docs/%2e%2e/secret", 404),
            ("/static/..%2fsecret", 400),
            ("/static/docs/index.html/", 404),
        ] {
            assert_eq!(get(&mut session, path, &[]).await.1, expected, "{path}");
        }
    });
}

fn no_spelling_of_a_path_passes_a_route_that_refuses_it(backend: &str) {
    let folder = Folder::new();
    let root = folder.path("www");
    fs::create_dir_all(root.join("private")).unwrap();
    fs::write(root.join("private/x"), "secret").unwrap();
    fs::write(root.join("open"), "open").unwrap();
    let setup = Setup::new(backend)
        .replace("path = \"/\"", "path = \"/private/\"")
        .replace("[route.fixed]", "[route.fixed]\nstatus = 403")
        .listener("one", "127.0.0.1:0", "cubic")
        .with("[[route]]\npath = \"/\"\n[route.files]\nroot = \"www\"");
    let server = Server::start(&setup, &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let (_, status, body) = get(&mut session, "/open", &[]).await;
        assert_eq!((status, &body[..]), (200, &b"open"[..]));
        for (path, expected) in [
            ("/private/x", 403),
            ("//private/x", 403),
            ("/private//x", 403),
            ("/%70rivate/x", 403),
            ("/x/../private/x", 403),
            ("/./private/x", 403),
            ("/x/%2e%2e/private/x", 403),
            ("/../private/x", 403),
            ("/private/./%78", 403),
            ("/private%2fx", 400),
            ("/private%5Cx", 400),
            ("/x/..%2fprivate/x", 400),
            ("/x/..;/private/x", 400),
            ("/private/x%00", 400),
            ("/private/%", 400),
        ] {
            let (_, status, body) = get(&mut session, path, &[]).await;
            assert_eq!(status, expected, "{path}");
            assert_ne!(body, b"secret", "{path}");
        }
    });
}

fn a_file_that_shrinks_is_a_broken_stream(backend: &str) {
    let folder = Folder::new();
    let server = server(backend, &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let mut response = session.get("/static/large").await;
        let file = fs::File::options().write(true).open(folder.path("www/large")).unwrap();
        file.set_len(1000).unwrap();
        let mut taken = 0;
        let error = loop {
            match response.try_piece().await {
                Ok(Some(piece)) => taken += piece.len(),
                Ok(None) => panic!("{taken} bytes looked whole"),
                Err(error) => break error,
            }
        };
        assert!(taken < LARGE, "{error}");
        // The connection goes on.
        assert_eq!(session.get("/static/docs/").await.text().await, "<p>index");
    });
}

fn clients_that_go_away_leave_no_file_open(backend: &str) {
    let folder = Folder::new();
    let server = server(backend, &folder);
    run(async {
        let client = Client::new(&folder);
        for _ in 0..20 {
            let mut session = client.connect(server.address()).await;
            let mut response = session.get("/static/large").await;
            assert!(response.piece().await.is_some());
        }
        let mut session = client.connect(server.address()).await;
        for _ in 0..5000 {
            if server.process.open_files(&folder.path("www")) == 0 {
                return;
            }
            // Gives the server a chance to see that they have gone.
            assert_eq!(session.get("/static/docs/").await.text().await, "<p>index");
        }
        panic!("files are still open");
    });
}

fn a_small_file_is_answered_from_memory_until_it_changes(backend: &str) {
    const FROM_MEMORY: &str = "sluicegate_file_cache_hits_total";
    let folder = Folder::new();
    let mut server = server(backend, &folder);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let mut asked = 0_u32;
        while metrics(admin)[FROM_MEMORY] < 10.0 {
            for _ in 0..20 {
                let (headers, status, body) = get(&mut session, "/static/app.js", &[]).await;
                assert_eq!((status, &body[..]), (200, &b"original"[..]));
                let tag = headers["etag"].to_str().unwrap().to_owned();
                let fields = [("if-none-match", tag.as_str())];
                let unchanged = get(&mut session, "/static/app.js", &fields).await;
                assert_eq!(unchanged.1, 304);
            }
            asked += 40;
            assert!(asked < 100_000);
        }
        fs::write(folder.path("www/app.js"), "changed").unwrap();
        loop {
            let (_, status, body) = get(&mut session, "/static/app.js", &[]).await;
            assert_eq!(status, 200);
            if body == b"changed" {
                break;
            }
            assert_eq!(body, b"original");
        }
        fs::remove_file(folder.path("www/app.js")).unwrap();
        while get(&mut session, "/static/app.js", &[]).await.1 != 404 {}
    });
}

fn an_error_has_the_page_of_its_route_and_keeps_its_status(backend: &str) {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("www")).unwrap();
    fs::write(folder.path("www/404.html"), "<p>gone").unwrap();
    fs::write(folder.path("sorry.html"), "<p>sorry").unwrap();
    // Accepts connections, and never responds.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = silent.local_addr().unwrap();
    let setup = Setup::new(backend)
        .listener("one", "127.0.0.1:0", "cubic")
        .with(&format!(
            "[[route]]\npath = \"/site\"\nerror_pages = {{ 404 = \"www/404.html\" }}\nfiles = {{ root = \"www\" }}\n\
             [[route]]\npath = \"/dead\"\nerror_pages = {{ 4xx = \"www/404.html\", 5xx = \"sorry.html\" }}\n\
             max_request_body = 10\nproxy = {{ upstreams = \"127.0.0.1:1\" }}\n\
             [[route]]\npath = \"/silent\"\nerror_pages = {{ 5xx = \"sorry.html\" }}\ntimeout = \"100ms\"\n\
             proxy = {{ upstreams = \"{upstream}\" }}"
        ));
    let server = Server::start(&setup, &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        for (path, status, text) in [
            ("/site/none", 404, "<p>gone"),
            ("/site/404.html", 200, "<p>gone"),
            ("/dead", 502, "<p>sorry"),
            ("/silent", 504, "<p>sorry"),
        ] {
            let (headers, found, body) = get(&mut session, path, &[]).await;
            assert_eq!((found, &*body), (status, text.as_bytes()), "{path}");
            assert_eq!(headers["content-type"], "text/html; charset=utf-8", "{path}");
        }
        let response = session.upload("/dead", 100).await;
        assert_eq!(response.head.status(), 413);
        assert_eq!(response.text().await, "<p>gone");
    });
}

fn fields_of_a_response_have_values_of_its_request(backend: &str) {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("www")).unwrap();
    fs::write(folder.path("www/a"), "a").unwrap();
    let route = "[[route]]\npath = \"/site/\"\nfiles = { root = \"www\" }\n\
                 [route.response_headers]\nset = { x-rest = \"{rest}\", x-agent = \"{header:x-agent}\" }";
    let setup = Setup::new(backend).listener("one", "127.0.0.1:0", "cubic");
    let server = Server::start(&setup.with(route), &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        // The file comes from the disk first, then from memory.
        for agent in ["one", "two", "three"] {
            let (headers, status, _) = get(&mut session, "/site/a", &[("x-agent", agent)]).await;
            assert_eq!(status, 200);
            assert_eq!(
                (&headers["x-rest"], &headers["x-agent"]),
                (&"a".parse().unwrap(), &agent.parse().unwrap())
            );
        }
        let (headers, ..) = get(&mut session, "/site/a", &[]).await;
        assert!(!headers.contains_key("x-agent"));
    });
}
