//! The state that the admin address shows, and the logs.

use std::sync::{Arc, Mutex};

use sluicegate_base::observe::lifecycle::Lifecycle;
use sluicegate_base::observe::process_log;
use sluicegate_cc::Registry;
use sluicegate_quic::cid::CidSchemes;

use super::bequests::Bequests;
use super::limits::STOP_LIMIT;
use super::shared::Shared;
use crate::admin::{AdminState, Connections, Profiles, Scraper, Sources, Traces, WorkerQueries};
use crate::handover::Losses;
use crate::worker::WorkerHandle;

/// The state that the pages of the admin address show, and the writers of the access log and the traces.
pub(super) struct Observability {
    pub(super) admin_state: Arc<AdminState>,
    sources: Sources,
    pub(super) bequests: Arc<Bequests>,
}

impl Observability {
    /// Returns the state of a process that starts.
    pub(super) fn new(shared: &Shared, registry: &Registry) -> Observability {
        let sources = Sources {
            traces: Arc::clone(&shared.traces),
            access: Arc::clone(&shared.access),
            spans: Arc::clone(&shared.spans),
            lifecycle: Arc::new(Lifecycle::default()),
            memory: Arc::clone(&shared.memory),
            log: process_log::counters(),
            losses: Arc::default(),
        };
        let admin_state = Arc::new(AdminState {
            lifecycle: Arc::clone(&sources.lifecycle),
            scraper: Scraper::new(sources.clone()),
            connections: Connections::default(),
            workers: WorkerQueries::default(),
            traces: Traces::new(Arc::clone(&shared.traces)),
            algorithms: registry.clone(),
            profiles: Profiles::default(),
            hosts: Mutex::default(),
        });
        let bequests = Arc::new(Bequests::new(&shared.used_tokens));
        let earlier = Arc::clone(&bequests);
        admin_state.scraper.go_on_from(move || earlier.counters(None));
        Observability { admin_state, sources, bequests }
    }

    /// Leaves the counters so far to another process, but for those that it has left to this one.
    pub(super) fn leave_counters(&self, number: u64) {
        self.bequests.leave_counters(number, &self.admin_state.scraper);
    }

    /// Returns the counts of datagrams that do not arrive at other processes.
    pub(super) fn losses(&self) -> &Arc<Losses> {
        &self.sources.losses
    }

    /// Has the admin address ask these workers.
    pub(super) fn watch(&self, workers: &[WorkerHandle], cids: &CidSchemes) {
        if let Some(nonces) = cids.nonces() {
            self.admin_state.scraper.watch_nonces(nonces);
        }
        self.admin_state.scraper.watch(workers.to_vec());
        self.admin_state.workers.watch(workers.to_vec());
    }

    /// Returns the phase of the process.
    pub(super) fn lifecycle(&self) -> &Lifecycle {
        &self.sources.lifecycle
    }

    /// Has the access log opened again.
    pub(super) fn reopen(&self) {
        match self.sources.access.get() {
            Some(access) => access.reopen(),
            None => tracing::info!("there is no access log to reopen"),
        }
    }

    /// Ends the logs and writes their totals.
    pub(super) fn close(&self) {
        let access = &self.sources.access;
        access.shutdown(STOP_LIMIT);
        if let Some(writer) = access.get() {
            writer.counters().log();
        }
        let spans = &self.sources.spans;
        spans.shutdown(STOP_LIMIT);
        if let Some(writer) = spans.get() {
            writer.counters().log();
        }
        let traces = &self.sources.traces;
        traces.shutdown(STOP_LIMIT);
        if let Some(writer) = traces.get() {
            writer.counters().log();
        }
    }
}
