//! From a configuration to running workers, and back down.

mod group;
mod listen;
mod liveness;
mod observability;
mod reload;
pub mod signal;
mod supervisor;
mod totals;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context, Result, bail};
use sluicegate_cc::Registry;
use sluicegate_config::Config;

use self::group::{cores, prepare_group};
use self::listen::{Announced, prepare};
use self::observability::{Observability, start_access_log};
use self::reload::Reloader;
use self::supervisor::Supervisor;
use self::watch::{Event, await_ready, run_down};
use crate::clock;
use crate::http::route::Site;
use crate::observe::access::AccessWriter;
use crate::observe::qlog::{QlogOptions, QlogWriter, Sampler};
use crate::quic::config_snapshot::{BoundListener, ConfigSnapshot};
use crate::quic::secrets::{Secrets, SecretsConfig};
use crate::quic::settings::Tracing;
use crate::worker::{self, Report, WorkerHandle};

/// What all workers share, never changed.
struct Shared {
    config: Config,
    secrets: Arc<Secrets>,
    site: Arc<Site>,
    tracing: Option<Tracing>,
    access: Option<Arc<AccessWriter>>,
}

/// Serves until a signal says stop. On SIGHUP it reads its configuration again from `source`, if it came from a file.
///
/// # Errors
/// Whatever keeps the server from starting: one line with cause and remedy.
pub fn serve(config: Config, source: Option<PathBuf>, registry: &Registry) -> Result<()> {
    let shared = Arc::new(share(config)?);
    let observability = Observability::open(&shared)?;
    let (events, inbox) = channel();
    let (mut setups, mut mailboxes) = (Vec::new(), Vec::new());
    let (mut workers, mut origins) = (Vec::new(), Vec::new());
    let mut announced = Announced::inherit();
    for group in &shared.config.groups {
        for (setup, mailbox) in prepare_group(group, &shared, registry, &mut announced)? {
            workers.push(WorkerHandle {
                group: setup.group.clone(),
                index: usize::from(setup.index),
                mailbox: mailbox.clone(),
                origin: setup.origin.clone(),
            });
            origins.push(setup.origin.clone());
            setups.push(setup);
            mailboxes.push(mailbox);
        }
    }
    if mailboxes.is_empty() {
        bail!("no listener uses any group: nothing to serve; add a [[listener]]");
    }
    let snapshot = Arc::new(first_snapshot(&shared, announced.bound_listeners));
    for setup in setups {
        let (reports, forward) = channel();
        let snapshot = Arc::clone(&snapshot);
        worker::spawn(setup, snapshot, reports).context("cannot start a thread")?;
        relay(forward, events.clone())?;
    }
    observability.admin_state.scraper.watch(workers.clone());
    let mut supervisor = Supervisor::new(workers, clock::now());
    // Before anybody hears that it serves: from then on the order to stop may come.
    signal::watch(events, Event::Signal).context("cannot watch signals")?;
    if !await_ready(&inbox, mailboxes.len(), &observability, &announced.lines)? {
        return Ok(());
    }
    observability.announce();
    for address in announced.inherited.left() {
        tracing::warn!(%address, "an inherited socket belongs to no listener");
    }
    advise(&shared.config);
    let mut reloader = Reloader {
        source,
        registry,
        config: shared.config.clone(),
        snapshot,
        secrets: Arc::clone(&shared.secrets),
        mailboxes: mailboxes.clone(),
        origins,
    };
    supervisor.ready(&reloader.standing());
    run_down(
        &inbox,
        &mailboxes,
        &observability,
        &mut reloader,
        &mut supervisor,
    )
    .log();
    observability.close();
    Ok(())
}

/// Tries what can be tried without a port and without a trace: secrets, certificates and keys, replies in files, cores.
///
/// # Errors
/// Whatever would keep the server from starting, as [`serve`] says it.
pub fn examine(config: &Config, registry: &Registry) -> Result<()> {
    let secrets = Secrets::load(&SecretsConfig {
        key_file: config.server.secrets_file.clone(),
        // Opening it begins a generation, which is the running server's to do.
        state_dir: None,
    })?;
    Site::compile(&config.routes, &config.limits)?;
    config.groups.iter().try_for_each(|g| cores(g).map(drop))?;
    for listener in &config.listeners {
        prepare(listener, registry, config, &secrets)
            .with_context(|| format!("listener `{}`", listener.name))?;
    }
    Ok(())
}

fn first_snapshot(shared: &Shared, bound_listeners: Vec<BoundListener>) -> ConfigSnapshot {
    ConfigSnapshot {
        generation: 1,
        site: Arc::clone(&shared.site),
        limits: shared.config.limits.clone(),
        quic: shared.config.quic.clone(),
        bound_listeners,
    }
}

fn relay(from: Receiver<Report>, to: Sender<Event>) -> Result<()> {
    std::thread::Builder::new()
        .name("reports".into())
        .spawn(move || {
            for report in from {
                if to.send(Event::Worker(report)).is_err() {
                    return;
                }
            }
        })
        .context("cannot start a thread")?;
    Ok(())
}

fn share(config: Config) -> Result<Shared> {
    let place = SecretsConfig {
        key_file: config.server.secrets_file.clone(),
        state_dir: config.server.state_dir.clone(),
    };
    let secrets = Arc::new(Secrets::load(&place)?);
    let site = Arc::new(Site::compile(&config.routes, &config.limits)?);
    let tracing = start_tracing(&config, &secrets)?;
    let access = start_access_log(&config)?;
    Ok(Shared {
        config,
        secrets,
        site,
        tracing,
        access,
    })
}

fn start_tracing(config: &Config, secrets: &Secrets) -> Result<Option<Tracing>> {
    let (rate, Some(directory)) = (config.qlog.sample_rate, config.qlog.directory.clone()) else {
        return Ok(None);
    };
    if rate <= 0.0 {
        return Ok(None);
    }
    let options = QlogOptions {
        max_open: usize::try_from(config.qlog.max_open_traces).unwrap_or(usize::MAX),
        max_trace_bytes: config.qlog.max_trace_bytes,
        max_directory_bytes: config.qlog.max_total_bytes,
        queue_bytes: config.qlog.queue,
        ..QlogOptions::new(directory)
    };
    let writer = QlogWriter::start(&options).context("cannot start the qlog writer")?;
    Ok(Some(Tracing {
        sampler: Arc::new(Sampler::new(rate, secrets.qlog_sampling_key())),
        writer: Arc::new(writer),
        level: config.qlog.level,
    }))
}

/// What an operator may want to change. Said once everything serves: a start that fails says why, and nothing else.
fn advise(config: &Config) {
    if config.server.state_dir.is_none() && config.server.secrets_file.is_none() {
        tracing::info!(
            "secrets live in memory: set `server.state_dir` to let connections and tokens survive a restart"
        );
    }
    for group in &config.groups {
        if !config.listeners.iter().any(|l| l.group == group.name) {
            tracing::warn!(group = %group.name, "no listener uses this group");
        }
    }
}
