//! The pages `/debug/connections` and `/debug/connections/ID`: what connections are and wait for.

mod query;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use data_encoding::HEXLOWER;
use hyper::{Request, StatusCode};
use serde_json::{Value, json};
use sluicegate_base::observe::connections::{
    Census, ConnectionFilter, ConnectionProtocol, ConnectionSnapshot, IdPrefix, Inspected, Order,
    RANK_OF_NAMED, RequestSnapshot, Trouble,
};
use sluicegate_base::observe::metrics::Label as _;
use sluicegate_base::observe::qlog::milliseconds as ms;
use sluicegate_quic::endpoint::inspect::ConnectionSearch;

use self::query::Query;
pub(super) use self::query::connection_id;
use super::cross_site::Purpose;
use super::response::{self, Page, TEXT, page, text};
use super::worker_queries::WorkerQueries;
use crate::tcp::{FrontCommand, FrontInspection};
use crate::worker::{Command, Inspection};

/// Path of the list. A connection's own page is below it.
pub(super) const PATH: &str = "/debug/connections";
/// Sentence where there is no connection of an ID.
pub(super) const NO_SUCH_ID: &str = "no open connection has this ID\n";

/// Sentence where connections may not be seen.
pub(super) const NOT_SHOWN: &str = "connections are not shown: set `connections = true` in [admin] and reload; by default they are shown \
    only at a loopback address\n";

/// Whether connections may be seen.
#[derive(Debug, Default)]
pub struct Connections {
    allowed: AtomicBool,
    names_requests: AtomicBool,
}

impl Connections {
    /// Says whether everybody who reaches the admin address may see connections, and the methods and paths of their requests.
    pub fn allow(&self, allowed: bool, names_requests: bool) {
        self.allowed.store(allowed, Ordering::Relaxed);
        self.names_requests.store(names_requests, Ordering::Relaxed);
    }

    /// Returns whether connections may be seen.
    pub(super) fn are_shown(&self) -> bool {
        self.allowed.load(Ordering::Relaxed)
    }
}

/// Asks every worker and its front over TCP. Returns the first `limit` connections with their workers, and the numbers of all.
pub(super) async fn find(
    workers: &WorkerQueries,
    selection: &ConnectionFilter,
    order: Order,
    limit: usize,
) -> Found {
    let replies = workers
        .ask_with_fronts(
            |reply| {
                let search = ConnectionSearch::new(selection.clone(), order, limit);
                Command::Inspect(Box::new(Inspection { search, reply }))
            },
            |reply| {
                let selection = selection.clone();
                let inspection = FrontInspection { selection, order, limit, reply };
                FrontCommand::Inspect(Box::new(inspection))
            },
        )
        .await;
    let mut found = Found { silent: replies.silent, ..Found::default() };
    for (name, Inspected { shown, census }) in replies.received {
        found.census.add(&census);
        let ranked = shown.into_iter();
        found.shown.extend(ranked.map(|(rank, one)| (rank, name.clone(), one)));
        found.shown.sort_by_key(|(rank, ..)| std::cmp::Reverse(*rank));
        found.shown.truncate(limit);
    }
    found
}

/// Connections of all workers.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The first of them, with ranks and workers.
    pub(super) shown: Vec<(u64, String, ConnectionSnapshot)>,
    /// Numbers of all that were selected.
    pub(super) census: Census,
    /// Workers that did not reply in time.
    pub(super) silent: Vec<String>,
}

/// Returns the connection of an ID, with its worker, or the page that says why there is none.
pub(super) async fn find_one(
    workers: &WorkerQueries,
    id: &IdPrefix,
    purpose: Purpose,
) -> Result<(String, ConnectionSnapshot), Page> {
    let selection = ConnectionFilter { id: Some(id.clone()), ..ConnectionFilter::default() };
    // A second one shows that more digits are needed.
    let Found { mut shown, census, silent } = find(workers, &selection, Order::Age, 2).await;
    let is_whole = shown.first().is_some_and(|(rank, ..)| *rank == RANK_OF_NAMED);
    if !is_whole && census.count() > 1 {
        let count = census.count();
        let reason = format!("{count} connections have IDs that begin so: give more digits\n");
        return Err(page(StatusCode::CONFLICT, TEXT, reason.into()));
    }
    if shown.is_empty() && silent.is_empty() {
        return Err(text(StatusCode::NOT_FOUND, NO_SUCH_ID));
    }
    // A silent worker may have another connection whose ID begins so.
    let may_be_another = !is_whole && purpose == Purpose::Order && !silent.is_empty();
    if shown.is_empty() || may_be_another {
        return Err(no_reply(&silent, Purpose::Look));
    }
    let (_, worker, one) = shown.swap_remove(0);
    Ok((worker, one))
}

