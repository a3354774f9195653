//! What other threads hand to a worker: commands, and datagrams that reached the wrong one.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use sluicegate_dataplane::{RxMeta, Waker};

/// Letters that wait at most; further ones are refused, never kept.
const CAPACITY: usize = 1024;

/// Something for a worker.
#[derive(Debug)]
pub enum Command {
    /// A datagram of a connection that this worker owns.
    Stray(RxMeta, Vec<u8>),
    /// Finish what is open, then stop.
    Drain,
    /// Stop.
    Stop,
}

/// The sending end; cheap to clone.
#[derive(Clone, Debug)]
pub struct Post {
    letters: SyncSender<Command>,
    waker: Arc<OnceLock<Waker>>,
}

/// The receiving end, owned by the worker.
#[derive(Debug)]
pub struct Mail {
    letters: Receiver<Command>,
    waker: Arc<OnceLock<Waker>>,
}

/// A pair.
pub fn post() -> (Post, Mail) {
    let (sender, receiver) = sync_channel(CAPACITY);
    let waker = Arc::new(OnceLock::new());
    (
        Post {
            letters: sender,
            waker: Arc::clone(&waker),
        },
        Mail {
            letters: receiver,
            waker,
        },
    )
}

impl Post {
    /// Hands a letter over and wakes the worker; `false` where there is no room.
    pub fn send(&self, command: Command) -> bool {
        let taken = self.letters.try_send(command).is_ok();
        if taken && let Some(waker) = self.waker.get() {
            waker.wake();
        }
        taken
    }
}

impl Mail {
    /// Tells the senders how to wake this worker.
    pub fn attach(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// The next letter.
    pub fn take(&self) -> Option<Command> {
        self.letters.try_recv().ok()
    }
}
