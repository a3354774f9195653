//! The connections of an endpoint: by slot, by connection ID, by their peers' addresses, and the queues for service and emission.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use sluicegate_base::address::UnvalidatedAddress;
use sluicegate_base::keys::ConnectionKey;

use crate::application::Application;
use crate::cid::ConnectionId;
use crate::connection::{Accepted, Connection};

/// Tries to make an ID that no connection has. Of 32 random bits, which is the fewest, the second nearly always succeeds.
const ID_TRIES: usize = 16;

/// Slots by connection ID.
pub(super) type SlotsById = HashMap<Vec<u8>, usize>;

/// Makes an ID that is none of `taken`, unless chance has it that all tries are.
pub(super) fn make_unused(
    taken: &SlotsById,
    mut generate: impl FnMut() -> ConnectionId,
) -> ConnectionId {
    let mut id = generate();
    for _ in 1..ID_TRIES {
        if !taken.contains_key(id.as_bytes()) {
            break;
        }
        id = generate();
    }
    id
}

/// Table of connections.
pub(super) struct ConnectionTable<A: Application> {
    slots: Vec<Option<Box<Connection<A>>>>,
    free: Vec<usize>,
    by_id: SlotsById,
    /// Slots by the peer's address on the active path.
    by_peer: BTreeSet<(UnvalidatedAddress, usize)>,
    /// Slots of connections that are queued for service.
    to_service: VecDeque<usize>,
    /// Slots of connections that are queued for emission.
    to_emit: VecDeque<usize>,
    /// Generation of the connection inserted last, for its key.
    last_generation: u64,
    /// Time of the present step.
    now: Instant,
}

