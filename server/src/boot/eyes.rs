//! What lets an operator see the server.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::Shared;
use crate::observe::admin::{self, Panel};
use crate::observe::metrics::{Scraper, Sources};
use crate::observe::phase::Lifecycle;

/// The admin address, where there is one, and what its pages are made of.
pub(super) struct Eyes {
    pub(super) panel: Arc<Panel>,
    address: Option<SocketAddr>,
}

impl Eyes {
    /// Binds the admin address; from now on it answers.
    pub(super) fn open(shared: &Shared) -> Result<Eyes> {
        let lifecycle = Arc::new(Lifecycle::default());
        let sources = Sources {
            traces: shared.tracing.as_ref().map(|t| Arc::clone(&t.writer)),
            lifecycle: Arc::clone(&lifecycle),
        };
        let panel = Arc::new(Panel {
            lifecycle,
            scraper: Scraper::new(sources),
        });
        let wanted = shared.config.admin.address;
        let address = wanted.map(|address| admin::start(address, Arc::clone(&panel)));
        let address = address.transpose().context("`admin.address`")?;
        Ok(Eyes { panel, address })
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
}
