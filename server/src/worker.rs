//! A worker: one pinned thread that owns a driver and the connections that come in by it.

mod initials;
mod mailbox;
mod misrouted;
mod neighbours;
mod report;
mod request;
mod spin;
mod stats;
mod turn;
mod turn_times;

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::Wake;
use std::thread::JoinHandle;

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use sluicegate_config::Scheduler;
use sluicegate_dataplane::{Dataplane, Driver, Seed, Waker};

pub use mailbox::{
    Command, Inspection, Mailbox, MailboxSender, SwitchCommand, TraceCommand, WorkerConnections,
    mailbox,
};
pub use misrouted::{Misrouted, misrouted};
pub use neighbours::{Neighbour, Side};
pub use report::WorkerReport;
pub(crate) use request::OutstandingRequest;
use sluicegate_base::affinity::{self, scheduler};
use sluicegate_base::clock;
use sluicegate_base::signing;
use sluicegate_http::origin;
use sluicegate_quic::endpoint::Endpoint;
use sluicegate_quic::settings::Settings;
pub use spin::Polling;
pub use stats::{EndpointCounters, WorkerStats};
pub use turn::{SERVICE_BUDGET, STATELESS_BUDGET, TRANSMIT_BUDGET};
pub use turn_times::TurnTimes;

use crate::h3::Http3Session;
use crate::snapshot::ConfigSnapshot;
use crate::tcp::FrontSender;

/// Makes an endpoint's settings of a snapshot of the configuration.
pub type MakeSettings =
    Box<dyn FnOnce(&ConfigSnapshot) -> Result<Settings<Http3Session>, String> + Send>;

/// Wakes a worker, for messages of its origin thread or to free memory.
struct WorkerWaker(Waker);

impl Wake for WorkerWaker {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake();
    }
}

/// Everything that a worker thread needs to start.
pub struct WorkerSetup {
    /// Name of the group.
    pub group: String,
    /// Index within the group, which is also the first byte of its connection IDs.
    pub index: u8,
    /// Core that the thread is pinned to.
    pub core: usize,
    /// Share of the group's listeners, which becomes the driver.
    pub seed: Seed,
    /// Makes the endpoint's settings, on the worker's thread.
    pub settings: MakeSettings,
    /// Sender to the origin thread beside it.
    pub origin: origin::OriginSender,
    /// Sender to the front over TCP on that thread.
    pub front: FrontSender,
    /// Commands of other threads.
    pub inbox: Mailbox,
    /// Mailboxes of the group's workers, by index.
    pub peers: Arc<Vec<MailboxSender>>,
    /// Rings to and from the group's other workers.
    pub misrouted: Misrouted,
    /// Time for which the worker polls before it sleeps.
    pub polling: Polling,
    /// Whether it reads from its sockets from the start.
    pub receives: bool,
    /// Class in which the system schedules the thread, and its priority.
    pub scheduler: (Scheduler, u16),
}

/// Starts the thread. It reports once when it is ready or has failed, and once when it stops.
///
/// # Errors
/// The system gave no thread.
pub fn spawn(
    setup: WorkerSetup,
    snapshot: Arc<ConfigSnapshot>,
    reports: Sender<WorkerReport>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(format!("{}-{}", setup.group, setup.index)).spawn(move || {
        let (group, index) = (setup.group.clone(), setup.index);
        let started = start(setup, &snapshot, &reports);
        // A reload frees the first configuration, too.
        drop(snapshot);
        match started {
            Ok(mut worker) => {
                worker.run();
                let stats = worker.stopped();
                let _ = reports.send(WorkerReport::Stopped { group, index, stats });
            }
            Err(cause) => {
                let _ = reports.send(WorkerReport::Failed(cause));
            }
        }
    })
}

/// Drops the capabilities of the calling thread, which has opened all that it will. Other threads keep theirs.
fn drop_capabilities() {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // Filters of system calls may forbid it.
    if let Err(error) = set_capabilities(None, sets) {
        tracing::warn!(%error, "a worker keeps its capabilities");
    }
}

fn start(
    setup: WorkerSetup,
    snapshot: &ConfigSnapshot,
    reports: &Sender<WorkerReport>,
) -> Result<turn::Worker, String> {
    affinity::pin(setup.core).map_err(|_| {
        format!(
            "group `{}`: cannot pin to core {}; it does not exist or is not allowed: see `cores`",
            setup.group, setup.core
        )
    })?;
    let (class, priority) = setup.scheduler;
    scheduler::set(class, priority).map_err(|error| {
        format!(
            "group `{}`: the system refuses the class `scheduler` asks for: {error}; give the server CAP_SYS_NICE, or \
             choose normal",
            setup.group
        )
    })?;
    // From here on, what the thread allocates is on the memory node of its core.
    let opened = setup.seed.open();
    let opened = opened.map_err(|e| format!("group `{}`: {e}", setup.group))?;
    let settings = (setup.settings)(snapshot)?;
    drop_capabilities();
    let driver: Driver = opened.driver;
    setup.inbox.attach(driver.waker());
    let waker = std::task::Waker::from(Arc::new(WorkerWaker(driver.waker())));
    if let Some(origin_ring) = &settings.shared.origin_ring {
        origin_ring.attach(waker.clone());
    }
    settings.shared.memory.wake_to_free(waker);
    if let Some(own) = setup.peers.get(usize::from(setup.index)).cloned() {
        signing::sign_elsewhere(move |connection| {
            // A worker that has stopped has no handshakes.
            let _ = own.send(Command::Signed(connection));
        });
    }
    let _ = reports.send(WorkerReport::Ready {
        group: setup.group,
        index: setup.index,
        core: setup.core,
        backend: driver.backend(),
        features: driver.features(),
        spin: setup.polling.name(),
        fallback: opened.fallback.map(|e| e.to_string()),
    });
    let endpoint = Endpoint::new(settings, clock::now());
    Ok(turn::Worker::new(
        driver,
        endpoint,
        setup.inbox,
        setup.peers,
        setup.misrouted,
        setup.polling,
        setup.receives,
    ))
}

/// A worker's name and the ways to reach it and its origin thread.
#[derive(Clone, Debug)]
pub struct WorkerHandle {
    /// Name of the worker group.
    pub group: String,
    /// Index within the group.
    pub index: usize,
    /// Sender to the worker's mailbox.
    pub mailbox: MailboxSender,
    /// Sender to the worker's origin thread.
    pub origin: origin::OriginSender,
    /// Sender to the front over TCP on that thread.
    pub front: FrontSender,
}
