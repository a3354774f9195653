//! The configuration changes while clients are served.

mod certificates;
mod limits;
mod listeners;
mod logs;
mod under_load;
mod verdict;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, Session, run};
use crate::on_auto;
use crate::server::{Folder, PAGE, Server, Setup};

on_auto!(
    no_request_fails_while_routes_and_certificates_change,
    a_configuration_that_cannot_be_served_is_not_taken,
);

const TAKEN: &str = "configuration reloaded";
const REFUSED: &str = "configuration refused";

fn setup(backend: &str, page: &str) -> Setup {
    Setup::new(backend).with(ADMIN).replace(&format!("{PAGE:?}"), &format!("{page:?}")).listener(
        "main",
        "127.0.0.1:0",
        "cubic",
    )
}

/// Requests the page until it is `expected`: each worker applies a reload on its own.
async fn until_page(session: &mut Session, expected: &str) {
    for _ in 0..10_000 {
        if session.get("/").await.text().await == expected {
            return;
        }
    }
    panic!("never {expected}");
}

fn no_request_fails_while_routes_and_certificates_change(backend: &str) {
    let folder = Folder::new();
    let mut server = Server::start(&setup(backend, "page 0"), &folder);
    let admin = address(&mut server);
    let at = server.address();
    run(async {
        let first = Client::new(&folder);
        let mut old = first.connect(at).await;
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let load: Vec<_> = futures(&first, at, &stop, &answered).await;
        let folders: Vec<Folder> = (0..3).map(|_| Folder::new()).collect();
        for (number, other) in folders.iter().enumerate() {
            for name in ["cert.pem", "key.pem"] {
                std::fs::copy(other.path(name), folder.path(name)).unwrap();
            }
            let page = format!("page {}", number + 1);
            let before = answered.load(Ordering::Relaxed);
            server.reload(&setup(backend, &page), &folder, TAKEN);
            until_page(&mut old, &page).await;
            // Whoever trusts the new certificate alone gets in, and sees the new page.
            let client = Client::new(other);
            let mut new = loop {
                // A worker that has not heard of it yet still has the old one.
                if let Some(session) = client.try_connect(at).await {
                    break session;
                }
            };
            until_page(&mut new, &page).await;
            while answered.load(Ordering::Relaxed) < before + 50 {
                tokio::task::yield_now().await;
                assert_eq!(old.get("/").await.text().await, page);
            }
        }
        stop.store(true, Ordering::Relaxed);
        for task in load {
            task.await.unwrap();
        }
        let found = metrics(admin);
        assert_eq!(found["sluicegate_config_generation"], 4.0);
        assert_eq!(found["sluicegate_config_reloads_total{result=\"taken\"}"], 3.0);
    });
    let said = server.process.last_words();
    let totals = said.iter().find(|line| line.contains("total of requests"));
    for zero in ["malformed=0", "cancelled=0", "rejected=0", "errors=0", "status_5xx=0"] {
        assert!(totals.unwrap().contains(zero), "{totals:?}");
    }
}

/// Clients that ask one thing after the other until they are stopped, and take no failure.
async fn futures(
    client: &Client,
    at: std::net::SocketAddr,
    stop: &Arc<AtomicBool>,
    answered: &Arc<AtomicU64>,
) -> Vec<tokio::task::JoinHandle<()>> {
    let mut load = Vec::new();
    for _ in 0..4 {
        let mut session = client.connect(at).await;
        let (stop, answered) = (Arc::clone(stop), Arc::clone(answered));
        load.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let text = session.get("/").await.text().await;
                assert!(text.starts_with("page "), "{text}");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    load
}

fn a_configuration_that_cannot_be_served_is_not_taken(backend: &str) {
    let folder = Folder::new();
    let good = || setup(backend, "page 0");
    let mut server = Server::start(&good(), &folder);
    let admin = address(&mut server);
    let at = server.address();
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(at).await;
        let moved = good().replace("[[group]]", "[[group]]\ncores = [0]");
        for (bad, why) in [
            (good().with("[limits]\nno_such_key = 1"), "no_such_key"),
            (good().replace("cert.pem", "none.pem"), "none.pem"),
            (moved, "cannot change while the server runs"),
        ] {
            let line = server.reload(&bad, &folder, REFUSED);
            assert!(line.contains(why), "{line}");
            assert_eq!(session.get("/").await.text().await, "page 0");
        }
        let found = metrics(admin);
        assert_eq!(found["sluicegate_config_generation"], 1.0);
        assert_eq!(found["sluicegate_config_reloads_total{result=\"refused\"}"], 3.0);
        server.reload(&setup(backend, "page 1"), &folder, TAKEN);
        until_page(&mut session, "page 1").await;
    });
}
