//! Routes whose scripts a FastCGI server runs, beside their files, over all versions of HTTP.

pub(crate) mod server;

use std::fs;

use crate::client::{Client, run};
use crate::fallback::{ask, ask_by_curl};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};
use crate::tcp::{PROTOCOLS, curl, value};

on_auto!(scripts_run_and_files_are_sent, responses_that_break_off_are_no_whole_ones,);

/// Line of a file of users: `ada` with the password `secret`.
const ADA: &str = "ada:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";

/// Requests with their bodies, and the status and the content of their responses.
const CASES: [(&str, &str, &str, u16, &str); 21] = [
    ("GET", "/a.txt", "", 200, "file"),
    ("GET", "/index.php?x=1", "", 200, "GET /index.php () /index.php?x=1 "),
    ("GET", "/index.php?x=1", "", 200, "GET /index.php () /index.php?x=1 "),
    ("HEAD", "/index.php", "", 200, ""),
    ("GET", "/", "", 200, "GET /index.php () / "),
    ("GET", "/2026/hello/", "", 200, "GET /index.php () /2026/hello/ "),
    ("GET", "/admin/", "", 200, "GET /admin/index.php () /admin/ "),
    ("GET", "/admin", "", 301, "301 this is a folder\n"),
    ("POST", "/login.php", "eggs", 200, "POST /login.php () /login.php eggs"),
    ("POST", "/a.txt", "eggs", 200, "POST /index.php () /a.txt eggs"),
    ("GET", "/login.php/a/b", "", 200, "GET /login.php (/a/b) /login.php/a/b "),
    (
        "GET",
        "/login.php/dav/.bashrc",
        "",
        200,
        "GET /login.php (/dav/.bashrc) /login.php/dav/.bashrc ",
    ),
    // What users upload is not run, whatever is behind it.
    ("GET", "/a.txt/x.php", "", 200, "GET /index.php () /a.txt/x.php "),
    ("GET", "/strict/a.txt/x.php", "", 404, "404 not found\n"),
    ("GET", "/strict/a.txt", "", 404, "404 not found\n"),
    ("GET", "/strict/login.php/x", "", 200, "GET /strict/login.php (/x) /strict/login.php/x "),
    // In any case the source of a script stays here.
    ("GET", "/SECRET.PHP", "", 200, "GET /index.php () /SECRET.PHP "),
    ("GET", "/garbage.php", "", 502, "502 the upstream failed\n"),
    ("GET", "/closed.php", "", 502, "502 the upstream failed\n"),
    ("GET", "/slow.php", "", 504, "504 the upstream took too long\n"),
    ("POST", "/login.php", "too many eggs, far too many", 413, "413 request body too large\n"),
];

fn start(backend: &str, folder: &Folder) -> Server {
    fs::create_dir_all(folder.path("www/admin")).unwrap();
    fs::write(folder.path("www/a.txt"), "file").unwrap();
    for script in [
        "index",
        "admin/index",
        "login",
        "garbage",
        "closed",
        "slow",
        "cut",
        "stderr",
        "client",
        "user",
    ] {
        fs::write(folder.path(&format!("www/{script}.php")), "<?php secret();").unwrap();
    }
    fs::write(folder.path("www/SECRET.PHP"), "<?php secret();").unwrap();
    let address = server::start();
    let routes = format!(
        "[[route]]\nhost = \"localhost\"\npath = \"/\"\nmax_request_body = 20\nfiles = {{ root = \"www\" }}\n\
         fastcgi = {{ server = \"{address}\", root = \"www\", front_controller = \"/index.php\", head_timeout = \"500ms\" }}\n\
         [[route]]\nhost = \"localhost\"\npath = \"/strict/\"\nfastcgi = {{ server = \"{address}\", root = \"www\" }}\n\
         [[route]]\nhost = \"localhost\"\npath = \"/private/\"\nbasic_auth = {{ users_file = \"users\" }}\n\
         fastcgi = {{ server = \"{address}\", root = \"www\" }}\n"
    );
    fs::write(folder.path("users"), ADA).unwrap();
    let setup = Setup::new(backend).listener("one", "127.0.0.1:0", "cubic").with(&routes);
    Server::start(&setup, folder)
}

fn scripts_run_and_files_are_sent(backend: &str) {
    let folder = Folder::new();
    let mut server = start(backend, &folder);
    run(async {
        let mut session = Client::new(&folder).connect(server.address()).await;
        for (method, path, sent, status, content) in CASES {
            let found = ask(&mut session, method, path, sent).await;
            assert_eq!(found, (status, content.to_owned()), "{method} {path}");
        }
        let client = session.get("/client.php").await.text().await;
        assert_eq!(client, "HTTP/3 https on 127.0.0.1");
        let authorization: (&str, &[u8]) = ("authorization", b"Basic YWRhOnNlY3JldA==");
        for (path, expected) in
            [("/user.php", "None None"), ("/private/user.php", "Some(\"Basic\") Some(\"ada\")")]
        {
            let user = session.get_with(path, &[authorization]).await;
            assert_eq!(user.text().await, expected, "{path}");
        }
        assert_eq!(session.get("/stderr.php").await.head.status(), 200);
    });
    let line = server.process.line_with(&["a script reports"]);
    for part in ["WARN", "PHP Warning: oops", "stderr.php", "fastcgi://127.0.0.1:"] {
        assert!(line.contains(part), "{line}");
    }
    for (protocol, name) in PROTOCOLS.into_iter().zip(["HTTP/1.1", "HTTP/2"]) {
        let client = curl(&server, &folder, &[protocol], "/client.php");
        let Some(client) = client else {
            return;
        };
        assert_eq!(client, format!("{name} https on 127.0.0.1").as_bytes());
        let head = curl(&server, &folder, &[protocol, "--head"], "/admin?a=b").unwrap();
        let head = String::from_utf8(head).unwrap();
        assert_eq!(value(&head, "location"), Some("/admin/?a=b"));
        for (method, path, sent, status, content) in CASES {
            if status == 413 {
                // An early response, which has tests of its own.
                continue;
            }
            let found = ask_by_curl(&server, &folder, protocol, (method, path, sent));
            let expected = (status, content.to_owned());
            assert_eq!(found, Some(expected), "{protocol} {method} {path}");
        }
    }
    let chunked = ["--http1.1", "--header", "transfer-encoding: chunked", "--data", "eggs"];
    let echoed = curl(&server, &folder, &chunked, "/login.php").unwrap();
    assert_eq!(echoed, b"POST /login.php () /login.php eggs");
}

fn responses_that_break_off_are_no_whole_ones(backend: &str) {
    let folder = Folder::new();
    let server = start(backend, &folder);
    run(async {
        let mut session = Client::new(&folder).connect(server.address()).await;
        // The reset may overtake the head.
        if let Ok(mut cut) = session.try_get("/cut.php").await {
            assert_eq!(cut.head.status(), 200);
            let end = loop {
                match cut.try_piece().await {
                    Ok(Some(_)) => {}
                    end => break end,
                }
            };
            assert!(end.is_err());
        }
        // The connection serves the next request.
        assert_eq!(session.get("/").await.head.status(), 200);
    });
}
