//! The setup of each worker of a group.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use sluicegate_base::clock;
use sluicegate_config::{Config, Group};
use sluicegate_dataplane::ListenerId;
use sluicegate_http::exchange::accounts::Accounts;
use sluicegate_http::exchange::ring::{OriginRing, rings};
use sluicegate_http::origin;
use sluicegate_quic::settings::Settings;
use tokio::sync::mpsc::unbounded_channel;

use super::cores::spare_cores;
use super::descriptors::{self, Descriptors};
use super::error::BootError;
use super::events::Event;
use super::listen::ListenerPlan;
use super::plan::OpenGroup;
use super::shared::Shared;
use crate::h3::{Http3Session, SessionContext};
use crate::snapshot::ConfigSnapshot;
use crate::tcp::{self, FrontSender, FrontSetup, FrontShare};
use crate::worker::{self, MailboxSender, Polling, WorkerSetup};

pub(super) fn prepare_group(
    open: OpenGroup,
    shared: &Arc<Shared>,
    plan: &mut ListenerPlan,
    events: &Sender<Event>,
) -> Result<Vec<(WorkerSetup, MailboxSender)>, BootError> {
    let OpenGroup { group, cores, seeds, receives } = open;
    let workers = cores.len();
    let (mailboxes, inboxes): (Vec<MailboxSender>, Vec<_>) =
        cores.iter().map(|_| worker::mailbox()).unzip();
    let peers = Arc::new(mailboxes.clone());
    let spare = spare_cores(&shared.config);
    let mut setups = Vec::new();
    let misrouted = worker::misrouted(workers);
    for ((((core, seed), misrouted), inbox), (index, mailbox)) in cores
        .into_iter()
        .zip(seeds)
        .zip(misrouted)
        .zip(inboxes)
        .zip(mailboxes.into_iter().enumerate())
    {
        let index = u8::try_from(index)
            .map_err(|_| BootError::TooManyCores { group: group.name.clone() })?;
        let (shared, group_name) = (Arc::clone(shared), group.name.clone());
        let tcp = plan.take_tcp(&group.name);
        let Origin { ring: origin_ring, sender: origin, front } =
            start_origin(&group, index, &spare, &shared, tcp, events)?;
        setups.push((
            WorkerSetup {
                group: group.name.clone(),
                index,
                core,
                seed,
                settings: Box::new(move |snapshot| {
                    settings(&shared, snapshot, &group_name, index, workers, origin_ring)
                }),
                origin,
                front,
                inbox,
                peers: Arc::clone(&peers),
                misrouted,
                receives,
                polling: Polling { limit: group.spin, always: group.spin_always },
                scheduler: (group.scheduler, group.scheduler_priority),
            },
            mailbox,
        ));
    }
    Ok(setups)
}

/// Ways to a worker's origin thread.
struct Origin {
    ring: OriginRing,
    sender: origin::OriginSender,
    front: FrontSender,
}

/// Starts a worker's origin thread, on a core without a worker if there is one. Otherwise it is not pinned: its own worker
/// may be busy while another one is not.
fn start_origin(
    group: &Group,
    index: u8,
    spare: &[usize],
    shared: &Shared,
    tcp: Vec<(ListenerId, TcpListener)>,
    events: &Sender<Event>,
) -> Result<Origin, BootError> {
    let limits = &shared.config.limits;
    let queue = usize::try_from(limits.origin_queue).unwrap_or(usize::MAX);
    let Descriptors { exchanges, tcp_connections, tcp_exchanges } =
        descriptors::of_worker(&shared.config);
    let buffers = shared.parts.worker_buffer(limits);
    let accounts = |most| Accounts::with_limit(limits.stream_buffer, buffers, most);
    let (ring, worker_ring) = rings(queue, accounts(exchanges));
    let name = format!("{}-{index}-origin", group.name);
    let (sender, commands) = unbounded_channel();
    let (events, of_group) = (events.clone(), group.name.clone());
    // A reload may add sockets where there are none yet.
    let front = tcp::start(FrontSetup {
        sockets: tcp,
        share: FrontShare {
            name: name.clone(),
            accounts: accounts(tcp_exchanges),
            most_connections: tcp_connections,
            memory: Arc::clone(&shared.memory),
            relief: shared.holdings.add_front(),
            missing_headers: Arc::clone(&shared.missing_headers),
        },
        commands,
        // The main thread is gone only at the end of the process.
        stopped: Box::new(move |counters| {
            drop(events.send(Event::Front(of_group, index, counters)));
        }),
    });
    let core = match spare.len() {
        0 => None,
        count => Some(spare[usize::from(index) % count]),
    };
    let setup = origin::OriginSetup {
        name,
        core,
        worker_ring,
        site: Arc::clone(&shared.site),
        makes_checks: is_first(group, index, &shared.config),
        compressors: shared.parts.compressors,
        memory: Arc::clone(&shared.memory),
        passwords: Arc::clone(&shared.passwords),
        front: Some(front),
    };
    Ok(Origin { ring, sender: origin::spawn(setup).map_err(BootError::Thread)?, front: sender })
}

/// Returns whether a worker is the first of the process, the one for tasks that one thread does for all.
fn is_first(group: &Group, index: u8, config: &Config) -> bool {
    let first = config.listeners.first();
    index == 0 && first.is_some_and(|listener| listener.group == group.name)
}

fn settings(
    shared: &Shared,
    snapshot: &ConfigSnapshot,
    group: &str,
    worker: u8,
    workers: usize,
    origin_ring: OriginRing,
) -> Result<Settings<Http3Session>, String> {
    let own = snapshot.for_worker(group, usize::from(worker));
    let own = own.map_err(|e| e.to_string())?;
    let mut sessions = SessionContext::new(Arc::clone(&snapshot.site), own.h3, clock::now());
    sessions.origin_ring = Some(origin_ring);
    sessions.memory = Arc::clone(&shared.memory);
    sessions.relief = shared.holdings.add_front();
    sessions.logs = own.logs;
    Ok(Settings {
        listeners: own.listeners,
        shared: sessions,
        limits: snapshot.limits.clone(),
        quic: snapshot.quic.clone(),
        cid_scheme: shared.cids.scheme(),
        secrets: Arc::clone(&snapshot.secrets),
        used_tokens: Arc::clone(&shared.used_tokens),
        tracing: snapshot.tracing.clone(),
        worker,
        workers,
    })
}
