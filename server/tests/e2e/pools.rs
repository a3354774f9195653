//! Pools of upstreams: who gets a request, and the connections that stay open.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, Session, run};
use crate::on_auto;
use crate::server::{Folder, Process, Server, Setup};

on_auto!(
    routes_of_a_pool_share_its_turns_and_connections,
    backup_serves_while_the_others_are_gone,
    cookie_decides_which_upstream_a_session_has,
    upstream_with_an_open_request_gets_no_other,
    workers_share_the_limit_of_an_upstream,
    health_checks_take_upstreams_out_and_bring_them_back,
);

/// An HTTP/1.1 server that responds with its name, except to requests whose path ends with `/hold`.
struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// State that the threads of an upstream share.
#[derive(Default)]
struct Shared {
    name: &'static str,
    accepted: AtomicUsize,
    /// Requests that wait for a response in vain.
    held: AtomicUsize,
    stopped: AtomicBool,
    /// Whether requests whose path is `/health` get 503.
    sick: AtomicBool,
}

impl Upstream {
    fn start(name: &'static str) -> Upstream {
        Upstream::start_at(name, ([127, 0, 0, 1], 0).into())
    }

    fn start_at(name: &'static str, address: SocketAddr) -> Upstream {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { name, ..Shared::default() });
        let kept = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if kept.stopped.load(Ordering::SeqCst) {
                    return;
                }
                kept.accepted.fetch_add(1, Ordering::SeqCst);
                let shared = Arc::clone(&kept);
                std::thread::spawn(move || while respond(&stream, &shared).is_some() {});
            }
        });
        Upstream { address, shared }
    }

    fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    fn held(&self) -> usize {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// Takes no connection any more, and closes each at its next request.
    fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // The thread that accepts sees it with the next connection.
        drop(TcpStream::connect(self.address));
        while TcpStream::connect(self.address).is_ok() {}
    }
}

/// Serves one request; `None` where the connection is over.
fn respond(stream: &TcpStream, shared: &Shared) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    while !lines.next()?.ok()?.is_empty() {}
    if shared.stopped.load(Ordering::SeqCst) {
        return None;
    }
    if first.contains("/hold ") {
        shared.held.fetch_add(1, Ordering::SeqCst);
        // The client closes the connection.
        let end = lines.next();
        shared.held.fetch_sub(1, Ordering::SeqCst);
        return end.map(|_| ());
    }
    let (mut writer, name) = (stream, shared.name);
    if first.contains(" /health ") && shared.sick.load(Ordering::SeqCst) {
        return write!(writer, "HTTP/1.1 503 Sick\r\ncontent-length: 0\r\n\r\n").ok();
    }
    write!(writer, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{name}").ok()
}

/// Starts a server whose routes for /one/ and /two/ refer to the same pool.
fn server(backend: &str, folder: &Folder, pool: &str) -> Server {
    let setup =
        Setup::new(backend).with(ADMIN).listener("one", "127.0.0.1:0", "cubic").with(&format!(
            "[[pool]]\nname = \"app\"\n{pool}\n\
             [[route]]\npath = \"/one/\"\nproxy = {{ pool = \"app\" }}\n\
             [[route]]\npath = \"/two/\"\nproxy = {{ pool = \"app\", strip_prefix = true }}"
        ));
    Server::start(&setup, folder)
}

/// Returns the names of the upstreams that respond to requests of a session, whose worker shares them out.
async fn names(session: &mut Session, count: usize) -> String {
    let mut names = String::new();
    for request in 0..count {
        let path = ["/one/x", "/two/x"][request % 2];
        names += &session.get(path).await.text().await;
    }
    names
}

fn routes_of_a_pool_share_its_turns_and_connections(backend: &str) {
    let folder = Folder::new();
    let (a, b) = (Upstream::start("a"), Upstream::start("b"));
    let pool =
        format!("upstreams = [{{ address = \"{}\", weight = 3 }}, \"{}\"]", a.address, b.address);
    let server = server(backend, &folder, &pool);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        assert_eq!(names(&mut session, 12).await, "aabaaabaaaba");
    });
    let accepted = [&a, &b].map(Upstream::accepted);
    assert_eq!(accepted, [1, 1], "one connection each");
}