/// Returns whether a path is one of these pages.
pub(super) fn has(path: &str) -> bool {
    path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the response to a request.
pub(super) async fn respond<B>(
    request: &Request<B>,
    connections: &Connections,
    workers: &WorkerQueries,
) -> Page {
    if !connections.are_shown() {
        return text(StatusCode::FORBIDDEN, NOT_SHOWN);
    }
    let id = request.uri().path().strip_prefix(PATH).unwrap_or_default();
    let query = request.uri().query().unwrap_or_default();
    let query = match id.strip_prefix('/') {
        Some(id) => Query::for_id(id, query),
        None => Query::parse(query),
    };
    let Query { selection, order, limit } = match query {
        Ok(query) => query,
        Err(reason) => return response::wrong_parameters(reason),
    };
    let value = if let Some(id) = &selection.id {
        let (worker, one) = match find_one(workers, id, Purpose::Look).await {
            Ok(found) => found,
            Err(page) => return page,
        };
        let mut connection = object(&worker, &one);
        let names = connections.names_requests.load(Ordering::Relaxed);
        let is_quic = one.protocol == ConnectionProtocol::Http3;
        let requests = one.open_requests.iter();
        connection["streams"] = requests.map(|request| stream(request, is_quic, names)).collect();
        connection
    } else {
        let found = find(workers, &selection, order, limit).await;
        let shown = found.shown.iter().map(|(_, worker, one)| object(worker, one));
        json!({
            "count": found.census.count(),
            "protocols": found.census.protocols(),
            "waits": found.census.waits(),
            "algorithms": found.census.algorithms(),
            "silent_workers": found.silent,
            "connections": shown.collect::<Vec<_>>(),
        })
    };
    response::json(&value)
}

/// Returns the response where workers that may have the connection did not reply.
pub(super) fn no_reply(silent: &[String], purpose: Purpose) -> Page {
    let then = match purpose {
        Purpose::Look => "ask again",
        Purpose::Order => "the order may yet be carried out",
    };
    let silent = format!("no reply from {}; {then}\n", silent.join(", "));
    page(StatusCode::SERVICE_UNAVAILABLE, TEXT, silent.into())
}

fn stream(request: &RequestSnapshot, is_quic: bool, names: bool) -> Value {
    let target = request.target.as_ref().filter(|_| names);
    let waits = request.spent.iter().map(|(wait, time)| (wait.name().to_owned(), ms(time)));
    json!({
        "stream": is_quic.then_some(request.stream),
        "number": (!is_quic).then_some(request.stream),
        "method": target.map(|(method, _)| method),
        "path": target.map(|(_, path)| path),
        "age_ms": ms(request.age),
        "wait": request.wait.name(),
        "waiting_ms": ms(request.waiting),
        "waits_ms": waits.collect::<serde_json::Map<_, _>>(),
        "bytes_sent": request.sent,
        "bytes_received": request.received,
    })
}

fn object(worker: &str, snapshot: &ConnectionSnapshot) -> Value {
    let waits = snapshot.spent.iter().map(|(wait, time)| (wait.name().to_owned(), ms(*time)));
    let troubles = snapshot.troubles.iter().map(|Trouble { name, meaning, lasts }| {
        json!({ "name": name, "lasts_ms": ms(*lasts), "meaning": meaning })
    });
    let mut request_waits = BTreeMap::<_, u64>::new();
    for request in &snapshot.open_requests {
        *request_waits.entry(request.wait.name()).or_default() += 1;
    }
    let is_quic = snapshot.protocol == ConnectionProtocol::Http3;
    json!({
        "id": HEXLOWER.encode(&snapshot.id),
        "protocol": snapshot.protocol.name(),
        "worker": worker,
        "listener": &*snapshot.listener,
        "client": snapshot.client.to_string(),
        "client_validated": snapshot.is_client_validated,
        "algorithm": snapshot.algorithm,
        "state": snapshot.state,
        "age_ms": ms(snapshot.age),
        "wait": snapshot.wait.name(),
        "wait_meaning": snapshot.wait.meaning(),
        "waiting_ms": ms(snapshot.waiting),
        "busy_ms": ms(snapshot.busy),
        "waits_ms": waits.collect::<serde_json::Map<_, _>>(),
        "troubles": troubles.collect::<Vec<_>>(),
        "has_tunnel": snapshot.has_tunnel,
        "silence_ms": ms(snapshot.silence),
        "requests": snapshot.requests,
        "open_requests": snapshot.open_requests.len(),
        "request_waits": request_waits,
        "rtt_ms": snapshot.rtt.map(|(smoothed, _)| ms(smoothed)),
        "min_rtt_ms": snapshot.rtt.map(|(_, least)| ms(least)),
        "congestion_window_bytes": snapshot.window,
        "congestion_window_at_floor": snapshot.is_window_at_floor,
        "mtu_bytes": snapshot.mtu,
        "delivery_rate_bytes_per_second": snapshot.delivery_rate,
        "sent_bytes": snapshot.sent,
        "received_bytes": snapshot.received,
        "lost_packets": snapshot.lost.map(|(packets, _)| packets),
        "lost_bytes": snapshot.lost.map(|(_, bytes)| bytes),
        "retransmitted_bytes": snapshot.retransmitted,
        "probe_timeouts": snapshot.timeouts.filter(|_| is_quic),
        "retransmission_timeouts": snapshot.timeouts.filter(|_| !is_quic),
    })
}

#[cfg(test)]
mod tests;