impl<A: Application> ConnectionTable<A> {
    /// Returns a table without connections.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_id: SlotsById::new(),
            by_peer: BTreeSet::new(),
            to_service: VecDeque::new(),
            to_emit: VecDeque::new(),
            last_generation: 0,
            now,
        }
    }

    /// Sets the time of the present step.
    pub(super) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Returns the number of connections.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the number of slots, empty ones included.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn get(&self, slot: usize) -> Option<&Connection<A>> {
        self.slots.get(slot)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Connection<A>> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    /// Returns a connection, and the IDs of all.
    pub(super) fn get_with_ids(&mut self, slot: usize) -> Option<(&mut Connection<A>, &SlotsById)> {
        Some((self.slots.get_mut(slot)?.as_deref_mut()?, &self.by_id))
    }

    /// Returns the IDs of all connections.
    pub(super) fn taken_ids(&self) -> &SlotsById {
        &self.by_id
    }

    /// Returns the slot of the connection with this ID.
    pub(super) fn find(&self, id: &[u8]) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    /// Returns the slots of the connections whose peer has this address on its active path.
    pub(super) fn of_peer(&self, peer: UnvalidatedAddress) -> impl Iterator<Item = usize> {
        self.by_peer.range((peer, 0)..=(peer, usize::MAX)).map(|(_, slot)| *slot)
    }

    /// Keeps a connection that was accepted under `cid`, and `original`, if the client had another one before. Returns its key.
    pub(super) fn insert(
        &mut self,
        accepted: Accepted<A>,
        cid: ConnectionId,
        original: Option<&[u8]>,
    ) -> ConnectionKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.last_generation += 1;
        let key = ConnectionKey { slot, generation: self.last_generation };
        self.by_peer.insert((accepted.address, slot));
        self.by_id.insert(cid.as_bytes().to_vec(), slot);
        let connection = Connection::new(accepted, key, cid, original);
        self.slots[slot] = Some(Box::new(connection));
        key
    }

    /// Removes a connection, with its IDs and its peer's address.
    pub(super) fn remove(&mut self, slot: usize) -> Option<Box<Connection<A>>> {
        let connection = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        self.by_peer.remove(&(connection.address, slot));
        for id in connection.dcids() {
            remove_own(&mut self.by_id, id, slot);
        }
        Some(connection)
    }

    /// Adds an ID of a connection.
    pub(super) fn add_id(&mut self, id: Vec<u8>, slot: usize) {
        self.by_id.insert(id, slot);
    }

    /// Forgets an ID of a connection.
    pub(super) fn remove_id(&mut self, id: &[u8], slot: usize) {
        remove_own(&mut self.by_id, id, slot);
    }

    /// Changes the address of a connection's peer.
    pub(super) fn move_peer(&mut self, slot: usize, address: UnvalidatedAddress) {
        if let Some(connection) = self.slots[slot].as_deref_mut() {
            self.by_peer.remove(&(connection.address, slot));
            self.by_peer.insert((address, slot));
            connection.address = address;
        }
    }

    /// Queues a connection for service, once.
    pub(super) fn queue_service(&mut self, slot: usize) {
        if let Some(connection) = self.slots[slot].as_deref_mut()
            && !std::mem::replace(&mut connection.awaits_service, true)
        {
            connection.note_queued(self.now);
            self.to_service.push_back(slot);
        }
    }

    /// Queues a connection for emission, once.
    pub(super) fn queue_emit(&mut self, slot: usize) {
        if let Some(connection) = self.slots[slot].as_deref_mut()
            && !std::mem::replace(&mut connection.awaits_emit, true)
        {
            connection.note_queued(self.now);
            self.to_emit.push_back(slot);
        }
    }

    /// Takes the next slot that waits for service. Its connection may be gone.
    pub(super) fn next_to_service(&mut self) -> Option<usize> {
        self.to_service.pop_front()
    }

    /// Takes the next slot that waits for emission. Its connection may be gone.
    pub(super) fn next_to_emit(&mut self) -> Option<usize> {
        self.to_emit.pop_front()
    }

    /// Returns whether a connection waits for service.
    pub(super) fn has_service(&self) -> bool {
        !self.to_service.is_empty()
    }

    /// Returns the number of connections that wait for emission.
    pub(super) fn awaiting_emission(&self) -> usize {
        self.to_emit.len()
    }

    /// Returns the number of IDs under which connections are found.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub(super) fn ids(&self) -> usize {
        self.by_id.len()
    }

    /// Checks that the indexes agree with the connections.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub(super) fn check(&self) {
        let all = || self.slots.iter().flatten();
        assert_eq!(all().count(), self.len());
        assert_eq!(self.by_peer.len(), self.len());
        let ids: usize = all().map(|connection| connection.dcids().count()).sum();
        assert!(self.by_id.len() <= ids, "IDs without a connection");
    }

    #[cfg(any(test, feature = "test-fixtures"))]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection<A>> {
        self.slots.iter().flatten().map(Box::as_ref)
    }

    /// Grows the table to so many slots.
    #[cfg(test)]
    pub(super) fn enlarge(&mut self, slots: usize) {
        self.free.extend(self.slots.len()..slots);
        self.slots.resize_with(slots, || None);
    }
}

/// Removes an ID of the connection in `slot`. Two connections may have had the same: their clients' first choice.
fn remove_own(by_id: &mut SlotsById, id: &[u8], slot: usize) {
    if by_id.get(id) == Some(&slot) {
        by_id.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_another_connection_has_is_not_made_and_not_removed() {
        let (first, second) = (ConnectionId::from([1; 8]), ConnectionId::from([2; 8]));
        let mut by_id = SlotsById::from([(first.as_bytes().to_vec(), 3)]);
        let mut made = [first, first, second].into_iter();
        assert_eq!(make_unused(&by_id, || made.next().unwrap()), second);
        let mut tries = 0;
        let last = make_unused(&by_id, || {
            tries += 1;
            first
        });
        assert_eq!((last, tries), (first, ID_TRIES));
        remove_own(&mut by_id, first.as_bytes(), 4);
        assert_eq!(by_id.len(), 1);
        remove_own(&mut by_id, first.as_bytes(), 3);
        assert!(by_id.is_empty());
    }
}
