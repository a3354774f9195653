//! Requests that go on to another server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use sha2::{Digest as _, Sha256};

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, Counted, generated, generated_sha256, run};
use crate::relay::Relay;
use crate::server::{Folder, Server, Setup};
use crate::{on_auto, on_every_backend};

on_every_backend!(an_upload_survives_changes_of_its_port,);
on_auto!(
    bodies_pass_unchanged_both_ways,
    an_upstream_that_fails_is_told_apart,
    clients_that_go_away_leave_no_connection,
    what_an_upstream_is_asked_already_is_answered_while_the_server_stops,
);

const SIZE: u64 = 40_000_000;

/// An HTTP/1.1 server of a few lines; open connections are counted.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    open: Arc<AtomicUsize>,
    late: Arc<Late>,
}

/// Requests that are answered when the test says so.
#[derive(Default)]
struct Late {
    waiting: AtomicUsize,
    released: (Mutex<bool>, Condvar),
}

impl Late {
    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let (released, changed) = &self.released;
        let released = released.lock().unwrap();
        drop(changed.wait_while(released, |released| !*released).unwrap());
    }

    fn release(&self) {
        let (released, changed) = &self.released;
        *released.lock().unwrap() = true;
        changed.notify_all();
    }
}

impl Upstream {
    pub(crate) fn start() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let open = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&open);
        let late = Arc::<Late>::default();
        let kept = Arc::clone(&late);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (count, late) = (Arc::clone(&count), Arc::clone(&kept));
                std::thread::spawn(move || {
                    count.fetch_add(1, Ordering::SeqCst);
                    while answer(&stream, &late).is_some() {}
                    count.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Upstream { address, open, late }
    }

    pub(crate) fn route(&self) -> String {
        let address = self.address;
        format!("[[route]]\npath = \"/app/\"\n[route.proxy]\nupstreams = \"{address}\"\n")
    }

    /// Waits until a request for a late response has come.
    pub(crate) fn wait_for_late(&self) {
        while self.late.waiting.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
    }

    /// Has the late responses sent.
    pub(crate) fn release_late(&self) {
        self.late.release();
    }
}

/// Reads the path of a request and the length of its body; `None` where the connection is over.
fn head(reader: &mut impl BufRead) -> Option<(String, u64)> {
    let (mut path, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            return Some((path?, length));
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        path = path.or_else(|| line.split(' ').nth(1).map(str::to_owned));
    }
}

/// Serves one request; `None` where the connection is over.
fn answer(stream: &TcpStream, late: &Late) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    let (path, length) = head(&mut reader)?;
    match path.as_str() {
        "/app/down" => {
            write!(writer, "HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n").ok()?;
            for at in (0..SIZE).step_by(10_000) {
                writer.write_all(&generated(at, 10_000)).ok()?;
            }
        }
        "/app/up" => {
            let mut body = Vec::new();
            let total = reader.take(length).read_to_end(&mut body).ok()?;
            let digest = Sha256::digest(&body);
            let sum: String = digest.iter().map(|b| format!("{b:02x}")).collect();
            let text = format!("{total} {sum}");
            let length = text.len();
            write!(writer, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{text}").ok()?;
        }
        "/app/short" => {
            write!(writer, "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfive!").ok()?;
            return None;
        }
        "/app/garbage" => {
            write!(writer, "nothing like HTTP\r\n\r\n").ok()?;
            return None;
        }
        "/app/late" => {
            late.wait();
            write!(writer, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nlate!").ok()?;
        }
        "/app/never" => {
            // Until the other side has had enough.
            reader.read(&mut [0]).ok().filter(|count| *count > 0)?;
        }
        _ => return None,
    }
    Some(())
}

fn server(backend: &str, folder: &Folder, upstream: SocketAddr) -> Server {
    let setup =
        Setup::new(backend).with(ADMIN).listener("one", "127.0.0.1:0", "cubic").with(&format!(
            "[[route]]\npath = \"/app/\"\nmax_request_body = \"100MiB\"\n\
             [route.proxy]\nupstreams = \"{upstream}\"\n\
             [[route]]\npath = \"/app/never\"\n\
             [route.proxy]\nupstreams = \"{upstream}\"\nhead_timeout = \"3s\"\n\
             [[route]]\npath = \"/dead/\"\nproxy = {{ upstreams = \"127.0.0.1:1\" }}"
        ));
    Server::start(&setup, folder)
}

fn bodies_pass_unchanged_both_ways(backend: &str) {
    let folder = Folder::new();
    let upstream = Upstream::start();
    let mut server = server(backend, &folder, upstream.address);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let before = server.process.resident_kib();
        let mut response = session.get("/app/down").await;
        assert_eq!(response.head.headers()["content-length"], SIZE.to_string());
        response.count_to_the_end(&mut Counted::default(), SIZE).await;
        let answer = session.upload("/app/up", SIZE).await.text().await;
        assert_eq!(answer, format!("{SIZE} {}", generated_sha256(SIZE)));
        let grown = server.process.resident_kib().saturating_sub(before);
        assert!(grown < 32 << 10, "{grown} KiB");
        let found = metrics(admin);
        assert_eq!(found["sluicegate_origin_exchanges_opened_total"], 2.0);
        assert_eq!(found["sluicegate_origin_exchanges"], 0.0);
    });
}

