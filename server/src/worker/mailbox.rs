//! What other threads hand to a worker: commands, and datagrams that reached the wrong one.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};

use sluicegate_dataplane::{RxMeta, Waker};
use tokio::sync::oneshot;

use super::WorkerStats;
use crate::quic::config_snapshot::ConfigSnapshot;

/// Datagrams that wait at most; further ones are refused, never kept.
const CAPACITY: usize = 1024;

/// Something for a worker.
#[derive(Debug)]
pub enum Command {
    /// A datagram of a connection that this worker owns.
    Misrouted(RxMeta, Vec<u8>),
    /// Finish what is open, then stop.
    Drain,
    /// Stop.
    Stop,
    /// Serve by this snapshot of the configuration from now on.
    Adopt(Arc<ConfigSnapshot>),
    /// Say what was done so far and what is held.
    Stats(oneshot::Sender<Box<WorkerStats>>),
}

/// The sending end; cheap to clone.
///
/// Orders have a way of their own: no flood of datagrams keeps a worker from hearing that it should stop.
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

/// A pair.
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
    /// Hands a command over and wakes the worker; `false` where there is no room.
    pub fn send(&self, command: Command) -> bool {
        let taken = match command {
            Command::Misrouted(..) => self.datagrams.try_send(command).is_ok(),
            Command::Drain | Command::Stop | Command::Adopt(_) | Command::Stats(_) => {
                self.commands.send(command).is_ok()
            }
        };
        if taken && let Some(waker) = self.waker.get() {
            waker.wake();
        }
        taken
    }
}

impl Mailbox {
    /// Tells the senders how to wake this worker.
    pub fn attach(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// The next command, commands first.
    pub fn take(&self) -> Option<Command> {
        let order = self.commands.try_recv();
        order.or_else(|_| self.datagrams.try_recv()).ok()
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
