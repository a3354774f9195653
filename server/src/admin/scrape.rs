//! Collects figures from every thread and writes the metrics page.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use sluicegate_base::clock;
use sluicegate_base::observe::access::CurrentAccess;
use sluicegate_base::observe::lifecycle::Lifecycle;
use sluicegate_base::observe::memory_budget::MemoryBudget;
use sluicegate_base::observe::metrics::{Carried, Page, Show};
use sluicegate_base::observe::process_log::LogCounters;
use sluicegate_base::observe::qlog::CurrentTraces;
use sluicegate_base::observe::telemetry::CurrentSpans;
use sluicegate_base::secrets::Nonces;
use sluicegate_http::origin::{self, OriginCommand};
use tokio::sync::Mutex;

use super::allocator::Allocator;
use super::process::{Age, Process};
use super::workers::{self, Known};
use crate::handover::Losses;
use crate::tcp::{self, FrontCommand};
use crate::worker::{Command, OutstandingRequest, WorkerHandle, WorkerStats};

/// Time limit of a scrape: figures of workers that reply later are those of their last reply.
const SCRAPE_LIMIT: Duration = Duration::from_secs(1);

/// The sources of figures that no worker owns.
///
/// The page destructures it, so that a new field does not compile until the page shows it.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Traces of connections.
    pub traces: Arc<CurrentTraces>,
    /// The access log in effect.
    pub access: Arc<CurrentAccess>,
    /// The export of spans in effect.
    pub spans: Arc<CurrentSpans>,
    /// Phase of the process and number of its configuration.
    pub lifecycle: Arc<Lifecycle>,
    /// Memory budget of the process.
    pub memory: Arc<MemoryBudget>,
    /// Messages of the process's log.
    pub log: Arc<LogCounters>,
    /// Datagrams that do not arrive at other processes.
    pub losses: Arc<Losses>,
}

/// Makes metrics pages. Concurrent scrapes wait for each other.
#[derive(Debug)]
pub struct Scraper {
    sources: Sources,
    workers: OnceLock<Vec<WorkerHandle>>,
    nonces: OnceLock<Arc<Nonces>>,
    targets: Mutex<Vec<Target>>,
    started: (Duration, Instant),
    earlier: OnceLock<Earlier>,
    /// Another process shows the counters of this one.
    is_left: AtomicBool,
}

/// Gives counters of processes before this one.
struct Earlier(Box<dyn Fn() -> Carried + Send + Sync>);

impl std::fmt::Debug for Earlier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Earlier").finish_non_exhaustive()
    }
}

/// A worker with its origin thread and the front there, and the requests outstanding at each.
#[derive(Debug)]
struct Target {
    known: Known,
    handle: WorkerHandle,
    worker: OutstandingRequest<Box<WorkerStats>>,
    origin: OutstandingRequest<Box<origin::OriginCounters>>,
    front: OutstandingRequest<Box<tcp::TcpCounters>>,
}

impl Scraper {
    /// Creates a scraper that knows no workers yet.
    pub fn new(sources: Sources) -> Scraper {
        Scraper {
            sources,
            workers: OnceLock::new(),
            nonces: OnceLock::new(),
            targets: Mutex::default(),
            started: (clock::unix(), clock::now()),
            earlier: OnceLock::new(),
            is_left: AtomicBool::new(false),
        }
    }

    /// Sets where counters come from that were counted before this process. Only the first call has an effect.
    pub fn go_on_from(&self, earlier: impl Fn() -> Carried + Send + Sync + 'static) {
        let _ = self.earlier.set(Earlier(Box::new(earlier)));
    }

    /// Sets the workers to ask. Only the first call has an effect.
    pub fn watch(&self, workers: Vec<WorkerHandle>) {
        let _ = self.workers.set(workers);
    }

    /// Sets the nonces of connection IDs to show. Only the first call has an effect.
    pub fn watch_nonces(&self, nonces: &Arc<Nonces>) {
        let _ = self.nonces.set(Arc::clone(nonces));
    }

    /// Says whether another process shows the counters of this one from now on: they would be ahead of those that it has been left.
    pub fn set_left(&self, is_left: bool) {
        self.is_left.store(is_left, Ordering::SeqCst);
    }

    /// Asks every worker and returns the page; `None` where another process shows it.
    pub async fn page(&self) -> Option<String> {
        let mut targets = self.targets.lock().await;
        // A scrape that is under way is waited for before counters are left, and a later one finds this.
        if self.is_left.load(Ordering::SeqCst) {
            return None;
        }
        let carried = self.earlier.get().map(|Earlier(earlier)| earlier());
        Some(self.page_of(&mut targets, carried.unwrap_or_default()).await)
    }

    /// Asks every worker and returns the page, whose counters go on from others.
    pub async fn page_over(&self, carried: Carried) -> String {
        let mut targets = self.targets.lock().await;
        self.page_of(&mut targets, carried).await
    }

