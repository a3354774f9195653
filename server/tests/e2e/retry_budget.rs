//! Retries of a pool whose upstreams fail, as the upstreams count them.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sluicegate_base::clock;

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, Session, run};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};

on_auto!(failing_upstreams_get_no_more_retries_than_the_budget_has);

/// Requests in each part of the test: far more than there may be retries.
const REQUESTS: usize = 1000;
/// Retries that a pool has saved up when it starts.
const SAVED: f64 = 100.0;

/// An HTTP/1.1 server that counts requests, and fails them by closing the connection.
struct Upstream {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    fails: Arc<AtomicBool>,
}

impl Upstream {
    fn start(fails: bool) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, fails) = (Arc::default(), Arc::new(AtomicBool::new(fails)));
        let (counted, failing) = (Arc::clone(&asked), Arc::clone(&fails));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, fails) = (Arc::clone(&counted), Arc::clone(&failing));
                std::thread::spawn(move || while respond(&stream, &asked, &fails).is_some() {});
            }
        });
        Upstream { address, asked, fails }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Serves one request; `None` where the connection is over.
fn respond(mut stream: &TcpStream, asked: &AtomicUsize, fails: &AtomicBool) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    while !lines.next()?.ok()?.is_empty() {}
    asked.fetch_add(1, Ordering::SeqCst);
    if fails.load(Ordering::SeqCst) {
        return None;
    }
    let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(response).ok()
}

/// Makes requests one after another, and returns how many have failed.
async fn failed(session: &mut Session) -> usize {
    let mut failed = 0;
    for _ in 0..REQUESTS {
        let response = session.get("/").await;
        let status = response.head.status();
        response.text().await;
        assert!(status == 200 || status == 502, "{status}");
        failed += usize::from(status == 502);
    }
    failed
}

/// Takes long: the requests follow one another, so that each earns its part of a retry, and none uses a connection again.
fn failing_upstreams_get_no_more_retries_than_the_budget_has(backend: &str) {
    let folder = Folder::new();
    let (bad, good) = (Upstream::start(true), Upstream::start(false));
    let route = format!(
        "[route.proxy]\nupstreams = [\"{}\", \"{}\"]\nmax_fails = 0\nkeepalive = 0\nretry_budget = 1",
        bad.address, good.address
    );
    let setup = Setup::new(backend)
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .replace(
            "[[route]]\npath = \"/\"\n",
            &format!("[[route]]\npath = \"/\"\n{route}\n[[route]]\npath = \"/page\"\n"),
        )
        .with(ADMIN)
        .listener("one", "127.0.0.1:0", "cubic");
    let begun = clock::unix();
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let mut all_failed = 0;
        for (part, all_fail) in [(1, false), (2, true)] {
            good.fails.store(all_fail, Ordering::SeqCst);
            all_failed += failed(&mut session).await;
            let found = metrics(admin);
            let retries = found["sluicegate_proxy_retries_total"];
            let requests = (part * REQUESTS) as f64;
            let asked = (bad.asked() + good.asked()) as f64;
            assert_eq!(asked, requests + retries);
            let earned = 0.01 * requests + 10.0 * (clock::unix() - begun).as_secs_f64();
            assert!(retries <= SAVED + earned, "{retries} {earned}");
            // Each failure that could have been tried elsewhere has asked the budget, and no other has.
            let refused = found["sluicegate_proxy_retries_refused_total"];
            assert!(refused <= all_failed as f64, "{refused} {all_failed}");
            if !all_fail {
                assert_eq!(refused, all_failed as f64);
                // Half of the requests began at the upstream that fails.
                assert_eq!(retries + refused, bad.asked() as f64);
            }
        }
    });
}
