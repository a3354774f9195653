//! Reloads the configuration while the server runs.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use sluicegate_base::clock;
use sluicegate_base::observe::access::CurrentAccess;
use sluicegate_base::observe::process_log;
use sluicegate_base::observe::qlog::CurrentTraces;
use sluicegate_base::observe::telemetry::CurrentSpans;
use sluicegate_base::secrets::Secrets;
use sluicegate_base::tls::Alternatives;
use sluicegate_cc::Registry;
use sluicegate_config::{Config, Listener};
use sluicegate_dataplane::{Seed, Steering};
use sluicegate_http::identification::Identification;
use sluicegate_http::origin::OriginCommand;
use sluicegate_quic::settings::Tracing;

use super::acme::AcmeRenewals;
use super::admin_address::AdminAddress;
use super::advice;
use super::buffers;
use super::error::{BootError, ReloadError, one_line};
use super::limits::REBIND_LIMIT;
use super::listen::{ListenerPlan, RetainedAddress, RetainedState};
use super::listener_settings::{PreviousSettings, prepare};
use super::memory::parts::Parts;
use super::names;
use super::passed::Passed;
use super::rebind::{Rebound, rebind};
use super::removed::RemovedListeners;
use super::replies::Replies;
use super::retired::Retired;
use super::secrets_file::{SecretsFile, read_changed};
use super::shared::{open_logs, start_tracing};
use super::takeover::Takeover;
use super::tcp::{self, Fronts, tcp_config};
use super::upkeep::Upkeep;
use crate::handover::Losses;
use crate::snapshot::{BoundListener, ConfigSnapshot, ListenerSettings, WorkerConfig};
use crate::tcp::{FrontCommand, TcpConfig};
use crate::worker::{Command, WorkerHandle};

/// Makes new snapshots of the configuration and sends them to the workers and origins.
pub(super) struct Reloader<'a> {
    /// File of the configuration; `None` where it is part of the binary.
    pub(super) source: Option<PathBuf>,
    pub(super) registry: &'a Registry,
    /// Configuration in effect.
    pub(super) config: Config,
    pub(super) snapshot: Arc<ConfigSnapshot>,
    /// Parts of the memory budget.
    pub(super) parts: Parts,
    pub(super) secrets_file: SecretsFile,
    pub(super) access: Arc<CurrentAccess>,
    pub(super) spans: Arc<CurrentSpans>,
    pub(super) traces: Arc<CurrentTraces>,
    pub(super) admin: AdminAddress,
    /// Sockets that a service manager passed.
    pub(super) passed: Arc<Passed>,
    /// Process that this one takes over from, or did.
    pub(super) takeover: Option<Takeover>,
    /// Datagrams that do not arrive at other processes.
    pub(super) losses: Arc<Losses>,
    /// Processes drain that have left the service to this one.
    pub(super) others_drain: bool,
    pub(super) workers: Vec<WorkerHandle>,
    /// Fronts over TCP.
    pub(super) fronts: Fronts,
    /// Parts of previous snapshots.
    pub(super) retired: Retired,
    /// Listeners of previous snapshots whose connections drain.
    pub(super) removed: RemovedListeners,
    /// Number for the address to be bound next.
    pub(super) next_id: u16,
    /// Selection of workers by the kernel, for sockets to be bound.
    pub(super) steering: Steering,
    pub(super) upkeep: Upkeep,
    pub(super) renewals: AcmeRenewals,
}

/// Files of TLS options, as `client_ca`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionFiles {
    /// They are read again.
    Read,
    /// Those that were read before stay in effect.
    Keep,
}

/// Checks that a running server can take `new` in place of `running`.
///
/// # Errors
/// Keys have changed that need a restart; the error names them.
pub fn examine_reload(running: &Config, new: &Config) -> Result<(), ReloadError> {
    let fixed = running.needs_restart(new);
    if fixed.is_empty() { Ok(()) } else { Err(ReloadError::NeedsRestart(fixed)) }
}

