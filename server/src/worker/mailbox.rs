//! What other threads hand to a worker: commands, and datagrams that reached the wrong one.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};

use sluicegate_dataplane::{RxMeta, Waker};
use tokio::sync::oneshot;

use super::WorkerStats;
use crate::quic::config_snapshot::ConfigSnapshot;

/// Number of misrouted datagrams that may wait; further ones are refused, never kept.
const CAPACITY: usize = 1024;

/// A message to a worker.
#[derive(Debug)]
pub enum Command {
    /// A datagram of a connection that this worker owns.
    Misrouted(RxMeta, Vec<u8>),
    /// Serve what is open, then stop.
    Drain,
    /// Close all connections and stop.
    Stop,
    /// Serve by this snapshot of the configuration.
    Adopt(Arc<ConfigSnapshot>),
    /// Answer, as a sign of life.
    Ping(oneshot::Sender<()>),
    /// Return what was counted so far and what is held.
    Stats(oneshot::Sender<Box<WorkerStats>>),
}

/// The sending end; cheap to clone.
///
/// Commands have a queue of their own: no flood of misrouted datagrams keeps a worker from receiving the one to stop.
#[derive(Clone, Debug)]
pub struct MailboxSender {
    datagrams: SyncSender<Command>,
    commands: Sender<Command>,
    waker: Arc<OnceLock<Waker>>,
}

/// The receiving end, owned by the worker.
#[derive(Debug)]
pub struct Mailbox {
    datagrams: Receiver<Command>,
    commands: Receiver<Command>,
    waker: Arc<OnceLock<Waker>>,
}

/// Returns both ends of a mailbox.
pub fn mailbox() -> (MailboxSender, Mailbox) {
    let (datagrams, from_workers) = sync_channel(CAPACITY);
    let (commands, from_above) = channel();
    let waker = Arc::new(OnceLock::new());
    (
        MailboxSender {
            datagrams,
            commands,
            waker: Arc::clone(&waker),
        },
        Mailbox {
            datagrams: from_workers,
            commands: from_above,
            waker,
        },
    )
}

impl MailboxSender {
    /// Puts a command into the mailbox and wakes the worker. Returns whether there was room for it and a worker to read it.
    pub fn send(&self, command: Command) -> bool {
        let taken = match command {
            Command::Misrouted(..) => self.datagrams.try_send(command).is_ok(),
            Command::Drain
            | Command::Stop
            | Command::Adopt(_)
            | Command::Ping(_)
            | Command::Stats(_) => self.commands.send(command).is_ok(),
        };
        if taken && let Some(waker) = self.waker.get() {
            waker.wake();
        }
        taken
    }
}

impl Mailbox {
    /// Gives the senders the worker's waker.
    pub fn attach(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// Takes the oldest command, or the oldest misrouted datagram where there is none.
    pub fn take(&self) -> Option<Command> {
        let command = self.commands.try_recv();
        command.or_else(|_| self.datagrams.try_recv()).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use sluicegate_dataplane::{Ecn, ListenerId};

    use super::*;

    #[test]
    fn commands_pass_a_flood_of_datagrams() {
        let (sender, mailbox) = mailbox();
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let meta = RxMeta {
            listener: ListenerId(0),
            peer: here,
            local: here,
            ecn: Ecn::NotCapable,
        };
        let misrouted = || sender.send(Command::Misrouted(meta, vec![1]));
        assert!((0..CAPACITY).all(|_| misrouted()));
        assert!(!misrouted());
        assert!(sender.send(Command::Drain) && sender.send(Command::Stop));
        assert!(matches!(mailbox.take(), Some(Command::Drain)));
        assert!(matches!(mailbox.take(), Some(Command::Stop)));
        assert!(matches!(mailbox.take(), Some(Command::Misrouted(..))));
    }
}
