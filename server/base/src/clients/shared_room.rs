//! Room that clients share, such that one keeps nobody out.

use std::cell::{Cell, RefCell};

use super::{ClientPrefix, Clients};

/// Room of which a client takes no more than it leaves free. Alone it gets half, two get a third each.
#[derive(Debug, Default)]
pub struct SharedRoom {
    taken: Cell<u64>,
    by_client: RefCell<Clients>,
}

impl SharedRoom {
    /// Returns how much all clients have taken.
    pub fn taken(&self) -> u64 {
        self.taken.get()
    }

    /// Takes more for a client, if `room` allows it. A client may have up to `least` however little is left.
    pub fn take(&self, client: ClientPrefix, more: u64, room: u64, least: u64) -> bool {
        let taken = self.taken.get().saturating_add(more);
        let Some(free) = room.checked_sub(taken) else {
            return false;
        };
        let mut by_client = self.by_client.borrow_mut();
        let own = by_client.open(client).saturating_add(more);
        let fits = own <= free.max(least);
        if fits {
            self.taken.set(taken);
            by_client.add(client, more);
        }
        fits
    }

    /// Returns what a client has taken.
    pub fn give_back(&self, client: ClientPrefix, less: u64) {
        self.taken.set(self.taken.get() - less);
        self.by_client.borrow_mut().subtract(client, less);
    }

    /// Returns the number of clients that have taken anything.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub fn clients(&self) -> usize {
        self.by_client.borrow().len()
    }
}
