//! Starts the workers of a configuration, reloads it, drains and stops.

mod acme;
mod admin_address;
mod advice;
mod bequests;
mod bind_tcp;
mod buffers;
mod connection_ids;
mod control_socket;
mod cores;
mod descriptors;
mod error;
mod events;
mod group;
mod host_needs;
mod lanes;
mod limits;
mod listen;
mod listener_settings;
mod liveness;
mod memory;
mod names;
mod observability;
mod passed;
mod place;
mod plan;
mod ports;
mod ready;
mod rebind;
mod reload;
mod removed;
mod replies;
mod retired;
mod secrets_file;
mod shared;
pub mod signal;
mod status;
mod supervisor;
mod takeover;
mod tcp;
mod totals;
mod until_free;
mod upgrade;
mod upkeep;
mod watch;
mod worker_commands;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use sluicegate_base::clock;
use sluicegate_base::observe::certificates::Certificates;
use sluicegate_base::observe::lifecycle::Lifecycle;
use sluicegate_base::observe::process_log;
use sluicegate_base::secrets::{Secrets, SecretsConfig};
use sluicegate_cc::Registry;
use sluicegate_config::{Config, LogTarget};
use sluicegate_http::route::Site;

use self::acme::AcmeRenewals;
use self::control_socket::Control;
pub use self::control_socket::{ControlRequest, ControlVerdict, ask_server, control_socket};
use self::cores::{check_real_time, cores, keep_off_spinning_workers};
pub use self::error::{BootError, ListenerError, ReloadError, one_line};
use self::events::{Event, OLDER};
use self::group::prepare_group;
pub(crate) use self::host_needs::host_needs;
use self::listener_settings::{PreviousSettings, prepare};
use self::memory::parts::Parts;
pub use self::names::unresolved;
use self::observability::Observability;
use self::passed::Passed;
pub use self::place::place;
use self::plan::Plan;
use self::ports::{OpenPorts, on_ports};
use self::ready::await_ready;
use self::reload::Reloader;
pub use self::reload::examine_reload;
use self::removed::RemovedListeners;
use self::retired::Retired;
use self::secrets_file::SecretsFile;
use self::shared::Shared;
use self::status::absolute;
use self::supervisor::Supervisor;
use self::takeover::Takeover;
#[cfg(any(test, fuzzing))]
pub(crate) use self::takeover::read_offer;
use self::tcp::{Fronts, tcp_config};
use self::upgrade::Upgrades;
use self::upkeep::Upkeep;
use self::watch::{Service, run_down};
use crate::snapshot::ConfigSnapshot;
use crate::telemetry::Collector;
use crate::worker::{self, MailboxSender, Side, WorkerHandle, WorkerReport, WorkerSetup};

/// Paths of a server: its configuration file and its control socket.
#[derive(Clone, Debug, Default)]
pub struct ServerPaths {
    /// File of the configuration; `None` where it is part of the binary.
    pub source: Option<PathBuf>,
    /// Path of the control socket, as [`control_socket`] returns it.
    pub control: Option<PathBuf>,
}

/// Facts about a configuration that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examined {
    /// Layout of connection IDs in words, if it is configured.
    pub cid_layout: Option<String>,
}