fn backup_serves_while_the_others_are_gone(backend: &str) {
    let folder = Folder::new();
    let (a, b) = (Upstream::start("a"), Upstream::start("b"));
    let pool = format!(
        "upstreams = [\"{}\", {{ address = \"{}\", backup = true }}]\nfail_timeout = \"1h\"",
        a.address, b.address
    );
    let server = server(backend, &folder, &pool);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        assert_eq!(names(&mut session, 4).await, "aaaa");
        a.stop();
        assert_eq!(names(&mut session, 8).await, "bbbbbbbb");
    });
}

fn cookie_decides_which_upstream_a_session_has(backend: &str) {
    let folder = Folder::new();
    let all = ["a", "b", "c"].map(Upstream::start);
    let list: Vec<_> = all.iter().map(|one| format!("\"{}\"", one.address)).collect();
    let pool =
        format!("upstreams = [{}]\nbalance = \"hash\"\nhash_by = \"cookie user\"", list.join(", "));
    let server = server(backend, &folder, &pool);
    run(async {
        let client = Client::new(&folder);
        let mut homes = String::new();
        for user in 0..16 {
            let cookie = format!("theme=dark; user={user}");
            let mut home = String::new();
            for _ in 0..3 {
                // Another connection may have another worker.
                let mut session = client.connect(server.address()).await;
                let response = session.get_with("/one/x", &[("cookie", cookie.as_bytes())]).await;
                home += &response.text().await;
            }
            assert!(["aaa", "bbb", "ccc"].contains(&home.as_str()), "{user}: {home}");
            homes += &home;
        }
        for name in ["a", "b", "c"] {
            assert!(homes.contains(name), "{homes}");
        }
    });
}

fn upstream_with_an_open_request_gets_no_other(backend: &str) {
    for policy in ["least_requests", "random_two"] {
        let folder = Folder::new();
        let (a, b) = (Upstream::start("a"), Upstream::start("b"));
        let pool =
            format!("upstreams = [\"{}\", \"{}\"]\nbalance = \"{policy}\"", a.address, b.address);
        let server = server(backend, &folder, &pool);
        run(async {
            let client = Client::new(&folder);
            let mut session = client.connect(server.address()).await;
            let _open = session.ask("/one/hold").await;
            while a.held() + b.held() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let free = if a.held() > 0 { "b" } else { "a" };
            let names = names(&mut session, 8).await;
            assert_eq!(names, free.repeat(8), "{policy}");
        });
    }
}

fn workers_share_the_limit_of_an_upstream(backend: &str) {
    const SESSIONS: usize = 8;
    let folder = Folder::new();
    let upstream = Upstream::start("a");
    let pool = format!(
        "upstreams = \"{}\"\nmax_connections = 3\nqueue = 5\nqueue_timeout = \"1h\"",
        upstream.address
    );
    let mut server = server(backend, &folder, &pool);
    let admin = address(&mut server);
    run(async {
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            // A port of its own, so that the connections are spread over the workers.
            let client = Client::new(&folder);
            let mut session = client.connect(server.address()).await;
            let open = session.ask("/one/hold").await;
            sessions.push((client, session, open));
        }
        while metrics(admin)["sluicegate_proxy_waiting_requests"] < 5.0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!((upstream.held(), upstream.accepted()), (3, 3));
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let refused = session.get("/one/x").await;
        assert_eq!(refused.head.status(), 503);
        let cause = &refused.head.headers()["proxy-status"];
        assert_eq!(cause, "sluicegate; error=connection_limit_reached");
        assert_eq!(metrics(admin)["sluicegate_proxy_failures_total{reason=\"queue_full\"}"], 1.0);
        // Clients that leave make room for those that wait.
        drop(sessions);
        while metrics(admin)["sluicegate_proxy_waiting_requests"] > 0.0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(session.get("/one/x").await.text().await, "a");
    });
}

