//! From a configuration to running workers, and back down.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use sluicegate_cc::Registry;
use sluicegate_config::{Config, Cores, Group, Listener};
use sluicegate_dataplane::{BindError, Binding, ListenerId, SocketOptions, bind_group};

use crate::clock;
use crate::observe::qlog::{QlogOptions, QlogWriter, Sampler};
use crate::quic::endpoint::{self, Settings, Tracing};
use crate::quic::secrets::{Secrets, SecretsConfig};
use crate::quic::selection::Selection;
use crate::quic::transport::{Identity, server_config};
use crate::route::Site;
use crate::worker::{self, Command, Plan, Post, Report};

/// How long a started worker may take until it serves.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long a port in use is tried again.
const BIND_LIMIT: Duration = Duration::from_secs(1);
/// Between two tries.
const BIND_STEP: Duration = Duration::from_millis(20);
/// How long workers may take to say goodbye after they were told to stop.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// What the main thread hears.
enum Note {
    Worker(Report),
    Signal,
}

/// A listener on one address, ready for every worker of its group.
#[derive(Clone)]
struct Door {
    id: ListenerId,
    name: String,
    selection: Selection,
    identity: Arc<Identity>,
}

/// What all workers share, never changed.
struct Shared {
    config: Config,
    secrets: Arc<Secrets>,
    site: Arc<Site>,
    tracing: Option<Tracing>,
}

/// Serves until a signal says stop.
///
/// # Errors
/// Whatever keeps the server from starting: one line with cause and remedy.
pub fn serve(config: Config, registry: &Registry) -> Result<()> {
    let shared = Arc::new(share(config)?);
    let (notes, inbox) = channel();
    let mut posts = Vec::new();
    let mut next_id = 0;
    let mut lines = Vec::new();
    for group in &shared.config.groups {
        let plans = plan_group(group, &shared, registry, &mut next_id, &mut lines)?;
        for plan in plans {
            posts.push(plan.1);
            let (reports, forward) = channel();
            worker::spawn(plan.0, reports).context("cannot start a thread")?;
            relay(forward, notes.clone())?;
        }
    }
    if posts.is_empty() {
        bail!("no listener uses any group: nothing to serve; add a [[listener]]");
    }
    // Before anything is announced: who reads that it serves may tell it to stop at once.
    crate::signal::watch(notes, || Note::Signal).context("cannot watch signals")?;
    await_ready(&inbox, posts.len(), &lines)?;
    advise(&shared.config);
    run_down(&inbox, &posts, shared.config.server.drain_timeout);
    if let Some(tracing) = &shared.tracing {
        tracing.writer.shutdown(STOP_LIMIT);
    }
    Ok(())
}

