//! The open connections of a front by client, and which of them give way to others.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::http::clients::{ClientPrefix, Clients};

/// Connections of a client that a search for an idle one looks at; the oldest ones.
const SCANNED: usize = 64;
/// Connections that every client keeps while memory is short.
const KEPT: u64 = 16;
/// Connections that a relief closes, at most, beside a part of all.
const CLOSED: usize = 16;
/// Part of all connections that a relief closes, at most: one in so many.
const CLOSED_PART: usize = 64;

/// A connection, as far as the others are concerned.
#[derive(Debug, Default)]
pub(super) struct ConnectionHandle {
    /// It has open requests.
    pub(super) is_busy: Cell<bool>,
    is_closed: Cell<bool>,
    close: Notify,
}

impl ConnectionHandle {
    /// Closes the connection in favour of others.
    fn close(&self) {
        self.is_closed.set(true);
        self.close.notify_one();
    }

    /// Returns whether the connection was closed in favour of others.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Waits until the connection is to be closed in favour of others.
    pub(super) async fn closed(&self) {
        self.close.notified().await;
    }
}

/// The connections that may be closed in favour of others: all but those of trusted proxies.
#[derive(Debug, Default)]
pub(super) struct OpenConnections {
    clients: Clients,
    handles: BTreeMap<(ClientPrefix, u64), Rc<ConnectionHandle>>,
}

impl OpenConnections {
    /// Returns the number of a client's connections.
    pub(super) fn of(&self, client: ClientPrefix) -> u64 {
        self.clients.open(client)
    }

    /// Adds a client's connection with its number.
    pub(super) fn add(&mut self, client: ClientPrefix, number: u64, handle: Rc<ConnectionHandle>) {
        self.clients.enter(client);
        self.handles.insert((client, number), handle);
    }

    /// Removes a connection, unless it was closed in favour of others.
    pub(super) fn remove(&mut self, client: ClientPrefix, number: u64) {
        if self.handles.remove(&(client, number)).is_some() {
            self.clients.leave(client);
        }
    }

    /// Closes a connection of the client that has most, if it has more than `newcomer` with one more would have. Returns whether
    /// there is room then.
    pub(super) fn make_room(&mut self, newcomer: ClientPrefix) -> bool {
        let wanted = self.of(newcomer) + 1;
        let greedy = self.clients.most().filter(|(_, open)| *open > wanted);
        greedy.is_some_and(|(client, _)| self.close_one(client))
    }

    /// Closes connections of the clients that have most, because memory is short. Returns how many.
    pub(super) fn relieve(&mut self) -> u64 {
        let limit = CLOSED + self.handles.len() / CLOSED_PART;
        let closed = (0..limit).take_while(|_| {
            let greedy = self.clients.most().filter(|(_, open)| *open > KEPT);
            greedy.is_some_and(|(client, _)| self.close_one(client))
        });
        closed.count() as u64
    }

    /// Closes the oldest idle connection of a client, or else its oldest one. It counts no longer from then on.
    fn close_one(&mut self, client: ClientPrefix) -> bool {
        let own = { self.handles.range((client, 0)..=(client, u64::MAX)) }.take(SCANNED);
        let chosen = own.min_by_key(|(_, handle)| handle.is_busy.get());
        let Some(key) = chosen.map(|(key, _)| *key) else {
            return false;
        };
        if let Some(handle) = self.handles.remove(&key) {
            handle.close();
            self.clients.leave(client);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn client(last: u8) -> ClientPrefix {
        IpAddr::from([192, 0, 2, last]).into()
    }

    /// Adds connections of a client, numbered from `first` on.
    fn add(open: &mut OpenConnections, last: u8, numbers: std::ops::Range<u64>) {
        for number in numbers {
            open.add(client(last), number, Rc::default());
        }
    }

    #[test]
    fn the_client_with_most_loses_its_oldest_idle_connection() {
        let mut open = OpenConnections::default();
        add(&mut open, 1, 0..2);
        add(&mut open, 2, 2..6);
        open.handles[&(client(2), 2)].is_busy.set(true);
        let handle = Rc::clone(&open.handles[&(client(2), 3)]);
        assert!(open.make_room(client(3)));
        assert_eq!((open.of(client(1)), open.of(client(2))), (2, 3));
        assert!(!open.handles.contains_key(&(client(2), 3)));
        // Its end counts no second time.
        open.remove(client(2), 3);
        assert_eq!(open.of(client(2)), 3);
        assert!(handle.is_closed());
    }

    #[test]
    fn a_client_makes_no_room_for_itself_nor_for_one_that_would_have_as_many() {
        let mut open = OpenConnections::default();
        add(&mut open, 1, 0..4);
        add(&mut open, 2, 4..7);
        assert!(!open.make_room(client(1)));
        assert!(!open.make_room(client(2)));
        assert!(open.make_room(client(3)));
    }

    #[test]
    fn relief_takes_from_those_that_have_most_and_leaves_each_some() {
        let mut open = OpenConnections::default();
        add(&mut open, 1, 0..KEPT + 10);
        add(&mut open, 2, 100..100 + KEPT);
        assert_eq!(open.relieve(), 10);
        assert_eq!((open.of(client(1)), open.of(client(2))), (KEPT, KEPT));
        assert_eq!(open.relieve(), 0);
    }
}
