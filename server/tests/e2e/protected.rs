//! Routes that not everybody may use.

use std::fs;

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, Session, run};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};
use crate::tcp::{PROTOCOLS, curl, value};

on_auto!(
    a_password_protects_a_route_whatever_its_handler,
    a_password_protects_a_route_over_tcp_too,
    networks_decide_who_uses_a_route,
    all_protocols_share_the_rate_limit_of_a_route,
);

/// Line of a file of users: `ada` with the password `secret`.
const ADA: &str = "ada:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";

/// Returns status and content of the response to a request with these credentials.
async fn get(session: &mut Session, path: &str, authorization: Option<&str>) -> (u16, Vec<u8>) {
    let value = authorization.map(str::as_bytes);
    let fields: Vec<_> = value.map(|value| ("authorization", value)).into_iter().collect();
    let response = session.get_with(path, &fields).await;
    (response.head.status().as_u16(), response.bytes().await)
}

fn a_password_protects_a_route_whatever_its_handler(backend: &str) {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("www")).unwrap();
    fs::write(folder.path("www/a.txt"), "file").unwrap();
    fs::write(folder.path("users"), ADA).unwrap();
    let setup = Setup::new(backend)
        .with(ADMIN)
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("one", "127.0.0.1:0", "cubic")
        .with(
            "[[route]]\npath = \"/page\"\nbasic_auth = { users_file = \"users\" }\nfixed = { body = \"page\" }\n\
             [[route]]\npath = \"/www\"\nbasic_auth = { users_file = \"users\" }\nfiles = { root = \"www\" }",
        );
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let valid = Some("Basic YWRhOnNlY3JldA==");
        let wrong = Some("Basic YWRhOlNlY3JldA==");
        for (path, content) in [("/page", "page"), ("/www/a.txt", "file")] {
            for _ in 0..2 {
                let (status, body) = get(&mut session, path, valid).await;
                assert_eq!((status, &*body), (200, content.as_bytes()), "{path}");
                for refused in [None, wrong] {
                    let (status, body) = get(&mut session, path, refused).await;
                    assert_eq!(status, 401, "{path} {refused:?}");
                    assert_eq!(body, b"401 name and password required\n");
                }
            }
        }
    });
    let found = metrics(admin);
    let count =
        |result| found[&format!("sluicegate_basic_auth_requests_total{{result=\"{result}\"}}")];
    assert_eq!((count("accepted"), count("refused")), (4.0, 4.0));
    assert_eq!(found["sluicegate_basic_auth_hashes_total"], 2.0);
    let none = "sluicegate_http_requests_refused_total{reason=\"no_credentials\"}";
    assert_eq!(found[none], 4.0);
}

fn a_password_protects_a_route_over_tcp_too(backend: &str) {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("www")).unwrap();
    fs::write(folder.path("www/a.txt"), "file").unwrap();
    fs::write(folder.path("users"), ADA).unwrap();
    let setup = Setup::new(backend)
        .with(ADMIN)
        .listener("one", "127.0.0.1:0", "cubic")
        .with(
            "[[route]]\npath = \"/page\"\nbasic_auth = { users_file = \"users\", realm = \"Office\" }\nfixed = { body = \"page\" }\n\
             [[route]]\npath = \"/www\"\nbasic_auth = { users_file = \"users\" }\nfiles = { root = \"www\" }",
        );
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    for protocol in PROTOCOLS {
        let get = |words: &[&str], path: &str| {
            let words = [&[protocol, "--include"], words].concat();
            let output = curl(&server, &folder, &words, path)?;
            Some(String::from_utf8(output).unwrap())
        };
        for (path, content) in [("/page", "page"), ("/www/a.txt", "file")] {
            let Some(valid) = get(&["--user", "ada:secret"], path) else {
                return;
            };
            let (head, body) = valid.split_once("\r\n\r\n").unwrap();
            assert!(head.lines().next().unwrap().contains(" 200"), "{head}");
            assert_eq!(body, content, "{protocol} {path}");
            for words in [&[][..], &["--user", "ada:Secret"]] {
                let refused = get(words, path).unwrap();
                let (head, body) = refused.split_once("\r\n\r\n").unwrap();
                assert!(head.lines().next().unwrap().contains(" 401"), "{head}");
                assert_eq!(body, "401 name and password required\n", "{protocol} {path}");
                if path == "/page" {
                    let challenge = value(head, "www-authenticate");
                    assert_eq!(challenge, Some("Basic realm=\"Office\", charset=\"UTF-8\""));
                }
            }
        }
    }
    let found = metrics(admin);
    let count =
        |result| found[&format!("sluicegate_basic_auth_requests_total{{result=\"{result}\"}}")];
    assert_eq!((count("accepted"), count("refused")), (4.0, 4.0));
    let none = "sluicegate_http_requests_refused_total{reason=\"no_credentials\"}";
    assert_eq!(found[none], 4.0);
}

