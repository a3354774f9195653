//! The pages `/debug/connections` and `/debug/connections/ID`: what connections of QUIC are and wait for.

mod query;

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use data_encoding::HEXLOWER;
use hyper::{Request, StatusCode};
use serde_json::{Value, json};
use sluicegate_base::observe::metrics::Label as _;
use sluicegate_quic::endpoint::inspect::{ConnectionFilter, Order, Search, Snapshot};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, timeout_at};

use self::query::Query;
use super::response::{Page, TEXT, page, text};
use crate::worker::{Command, Inspection, WorkerHandle};

/// Path of the list. A connection's own page is below it.
const PATH: &str = "/debug/connections";
/// Time for the replies of all workers.
const LIMIT: Duration = Duration::from_secs(1);

/// A worker's reply to come.
type Reply = oneshot::Receiver<(Vec<(u64, Snapshot)>, usize)>;

/// Looks at connections of all workers, for one request at a time, because each looks at every connection.
#[derive(Debug, Default)]
pub struct Connections {
    allowed: AtomicBool,
    workers: OnceLock<Vec<WorkerHandle>>,
    /// Replies that were late, by worker: one that hangs is asked once.
    late: Mutex<HashMap<usize, Reply>>,
}

impl Connections {
    /// Says whether everybody who reaches the admin address may see connections.
    pub fn allow(&self, allowed: bool) {
        self.allowed.store(allowed, Ordering::Relaxed);
    }

    /// Sets the workers to ask. Only the first call has an effect.
    pub fn watch(&self, workers: Vec<WorkerHandle>) {
        let _ = self.workers.set(workers);
    }

    /// Asks every worker. Returns the first `limit` connections with their workers, and the count of all.
    async fn find(&self, selection: &ConnectionFilter, order: Order, limit: usize) -> Found {
        let mut found = Found::default();
        let mut late = self.late.lock().await;
        let mut asked = Vec::new();
        for (number, worker) in self.workers.get().into_iter().flatten().enumerate() {
            let name = format!("{}/{}", worker.group, worker.index);
            if let Some(reply) = late.get_mut(&number) {
                if matches!(reply.try_recv(), Err(TryRecvError::Empty)) {
                    found.silent.push(name);
                    continue;
                }
                late.remove(&number);
            }
            let (reply, receiver) = oneshot::channel();
            let search = Search::new(selection.clone(), order, limit);
            let inspection = Box::new(Inspection { search, reply });
            // A worker that has ended has no connections.
            if worker.mailbox.send(Command::Inspect(inspection)) {
                asked.push((number, name, receiver));
            }
        }
        let deadline = Instant::now() + LIMIT;
        for (number, name, mut receiver) in asked {
            match timeout_at(deadline, &mut receiver).await {
                Ok(Ok((snapshots, count))) => {
                    found.count += count;
                    let ranked = snapshots.into_iter();
                    found.shown.extend(ranked.map(|(rank, one)| (rank, name.clone(), one)));
                    found.shown.sort_by_key(|(rank, ..)| std::cmp::Reverse(*rank));
                    found.shown.truncate(limit);
                }
                Ok(Err(_)) => {}
                Err(_) => {
                    found.silent.push(name);
                    late.insert(number, receiver);
                }
            }
        }
        found
    }
}

/// Connections of all workers.
#[derive(Debug, Default)]
struct Found {
    /// The first of them, with ranks and workers.
    shown: Vec<(u64, String, Snapshot)>,
    /// Number of all that were selected.
    count: usize,
    /// Workers that did not reply in time.
    silent: Vec<String>,
}

/// Returns whether a path is one of these pages.
pub(super) fn has(path: &str) -> bool {
    path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the response to a request.
pub(super) async fn respond<B>(request: &Request<B>, connections: &Connections) -> Page {
    if !connections.allowed.load(Ordering::Relaxed) {
        return text(
            StatusCode::FORBIDDEN,
            "connections are not shown: set `connections = true` in [admin] and reload; by default they are shown only at a \
             loopback address\n",
        );
    }
    let id = request.uri().path().strip_prefix(PATH).unwrap_or_default();
    let query = request.uri().query().unwrap_or_default();
    let query = match id.strip_prefix('/') {
        Some(id) => Query::for_id(id, query),
        None => Query::parse(query),
    };
    let Query { selection, order, limit } = match query {
        Ok(query) => query,
        Err(reason) => return page(StatusCode::BAD_REQUEST, TEXT, reason.into()),
    };
    let found = connections.find(&selection, order, limit).await;
    let shown = || found.shown.iter().map(|(_, worker, one)| object(worker, one));
    let value = if selection.id.is_some() {
        match shown().next() {
            Some(connection) => connection,
            None if found.silent.is_empty() => {
                return text(
                    StatusCode::NOT_FOUND,
                    "no connection has this ID: it has ended, or it is one over TCP\n",
                );
            }
            None => {
                let silent = format!("no reply from {}; ask again\n", found.silent.join(", "));
                return page(StatusCode::SERVICE_UNAVAILABLE, TEXT, silent.into());
            }
        }
    } else {
        json!({
            "count": found.count,
            "silent_workers": found.silent,
            "connections": shown().collect::<Vec<_>>(),
        })
    };
    page(StatusCode::OK, "application/json", format!("{value:#}\n").into())
}

fn object(worker: &str, snapshot: &Snapshot) -> Value {
    let ms = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
    let waits =
        snapshot.spent.iter().map(|(wait, time)| (wait.name().to_owned(), json!(ms(*time))));
    json!({
        "id": HEXLOWER.encode(&snapshot.id),
        "worker": worker,
        "listener": &*snapshot.listener,
        "client": snapshot.client.to_string(),
        "client_validated": snapshot.is_client_validated,
        "algorithm": snapshot.algorithm,
        "state": snapshot.state,
        "age_ms": ms(snapshot.age),
        "wait": snapshot.wait.name(),
        "waiting_ms": ms(snapshot.waiting),
        "waits_ms": waits.collect::<serde_json::Map<_, _>>(),
        "has_tunnel": snapshot.has_tunnel,
        "silence_ms": ms(snapshot.silence),
        "requests": snapshot.requests,
        "rtt_ms": snapshot.rtt.map(|(smoothed, _)| ms(smoothed)),
        "min_rtt_ms": snapshot.rtt.map(|(_, least)| ms(least)),
        "congestion_window_bytes": snapshot.window,
        "mtu_bytes": snapshot.mtu,
        "delivery_rate_bytes_per_second": snapshot.delivery_rate,
        "sent_bytes": snapshot.sent,
        "received_bytes": snapshot.received,
        "lost_packets": snapshot.lost_packets,
        "lost_bytes": snapshot.lost,
        "retransmitted_bytes": snapshot.retransmitted,
        "probe_timeouts": snapshot.probe_timeouts,
    })
}

#[cfg(test)]
mod tests;
