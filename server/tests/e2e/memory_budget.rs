//! The memory budget of the process.

use std::fs;
use std::time::Duration;

use quinn::ConnectionError;

use crate::admin::{ADMIN, address, metrics, sum};
use crate::client::{Client, run};
use crate::server::{Folder, PAGE, Server, Setup};
use crate::{on_auto, on_every_backend};

on_every_backend!(what_closed_connections_leave_returns_to_the_system,);
on_auto!(without_memory_downloads_go_on_and_new_work_is_refused_until_they_end,);

/// Length of each of two bodies that together exceed the limit; both are larger than a client's window.
const LENGTH: usize = 32 << 20;

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
    fs::create_dir_all(folder.path("www")).unwrap();
    fs::write(folder.path("www/small"), "small").unwrap();
    fs::write(folder.path("body"), vec![b'a'; LENGTH]).unwrap();
    let setup = Setup::new(backend)
        .with(ADMIN)
        .with("[server]\nmemory_limit = \"64MiB\"")
        .with("[[route]]\npath = \"/files/\"\n[route.files]\nroot = \"www\"")
        .with("[[route]]\npath = \"/body\"\n[route.fixed]\nbody_file = \"body\"")
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        assert_eq!(session.get("/files/small").await.text().await, "small");
        // The response keeps its body in memory, and nobody reads it yet.
        let held = session.get("/body").await;
        fs::write(folder.path("body"), vec![b'b'; LENGTH]).unwrap();
        server.process.signal("HUP");
        until_said(&mut server, "memory is short").await;
        let ConnectionError::ConnectionClosed(close) = client.refusal(server.address()).await
        else {
            panic!("not refused by the server's transport")
        };
        assert_eq!(u64::from(close.error_code), 0x2);
        let refused = session.get("/files/small").await;
        assert_eq!(refused.head.status(), 503);
        assert!(refused.head.headers().contains_key("retry-after"));
        assert_eq!(session.get("/").await.text().await, PAGE);
        assert_eq!(sum(&metrics(admin), "sluicegate_memory_short"), 2.0);
        assert_eq!(held.bytes().await, vec![b'a'; LENGTH]);
        until_said(&mut server, "memory suffices again").await;
        let mut other = client.connect_when_accepted(server.address()).await;
        assert_eq!(other.get("/").await.text().await, PAGE);
    });
    let found = metrics(admin);
    assert_eq!(found["sluicegate_memory_limit_bytes"], 67_108_864.0);
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