fn networks_decide_who_uses_a_route(backend: &str) {
    let folder = Folder::new();
    let setup = Setup::new(backend).listener("one", "127.0.0.1:0", "cubic").with(
        "[[route]]\npath = \"/open\"\nfixed = {}\nallow = \"127.0.0.0/8\"\n\
             [[route]]\npath = \"/private\"\nfixed = {}\nallow = \"10.0.0.0/8\"\n\
             [[route]]\npath = \"/denied\"\nfixed = {}\ndeny = \"127.0.0.1\"",
    );
    let server = Server::start(&setup, &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        for (path, expected) in [("/open", 200), ("/private/x", 403), ("/denied", 403)] {
            assert_eq!(get(&mut session, path, None).await.0, expected, "{path}");
        }
    });
}

fn all_protocols_share_the_rate_limit_of_a_route(backend: &str) {
    let folder = Folder::new();
    let setup = |route: &str| {
        Setup::new(backend)
            .with(ADMIN)
            .listener("one", "127.0.0.1:0", "cubic")
            .with("[access_log]\nfile = \"access.log\"")
            .with(&format!("[[route]]\npath = [\"/a\", \"/b\"]\n{route}"))
    };
    let limited = "rate_limit = { rate = \"1/h\", burst = 3 }";
    let page = format!("{limited}\nfixed = {{ body = \"page\" }}");
    let mut server = Server::start(&setup(&page), &folder);
    let admin = address(&mut server);
    let over_tcp = |server: &Server, protocol: &str| {
        let words = [protocol, "--include"];
        Some(String::from_utf8(curl(server, &folder, &words, "/b?c")?).unwrap())
    };
    let over_udp = |server: &Server| {
        run(async {
            let mut session = Client::new(&folder).connect(server.address()).await;
            let response = session.get("/a").await;
            let again = response.head.headers().get("retry-after");
            let again = again.map(|value| value.to_str().unwrap().to_owned());
            (response.head.status().as_u16(), again)
        })
    };
    for protocol in PROTOCOLS {
        let Some(output) = over_tcp(&server, protocol) else {
            return;
        };
        assert!(output.ends_with("page"), "{output}");
    }
    assert_eq!(over_udp(&server), (200, None));
    let is_time = |text: &str| (1..=3600).contains(&text.parse::<u64>().unwrap());
    let (status, again) = over_udp(&server);
    assert!(status == 429 && is_time(&again.unwrap()));
    for protocol in PROTOCOLS {
        let output = over_tcp(&server, protocol).unwrap();
        assert!(output.contains(" 429"), "{output}");
        assert!(output.ends_with("429 too many requests\n"), "{output}");
        assert!(is_time(value(&output, "retry-after").unwrap()));
    }
    let refused = "sluicegate_http_requests_refused_total{reason=\"rate_limit\"}";
    assert_eq!(metrics(admin)[refused], 3.0);
    // A reload keeps the counts of a limit that stays as it is.
    let other = format!("{limited}\nfixed = {{ body = \"other\" }}");
    server.reload(&setup(&other), &folder, "reloaded");
    assert_eq!(over_udp(&server).0, 429);
    let higher = other.replace("burst = 3", "burst = 4");
    server.reload(&setup(&higher), &folder, "reloaded");
    assert_eq!(over_udp(&server).0, 200);
    server.process.last_words();
    let log = fs::read_to_string(folder.path("access.log")).unwrap();
    let causes = log.matches("\"cause\":\"rate_limit\"").count();
    assert_eq!(causes, 4, "{log}");
}
