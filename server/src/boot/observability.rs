//! The admin address and the logs.

use std::net::SocketAddr;
use std::sync::Arc;

use super::error::BootError;
use super::limits::STOP_LIMIT;
use super::shared::Shared;
use crate::admin::{self, AdminState, Scraper, Sources};
use crate::observe::lifecycle::Lifecycle;

/// The admin address, if there is one, the state that its pages show, and the writers of the access log and the traces.
pub(super) struct Observability {
    pub(super) admin_state: Arc<AdminState>,
    sources: Sources,
    address: Option<SocketAddr>,
}

impl Observability {
    /// Binds the admin address and serves it from now on.
    pub(super) fn open(shared: &Shared) -> Result<Observability, BootError> {
        let sources = Sources {
            traces: Arc::clone(&shared.traces),
            access: Arc::clone(&shared.access),
            lifecycle: Arc::new(Lifecycle::default()),
            memory: Arc::clone(&shared.memory),
        };
        let admin_state = Arc::new(AdminState {
            lifecycle: Arc::clone(&sources.lifecycle),
            scraper: Scraper::new(sources.clone()),
        });
        let wanted = shared.config.admin.address;
        let address = wanted.map(|address| admin::start(address, Arc::clone(&admin_state)));
        let address = address.transpose().map_err(BootError::Admin)?;
        Ok(Observability {
            admin_state,
            sources,
            address,
        })
    }

    /// Returns the phase of the process.
    pub(super) fn lifecycle(&self) -> &Lifecycle {
        &self.sources.lifecycle
    }

    /// Logs the admin address.
    pub(super) fn announce(&self) {
        let Some(address) = self.address else {
            return;
        };
        tracing::info!(%address, "health checks and metrics");
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "the admin address has no authentication: restrict who can reach it");
        }
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
        let traces = &self.sources.traces;
        traces.shutdown(STOP_LIMIT);
        if let Some(writer) = traces.get() {
            writer.counters().log();
        }
    }
}
