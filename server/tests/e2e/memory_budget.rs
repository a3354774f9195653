//! The memory budget of the process.

use std::fs;
use std::time::Duration;

use quinn::ConnectionError;

use crate::admin::{ADMIN, address, metrics, sum};
use crate::client::{Client, run};
use crate::on_every_backend;
use crate::server::{Folder, PAGE, Server, Setup};

on_every_backend!(
    without_memory_downloads_go_on_and_new_work_is_refused_until_they_end,
    what_closed_connections_leave_returns_to_the_system,
);

/// Length of each of two files that together exceed the limit; both are larger than a client's window.
const LENGTH: usize = 24 << 20;

/// Limit that a few hundred connections come close to, KiB.
const LIMIT: f64 = 28.0 * 1024.0;

/// Waits for a line with `part`, and lets the client work meanwhile.
async fn until_said(server: &mut Server, part: &str) {
    while !server.process.has_said(part) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn without_memory_downloads_go_on_and_new_work_is_refused_until_they_end(backend: &str) {
    let folder = Folder::new();
    let root = folder.path("www");
    fs::create_dir_all(&root).unwrap();
    for (name, byte) in [("a", b'a'), ("b", b'b')] {
        fs::write(root.join(name), vec![byte; LENGTH]).unwrap();
    }
    let setup = Setup::new(backend)
        .with(ADMIN)
        .with("[server]\nmemory_limit = \"40MiB\"")
        .with("[limits]\nfile_cache_entry = \"32MiB\"\nfile_cache_valid = \"1h\"")
        .with("[[route]]\npath = \"/files/\"\n[route.files]\nroot = \"www\"")
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        assert_eq!(session.get("/files/a").await.bytes().await.len(), LENGTH);
        // The responses keep their files in memory, and nobody reads them yet.
        let held = [session.get("/files/a").await, session.get("/files/b").await];
        until_said(&mut server, "memory is short").await;
        let ConnectionError::ConnectionClosed(close) = client.refusal(server.address()).await
        else {
            panic!("not refused by the server's transport")
        };
        assert_eq!(u64::from(close.error_code), 0x2);
        let refused = session.get("/files/a").await;
        assert_eq!(refused.head.status(), 503);
        assert!(refused.head.headers().contains_key("retry-after"));
        assert_eq!(session.get("/").await.text().await, PAGE);
        assert_eq!(sum(&metrics(admin), "sluicegate_memory_short"), 2.0);
        for response in held {
            assert_eq!(response.bytes().await.len(), LENGTH);
        }
        until_said(&mut server, "memory suffices again").await;
        let mut other = client.connect_when_accepted(server.address()).await;
        assert_eq!(other.get("/").await.text().await, PAGE);
    });
    let found = metrics(admin);
    assert_eq!(found["sluicegate_memory_limit_bytes"], 41_943_040.0);
    let refused = "sluicegate_connections_refused_total{reason=\"memory\"}";
    assert!(found[refused] >= 1.0);
    let refused = "sluicegate_http_requests_refused_total{reason=\"memory\"}";
    assert!(found[refused] >= 1.0);
}

fn what_closed_connections_leave_returns_to_the_system(backend: &str) {
    let folder = Folder::new();
    let setup = Setup::new(backend)
        .with("[server]\nmemory_limit = \"28MiB\"")
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic");
    let server = Server::start(&setup, &folder);
    // A scrape of metrics would have the worker allocate.
    let share = || server.process.anonymous_kib() as f64 / LIMIT;
    run(async {
        let client = Client::new(&folder).quiet();
        let mut sessions = Vec::new();
        // Above nine tenths, connections of a client that holds so much are closed, perhaps as fast as further ones open.
        while share() < 0.88 {
            sessions.extend(client.try_connect(server.address()).await);
        }
        println!("{backend}: {} connections", sessions.len());
        drop(sessions);
        // Nobody sends anything any more, so the worker allocates nothing.
        while share() > 0.5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut other = client.connect(server.address()).await;
        assert_eq!(other.get("/").await.text().await, PAGE);
    });
}
