//! Places of exchanges on a connection that they share.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The exchanges that use a connection.
pub(super) struct Usage {
    /// Exchanges that use it now.
    streams: Cell<usize>,
    /// Exchanges that have used it so far.
    served: Cell<u64>,
    idle_since: Cell<Instant>,
    /// Wakes the connection's task when the connection becomes idle or used, when no further stream may be opened, or when an
    /// exchange has left it something to do.
    pub(super) changed: Notify,
}

impl Usage {
    pub(super) fn new(now: Instant) -> Rc<Usage> {
        Rc::new(Usage {
            streams: Cell::new(0),
            served: Cell::new(0),
            idle_since: Cell::new(now),
            changed: Notify::new(),
        })
    }

    /// Number of exchanges that use the connection now.
    pub(super) fn streams(&self) -> usize {
        self.streams.get()
    }

    /// Time since which no exchange has used it, if none does.
    pub(super) fn idle_since(&self) -> Instant {
        self.idle_since.get()
    }

    /// Begins an exchange.
    pub(super) fn begin(self: &Rc<Usage>) -> Place {
        if self.streams.get() == 0 {
            self.changed.notify_one();
        }
        self.streams.set(self.streams.get() + 1);
        self.served.set(self.served.get() + 1);
        Place { is_first: self.served.get() == 1, usage: Rc::clone(self) }
    }
}

/// Place of one exchange on a connection.
pub(super) struct Place {
    is_first: bool,
    usage: Rc<Usage>,
}

impl Place {
    /// Whether no other exchange has used the connection before.
    pub(super) fn is_first(&self) -> bool {
        self.is_first
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let usage = &self.usage;
        usage.streams.set(usage.streams.get() - 1);
        if usage.streams.get() == 0 {
            usage.idle_since.set(Instant::now());
            usage.changed.notify_one();
        }
    }
}
