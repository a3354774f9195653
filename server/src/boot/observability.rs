//! What lets an operator see the server.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use sluicegate_config::Config;

use super::Shared;
use super::watch::STOP_LIMIT;
use crate::admin::{self, AdminState, Scraper, Sources};
use crate::observe::access::{AccessWriter, Target};
use crate::observe::lifecycle::Lifecycle;

/// The admin address, where there is one, what its pages are made of, and the logs of requests and connections.
pub(super) struct Observability {
    pub(super) admin_state: Arc<AdminState>,
    sources: Sources,
    address: Option<SocketAddr>,
}

impl Observability {
    /// Binds the admin address; from now on it answers.
    pub(super) fn open(shared: &Shared) -> Result<Observability> {
        let sources = Sources {
            traces: shared.tracing.as_ref().map(|t| Arc::clone(&t.writer)),
            access: shared.access.clone(),
            lifecycle: Arc::new(Lifecycle::default()),
        };
        let admin_state = Arc::new(AdminState {
            lifecycle: Arc::clone(&sources.lifecycle),
            scraper: Scraper::new(sources.clone()),
        });
        let wanted = shared.config.admin.address;
        let address = wanted.map(|address| admin::start(address, Arc::clone(&admin_state)));
        let address = address.transpose().context("`admin.address`")?;
        Ok(Observability {
            admin_state,
            sources,
            address,
        })
    }

    /// For whoever asks.
    pub(super) fn lifecycle(&self) -> &Lifecycle {
        &self.sources.lifecycle
    }

    /// Says where it can be asked.
    pub(super) fn announce(&self) {
        let Some(address) = self.address else {
            return;
        };
        tracing::info!(%address, "health checks and metrics");
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "the admin address asks nobody for a password: let only those reach it who may");
        }
    }

    /// Has the access log opened again.
    pub(super) fn reopen(&self) {
        match &self.sources.access {
            Some(access) => access.reopen(),
            None => tracing::info!("there is no access log to reopen"),
        }
    }

    /// Ends the logs, and says what they came to.
    pub(super) fn close(&self) {
        if let Some(access) = &self.sources.access {
            access.shutdown(STOP_LIMIT);
            access.counters().log();
        }
        if let Some(traces) = &self.sources.traces {
            traces.shutdown(STOP_LIMIT);
            traces.counters().log();
        }
    }
}

/// Starts the access log, where one is wanted.
pub(super) fn start_access_log(config: &Config) -> Result<Option<Arc<AccessWriter>>> {
    let Some(target) = config.access_log.file.clone() else {
        return Ok(None);
    };
    let name = target.name();
    let (format, queue) = (config.access_log.format, config.access_log.queue);
    let started = AccessWriter::start(Box::new(target), format, queue);
    let writer = started.with_context(|| {
        format!("`access_log.file`: cannot open {name}; its folder must be there, and may need other permissions")
    })?;
    Ok(Some(Arc::new(writer)))
}
