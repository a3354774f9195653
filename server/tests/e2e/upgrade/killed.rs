//! A process is killed while two serve: what is lost is its connections, whose clients learn of it, and nothing of the other one.

use std::time::Duration;

use quinn::ConnectionError;
use tokio::task::{JoinSet, LocalSet};

use super::load::{Load, ask_as_strangers, ask_on};
use super::{LONG, Line, PIECE, kill, setup};
use crate::admin::{address, metrics, sum};
use crate::client::{Client, Counted, run};
use crate::on_every_backend;
use crate::server::PAGE;

on_every_backend!(
    connections_of_a_killed_former_process_are_reset_and_no_others,
    new_clients_get_in_while_the_former_process_serves_again,
    what_a_killed_process_has_counted_stays,
);

/// Clients that begin when a process is killed.
const CLIENTS: usize = 8;
/// Times that a process counts and is killed: it leaves its counters once a second, and may be late.
const ATTEMPTS: usize = 5;

fn connections_of_a_killed_former_process_are_reset_and_no_others(backend: &str) {
    let mut line = Line::start(&setup(backend));
    let (admin, at) = (address(&mut line.server), line.server.address());
    run(LocalSet::new().run_until(async {
        let mut former = Vec::new();
        for _ in 0..CLIENTS {
            let client = Client::new(&line.folder).taking(64 << 10);
            let mut session = client.connect(at).await;
            let mut response = session.get(&format!("/bytes/{LONG}")).await;
            response.count(&mut Counted::default(), PIECE).await;
            former.push((client, session, response));
        }
        let process = line.process.clone();
        line.upgrade_beside().await;
        let mut kept = Load::start(2, |progress| ask_on(Client::new(&line.folder), at, progress));
        let mut new =
            Load::start(2, |progress| ask_as_strangers(Client::new(&line.folder), at, progress, 1));
        kept.go_on(20).await;
        kill(&process, "KILL");
        for (_, session, _) in &former {
            let error = session.connection.closed().await;
            assert!(matches!(error, ConnectionError::Reset), "{error}");
        }
        kept.go_on(50).await;
        new.go_on(20).await;
        new.end().await;
        kept.end().await;
        assert!(metrics(admin)["sluicegate_stateless_resets_sent_total"] >= 1.0);
        line.upgrade_beside().await;
        line.assert_serves().await;
        line.terminate();
        while !line.server.process.has_ended() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }));
}

fn new_clients_get_in_while_the_former_process_serves_again(backend: &str) {
    let mut line = Line::start(&setup(backend));
    let (admin, at) = (address(&mut line.server), line.server.address());
    run(LocalSet::new().run_until(async {
        let long = line.download().await;
        for round in 1..=3 {
            let first = line.process.clone();
            line.upgrade_beside().await;
            kill(&line.process, "KILL");
            line.process = first;
            let mut clients = JoinSet::new();
            for _ in 0..CLIENTS {
                let client = Client::new(&line.folder);
                clients.spawn_local(
                    async move { client.connect(at).await.get("/").await.text().await },
                );
            }
            while let Some(page) = clients.join_next().await {
                assert_eq!(page.unwrap(), PAGE);
            }
            let again = "this process serves again";
            while line.server.process.count_said(again) < round {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let refused = "sluicegate_connections_refused_total{reason=\"draining\"}";
        assert_eq!(metrics(admin)[refused], 0.0);
        long.end().await;
    }));
    line.end();
}

fn what_a_killed_process_has_counted_stays(backend: &str) {
    const REQUESTS: &str = "sluicegate_http_requests_total";
    let mut line = Line::start(&setup(backend));
    let (admin, at) = (address(&mut line.server), line.server.address());
    run(LocalSet::new().run_until(async {
        let long = line.download().await;
        let mut stayed = false;
        for round in 1..=ATTEMPTS {
            let first = line.process.clone();
            line.upgrade_beside().await;
            let mut session = Client::new(&line.folder).connect(at).await;
            for _ in 0..10 {
                session.get("/").await.text().await;
            }
            let before = sum(&metrics(admin), REQUESTS);
            tokio::time::sleep(Duration::from_millis(1500)).await;
            kill(&line.process, "KILL");
            line.process = first;
            while line.server.process.count_said("this process serves again") < round {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let after = sum(&metrics(admin), REQUESTS);
            assert!(after <= before, "{after} requests after {before}");
            stayed |= after == before;
            if stayed {
                break;
            }
        }
        assert!(stayed);
        long.end().await;
    }));
    line.end();
}