/// Serves until a signal to stop. On SIGHUP, or when it is asked at the control socket, it reads its configuration again from
/// its file, if it came from one.
///
/// # Errors
/// The cause that keeps the server from starting, or the workers from serving.
pub fn serve(config: Config, places: ServerPaths, registry: &Registry) -> Result<(), BootError> {
    prepare_process(&config)?;
    let mut shared = Shared::new(config)?;
    let observability = Observability::new(&shared, registry);
    memory::watch(&shared.memory)?;
    let (mut takeover, mut plan) = bind(&shared, registry, &observability)?;
    shared.take_nonces()?;
    let shared = Arc::new(shared);
    let (events, inbox) = channel();
    let (workers, setups) = prepare_workers(&shared, &mut plan, &events)?;
    let (snapshot, fronts) = (first_snapshot(&shared, &mut plan), Fronts::new(&workers));
    let over_tcp = tcp_config(&shared.config, &snapshot)?;
    start_workers(setups, &snapshot, &events)?;
    observability.watch(&workers, &shared.cids);
    let lifecycle = Arc::clone(&observability.admin_state.lifecycle);
    let mut supervisor = Supervisor::new(workers.clone(), Arc::clone(&lifecycle), clock::now());
    let mut renewals = renewals(&events, &lifecycle);
    // Before it reports that it serves: from then on the signal to stop may come.
    signal::watch(events.clone(), Event::Signal).map_err(BootError::Signals)?;
    if !await_ready(&inbox, workers.len(), &observability, &plan.listeners.lines)? {
        return Ok(());
    }
    tcp::announce(&snapshot, |_| true);
    plan.ports.announce();
    match &mut takeover {
        None => fronts.adopt(over_tcp),
        Some(takeover) => {
            takeover.over_tcp = Some(over_tcp);
            plan.leave_passed(&shared.config, &observability.admin_state)?;
            takeover.taken = std::mem::take(&mut plan.listeners.taken);
            connect(takeover, &shared, &snapshot, &workers, &events, &observability)?;
        }
    }
    plan.admin.announce();
    advise(&shared, &plan.listeners.lines);
    renewals.adopt(&shared.config);
    let mut reloader = Reloader {
        source: places.source,
        registry,
        config: shared.config.clone(),
        upkeep: Upkeep::new(&lifecycle, &snapshot),
        snapshot,
        parts: shared.parts,
        secrets_file: SecretsFile::new(clock::now()),
        access: Arc::clone(&shared.access),
        spans: Arc::clone(&shared.spans),
        traces: Arc::clone(&shared.traces),
        admin: plan.admin,
        passed: plan.passed,
        takeover,
        losses: Arc::clone(observability.losses()),
        others_drain: false,
        workers,
        fronts,
        retired: Retired::default(),
        removed: RemovedListeners::default(),
        next_id: plan.listeners.next_id(),
        steering: shared.cids.steering(),
        renewals,
    };
    let upgrades = Upgrades::new(events.clone(), &shared.cids, Arc::clone(&observability.bequests));
    // What starts the server would keep the routes of the first configuration, with their bodies, however many reloads follow.
    drop(shared);
    let mut control = Control::new(places.control, events.clone(), Event::Asked);
    if reloader.takeover.is_none() {
        control.open();
        supervisor.ready(&reloader.standing());
    }
    announce_ready(reloader.source.as_deref());
    let service = &mut Service { control, upgrades, supervisor: &mut supervisor };
    run_down(&inbox, &observability, &mut reloader, service).log();
    close(plan.ports, plan.latency, &observability);
    Ok(())
}

/// Closes what stays open until all workers have stopped.
fn close(ports: OpenPorts, latency: Option<File>, observability: &Observability) {
    ports.close();
    observability.close();
    drop(latency);
    tracing::info!("stopped");
}

/// Binds what the configuration names, or takes it from the process before, which it returns, or from a service manager.
fn bind(
    shared: &Shared,
    registry: &Registry,
    observability: &Observability,
) -> Result<(Option<Takeover>, Plan), BootError> {
    let (mut takeover, handed_over) = Takeover::find()?.unzip();
    let passed = match handed_over {
        Some(passed) => Some(passed),
        None => Passed::find()?,
    };
    let plan = match passed {
        None => Plan::bind(shared, registry, &observability.admin_state)?,
        Some(passed) => Plan::inherit(shared, registry, &observability.admin_state, passed)?,
    };
    if let Some(takeover) = &mut takeover {
        takeover.check(&shared.secrets, &shared.cids)?;
        if let Some(bequest) = takeover.bequest.take() {
            observability.bequests.add(OLDER, bequest);
        }
    }
    Ok((takeover, plan))
}

