//! What goes by value from process to process: counters go on, and a used token is used at all of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::LocalSet;

use super::{Line, setup};
use crate::admin::{address, metrics, sum};
use crate::client::{Client, run};
use crate::on_auto;
use crate::transfer::{aioquic, get_by_aioquic};

on_auto!(
    counters_go_on_there_and_back_and_after_the_end_of_a_process,
    a_token_that_the_former_process_has_accepted_is_used,
);

const REQUESTS: &str = "sluicegate_http_requests_total";
const ACCEPTED: &str = "sluicegate_connections_accepted_total";

/// Returns the samples that only grow.
fn growing(admin: SocketAddr) -> BTreeMap<String, f64> {
    let all = metrics(admin).into_iter();
    let grows = |name: &str| {
        let family = name.split('{').next().unwrap();
        !name.starts_with("process_")
            && ["_total", "_bucket", "_count"].iter().any(|end| family.ends_with(end))
    };
    all.filter(|(name, _)| grows(name)).collect()
}

/// Waits until the total of a family is this: a process that drains tells once a second.
async fn until_total(admin: SocketAddr, family: &str, total: f64) {
    while sum(&metrics(admin), family) < total {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(sum(&metrics(admin), family), total);
}

fn counters_go_on_there_and_back_and_after_the_end_of_a_process(backend: &str) {
    let mut line = Line::start(&setup(backend));
    let (admin, at) = (address(&mut line.server), line.server.address());
    let (first, mut requests, mut connections) = (line.process.clone(), 0.0, 0.0);
    run(LocalSet::new().run_until(async {
        let mut before = growing(admin);
        let mut long = Some(line.download().await);
        (requests, connections) = (requests + 1.0, connections + 1.0);
        for step in 0..5 {
            match step {
                0 | 2 | 4 => line.upgrade_beside().await,
                1 => line.back_to(&first),
                _ => {
                    // The first process ends, and with it what keeps the second one.
                    long.take().unwrap().end().await;
                    let ended = "the former process has ended";
                    while line.server.process.count_said(ended) == 0 {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            }
            let mut session = Client::new(&line.folder).connect(at).await;
            for _ in 0..10 {
                session.get("/").await.text().await;
            }
            drop(session);
            (requests, connections) = (requests + 10.0, connections + 1.0);
            until_total(admin, REQUESTS, requests).await;
            until_total(admin, ACCEPTED, connections).await;
            let now = growing(admin);
            for (name, before) in &before {
                assert!(
                    now.get(name) >= Some(before),
                    "{name}: {:?} after {before}",
                    now.get(name)
                );
            }
            before = now;
        }
    }));
    line.end();
}

fn a_token_that_the_former_process_has_accepted_is_used(backend: &str) {
    const USED: &str = "sluicegate_new_tokens_refused_total{reason=\"used\"}";
    if aioquic().is_none() {
        return;
    }
    let mut line = Line::start(&setup(backend).with("[quic]\nretry_above = 0"));
    let admin = address(&mut line.server);
    let token = line.folder.path("token");
    let get = |line: &Line| {
        get_by_aioquic(aioquic().unwrap(), (&line.server, &line.folder), 1000, Some(&token))
    };
    run(LocalSet::new().run_until(async {
        // It keeps the former process.
        let long = line.download().await;
        get(&line);
        let first = std::fs::read(&token).unwrap();
        get(&line);
        assert_eq!(metrics(admin)[USED], 0.0);
        line.upgrade();
        std::fs::write(&token, &first).unwrap();
        get(&line);
        assert_eq!(metrics(admin)[USED], 1.0);
        // The token of that visit, there and after the way back.
        let second = std::fs::read(&token).unwrap();
        get(&line);
        let former = line.server.process.id().to_string();
        line.back_to(&former);
        std::fs::write(&token, &second).unwrap();
        get(&line);
        until_total(admin, USED, 2.0).await;
        long.end().await;
    }));
    line.end();
}
