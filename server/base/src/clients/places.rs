//! Places that clients share. Unlike memory, they are there to be used: a client alone gets about seven eighths of them.

use super::{ClientPrefix, Clients};

/// Number from which on a client leaves places free: one for each seven that it has.
const SHARED_FROM: u64 = 8;

/// A number of places, and who has taken how many.
#[derive(Debug)]
pub struct Places {
    all: u64,
    taken: u64,
    by_client: Clients,
}

impl Places {
    /// Returns `all` places.
    pub fn new(all: u64) -> Places {
        Places { all, taken: 0, by_client: Clients::default() }
    }

    /// Returns whether a client may have another place, and leaves enough for others.
    pub fn has_room(&self, client: ClientPrefix) -> bool {
        let own = self.by_client.open(client) + 1;
        let Some(free) = self.all.checked_sub(self.taken + 1) else {
            return false;
        };
        self.all < SHARED_FROM || own / (SHARED_FROM - 1) <= free
    }

    /// Takes a place for a client, if it may have another one.
    pub fn take(&mut self, client: ClientPrefix) -> bool {
        let has_room = self.has_room(client);
        if has_room {
            self.taken += 1;
            self.by_client.enter(client);
        }
        has_room
    }

    /// Takes a place back.
    pub fn give_back(&mut self, client: ClientPrefix) {
        self.taken -= 1;
        self.by_client.leave(client);
    }

    /// Returns the number of places that are taken, and of clients that have any.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub fn in_use(&self) -> (u64, usize) {
        (self.taken, self.by_client.len())
    }
}