/// Prepares the workers of all groups.
fn prepare_workers(
    shared: &Arc<Shared>,
    plan: &mut Plan,
    events: &Sender<Event>,
) -> Result<(Vec<WorkerHandle>, Vec<WorkerSetup>), BootError> {
    let mut prepared = Vec::new();
    for group in std::mem::take(&mut plan.groups) {
        prepared.extend(prepare_group(group, shared, &mut plan.listeners, events)?);
    }
    let workers = prepared.iter().map(|(setup, mailbox)| handle(setup, mailbox)).collect();
    Ok((workers, prepared.into_iter().map(|(setup, _)| setup).collect()))
}

/// Connects the workers, which serve, with the process before.
fn connect(
    takeover: &mut Takeover,
    shared: &Shared,
    snapshot: &ConfigSnapshot,
    workers: &[WorkerHandle],
    events: &Sender<Event>,
    observability: &Observability,
) -> Result<(), BootError> {
    let (config, bound) = (&shared.config, &snapshot.bound_listeners);
    let labels = takeover.address_labels(config, bound, shared.cids.steering());
    // Before the first client of which the process before knows that it has used its token.
    let bequests = Arc::clone(&observability.bequests);
    let relay = lanes::connect(workers, config, Side::Older, labels, observability.losses())
        .before_first(move || bequests.take_tokens(OLDER));
    let told = takeover.ready(relay, bound, shared.secrets.generation(), events);
    told.map_err(BootError::Takeover)
}

/// Prepares what the whole process shares: its memory, limits, cores and log.
fn prepare_process(config: &Config) -> Result<(), BootError> {
    if !config.server.core_dumps {
        keep_memory_private();
    }
    sluicegate_base::descriptors::raise_limit();
    keep_off_spinning_workers(config)?;
    process_log::start_thread().map_err(BootError::Thread)
}

/// Starts the threads of workers, whose reports become events.
fn start_workers(
    setups: Vec<WorkerSetup>,
    snapshot: &Arc<ConfigSnapshot>,
    events: &Sender<Event>,
) -> Result<(), BootError> {
    for setup in setups {
        let (reports, forward) = channel();
        worker::spawn(setup, Arc::clone(snapshot), reports).map_err(BootError::Thread)?;
        relay(forward, events.clone())?;
    }
    Ok(())
}

/// Keeps the memory of the process, which holds keys, out of core dumps and from other programs of its user.
fn keep_memory_private() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "a core dump of this process would hold its keys");
    }
}

