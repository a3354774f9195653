//! Clients that come back with the token of an earlier connection (NEW_TOKEN), to a server that asks all others for a Retry.

use std::net::{Ipv4Addr, SocketAddr};

use crate::admin::{ADMIN, address, metrics, sum};
use crate::client::{Client, run};
use crate::on_auto;
use crate::server::{Folder, PAGE, Server, Setup};
use crate::transfer::{aioquic, get_by_aioquic};

on_auto!(
    a_client_that_returns_is_spared_the_retry,
    a_token_outlives_a_restart_with_a_state_directory,
    aioquic_is_spared_the_retry_when_it_returns,
);

fn guarded(backend: &str) -> Setup {
    Setup::new(backend).with(ADMIN).with("[quic]\nretry_above = 0")
}

/// Returns the numbers of Retry packets sent, and of tokens sent, accepted and refused.
fn counts(admin: SocketAddr) -> [f64; 4] {
    let found = metrics(admin);
    [
        "sluicegate_retries_sent_total",
        "sluicegate_new_tokens_sent_total",
        "sluicegate_new_tokens_accepted_total",
        "sluicegate_new_tokens_refused_total",
    ]
    .map(|name| sum(&found, name))
}

/// Gets a page over a connection of its own.
async fn visit(client: &Client, server: SocketAddr) {
    let mut session = client.connect(server).await;
    assert_eq!(session.get("/").await.text().await, PAGE);
}

fn a_client_that_returns_is_spared_the_retry(backend: &str) {
    const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
    const THERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    let folder = Folder::new();
    let setup = guarded(backend).listener("first", "127.0.0.1:0", "cubic").listener(
        "second",
        "127.0.0.1:0",
        "cubic",
    );
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    let [first, second] = ["first", "second"].map(|name| server.listener(name).0);
    run(async {
        let client = Client::new(&folder);
        visit(&client, first).await;
        // A busy host may let a client send its first packet twice.
        let retries = counts(admin)[0];
        assert!(retries >= 1.0);
        for visits in 1..=8 {
            visit(&client.elsewhere(HERE), first).await;
            let visits = f64::from(visits);
            assert_eq!(counts(admin), [retries, 1.0 + visits, visits, 0.0]);
        }
        visit(&client.elsewhere(THERE), first).await;
        // The token that it has got there, at the other listener.
        visit(&client.elsewhere(THERE), second).await;
        let [now, sent, accepted, _] = counts(admin);
        assert!(now >= retries + 2.0);
        assert_eq!((sent, accepted), (11.0, 8.0));
        let found = metrics(admin);
        for reason in ["wrong_address", "wrong_listener"] {
            let name = format!("sluicegate_new_tokens_refused_total{{reason=\"{reason}\"}}");
            assert!(found[&name] >= 1.0, "{reason}");
        }
    });
}

fn a_token_outlives_a_restart_with_a_state_directory(backend: &str) {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("state")).unwrap();
    let setup = guarded(backend).with("[server]\nstate_dir = \"state\"").listener(
        "main",
        "127.0.0.1:0",
        "cubic",
    );
    run(async {
        let client = Client::new(&folder);
        for returned in [0.0, 1.0] {
            let mut server = Server::start(&setup, &folder);
            let admin = address(&mut server);
            visit(&client, server.address()).await;
            let [retries, sent, accepted, refused] = counts(admin);
            assert_eq!((sent, accepted, refused), (1.0, returned, 0.0));
            assert_eq!(retries == 0.0, returned == 1.0, "{retries}");
        }
    });
}

fn aioquic_is_spared_the_retry_when_it_returns(backend: &str) {
    let folder = Folder::new();
    let setup = guarded(backend).listener("main", "127.0.0.1:0", "cubic");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    let token = folder.path("token");
    let get = || {
        get_by_aioquic(aioquic()?, (&server, &folder), 10_000, Some(&token));
        Some(counts(admin))
    };
    let Some([retries, ..]) = get() else { return };
    assert!(retries >= 1.0);
    for visits in [1.0, 2.0] {
        assert_eq!(get(), Some([retries, 1.0 + visits, visits, 0.0]));
    }
}
