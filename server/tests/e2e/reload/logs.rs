//! The access log moves while clients are served.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::Value;

use super::{REFUSED, TAKEN, until_page};
use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, run};
use crate::on_auto;
use crate::server::{Folder, PAGE, Server, Setup};

on_auto!(every_request_has_one_line_while_the_log_moves);

const CLIENTS: u64 = 4;
/// Requests that each log sees at least.
const REQUESTS: u64 = 50;

fn setup(backend: &str, log: &str) -> Setup {
    let setup = Setup::new(backend).listener("main", "127.0.0.1:0", "cubic");
    match log {
        "" => setup,
        log => setup.with(&format!("[access_log]\nquery = true\n{log}")),
    }
}

/// Asks for pages with the client's number and the request's until it is stopped, and returns how many.
async fn load(
    client: &Client,
    at: SocketAddr,
    number: u64,
    stop: &AtomicBool,
    all: &AtomicU64,
) -> u64 {
    let mut session = client.connect(at).await;
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let target = format!("/?{number}-{count}");
        assert_eq!(session.get(&target).await.text().await, PAGE);
        count += 1;
        all.fetch_add(1, Ordering::Relaxed);
    }
    count
}

/// Returns the target of a line in either format.
fn target(line: &str) -> String {
    if line.starts_with('{') {
        let record: Value = serde_json::from_str(line).unwrap();
        return record["path"].as_str().unwrap().to_owned();
    }
    line.split(' ').nth(6).unwrap().to_owned()
}

fn every_request_has_one_line_while_the_log_moves(backend: &str) {
    let folder = Folder::new();
    let mut server = Server::start(&setup(backend, "file = \"0.log\""), &folder);
    let at = server.address();
    let counts: Vec<u64> = run(async {
        let client = Arc::new(Client::new(&folder));
        let (stop, all) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let tasks: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (client, stop, all) =
                    (Arc::clone(&client), Arc::clone(&stop), Arc::clone(&all));
                tokio::spawn(async move { load(&client, at, number, &stop, &all).await })
            })
            .collect();
        for log in [
            "file = \"1.log\"",
            "file = \"1.log\"\nformat = \"extended\"",
            "file = \"2.log\"\nqueue = \"1MiB\"",
            "file = \"0.log\"\nformat = \"combined\"",
        ] {
            let before = all.load(Ordering::Relaxed);
            while all.load(Ordering::Relaxed) < before + REQUESTS {
                tokio::task::yield_now().await;
            }
            server.reload(&setup(backend, log), &folder, TAKEN);
        }
        // One that cannot be opened leaves the last in effect.
        let refused = server.reload(&setup(backend, "file = \"none/1.log\""), &folder, REFUSED);
        assert!(refused.contains("access_log.file"), "{refused}");
        let before = all.load(Ordering::Relaxed);
        while all.load(Ordering::Relaxed) < before + REQUESTS {
            tokio::task::yield_now().await;
        }
        stop.store(true, Ordering::Relaxed);
        let mut counts = Vec::new();
        for task in tasks {
            counts.push(task.await.unwrap());
        }
        counts
    });
    server.process.last_words();
    let mut seen = BTreeSet::new();
    for name in ["0.log", "1.log", "2.log"] {
        let text = std::fs::read_to_string(folder.path(name)).unwrap();
        assert!(text.lines().count() > 0, "{name}");
        for line in text.lines() {
            assert!(seen.insert(target(line)), "twice: {line}");
        }
    }
    let expected = (0..CLIENTS)
        .zip(counts)
        .flat_map(|(number, count)| (0..count).map(move |n| format!("/?{number}-{n}")));
    assert_eq!(seen, expected.collect());
}

#[test]
fn a_log_begins_and_ends_with_a_reload() {
    let folder = Folder::new();
    let mut server = Server::start(&setup("mio", ""), &folder);
    let at = server.address();
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(at).await;
        for (target, log) in [("/?1", "file = \"log\""), ("/?2", ""), ("/?3", "")] {
            session.get(target).await.text().await;
            let page = format!("page after {target}");
            let next = setup("mio", log).replace(&format!("{PAGE:?}"), &format!("{page:?}"));
            server.reload(&next, &folder, TAKEN);
            until_page(&mut session, &page).await;
        }
    });
    server.process.last_words();
    let text = std::fs::read_to_string(folder.path("log")).unwrap();
    let targets = text.lines().map(target);
    let targets: Vec<_> = targets.filter(|target| target != "/").collect();
    assert_eq!(targets, ["/?2"]);
}

#[test]
fn traces_begin_and_end_with_a_reload() {
    let folder = Folder::new();
    // A connection shows what its own worker has taken up.
    let one_worker = || setup("mio", "").replace("[[group]]", "[[group]]\ncores = [0]");
    let mut server = Server::start(&one_worker(), &folder);
    let at = server.address();
    run(async {
        let client = Client::new(&folder);
        let mut old = client.connect(at).await;
        for (number, rate) in ["1.0", "0.0"].iter().enumerate() {
            let page = format!("page {number}");
            let traces =
                format!("[qlog]\nsample_rate = {rate}\ndirectory = \"traces\"\nrecorder = false");
            let next = one_worker().replace(&format!("{PAGE:?}"), &format!("{page:?}"));
            server.reload(&next.with(&traces), &folder, TAKEN);
            until_page(&mut old, &page).await;
            let mut new = client.connect(at).await;
            until_page(&mut new, &page).await;
        }
    });
    server.process.last_words();
    let traces = std::fs::read_dir(folder.path("traces")).unwrap();
    assert_eq!(traces.count(), 1, "the connection that began while the rate was 1");
}

#[test]
fn messages_of_the_process_take_another_form_and_level() {
    let folder = Folder::new();
    let setup = |log: &str| setup("mio", "").with(ADMIN).with(log);
    let mut server = Server::start(&setup(""), &folder);
    let admin = address(&mut server);
    let line = server.reload(&setup("[log]\nformat = \"json\""), &folder, TAKEN);
    let message: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(message["fields"]["snapshot"], 2);
    let errors = setup("[log]\nlevel = \"error\"");
    Server::write(&errors, &folder);
    server.process.signal("HUP");
    while metrics(admin)["sluicegate_config_generation"] < 3.0 {
        std::thread::yield_now();
    }
    let line = server.reload(&errors.with("[wrong]"), &folder, REFUSED);
    assert!(line.contains(" ERROR "), "{line}");
    let reloads = server.process.said.iter().filter(|l| l.contains(TAKEN));
    assert_eq!(reloads.count(), 1);
}