/// Logs who serves, with which configuration. A start that fails logs only why.
fn announce_ready(source: Option<&Path>) {
    let (version, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
    let file = source.map(absolute);
    let file = file.map_or_else(|| "none".to_owned(), |file| file.display().to_string());
    tracing::info!(version, pid, config = %file, "ready: every worker serves");
}

/// Checks what needs no port and leaves no trace: secrets, certificates and keys, replies in files, cores, folders of logs.
///
/// # Errors
/// The cause that would keep the server from starting, as [`serve`] returns it.
pub fn examine(config: &Config, registry: &Registry) -> Result<Examined, BootError> {
    let secrets = Secrets::load(&SecretsConfig {
        key_file: config.server.secrets_file.clone(),
        // Opening it begins a generation, which is the running server's to do.
        state_dir: None,
        accept_open: config.server.open_secrets,
    })?;
    Site::compile(&config.routes, &config.limits)?;
    let cids = connection_ids::schemes(config)?;
    check_folders(config)?;
    if config.telemetry.endpoint.is_some() {
        Collector::new(&config.telemetry)?;
    }
    config.groups.iter().try_for_each(|g| cores(g).map(drop))?;
    check_real_time(config)?;
    ports::examine(&on_ports(config)?)?;
    let mut expiries = Vec::new();
    for listener in &config.listeners {
        let settings = prepare(listener, registry, config, &secrets, PreviousSettings::default())?;
        expiries.extend(settings.identities.expiries.iter().cloned());
    }
    let certificates = Certificates::default();
    certificates.set(expiries);
    certificates.warn(clock::unix());
    // A configuration that cannot be served is shown with its mistakes alone.
    advice::on_file(config);
    Parts::of(config.server.memory_limit.unwrap_or(0), config).advise(config);
    Ok(Examined { cid_layout: cids.layout().map(ToOwned::to_owned) })
}

fn handle(setup: &WorkerSetup, mailbox: &MailboxSender) -> WorkerHandle {
    WorkerHandle {
        group: setup.group.clone(),
        index: usize::from(setup.index),
        mailbox: mailbox.clone(),
        origin: setup.origin.clone(),
        front: setup.front.clone(),
    }
}

/// Returns what obtains certificates by ACME, which tells the main thread of them.
fn renewals(events: &Sender<Event>, lifecycle: &Arc<Lifecycle>) -> AcmeRenewals {
    let events = events.clone();
    let on_change = move || {
        // The main thread ends only with the process.
        let _ = events.send(Event::Certificates);
    };
    AcmeRenewals::new(on_change, lifecycle)
}

/// Checks that the folders are there, or that nothing else stands in the way of those that the server creates. Their permissions
/// are the server's user's, who may be another one than this process's.
fn check_folders(config: &Config) -> Result<(), BootError> {
    let refused = |table, key, path: &Path, advice| {
        Err(BootError::NoFolder { table, key, path: path.to_owned(), advice })
    };
    if let Some(LogTarget::File(file)) = &config.access_log.file {
        if file.is_dir() {
            return Err(BootError::LogIsFolder(file.clone()));
        }
        if let Some(folder) = file.parent()
            && !folder.is_dir()
        {
            return refused("access_log", "file", folder, "create it, or correct the path");
        }
    }
    let traces = config.qlog.directory.as_ref();
    for (table, key, folder) in [
        ("server", "state_dir", config.server.state_dir.as_ref()),
        ("qlog", "directory", traces.filter(|_| config.qlog.sample_rate > 0.0)),
    ] {
        let existing = folder.and_then(|folder| folder.ancestors().find(|path| path.exists()));
        if let Some(existing) = existing.filter(|path| !path.is_dir()) {
            return refused(table, key, existing, "remove it, or correct the path");
        }
    }
    Ok(())
}

fn first_snapshot(shared: &Shared, plan: &mut Plan) -> Arc<ConfigSnapshot> {
    Arc::new(ConfigSnapshot {
        generation: 1,
        site: Arc::clone(&shared.site),
        limits: shared.config.limits.clone(),
        quic: shared.config.quic.clone(),
        secrets: Arc::clone(&shared.secrets),
        bound_listeners: std::mem::take(&mut plan.listeners.bound_listeners),
        logs: std::mem::take(&mut plan.logs),
        tracing: plan.tracing.take(),
        drain_timeout: shared.config.server.drain_timeout,
    })
}

fn relay(from: Receiver<WorkerReport>, to: Sender<Event>) -> Result<(), BootError> {
    std::thread::Builder::new()
        .name("reports".into())
        .spawn(move || {
            for report in from {
                if to.send(Event::Worker(report)).is_err() {
                    return;
                }
            }
        })
        .map_err(BootError::Thread)?;
    Ok(())
}

/// Logs what an operator may want to change. Called once all workers serve: a start that fails logs only why.
fn advise(shared: &Shared, lines: &[listen::ListenerLogLine]) {
    let config = &shared.config;
    buffers::advise(config, lines);
    if config.server.state_dir.is_none() && config.server.secrets_file.is_none() {
        tracing::info!(
            "secrets are kept in memory only: set `server.state_dir` to let sessions and tokens survive a restart"
        );
    }
    for group in &config.groups {
        if !config.listeners.iter().any(|l| l.group == group.name) {
            tracing::warn!(group = %group.name, "no listener uses this group");
        }
    }
    advice::on_file(config);
    advice::on_key_logs(config);
    advice::on_redirects(config);
    descriptors::advise(config);
    shared.parts.advise(config);
    names::look_up(config);
}
