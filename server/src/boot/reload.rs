//! Reading the configuration again while the server runs.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use sluicegate_cc::Registry;
use sluicegate_config::Config;

use super::listen::prepare;
use crate::http::origin::{self, OriginCommand};
use crate::http::route::Site;
use crate::quic::config_snapshot::{BoundListener, ConfigSnapshot};
use crate::quic::secrets::Secrets;
use crate::worker::{Command, MailboxSender};

/// Makes a new snapshot of the configuration when it is asked to, and has the workers take it on.
pub(super) struct Reloader<'a> {
    /// `None`: the configuration is part of the binary.
    pub(super) source: Option<PathBuf>,
    pub(super) registry: &'a Registry,
    /// In effect.
    pub(super) config: Config,
    pub(super) snapshot: Arc<ConfigSnapshot>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) mailboxes: Vec<MailboxSender>,
    pub(super) origins: Vec<origin::OriginSender>,
}

impl Reloader<'_> {
    /// Takes on what the file says now. Where that cannot be served, all stays as it is, and the log says why.
    ///
    /// Answers the number of the snapshot that is in effect, or nothing where there is no new one.
    pub(super) fn reload(&mut self) -> Option<u64> {
        let snapshot = self.snapshot.generation;
        match self.try_reload() {
            Ok(()) => {
                let snapshot = self.snapshot.generation;
                tracing::info!(snapshot, "configuration read again and in effect");
                Some(snapshot)
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(%error, snapshot, "configuration not taken; the one before stays in effect");
                None
            }
        }
    }

    /// What is served by, in words.
    pub(super) fn standing(&self) -> String {
        format!("serving by configuration {}", self.snapshot.generation)
    }

    fn try_reload(&mut self) -> Result<()> {
        let Some(source) = &self.source else {
            bail!("it is part of the binary; start with `-c FILE` to be able to change it");
        };
        let config = Config::load(source, self.registry)?;
        let fixed = self.config.needs_restart(&config);
        if !fixed.is_empty() {
            bail!(
                "{} cannot change while the server runs; restart it",
                fixed.join(", ")
            );
        }
        let snapshot = Arc::new(self.make(&config)?);
        for mailbox in &self.mailboxes {
            mailbox.send(Command::Adopt(Arc::clone(&snapshot)));
        }
        for origin in &self.origins {
            // It is gone only where the process is going.
            let _ = origin.send(OriginCommand::Adopt(Arc::clone(&snapshot.site)));
        }
        self.config = config;
        self.snapshot = snapshot;
        Ok(())
    }

    fn make(&self, config: &Config) -> Result<ConfigSnapshot> {
        let site = Arc::new(Site::compile(&config.routes, &config.limits)?);
        let mut bound_listeners: Vec<BoundListener> = Vec::new();
        for listener in &config.listeners {
            let (selection, identities) =
                prepare(listener, self.registry, config, &self.secrets)
                    .with_context(|| format!("listener `{}`", listener.name))?;
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
                // One that was made at the start stays.
                identities: match listener.tls.is_empty() && before.identities.0.is_self_signed() {
                    true => Arc::clone(&before.identities),
                    false => Arc::clone(&identities),
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