impl Reloader<'_> {
    /// Returns what the service manager shows of the configuration.
    pub(super) fn standing(&self) -> String {
        format!("serving by configuration {}", self.snapshot.generation)
    }

    /// Returns whether the process before this one still serves.
    pub(super) fn is_taking_over(&self) -> bool {
        self.takeover.as_ref().is_some_and(|takeover| !takeover.reads())
    }

    /// Returns the generation of this process's connection IDs.
    pub(super) fn generation(&self) -> u8 {
        self.snapshot.secrets.generation()
    }

    /// Returns the generation of the oldest process that still runs: this one, if it knows no other.
    pub(super) fn oldest(&self) -> u8 {
        let oldest = self.takeover.as_ref().and_then(Takeover::oldest);
        oldest.unwrap_or_else(|| self.generation())
    }

    /// Reads the file and puts it into effect. Returns the number of the new snapshot.
    ///
    /// # Errors
    /// The configuration cannot be served; the previous one stays in effect.
    pub(super) fn reload(&mut self) -> Result<u64, ReloadError> {
        self.removed.retry_now();
        self.drop_unused();
        let Some(source) = &self.source else {
            return Err(ReloadError::Embedded);
        };
        let config = Config::load_again(source, self.registry)?;
        examine_reload(&self.config, &config)?;
        let secrets = Arc::new(self.snapshot.secrets.read_again().map_err(BootError::from)?);
        let (snapshot, rebound) = self.make(&config, secrets, OptionFiles::Read)?;
        self.adopt(config, snapshot, rebound)?;
        self.renewals.adopt(&self.config);
        Ok(self.snapshot.generation)
    }

    /// Puts into effect what ACME has obtained. Returns the number of the new snapshot; `None` if the certificates are in use
    /// already.
    ///
    /// # Errors
    /// The certificates, or other files, cannot be used; the previous ones stay in effect.
    pub(super) fn install_certificates(&mut self) -> Result<Option<u64>, ReloadError> {
        let config = self.config.clone();
        let secrets = Arc::clone(&self.snapshot.secrets);
        let (snapshot, rebound) = self.make(&config, secrets, OptionFiles::Keep)?;
        let before = self.snapshot.bound_listeners.iter();
        let mut pairs = before.zip(&snapshot.bound_listeners);
        if pairs.all(|(before, now)| before.settings.identities.are(&now.settings.identities)) {
            return Ok(None);
        }
        self.adopt(config, snapshot, rebound)?;
        Ok(Some(self.snapshot.generation))
    }

    /// Puts into effect what the file of secrets has by now, if a look is due.
    pub(super) fn renew_secrets(&mut self, now: Instant) {
        if let Some(secrets) = self.secrets_file.changed(&self.snapshot.secrets, now) {
            self.adopt_secrets(secrets);
        }
    }

    /// Puts into effect what the file of secrets has by now. One that is wrong changes nothing; the next look logs the error.
    pub(super) fn renew_secrets_at_once(&mut self) {
        if let Ok(Some(secrets)) = read_changed(&self.snapshot.secrets) {
            self.adopt_secrets(secrets);
        }
    }

    /// Replaces the secrets and nothing else: the other files of the configuration may be half written, and wait for a reload. Sampling
    /// and the draw of shares stay as they are.
    fn adopt_secrets(&mut self, secrets: Secrets) {
        let secrets = Arc::new(secrets);
        let snapshot = ConfigSnapshot { secrets, ..(*self.snapshot).clone() };
        let made = self.for_workers(&snapshot).and_then(|own| {
            let tcp = tcp_config(&self.config, &snapshot)?;
            Ok((own, tcp))
        });
        match made {
            Ok((own, tcp)) => {
                let before = self.tell_workers(Arc::new(snapshot), own, tcp);
                self.retired.take(&before, &self.snapshot);
                let count = self.snapshot.secrets.roots().len();
                tracing::info!(secrets = count, "the changed file of secrets is in effect");
            }
            Err(error) => {
                let error = one_line(&error);
                tracing::error!(%error, "changed secrets cannot be put into effect; the previous ones stay");
            }
        }
    }

    /// Makes each worker's part of a snapshot.
    fn for_workers(&self, snapshot: &ConfigSnapshot) -> Result<Vec<WorkerConfig>, ReloadError> {
        let of_worker = |worker: &WorkerHandle| snapshot.for_worker(&worker.group, worker.index);
        let own = self.workers.iter().map(of_worker);
        Ok(own.collect::<Result<_, _>>()?)
    }

    /// Puts a snapshot into effect at the workers and the fronts. Returns the one before.
    fn tell_workers(
        &mut self,
        snapshot: Arc<ConfigSnapshot>,
        own: Vec<WorkerConfig>,
        tcp: Arc<TcpConfig>,
    ) -> Arc<ConfigSnapshot> {
        for (worker, own) in self.workers.iter().zip(own) {
            let command = Command::Adopt(Arc::clone(&snapshot), Box::new(own));
            worker.mailbox.send(command);
        }
        match &mut self.takeover {
            // The process before still accepts.
            Some(takeover) if takeover.over_tcp.is_some() => takeover.over_tcp = Some(tcp),
            _ => self.fronts.adopt(tcp),
        }
        snapshot.secrets.take_effect();
        std::mem::replace(&mut self.snapshot, snapshot)
    }

    /// Sends a snapshot to the workers and origins, with the sockets that were bound for it.
    fn adopt(
        &mut self,
        config: Config,
        snapshot: ConfigSnapshot,
        rebound: Rebound,
    ) -> Result<(), ReloadError> {
        let snapshot = Arc::new(snapshot);
        // Whatever can fail comes before the first worker learns of it.
        let own = self.for_workers(&snapshot)?;
        let tcp = tcp_config(&config, &snapshot)?;
        let admin = self.admin.change(config.admin.address, &self.passed)?;
        let Rebound { mut plan, seeds } = rebound;
        // Workers may have the numbers even if the configuration is refused.
        self.next_id = plan.next_id();
        if let Err(error) = open_sockets(&self.workers, seeds) {
            self.removed.take_refused(&self.snapshot, &snapshot);
            return Err(error.into());
        }
        // Origins first: they execute a command before the requests that are sent after it, so the pools of a new route
        // are in effect when its first request runs.
        for worker in &self.workers {
            // An origin ends only with the process.
            let command = OriginCommand::Adopt(Arc::clone(&snapshot.site));
            let _ = worker.origin.send(command);
        }
        let before = self.tell_workers(snapshot, own, tcp);
        let snapshot = &*self.snapshot;
        process_log::set(&config.log);
        advice::on_file(&config);
        advice::on_key_logs(&config);
        advice::on_redirects(&config);
        buffers::advise(&config, &plan.lines);
        self.parts.advise(&config);
        names::look_up(&config);
        for socket in self.passed.unused(&config) {
            tracing::warn!(
                %socket,
                "nobody serves a socket that the service manager passed: its clients wait, and the next start refuses it; name its \
                 address again, or remove it from the socket unit"
            );
        }
        self.access.set(&config.access_log, snapshot.logs.access.clone());
        self.spans.set(&config.telemetry, snapshot.logs.spans.clone());
        if let Some(admin) = admin {
            admin.announce();
            self.admin = admin;
        }
        self.admin.adopt(&config.admin);
        let traces = snapshot.tracing.as_ref().map(Tracing::writer);
        self.traces.set(&config.qlog, traces);
        plan.announce();
        tcp::announce(snapshot, |id| plan.has_new_tcp(id));
        for worker in &self.workers {
            let sockets = plan.take_tcp(&worker.group);
            // A front ends only with the process.
            let _ = worker.front.send(FrontCommand::Listen(sockets));
        }
        self.removed.take(&before, snapshot);
        self.retired.take(&before, snapshot);
        let lifetime = config.quic.session_lifetime;
        snapshot.secrets.ticket_keys().set_lifetime(lifetime);
        self.upkeep.adopt(snapshot);
        self.config = config;
        Ok(())
    }

    /// Drops the parts of previous configurations that nobody uses any more.
    pub(super) fn drop_unused(&mut self) {
        self.retired.drop_unused(&self.snapshot.site);
        let follows = self.takeover.as_ref().is_some_and(Takeover::is_connected);
        let others_drain = follows || self.others_drain;
        self.removed.close_unused(&self.config, &self.workers, others_drain, clock::now());
        self.access.drop_unused();
        self.spans.drop_unused();
        self.traces.drop_unused();
    }

    /// Makes the snapshot of a configuration, and binds what is not bound yet.
    fn make(
        &self,
        config: &Config,
        secrets: Arc<Secrets>,
        files: OptionFiles,
    ) -> Result<(ConfigSnapshot, Rebound), BootError> {
        let identification = Identification::new(&config.tracing, &config.telemetry);
        let before = &self.snapshot.site;
        let limits = self.parts.for_site(&config.limits);
        let site = before.recompile(&config.routes, &limits, identification)?;
        let site = Arc::new(site);
        let current = self.snapshot.bound_listeners.iter();
        let kept = current.clone().map(|bound| RetainedAddress {
            name: bound.name.clone(),
            at: bound.at.clone(),
            state: RetainedState::InEffect,
        });
        let kept = kept.chain(self.removed.addresses()).collect();
        let plan = ListenerPlan::keeping(kept, self.next_id, Arc::clone(&self.passed));
        let mut rebound = rebind(config, &self.workers, plan, self.steering, |listener| {
            let mut before = current.clone().filter(|bound| bound.name == listener.name);
            self.settings(listener, before.next(), config, &secrets, files)
        })?;
        let snapshot = ConfigSnapshot {
            generation: self.snapshot.generation + 1,
            site,
            limits: config.limits.clone(),
            quic: config.quic.clone(),
            tracing: start_tracing(&self.traces, config, &secrets)?,
            secrets,
            bound_listeners: std::mem::take(&mut rebound.plan.bound_listeners),
            // Last, because it may create a file.
            logs: open_logs(&self.access, &self.spans, config)?,
            drain_timeout: config.server.drain_timeout,
        };
        Ok((snapshot, rebound))
    }

    /// Makes the settings of a listener, which had those of `before`.
    fn settings(
        &self,
        listener: &Listener,
        before: Option<&BoundListener>,
        config: &Config,
        secrets: &Secrets,
        files: OptionFiles,
    ) -> Result<ListenerSettings, BootError> {
        let known = self.known(before, config);
        let options = before.map(|before| &before.settings.identities.first.options);
        let options = options.filter(|_| files == OptionFiles::Keep);
        let kept = PreviousSettings {
            alternatives: Some(&known),
            options,
            selection: before.map(|before| &before.settings.selection),
        };
        let mut settings = prepare(listener, self.registry, config, secrets, kept)?;
        // A certificate that was made at the start stays.
        let before = before.map(|before| &before.settings.identities);
        if let Some(before) = before.filter(|before| before.first.is_self_signed())
            && listener.tls.is_empty()
        {
            settings.identities = Arc::new(before.with_options(&settings.identities));
        }
        Ok(settings)
    }

    /// Returns the certificates that need not be parsed again: those of the listener, if the settings of their contexts stay.
    fn known(&self, before: Option<&BoundListener>, config: &Config) -> Alternatives {
        let same = self.config.quic == config.quic && self.config.limits == config.limits;
        let before = before.filter(|_| same);
        before.map_or_else(Alternatives::default, |bound| bound.settings.identities.others.clone())
    }
}

/// Has the workers open the sockets of added listeners, and waits until all have done so.
///
/// # Errors
/// A worker cannot, or not in time. Others may have opened theirs.
pub(super) fn open_sockets(
    workers: &[WorkerHandle],
    seeds: BTreeMap<String, VecDeque<Seed>>,
) -> Result<(), BootError> {
    let sent = seeds.into_iter().map(|(group, seeds)| {
        let of_group = workers.iter().filter(|worker| worker.group == group);
        let replies = Replies::rebind(of_group.zip(seeds), &[]);
        (group, replies)
    });
    let sent: Vec<_> = sent.collect();
    let end = clock::now() + REBIND_LIMIT;
    for (group, mut replies) in sent {
        match replies.wait(end) {
            Some(Ok(())) => {}
            Some(Err(cause)) => return Err(BootError::Rebind { group, cause }),
            None => {
                let limit = REBIND_LIMIT;
                return Err(BootError::RebindTimeout { group, limit });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
