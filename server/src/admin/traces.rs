//! The order `/debug/trace`: traces of running connections, what the flight recorder has of them, and traces of the next ones of a client
//! network or a server name.

mod query;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use data_encoding::HEXLOWER;
use hyper::StatusCode;
use serde_json::{Value, json};
use sluicegate_base::clock;
use sluicegate_base::observe::connections::{ConnectionFilter, ConnectionProtocol, Order};
use sluicegate_base::observe::qlog::{CurrentTraces, FileFate, RECORDED_BY_ORDER, TRACED_BY_ORDER};
use sluicegate_quic::endpoint::traces::{
    NextConnections, OrderedTrace, TraceOrder, TraceOutcome, TraceWatch,
};

use self::query::{Query, Target};
use super::connections;
use super::cross_site::Purpose;
use super::response::{self, Page, TEXT, page, text};
use super::worker_queries::WorkerQueries;
use crate::worker::{Command, TraceCommand};

/// Path of the order.
pub(super) const PATH: &str = "/debug/trace";
/// Sentence where a connection cannot be traced.
const OVER_TCP: &str = "the connection is one over TCP, and traces are of QUIC: `sluicegate why` with its ID says what it waits for, and \
    `ss -ti` what the system knows of it\n";
/// Time in which the disk takes the beginning of a file.
const SETTLE: Duration = Duration::from_secs(1);
/// Time between two looks whether it has.
const LOOK: Duration = Duration::from_millis(5);
/// Orders for the next connections that may be open.
const MAX_OPEN_ORDERS: usize = 16;

/// Traces on request.
#[derive(Debug)]
pub struct Traces {
    writers: Arc<CurrentTraces>,
    /// Orders for the next connections.
    open: Mutex<Vec<Arc<TraceWatch>>>,
}

impl Traces {
    /// Returns the traces of these writers.
    pub fn new(writers: Arc<CurrentTraces>) -> Traces {
        Traces { writers, open: Mutex::default() }
    }

    /// Opens an order for the next connections; `None` if there are too many.
    fn watch(&self, next: NextConnections, query: &Query) -> Option<Arc<TraceWatch>> {
        let now = clock::now();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|watch| !watch.is_over(now));
        if open.len() >= MAX_OPEN_ORDERS {
            return None;
        }
        let watch = Arc::new(TraceWatch::new(next, query.count, now + query.time));
        open.push(Arc::clone(&watch));
        Some(watch)
    }
}

/// Carries out an order, whose parameters have the form of a query.
pub(super) async fn respond(parameters: &str, traces: &Traces, workers: &WorkerQueries) -> Page {
    let query = match Query::parse(parameters) {
        Ok(query) => query,
        Err(reason) => return response::wrong_parameters(reason),
    };
    let Some((directory, max_open)) = traces.writers.bounds() else {
        return text(
            StatusCode::CONFLICT,
            "there is no folder for traces: set `directory` in [qlog] and reload\n",
        );
    };
    let named = match &query.target {
        Target::Connection(id) => match connections::find_one(workers, id, Purpose::Order).await {
            Ok((_, one)) if one.protocol != ConnectionProtocol::Http3 => {
                return text(StatusCode::CONFLICT, OVER_TCP);
            }
            Ok((_, one)) => Some(one.id),
            Err(page) => return page,
        },
        Target::Client(_) | Target::ServerName(_) => None,
    };
    let next = match &query.target {
        Target::Connection(_) => None,
        Target::Client(_) if query.recorder => None,
        Target::Client(clients) => Some(NextConnections::From(*clients)),
        Target::ServerName(name) => Some(NextConnections::Named(name.clone())),
    };
    let watch = match next.map(|next| traces.watch(next, &query)) {
        None => None,
        Some(Some(watch)) => Some(watch),
        Some(None) => {
            let reason = format!(
                "{MAX_OPEN_ORDERS} orders for the next connections are open; wait until one has its connections or its time is over\n"
            );
            return page(StatusCode::TOO_MANY_REQUESTS, TEXT, reason.into());
        }
    };
    let outcome = order(&query, named, watch, workers).await;
    if let Target::Connection(_) = query.target {
        match &outcome.traced[..] {
            [] if outcome.silent.is_empty() => {
                return text(StatusCode::NOT_FOUND, connections::NO_SUCH_ID);
            }
            [] => return connections::no_reply(&outcome.silent, Purpose::Order),
            [(_, OrderedTrace { outcome: TraceOutcome::Refused, .. })] => {
                let reason = format!(
                    "{max_open} connections are traced already: wait until some have ended, or raise `max_open_traces` in [qlog]\n"
                );
                return page(StatusCode::TOO_MANY_REQUESTS, TEXT, reason.into());
            }
            _ => {}
        }
    }
    outcome.settle().await;
    let value = outcome.told(&query, directory);
    response::json(&value)
}

