//! Memory of idle connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::client::{Client, Session, run};
use crate::on_every_backend;
use crate::server::{Folder, PAGE, Server};

/// Connections that are open at a time.
const COUNT: usize = 1000;
/// Memory of the server that each connection may take, KiB: about three times of what it takes.
const BOUND: u64 = 128;
/// The allocator gives pages back this long after they were freed, and a little later.
const DECAY: Duration = Duration::from_secs(12);

on_every_backend!(
    #[ignore = "long"]
    idle_connections_take_little_memory,
);

fn idle_connections_take_little_memory(backend: &str) {
    let folder = Folder::new();
    let server = Server::simple(backend, &folder);
    run(async {
        let client = Arc::new(Client::new(&folder));
        let fresh = server.process.resident_kib();
        // They stay, so that what is measured takes no memory that they left.
        let _first = served(&client, server.address(), COUNT / 20).await;
        tokio::time::sleep(DECAY).await;
        let warm = server.process.resident_kib();
        let mut idle = served(&client, server.address(), COUNT).await;
        let busy = server.process.resident_kib();
        tokio::time::sleep(DECAY).await;
        let rested = server.process.resident_kib();
        // They are still there.
        for session in &mut idle {
            assert_eq!(session.get("/").await.text().await, PAGE);
        }
        let each = rested.saturating_sub(warm) / COUNT as u64;
        println!(
            "{backend}: {fresh} KiB at first, {warm} warm, {busy} with {COUNT} connections that were \
             just served, {rested} a while later: {each} KiB each"
        );
        assert!(each < BOUND, "{each} KiB for each connection");
    });
}

/// Returns that many connections, each of which has fetched the page.
async fn served(client: &Arc<Client>, address: SocketAddr, count: usize) -> Vec<Session> {
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let client = Arc::clone(client);
        tasks.spawn(async move {
            let mut session = client.connect_in_turn(address).await;
            assert_eq!(session.get("/").await.text().await, PAGE);
            session
        });
    }
    tasks.join_all().await
}
