//! Reloads the configuration while the server runs.

use std::path::PathBuf;
use std::sync::Arc;

use sluicegate_cc::Registry;
use sluicegate_config::Config;

use super::error::{BootError, ReloadError};
use super::listen::prepare;
use crate::http::origin::OriginCommand;
use crate::quic::config_snapshot::{BoundListener, ConfigSnapshot};
use crate::quic::secrets::Secrets;
use crate::worker::{Command, WorkerHandle};

/// Makes new snapshots of the configuration and sends them to the workers and origins.
pub(super) struct Reloader<'a> {
    /// File of the configuration; `None` where it is part of the binary.
    pub(super) source: Option<PathBuf>,
    pub(super) registry: &'a Registry,
    /// Configuration in effect.
    pub(super) config: Config,
    pub(super) snapshot: Arc<ConfigSnapshot>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) workers: Vec<WorkerHandle>,
}

impl Reloader<'_> {
    /// Returns what the service manager shows of the configuration.
    pub(super) fn standing(&self) -> String {
        format!("serving by configuration {}", self.snapshot.generation)
    }

    /// Reads the file and puts it into effect. Returns the number of the new snapshot.
    ///
    /// # Errors
    /// The configuration cannot be served; the previous one stays in effect.
    pub(super) fn reload(&mut self) -> Result<u64, ReloadError> {
        let Some(source) = &self.source else {
            return Err(ReloadError::Embedded);
        };
        let config = Config::load(source, self.registry)?;
        let fixed = self.config.needs_restart(&config);
        if !fixed.is_empty() {
            return Err(ReloadError::NeedsRestart(fixed));
        }
        let snapshot = Arc::new(self.make(&config)?);
        // Whatever can fail comes before the first worker learns of it.
        let of_worker = |worker: &WorkerHandle| snapshot.for_worker(&worker.group, &self.secrets);
        let own = self.workers.iter().map(of_worker);
        let own = own.collect::<Result<Vec<_>, _>>()?;
        // Origins first: they execute a command before the requests that are sent after it, so the pools of a new route
        // are in effect when its first request runs.
        for worker in &self.workers {
            // An origin ends only with the process.
            let command = OriginCommand::Adopt(Arc::clone(&snapshot.site));
            let _ = worker.origin.send(command);
        }
        for (worker, own) in self.workers.iter().zip(own) {
            let command = Command::Adopt(Arc::clone(&snapshot), Box::new(own));
            worker.mailbox.send(command);
        }
        self.config = config;
        self.snapshot = snapshot;
        Ok(self.snapshot.generation)
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
                group: before.group.clone(),
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

#[cfg(test)]
mod tests {
    use std::fs;

    use sluicegate_dataplane::{ListenerId, Payloads};

    use super::*;
    use crate::boot::liveness::tests::watched;
    use crate::http::route::Site;
    use crate::quic::transport::Identity;

    const FILE: &str = "[[listener]]\nname = \"main\"\naddress = \"[::1]:1\"\n\
                        tls = { certificate = \"chain.pem\", key = \"key.pem\" }\n";

    fn bound(reloader: &Reloader<'_>) -> BoundListener {
        let listener = &reloader.config.listeners[0];
        let prepared = prepare(
            listener,
            reloader.registry,
            &reloader.config,
            &reloader.secrets,
        );
        let (selection, identities) = prepared.unwrap();
        BoundListener {
            id: ListenerId(0),
            name: listener.name.clone(),
            group: "a".to_owned(),
            selection,
            payloads: Payloads::default(),
            identities: Arc::new(identities),
        }
    }

    #[test]
    fn a_configuration_reaches_all_workers_ready_for_use_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let [source, chain, key] =
            ["s.toml", "chain.pem", "key.pem"].map(|f| folder.path().join(f));
        let [first, second] = [(); 2].map(|()| Identity::self_signed().unwrap());
        fs::write(&source, FILE).unwrap();
        fs::write(&chain, &first.chain).unwrap();
        fs::write(&key, &first.key).unwrap();
        let registry = Registry::builtin();
        let config = Config::load(&source, &registry).unwrap();
        let (workers, mailboxes): (Vec<_>, Vec<_>) = (0..2)
            .map(|index| {
                let (worker, mailbox, commands) = watched(index);
                (worker, (mailbox, commands))
            })
            .unzip();
        let mut reloader = Reloader {
            source: Some(source),
            registry: &registry,
            snapshot: Arc::new(ConfigSnapshot {
                generation: 1,
                site: Arc::new(Site::compile(&config.routes, &config.limits).unwrap()),
                limits: config.limits.clone(),
                quic: config.quic.clone(),
                bound_listeners: Vec::new(),
            }),
            config,
            secrets: Arc::new(Secrets::in_memory()),
            workers,
        };
        let bound_listeners = vec![bound(&reloader)];
        Arc::get_mut(&mut reloader.snapshot)
            .unwrap()
            .bound_listeners = bound_listeners;

        fs::write(&key, &second.key).unwrap();
        assert!(reloader.reload().is_err(), "the key of another certificate");
        assert!(
            mailboxes
                .iter()
                .all(|(mailbox, _)| mailbox.take().is_none())
        );

        fs::write(&chain, &second.chain).unwrap();
        assert_eq!(reloader.reload().unwrap(), 2);
        for (mailbox, _) in &mailboxes {
            let Some(Command::Adopt(snapshot, own)) = mailbox.take() else {
                panic!("a worker keeps the old configuration");
            };
            assert_eq!((snapshot.generation, own.listeners.len()), (2, 1));
        }
    }
}