    async fn page_of(&self, targets: &mut Vec<Target>, carried: Carried) -> String {
        self.fill(targets);
        let limit = tokio::time::Instant::now() + SCRAPE_LIMIT;
        for target in targets.iter_mut() {
            target.send();
        }
        for target in targets.iter_mut() {
            target.receive(limit).await;
        }
        let known: Vec<&Known> = targets.iter().map(|target| &target.known).collect();
        self.write(&known, carried)
    }

    /// Takes the last figures of a worker, which has stopped. A scrape that goes on is waited for.
    pub(crate) fn settle_worker(&self, group: &str, index: u8, stats: Box<WorkerStats>) {
        self.settle(group, index, |target| {
            // A reply that nobody has taken is older.
            target.worker = OutstandingRequest::default();
            target.known.last = stats;
        });
    }

    /// The same for the front beside a worker.
    pub(crate) fn settle_front(&self, group: &str, index: u8, counters: Box<tcp::TcpCounters>) {
        self.settle(group, index, |target| {
            target.front = OutstandingRequest::default();
            target.known.tcp = counters;
        });
    }

    fn settle(&self, group: &str, index: u8, settle: impl FnOnce(&mut Target)) {
        let mut targets = self.targets.blocking_lock();
        self.fill(&mut targets);
        let is_this = |target: &&mut Target| {
            target.handle.group == group && target.handle.index == usize::from(index)
        };
        if let Some(target) = targets.iter_mut().find(is_this) {
            settle(target);
        }
    }

    fn fill(&self, targets: &mut Vec<Target>) {
        if targets.is_empty() {
            targets.extend(self.workers.get().into_iter().flatten().map(Target::new));
        }
    }

    fn write(&self, known: &[&Known], carried: Carried) -> String {
        let mut page = Page::over(carried);
        let Sources { traces, access, spans, lifecycle, memory, log, losses } = &self.sources;
        lifecycle.show(&mut page);
        memory.show(&mut page);
        log.show(&mut page);
        workers::show(known, &mut page);
        losses.counters().show(&mut page);
        if let Some(nonces) = self.nonces.get() {
            page.family(
                "gauge",
                "sluicegate_connection_id_nonces_left",
                "Nonces of encrypted connection IDs that this start may still use.",
            );
            page.sample(&[], nonces.left());
        }
        if let Some(writer) = traces.get() {
            writer.counters().show(&mut page);
            page.family("gauge", "sluicegate_qlog_traces_open", "Traces open now.");
            page.sample(&[], traces.open_traces());
        }
        if let Some(access) = access.get() {
            access.counters().show(&mut page);
            page.family(
                "gauge",
                "sluicegate_access_log_queued_bytes",
                "Bytes of lines that wait for the disk.",
            );
            page.sample(&[], access.queued_bytes());
        }
        if let Some(spans) = spans.get() {
            spans.counters().show(&mut page);
            page.family(
                "gauge",
                "sluicegate_telemetry_queued_bytes",
                "Bytes of spans that wait to be sent.",
            );
            page.sample(&[], spans.queued_bytes());
        }
        if let Some(allocator) = Allocator::read() {
            allocator.show(&mut page);
        }
        Process::read().show(&mut page);
        let (started, since) = self.started;
        let uptime = clock::now().saturating_duration_since(since);
        Age::new(started, uptime).show(&mut page);
        page.into_text()
    }
}

impl Target {
    fn new(handle: &WorkerHandle) -> Target {
        Target {
            known: Known {
                group: handle.group.clone(),
                index: handle.index.to_string(),
                up: false,
                last: Box::default(),
                origin: Box::default(),
                tcp: Box::default(),
            },
            handle: handle.clone(),
            worker: OutstandingRequest::default(),
            origin: OutstandingRequest::default(),
            front: OutstandingRequest::default(),
        }
    }

    /// Sends the requests. Replies that were too late for the previous scrape are taken as the last known figures first.
    fn send(&mut self) {
        self.known.up = false;
        if let Some(late) = self.worker.try_receive() {
            self.known.last = late;
        }
        if let Some(late) = self.origin.try_receive() {
            self.known.origin = late;
        }
        if let Some(late) = self.front.try_receive() {
            self.known.tcp = late;
        }
        let WorkerHandle { mailbox, origin, front, .. } = &self.handle;
        self.worker.send(|reply| mailbox.send(Command::Stats(reply)));
        self.origin.send(|reply| origin.send(OriginCommand::Report(reply)).is_ok());
        self.front.send(|reply| front.send(FrontCommand::Report(reply)).is_ok());
    }

    /// Waits for the replies, until `limit` at most.
    async fn receive(&mut self, limit: tokio::time::Instant) {
        if let Some(stats) = self.worker.receive_until(limit).await {
            self.known.last = stats;
            self.known.up = true;
        }
        if let Some(origin) = self.origin.receive_until(limit).await {
            self.known.origin = origin;
        }
        if let Some(tcp) = self.front.receive_until(limit).await {
            self.known.tcp = tcp;
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
