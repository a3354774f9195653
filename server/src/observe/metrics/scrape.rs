//! Asks everyone, and writes the page.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::allocator::Allocator;
use super::page::{Page, Show};
use super::process::{Age, Process};
use super::workers::{self, Known, WorkerHandle};
use crate::clock;
use crate::http::origin::OriginCommand;
use crate::http::proxy;
use crate::observe::access::AccessWriter;
use crate::observe::phase::Lifecycle;
use crate::observe::qlog::QlogWriter;
use crate::observe::question::Question;
use crate::worker::{Command, WorkerStats};

/// How long all workers together may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Where figures come from that no worker owns.
///
/// A further source is a further field: the page takes the struct apart, and does not compile without it.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Traces, where they are on.
    pub traces: Option<Arc<QlogWriter>>,
    /// The access log, where there is one.
    pub access: Option<Arc<AccessWriter>>,
    /// What the process is doing.
    pub lifecycle: Arc<Lifecycle>,
}

/// Makes pages. Scrapes at the same time wait for each other.
#[derive(Debug)]
pub struct Scraper {
    sources: Sources,
    workers: OnceLock<Vec<WorkerHandle>>,
    targets: Mutex<Vec<Target>>,
    started: (Duration, Instant),
}

/// A worker with the origin thread beside it, and what they were asked.
#[derive(Debug)]
struct Target {
    known: Known,
    workers: WorkerHandle,
    worker: Question<Box<WorkerStats>>,
    origin: Question<Box<proxy::Counters>>,
}

impl Scraper {
    /// Without workers so far.
    pub fn new(sources: Sources) -> Scraper {
        Scraper {
            sources,
            workers: OnceLock::new(),
            targets: Mutex::default(),
            started: (clock::unix(), clock::now()),
        }
    }

    /// Whom to ask, told once.
    pub fn watch(&self, workers: Vec<WorkerHandle>) {
        let _ = self.workers.set(workers);
    }

    /// Asks every worker and writes the page.
    pub async fn page(&self) -> String {
        let mut targets = self.targets.lock().await;
        if targets.is_empty() {
            targets.extend(self.workers.get().into_iter().flatten().map(Target::new));
        }
        let limit = tokio::time::Instant::now() + ANSWER_LIMIT;
        for target in targets.iter_mut() {
            target.ask();
        }
        for target in targets.iter_mut() {
            target.hear(limit).await;
        }
        let known: Vec<&Known> = targets.iter().map(|target| &target.known).collect();
        self.write(&known)
    }

    fn write(&self, known: &[&Known]) -> String {
        let mut page = Page::default();
        // Named one by one, so that none is forgotten.
        let Sources {
            traces,
            access,
            lifecycle,
        } = &self.sources;
        lifecycle.show(&mut page);
        workers::show(known, &mut page);
        if let Some(traces) = traces {
            traces.counters().show(&mut page);
            page.gauge(
                "sluicegate_qlog_traces_open",
                "Traces open now.",
                traces.open_traces(),
            );
        }
        if let Some(access) = access {
            access.counters().show(&mut page);
            page.gauge(
                "sluicegate_access_log_queued_bytes",
                "Memory of the lines that wait for the disk.",
                access.queued_bytes(),
            );
        }
        if let Some(allocator) = Allocator::read() {
            allocator.show(&mut page);
        }
        Process::read().show(&mut page);
        let (started, since) = self.started;
        let uptime = clock::now().saturating_duration_since(since);
        Age { started, uptime }.show(&mut page);
        page.into_text()
    }
}

impl Target {
    fn new(workers: &WorkerHandle) -> Target {
        Target {
            known: Known {
                group: workers.group.clone(),
                index: workers.index.to_string(),
                up: false,
                last: Box::default(),
                proxy: Box::default(),
            },
            workers: workers.clone(),
            worker: Question::default(),
            origin: Question::default(),
        }
    }

    /// Sends the questions. Answers that came too late for the scrape before are old.
    fn ask(&mut self) {
        self.known.up = false;
        if let Some(late) = self.worker.answer() {
            self.known.last = late;
        }
        if let Some(late) = self.origin.answer() {
            self.known.proxy = late;
        }
        let WorkerHandle {
            mailbox, origin, ..
        } = &self.workers;
        self.worker
            .ask(|answer| mailbox.send(Command::Stats(answer)));
        self.origin
            .ask(|answer| origin.send(OriginCommand::Report(answer)).is_ok());
    }

    /// Waits for the answers.
    async fn hear(&mut self, limit: tokio::time::Instant) {
        if let Some(stats) = self.worker.answer_until(limit).await {
            self.known.last = stats;
            self.known.up = true;
        }
        if let Some(proxy) = self.origin.answer_until(limit).await {
            self.known.proxy = proxy;
        }
    }
}
