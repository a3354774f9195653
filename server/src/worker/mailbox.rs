//! Commands of other threads to a worker.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use sluicegate_base::keys::ConnectionKey;
use sluicegate_base::observe::connections::Inspected;
use sluicegate_dataplane::{ListenerId, OpenError, Seed, Waker};
use sluicegate_quic::endpoint::inspect::ConnectionSearch;
use sluicegate_quic::endpoint::switch::{AlgorithmSwitch, SwitchOutcome};
use sluicegate_quic::endpoint::traces::{OrderedTrace, TraceOrder};
use tokio::sync::oneshot;

use super::{Neighbour, Side, WorkerStats};
use crate::snapshot::{ConfigSnapshot, WorkerConfig};

/// A message to a worker.
#[derive(Debug)]
pub enum Command {
    /// Serve what is open, then stop.
    Drain,
    /// Close all connections and stop.
    Stop,
    /// Serve by this snapshot of the configuration, with the worker's own part of it.
    Adopt(Arc<ConfigSnapshot>, Box<WorkerConfig>),
    /// Serve the listeners of the seed from now on, too, free the sockets of the others, and reply whether that was done.
    Rebind(Box<Seed>, Vec<ListenerId>, Sender<Result<(), OpenError>>),
    /// Pass datagrams of a neighbouring process on to it, and take those that it passes on; with `None` there is none any more.
    Neighbour(Side, Option<Box<Neighbour>>),
    /// Leave new connections to the process of this generation, or to nobody.
    LeaveNew(Option<u8>),
    /// Whether connections of other processes may have IDs of this one's making.
    ShareIds(bool),
    /// Stay though all has drained, or no longer: another process needs this one, or may leave the service to it.
    Hold(bool),
    /// Accept new connections again after [`Command::Drain`].
    Resume,
    /// Read from the sockets no more, or again, and reply whether that was done.
    Receive(bool, Sender<io::Result<()>>),
    /// Return other descriptors of the sockets.
    Sockets(Sender<io::Result<Vec<(ListenerId, OwnedFd)>>>),
    /// Return the number of connections.
    Count(Sender<WorkerConnections>),
    /// Reply, as a sign of life.
    Ping(oneshot::Sender<()>),
    /// Return what was counted so far and what is held.
    Stats(oneshot::Sender<Box<WorkerStats>>),
    /// Return what some connections are now.
    Inspect(Box<Inspection>),
    /// Trace connections.
    Trace(Box<TraceCommand>),
    /// Go on with the handshake of this connection, whose signature is there.
    Signed(ConnectionKey),
    /// Switch the congestion control algorithm of a connection.
    Switch(Box<SwitchCommand>),
}

/// Connections of a worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerConnections {
    /// Handshakes that are open.
    pub half_open: u64,
    /// Connections that are open, handshakes included.
    pub open: u64,
    /// Those of each listener that has any.
    pub by_listener: Vec<(ListenerId, u64)>,
    /// It has drained: every connection has ended, and it takes no other.
    pub is_drained: bool,
}

/// Order for another algorithm.
#[derive(Debug)]
pub struct SwitchCommand {
    /// Connection and algorithm.
    pub order: AlgorithmSwitch,
    /// Takes what became of it; `None` if the worker does not have the connection.
    pub reply: oneshot::Sender<Option<SwitchOutcome>>,
}

/// Order for traces.
#[derive(Debug)]
pub struct TraceCommand {
    /// Connections that are wanted.
    pub order: TraceOrder,
    /// Takes the running ones that the worker has.
    pub reply: oneshot::Sender<Vec<OrderedTrace>>,
}

/// Question about connections.
#[derive(Debug)]
pub struct Inspection {
    /// Connections that are wanted.
    pub search: ConnectionSearch,
    /// Takes what was found.
    pub reply: oneshot::Sender<Inspected>,
}

/// The sending end; cheap to clone.
#[derive(Clone, Debug)]
pub struct MailboxSender {
    commands: Sender<Command>,
    waker: Arc<OnceLock<Waker>>,
}

/// The receiving end, owned by the worker.
#[derive(Debug)]
pub struct Mailbox {
    commands: Receiver<Command>,
    waker: Arc<OnceLock<Waker>>,
}

/// Returns both ends of a mailbox.
pub fn mailbox() -> (MailboxSender, Mailbox) {
    let (sender, commands) = channel();
    let waker = Arc::new(OnceLock::new());
    (MailboxSender { commands: sender, waker: Arc::clone(&waker) }, Mailbox { commands, waker })
}

impl MailboxSender {
    /// Puts a command into the mailbox and wakes the worker. Returns whether there is a worker to read it.
    pub fn send(&self, command: Command) -> bool {
        let sent = self.commands.send(command).is_ok();
        if sent {
            self.wake();
        }
        sent
    }

    /// Wakes the worker, if it runs yet.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }
}

impl Mailbox {
    /// Passes the worker's waker to the senders.
    pub fn attach(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// Takes the oldest command.
    pub fn take(&self) -> Option<Command> {
        self.commands.try_recv().ok()
    }
}
