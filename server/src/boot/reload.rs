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
        let fixed = needs_restart(&self.config, &config);
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

/// What of a configuration is taken up at the start alone and differs, as it stands in a file.
fn needs_restart(before: &Config, after: &Config) -> Vec<&'static str> {
    let addresses = |config: &Config| {
        let listeners = config.listeners.iter();
        let mut all: Vec<_> = listeners
            .map(|l| (l.name.clone(), l.addresses.clone(), l.group.clone()))
            .collect();
        all.sort();
        all
    };
    let rings = |config: &Config| {
        let limits = &config.limits;
        (
            limits.stream_buffer,
            limits.worker_buffer,
            limits.origin_queue,
        )
    };
    let cache = |config: &Config| {
        let limits = &config.limits;
        let size = (limits.file_cache, limits.file_cache_entry);
        (size, limits.file_cache_valid)
    };
    let differs = [
        ("[server]", before.server != after.server),
        ("[[group]]", before.groups != after.groups),
        (
            "names, addresses and groups of [[listener]]",
            addresses(before) != addresses(after),
        ),
        (
            "limits.stream_buffer, limits.worker_buffer and limits.origin_queue",
            rings(before) != rings(after),
        ),
        (
            "limits.file_cache, limits.file_cache_entry and limits.file_cache_valid",
            cache(before) != cache(after),
        ),
        (
            "quic.stateless_reset_per_second",
            before.quic.stateless_reset_per_second != after.quic.stateless_reset_per_second,
        ),
        ("[admin]", before.admin != after.admin),
        ("[access_log]", before.access_log != after.access_log),
        ("[qlog]", before.qlog != after.qlog),
        ("[log]", before.log != after.log),
    ];
    let differs = differs.into_iter().filter(|(_, differs)| *differs);
    differs.map(|(what, _)| what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_start_takes_up_is_named() {
        let before = Config::embedded();
        let mut after = before.clone();
        after.routes.clear();
        after.limits.header_bytes += 1;
        after.listeners[0].congestion_control.algorithm = "reno".to_owned();
        assert_eq!(needs_restart(&before, &after), Vec::<&str>::new());
        after.listeners[0].addresses.pop();
        after.qlog.level = sluicegate_config::QlogLevel::Core;
        after.admin.address = Some(([127, 0, 0, 1], 1).into());
        assert_eq!(
            needs_restart(&before, &after),
            [
                "names, addresses and groups of [[listener]]",
                "[admin]",
                "[qlog]"
            ]
        );
    }
}
