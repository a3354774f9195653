//! The pages `/debug/connections` and `/debug/connections/ID`: what connections of QUIC are and wait for.

mod query;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};
use sluicegate_base::observe::metrics::Label as _;
use sluicegate_quic::endpoint::inspect::{Order, Selection, Snapshot};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use self::query::Query;
use super::response::{Page, TEXT, method_not_allowed, page, text};
use crate::worker::{Command, Inspection, WorkerHandle};

/// Path of the list. A connection's own page is below it.
const PATH: &str = "/debug/connections";
/// Time for the replies of all workers.
const LIMIT: Duration = Duration::from_secs(1);

/// Looks at connections of all workers. One request at a time is served, because each looks at every connection.
#[derive(Debug)]
pub struct Connections {
    allowed: AtomicBool,
    workers: OnceLock<Vec<WorkerHandle>>,
    turn: Semaphore,
}

impl Default for Connections {
    fn default() -> Connections {
        Connections {
            allowed: AtomicBool::new(false),
            workers: OnceLock::new(),
            turn: Semaphore::new(1),
        }
    }
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
    async fn find(&self, selection: &Selection, order: Order, limit: usize) -> Found {
        let mut found = Found::default();
        let Ok(_turn) = self.turn.acquire().await else {
            return found;
        };
        let mut asked = Vec::new();
        for worker in self.workers.get().into_iter().flatten() {
            let (reply, receiver) = oneshot::channel();
            let inspection = Inspection { selection: selection.clone(), order, limit, reply };
            worker.mailbox.send(Command::Inspect(Box::new(inspection)));
            asked.push((worker, receiver));
        }
        let deadline = Instant::now() + LIMIT;
        for (worker, receiver) in asked {
            let name = format!("{}/{}", worker.group, worker.index);
            match timeout_at(deadline, receiver).await {
                Ok(Ok((snapshots, count))) => {
                    found.count += count;
                    found.shown.extend(snapshots.into_iter().map(|one| (name.clone(), one)));
                }
                Ok(Err(_)) | Err(_) => found.silent.push(name),
            }
        }
        found.shown.sort_by_key(|(_, one)| std::cmp::Reverse(order.place(one)));
        found.shown.truncate(limit);
        found
    }
}

/// Connections of all workers.
#[derive(Debug, Default)]
struct Found {
    shown: Vec<(String, Snapshot)>,
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
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return method_not_allowed("GET, HEAD");
    }
    if !connections.allowed.load(Ordering::Relaxed) {
        return text(
            StatusCode::FORBIDDEN,
            "connections are not shown: set `connections = true` in [admin] and reload; they are by default only where the \
             address is a loopback address\n",
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
    let shown = || found.shown.iter().map(|(worker, one)| object(worker, one));
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
        "id": hex(&snapshot.id),
        "worker": worker,
        "listener": &*snapshot.listener,
        "client": snapshot.client.to_string(),
        "algorithm": snapshot.algorithm,
        "state": snapshot.state,
        "age_ms": ms(snapshot.age),
        "wait": snapshot.wait.name(),
        "waiting_ms": ms(snapshot.waiting),
        "waits_ms": waits.collect::<serde_json::Map<_, _>>(),
        "silence_ms": ms(snapshot.silence),
        "requests": snapshot.requests,
        "rtt_ms": snapshot.rtt.map(|(smoothed, _)| ms(smoothed)),
        "min_rtt_ms": snapshot.rtt.map(|(_, least)| ms(least)),
        "congestion_window_bytes": snapshot.window,
        "mtu_bytes": snapshot.mtu,
        "delivery_rate_bytes_per_second": snapshot.delivery_rate,
        "sent_bytes": snapshot.sent,
        "received_bytes": snapshot.received,
        "lost_bytes": snapshot.lost,
        "retransmitted_bytes": snapshot.retransmitted,
        "probe_timeouts": snapshot.probe_timeouts,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
