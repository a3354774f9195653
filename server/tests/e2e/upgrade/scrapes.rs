//! Scrapes while the service changes hands: at each moment one process shows the counters, which never go down.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::LocalSet;

use super::load::{Load, ask_as_strangers, ask_on};
use super::{Line, setup};
use crate::admin::address;
use crate::client::{Client, run};
use crate::on_auto;

on_auto!(no_scrape_sees_less_than_the_one_before_while_the_service_changes_hands);

/// Time in which a process replies, also while it is about to leave the service.
const REPLY: Duration = Duration::from_secs(60);

/// Returns the samples that only grow; `None` where the process has just left the pages to another one.
fn scrape(admin: SocketAddr) -> Option<BTreeMap<String, f64>> {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.set_read_timeout(Some(REPLY)).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    if head.starts_with("HTTP/1.1 503") {
        assert!(page.contains("another process serves"), "{page}");
        return None;
    }
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut growing = BTreeMap::new();
    let mut grows = false;
    for line in page.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let is_counted = family.ends_with(" counter") || family.ends_with(" histogram");
            grows = is_counted && !family.starts_with("process_");
        } else if grows
            && !line.starts_with('#')
            && let Some((series, value)) = line.rsplit_once(' ')
        {
            growing.insert(series.to_owned(), value.parse().unwrap());
        }
    }
    Some(growing)
}

/// Scrapes until it is told to stop. Returns how many scrapes there were, and each series that went down, with its values.
fn watch(admin: SocketAddr, is_over: &AtomicBool) -> (usize, Vec<String>) {
    let (mut scrapes, mut fallen) = (0, Vec::new());
    let mut before = BTreeMap::<String, f64>::new();
    while !is_over.load(Ordering::Relaxed) {
        let Some(now) = scrape(admin) else {
            continue;
        };
        scrapes += 1;
        for (series, value) in &now {
            let before = before.insert(series.clone(), *value).unwrap_or_default();
            if *value < before {
                fallen.push(format!("scrape {scrapes}: {series} {before} {value}"));
            }
        }
    }
    (scrapes, fallen)
}

fn no_scrape_sees_less_than_the_one_before_while_the_service_changes_hands(backend: &str) {
    let mut line = Line::start(&setup(backend));
    let (admin, at) = (address(&mut line.server), line.server.address());
    let (first, is_over) = (line.process.clone(), AtomicBool::new(false));
    let (scrapes, fallen) = std::thread::scope(|scope| {
        let watched = scope.spawn(|| watch(admin, &is_over));
        run(LocalSet::new().run_until(async {
            let client = || Client::new(&line.folder);
            let mut on_kept = Load::start(2, |progress| ask_on(client(), at, progress));
            let mut strangers =
                Load::start(2, |progress| ask_as_strangers(client(), at, progress, 1));
            // It keeps the first process.
            let long = line.download().await;
            for step in 0..4 {
                match step {
                    1 => line.back_beside(&first).await,
                    _ => line.upgrade_beside().await,
                }
                on_kept.go_on(20).await;
                strangers.go_on(5).await;
            }
            on_kept.end().await;
            strangers.end().await;
            long.end().await;
        }));
        is_over.store(true, Ordering::Relaxed);
        watched.join().unwrap()
    });
    assert!(scrapes > 10 && fallen.is_empty(), "{scrapes} scrapes: {fallen:#?}");
    line.end();
}