fn health_checks_take_upstreams_out_and_bring_them_back(backend: &str) {
    let folder = Folder::new();
    let (a, b) = (Upstream::start("a"), Upstream::start("b"));
    let pool = format!(
        "upstreams = [\"{}\", \"{}\"]\nmax_fails = 0\n[pool.health_check]\npath = \"/health\"\n\
         interval = \"100ms\"\nrises = 1\nfalls = 2",
        a.address, b.address
    );
    let mut server = server(backend, &folder, &pool);
    let admin = address(&mut server);
    let down = format!("sluicegate_upstream_down{{upstream=\"{}\"}}", a.address);
    run(async {
        let mut sessions = Vec::new();
        for _ in 0..4 {
            // A port of its own, so that the connections are spread over the workers.
            let client = Client::new(&folder);
            let session = client.connect(server.address()).await;
            sessions.push((client, session));
        }
        a.shared.sick.store(true, Ordering::SeqCst);
        let status = "its health check failed: it responded with status 503";
        server.process.line_with(&["WARN", status, "pool=\"app\""]);
        for (_, session) in &mut sessions {
            assert_eq!(names(session, 4).await, "bbbb");
        }
        assert_eq!(metrics(admin)[&down], 1.0);
        a.shared.sick.store(false, Ordering::SeqCst);
        server.process.line_with(&["an upstream is back in rotation"]);
        assert_eq!(metrics(admin)[&down], 0.0);
        for (_, session) in &mut sessions {
            assert_eq!(names(session, 6).await.matches('a').count(), 3);
        }

        a.stop();
        let refused = "its health check failed: it refused the connection";
        server.process.line_with(&["WARN", refused]);
        for (_, session) in &mut sessions {
            assert_eq!(names(session, 4).await, "bbbb");
        }
        let again = Upstream::start_at("a", a.address);
        server.process.line_with(&["an upstream is back in rotation"]);
        for (_, session) in &mut sessions {
            assert_eq!(names(session, 6).await.matches('a').count(), 3);
        }
        assert!(again.accepted() > 0);
    });
}

/// Returns the warnings of `check` about a configuration with these tables.
fn warnings(tables: &str) -> Vec<String> {
    let folder = Folder::new();
    let listener = "[[listener]]\nname = \"l\"\naddress = \"127.0.0.1:0\"\ntls = \"self-signed\"\n";
    std::fs::write(folder.path("pools.toml"), format!("{listener}{tables}")).unwrap();
    let mut process = Process::start(&["check", "pools.toml"], &folder.path(""));
    assert_eq!(process.wait().code(), Some(0));
    let said = process.said.iter();
    said.filter(|line| line.contains("WARN")).cloned().collect()
}

#[test]
fn check_names_a_pool_that_no_route_uses() {
    let found = warnings("[[pool]]\nname = \"spare\"\nupstreams = \"127.0.0.1:1\"\n");
    for part in ["no route uses this pool", "pool=\"spare\"", "remove its [[pool]]"] {
        assert!(found[0].contains(part), "{found:?}");
    }
}

#[test]
fn check_names_queues_in_which_no_request_waits() {
    let app = "[[route]]\npath = \"/\"\nproxy.pool = \"app\"\n[[pool]]\nname = \"app\"\n";
    let inline = "[[route]]\npath = \"/x\"\nproxy = { upstreams = \"127.0.0.1:9\", queue = 7 }\n";
    let one = "upstreams = [{ address = \"127.0.0.1:1\", max_connections = 1 }, \"127.0.0.1:2\"]\n";
    for (tables, pool) in [
        (format!("{app}upstreams = \"127.0.0.1:1\"\n"), None),
        (format!("{app}upstreams = \"127.0.0.1:1\"\nqueue = 7\n"), Some("app")),
        (format!("{app}upstreams = \"127.0.0.1:1\"\nqueue_timeout = \"1s\"\n"), Some("app")),
        (format!("{app}upstreams = \"127.0.0.1:1\"\nqueue = 7\nmax_connections = 1\n"), None),
        (format!("{app}{one}queue = 7\n"), None),
        (inline.to_owned(), Some("127.0.0.1:9")),
    ] {
        let found = warnings(&tables);
        assert_eq!(found.len(), usize::from(pool.is_some()), "{tables} {found:?}");
        if let Some(pool) = pool {
            assert!(found[0].contains("set `max_connections`"), "{found:?}");
            assert!(found[0].contains(&format!("pool=\"{pool}\"")), "{found:?}");
        }
    }
}