fn relay(from: Receiver<Report>, to: Sender<Note>) -> Result<()> {
    std::thread::Builder::new()
        .name("reports".into())
        .spawn(move || {
            for report in from {
                if to.send(Note::Worker(report)).is_err() {
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
    Ok(Shared {
        config,
        secrets,
        site,
        tracing,
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

/// Binds a group's listeners and plans its workers, each with its post. A group without listeners gets none.
fn plan_group(
    group: &Group,
    shared: &Arc<Shared>,
    registry: &Registry,
    next_id: &mut u16,
    lines: &mut Vec<Line>,
) -> Result<Vec<(Plan, Post)>> {
    let listeners: Vec<&Listener> = shared
        .config
        .listeners
        .iter()
        .filter(|l| l.group == group.name)
        .collect();
    if listeners.is_empty() {
        return Ok(Vec::new());
    }
    let cores = cores(group)?;
    let mut bindings: Vec<Vec<Binding>> = cores.iter().map(|_| Vec::new()).collect();
    let mut doors = Vec::new();
    for listener in listeners {
        open_listener(
            listener,
            group,
            registry,
            next_id,
            lines,
            &mut bindings,
            &mut doors,
            shared,
        )?;
    }
    let (posts, inboxes): (Vec<Post>, Vec<_>) = cores.iter().map(|_| worker::post()).unzip();
    let peers = Arc::new(posts.clone());
    let mut plans = Vec::new();
    for (((core, bindings), inbox), (index, post)) in cores
        .into_iter()
        .zip(bindings)
        .zip(inboxes)
        .zip(posts.into_iter().enumerate())
    {
        let index = u8::try_from(index).map_err(|_| too_many(group))?;
        let (shared, doors) = (Arc::clone(shared), doors.clone());
        plans.push((
            Plan {
                group: group.name.clone(),
                index,
                core,
                backend: group.backend,
                driver: group.driver,
                bindings,
                settings: Box::new(move || settings(&shared, &doors, index)),
                inbox,
                peers: Arc::clone(&peers),
            },
            post,
        ));
    }
    Ok(plans)
}

fn too_many(group: &Group) -> anyhow::Error {
    anyhow!(
        "group `{}`: more than 256 cores; split it into several groups",
        group.name
    )
}

#[expect(
    clippy::too_many_arguments,
    reason = "one listener's part of the plan above"
)]
fn open_listener(
    listener: &Listener,
    group: &Group,
    registry: &Registry,
    next_id: &mut u16,
    lines: &mut Vec<Line>,
    bindings: &mut [Vec<Binding>],
    doors: &mut Vec<Door>,
    shared: &Shared,
) -> Result<()> {
    let selection = Selection::of(listener, registry)
        .with_context(|| format!("listener `{}`", listener.name))?;
    let identity = match &listener.tls {
        Some(tls) => Identity::load(&tls.certificate, &tls.key),
        None => Identity::self_signed(),
    };
    let identity = identity.with_context(|| format!("listener `{}`", listener.name))?;
    server_config(
        &identity,
        &shared.config.quic,
        &shared.config.limits,
        &shared.secrets,
    )
    .with_context(|| format!("listener `{}`", listener.name))?;
    let identity = Arc::new(identity);
    for address in &listener.addresses {
        let id = ListenerId(*next_id);
        *next_id = next_id
            .checked_add(1)
            .context("more than 65536 listening addresses")?;
        let bound = bind_patiently(id, *address, bindings.len(), &group.socket)
            .with_context(|| format!("listener `{}`", listener.name))?;
        let local = bound.first().map_or(*address, Binding::local_addr);
        lines.push(Line {
            listener: listener.name.clone(),
            address: local,
            group: group.name.clone(),
            algorithm: selection.own(),
            rules: listener.congestion_rules.len(),
        });
        for (worker, binding) in bindings.iter_mut().zip(bound) {
            worker.push(binding);
        }
        doors.push(Door {
            id,
            name: listener.name.clone(),
            selection: selection.clone(),
            identity: Arc::clone(&identity),
        });
    }
    Ok(())
}

/// Binds; a port in use gets a second to become free. A process that used io_uring and was killed holds its sockets for
/// a moment longer than it lives, and a supervisor starts the next one at once.
fn bind_patiently(
    id: ListenerId,
    address: std::net::SocketAddr,
    workers: usize,
    options: &SocketOptions,
) -> Result<Vec<Binding>, BindError> {
    let give_up = clock::now() + BIND_LIMIT;
    loop {
        match bind_group(id, address, workers, options) {
            Err(BindError::InUse { .. }) if clock::now() < give_up => {
                std::thread::park_timeout(BIND_STEP);
            }
            result => return result,
        }
    }
}

/// The cores of a group, each known to exist.
fn cores(group: &Group) -> Result<Vec<usize>> {
    let known: Vec<usize> = core_affinity::get_core_ids()
        .unwrap_or_default()
        .iter()
        .map(|c| c.id)
        .collect();
    match &group.cores {
        Cores::Auto if known.is_empty() => Ok(vec![0]),
        Cores::Auto => Ok(known),
        Cores::List(list) => {
            if let Some(missing) = list.iter().find(|c| !known.contains(c)) {
                bail!(
                    "group `{}`: core {missing} does not exist or is not allowed here; allowed: {known:?}",
                    group.name
                );
            }
            Ok(list.clone())
        }
    }
}

fn settings(shared: &Shared, doors: &[Door], worker: u8) -> Result<Settings, String> {
    let mut listeners = HashMap::new();
    for door in doors {
        let (quic, limits) = (&shared.config.quic, &shared.config.limits);
        let config = server_config(&door.identity, quic, limits, &shared.secrets)
            .map_err(|e| e.to_string())?;
        let listener = endpoint::Listener {
            name: door.name.clone(),
            selection: door.selection.clone(),
            config,
        };
        listeners.insert(door.id, listener);
    }
    Ok(Settings {
        listeners,
        site: Arc::clone(&shared.site),
        h3: crate::h3::config(&shared.config.limits).map_err(|e| e.to_string())?,
        limits: shared.config.limits.clone(),
        quic: shared.config.quic.clone(),
        secrets: Arc::clone(&shared.secrets),
        tracing: shared.tracing.clone(),
        worker,
    })
}

/// What is said of a listener once its workers serve.
struct Line {
    listener: String,
    address: std::net::SocketAddr,
    group: String,
    algorithm: &'static str,
    rules: usize,
}

fn await_ready(inbox: &Receiver<Note>, workers: usize, lines: &[Line]) -> Result<()> {
    let mut cores: HashMap<String, (Vec<usize>, &'static str)> = HashMap::new();
    let mut fallbacks = Vec::new();
    for _ in 0..workers {
        match inbox.recv_timeout(START_LIMIT) {
            Ok(Note::Worker(Report::Ready {
                group,
                index,
                core,
                backend,
                fallback,
            })) => {
                if let Some(cause) = fallback
                    && index == 0
                {
                    fallbacks.push((group.clone(), backend, cause));
                }
                let entry = cores.entry(group).or_insert((Vec::new(), backend));
                entry.0.push(core);
            }
            Ok(Note::Worker(Report::Failed(cause))) => bail!("{cause}"),
            Ok(Note::Signal) => bail!("told to stop while starting"),
            Ok(_) => bail!("a worker stopped while starting"),
            Err(_) => bail!("a worker did not start within {START_LIMIT:?}"),
        }
    }
    for (group, backend, cause) in fallbacks {
        tracing::warn!(%group, %backend, %cause, "backend fell back");
    }
    for line in lines {
        let (mut list, backend) = cores.get(&line.group).cloned().unwrap_or_default();
        list.sort_unstable();
        tracing::info!(
            listener = %line.listener, address = %line.address, %backend, cores = ?list,
            algorithm = %line.algorithm, rules = line.rules, "listening"
        );
    }
    Ok(())
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

/// Waits for a signal, drains, and stops: at once on a second signal or when the limit has passed.
fn run_down(inbox: &Receiver<Note>, posts: &[Post], limit: Duration) {
    let mut running = posts.len();
    let mut deadline: Option<Instant> = None;
    let mut stopped = false;
    while running > 0 {
        let left = deadline.map(|d| d.saturating_duration_since(clock::now()));
        let note = match left {
            Some(left) => inbox.recv_timeout(left).ok(),
            None => inbox.recv().ok(),
        };
        match note {
            Some(Note::Worker(Report::Stopped(counters))) => {
                running -= 1;
                tracing::info!(
                    accepted = counters.accepted,
                    established = counters.established,
                    requests = counters.h3.requests,
                    "worker stopped"
                );
            }
            Some(Note::Signal) if deadline.is_none() => {
                tracing::info!(limit = ?limit, "draining; a second signal stops at once");
                posts.iter().for_each(|p| {
                    p.send(Command::Drain);
                });
                deadline = Some(clock::now() + limit);
            }
            Some(Note::Worker(_)) => {}
            Some(Note::Signal) | None => {
                if stopped {
                    return;
                }
                stopped = true;
                tracing::info!("stopping");
                posts.iter().for_each(|p| {
                    p.send(Command::Stop);
                });
                deadline = Some(clock::now() + STOP_LIMIT);
            }
        }
    }
}