/// What became of an order.
struct Outcome {
    /// Running connections with their workers.
    traced: Vec<(String, OrderedTrace)>,
    /// Running connections that were too many to be traced.
    left_out: usize,
    /// Workers that did not reply in time.
    silent: Vec<String>,
}

/// Passes an order to the workers: for one connection, or for those of a client. The next connections are watched first, so that none slips through.
async fn order(
    query: &Query,
    named: Option<Vec<u8>>,
    watch: Option<Arc<TraceWatch>>,
    workers: &WorkerQueries,
) -> Outcome {
    let mut outcome = Outcome { traced: Vec::new(), left_out: 0, silent: Vec::new() };
    if let Some(id) = named {
        outcome.send(workers, &[id], query.recorder, None).await;
    }
    if watch.is_some() {
        outcome.send(workers, &[], false, watch).await;
    }
    let selection = match &query.target {
        Target::Client(clients) => ConnectionFilter {
            client: Some(*clients),
            protocol: Some(ConnectionProtocol::Http3),
            ..Default::default()
        },
        Target::Connection(_) | Target::ServerName(_) => return outcome,
    };
    let most = if query.recorder { RECORDED_BY_ORDER } else { TRACED_BY_ORDER };
    let found = connections::find(workers, &selection, Order::Stalled, most).await;
    outcome.left_out = found.census.count().saturating_sub(found.shown.len());
    let ids: Vec<_> = found.shown.into_iter().map(|(_, _, one)| one.id).collect();
    outcome.note_silent(found.silent);
    if !ids.is_empty() {
        outcome.send(workers, &ids, query.recorder, None).await;
    }
    outcome
}

impl Outcome {
    /// Waits for what becomes of the files: a folder may be full.
    async fn settle(&self) {
        let until = tokio::time::Instant::now() + SETTLE;
        let is_open = |file: &FileFate| file.known().is_none();
        while self.traced.iter().filter_map(|(_, one)| one.outcome.file()).any(is_open)
            && tokio::time::Instant::now() < until
        {
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn send(
        &mut self,
        workers: &WorkerQueries,
        running: &[Vec<u8>],
        recorded: bool,
        next: Option<Arc<TraceWatch>>,
    ) {
        let command = |reply| {
            let order = TraceOrder { running: running.to_vec(), next: next.clone(), recorded };
            Command::Trace(Box::new(TraceCommand { order, reply }))
        };
        let replies = workers.ask(command).await;
        for (worker, traced) in replies.received {
            self.traced.extend(traced.into_iter().map(|one| (worker.clone(), one)));
        }
        self.note_silent(replies.silent);
    }

    fn note_silent(&mut self, silent: Vec<String>) {
        self.silent.extend(silent);
        self.silent.sort();
        self.silent.dedup();
    }

    fn told(&self, query: &Query, directory: PathBuf) -> Value {
        let refused = |(_, one): &&(String, OrderedTrace)| one.outcome.file().is_none();
        let connections = self.traced.iter().filter_map(|(worker, one)| {
            let file = one.outcome.file()?;
            Some(json!({
                "id": HEXLOWER.encode(&one.id),
                "worker": worker,
                "listener": &*one.listener,
                "client": one.client.to_string(),
                "algorithm": one.algorithm,
                "file": file.name(),
                "begun": !matches!(one.outcome, TraceOutcome::GoesOn(_)),
                "error": file.known().and_then(Result::err),
            }))
        });
        let next = match query.target {
            Target::Client(_) | Target::ServerName(_) if !query.recorder => json!({
                "count": query.count,
                "for_ms": u64::try_from(query.time.as_millis()).unwrap_or(u64::MAX),
            }),
            _ => Value::Null,
        };
        json!({
            "directory": directory.to_string_lossy(),
            "connections": connections.collect::<Vec<_>>(),
            "refused": self.traced.iter().filter(refused).count(),
            "left_out": self.left_out,
            "next": next,
            "recorder": query.recorder,
            "silent_workers": self.silent,
        })
    }
}
