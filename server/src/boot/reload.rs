//! Reloads the configuration while the server runs.

use std::path::PathBuf;
use std::sync::Arc;

use sluicegate_cc::Registry;
use sluicegate_config::Config;

use super::error::{BootError, ReloadError, one_line};
use super::listen::prepare;
use crate::http::origin::{self, OriginCommand};
use crate::quic::config_snapshot::{BoundListener, ConfigSnapshot};
use crate::quic::secrets::Secrets;
use crate::worker::{Command, MailboxSender};

/// Makes new snapshots of the configuration and sends them to the workers and origins.
pub(super) struct Reloader<'a> {
    /// File of the configuration; `None` where it is part of the binary.
    pub(super) source: Option<PathBuf>,
    pub(super) registry: &'a Registry,
    /// Configuration in effect.
    pub(super) config: Config,
    pub(super) snapshot: Arc<ConfigSnapshot>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) mailboxes: Vec<MailboxSender>,
    pub(super) origins: Vec<origin::OriginSender>,
}

impl Reloader<'_> {
    /// Reads the file and puts it into effect. A configuration that cannot be served changes nothing, and the log says why.
    ///
    /// Returns the number of the new snapshot, or `None` if there is none.
    pub(super) fn reload(&mut self) -> Option<u64> {
        let snapshot = self.snapshot.generation;
        match self.try_reload() {
            Ok(()) => {
                let snapshot = self.snapshot.generation;
                tracing::info!(snapshot, "configuration read again and in effect");
                Some(snapshot)
            }
            Err(error) => {
                let error = one_line(&error);
                tracing::error!(%error, snapshot, "configuration not taken; the previous one stays in effect");
                None
            }
        }
    }

    /// Returns what the service manager shows of the configuration.
    pub(super) fn standing(&self) -> String {
        format!("serving by configuration {}", self.snapshot.generation)
    }

    fn try_reload(&mut self) -> Result<(), ReloadError> {
        let Some(source) = &self.source else {
            return Err(ReloadError::Embedded);
        };
        let config = Config::load(source, self.registry)?;
        let fixed = self.config.needs_restart(&config);
        if !fixed.is_empty() {
            return Err(ReloadError::NeedsRestart(fixed));
        }
        let snapshot = Arc::new(self.make(&config)?);
        // Origins first, so that they have the pools of a new route before a worker sends them its requests.
        for origin in &self.origins {
            // An origin ends only with the process.
            let _ = origin.send(OriginCommand::Adopt(Arc::clone(&snapshot.site)));
        }
        for mailbox in &self.mailboxes {
            mailbox.send(Command::Adopt(Arc::clone(&snapshot)));
        }
        self.config = config;
        self.snapshot = snapshot;
        Ok(())
    }

    fn make(&self, config: &Config) -> Result<ConfigSnapshot, BootError> {
        let site = self
            .snapshot
            .site
            .recompile(&config.routes, &config.limits)?;
        let site = Arc::new(site);
        let mut bound_listeners: Vec<BoundListener> = Vec::new();
        for listener in &config.listeners {
            let (selection, identities) = prepare(listener, self.registry, config, &self.secrets)?;
            let identities = Arc::new(identities);
            let before = self
                .snapshot
                .bound_listeners
                .iter()
                .filter(|d| d.name == listener.name);
            bound_listeners.extend(before.map(|before| BoundListener {
                id: before.id,
                name: before.name.clone(),
                selection: selection.clone(),
                payloads: before.payloads.clone(),
                // A certificate that was made at the start stays.
                identities: if listener.tls.is_empty() && before.identities.first.is_self_signed() {
                    Arc::clone(&before.identities)
                } else {
                    Arc::clone(&identities)
                },
            }));
        }
        Ok(ConfigSnapshot {
            generation: self.snapshot.generation + 1,
            site,
            limits: config.limits.clone(),
            quic: config.quic.clone(),
            bound_listeners,
        })
    }
}