fn an_upload_survives_changes_of_its_port(backend: &str) {
    const LENGTH: u64 = 20_000_000;
    let folder = Folder::new();
    let upstream = Upstream::start();
    let server = server(backend, &folder, upstream.address);
    run(async {
        let relay = Relay::start(server.address()).await;
        let client = Client::new(&folder);
        let mut session = client.connect(relay.address).await;
        // The client keeps its address until it has HANDSHAKE_DONE, which leaves before a response (RFC 9000 §9).
        session.get("/").await.text().await;
        let changes = async {
            for _ in 0..20 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                relay.change_port();
            }
        };
        let (response, ()) = tokio::join!(session.upload("/app/up", LENGTH), changes);
        let expected = format!("{LENGTH} {}", generated_sha256(LENGTH));
        assert_eq!(response.text().await, expected);
    });
}

fn an_upstream_that_fails_is_told_apart(backend: &str) {
    let folder = Folder::new();
    let upstream = Upstream::start();
    let server = server(backend, &folder, upstream.address);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        for (path, status) in
            [("/dead/", 502), ("/app/garbage", 502), ("/app/close", 502), ("/app/never", 504)]
        {
            let response = session.get(path).await;
            assert_eq!(response.head.status(), status, "{path}");
        }
        // The reset may overtake the head.
        let Ok(mut response) = session.try_get("/app/short").await else {
            return;
        };
        assert_eq!(response.head.status(), 200);
        while let Ok(piece) = response.try_piece().await {
            assert!(piece.is_some(), "it looks whole");
        }
    });
}

fn clients_that_go_away_leave_no_connection(backend: &str) {
    let folder = Folder::new();
    let upstream = Upstream::start();
    let mut server = server(backend, &folder, upstream.address);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        for _ in 0..3 {
            let mut session = client.connect(server.address()).await;
            let mut begun = Vec::new();
            for _ in 0..5 {
                begun.push(session.get("/app/down").await);
            }
            drop((begun, session));
        }
        while metrics(admin)["sluicegate_origin_exchanges"] > 0.0
            || upstream.open.load(Ordering::SeqCst) > 0
        {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
}

fn what_an_upstream_is_asked_already_is_answered_while_the_server_stops(backend: &str) {
    const REQUESTS: usize = 8;
    let folder = Folder::new();
    let upstream = Upstream::start();
    let mut server = server(backend, &folder, upstream.address);
    run(async {
        let client = Client::new(&folder);
        let mut asked = Vec::new();
        for _ in 0..REQUESTS {
            let mut session = client.connect(server.address()).await;
            asked.push(tokio::spawn(async move {
                let text = session.get("/app/late").await.text().await;
                (session, text)
            }));
        }
        while upstream.late.waiting.load(Ordering::SeqCst) < REQUESTS {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        server.process.terminate();
        server.process.line_with(&["draining"]);
        upstream.late.release();
        for task in asked {
            let (mut session, text) = task.await.unwrap();
            assert_eq!(text, "late!");
            assert!(session.try_get("/").await.is_err(), "it takes no more");
        }
    });
    assert_eq!(server.process.wait().code(), Some(0));
}
