//! The open connections of a front by client, and which of them give way to others.

use std::cell::Cell;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::metered::Meter;
use super::send_buffer::SendBuffer;
use crate::http::clients::relief::{CONNECTION, FrontRelief};
use crate::http::clients::{ClientPrefix, Clients};
use crate::observe::memory_budget::MemoryBudget;

/// Connections that a search for one to close looks at; the oldest ones.
const SCANNED: usize = 64;
/// Connections that a relief closes, at most, beside a part of all.
const CLOSED: usize = 16;
/// Part of all connections that a relief closes, at most: one in so many.
const CLOSED_PART: usize = 64;
/// Time in which a client finishes a handshake to which the server has responded, before its connection gives way.
const FINISHING: Duration = Duration::from_secs(3);

/// A connection, as far as the others are concerned.
#[derive(Debug)]
pub(super) struct ConnectionHandle {
    /// It has open requests.
    pub(super) is_busy: Cell<bool>,
    /// It has brought a request.
    pub(super) had_request: Cell<bool>,
    pub(super) meter: Rc<Meter>,
    /// Bytes of responses that HTTP/2 holds for the client.
    pub(super) send_buffer: Arc<SendBuffer>,
    /// Memory promised to its exchanges, bytes.
    reserved: Cell<u64>,
    begun: Instant,
    is_closed: Cell<bool>,
    close: Notify,
}

impl ConnectionHandle {
    /// Returns a connection that begins, and whose responses may hold `send_buffer` bytes together.
    pub(super) fn new(send_buffer: u64, now: Instant) -> Rc<ConnectionHandle> {
        Rc::new(ConnectionHandle {
            is_busy: Cell::new(false),
            had_request: Cell::new(false),
            meter: Rc::default(),
            send_buffer: SendBuffer::new(usize::try_from(send_buffer).unwrap_or(usize::MAX)),
            reserved: Cell::new(0),
            begun: now,
            is_closed: Cell::new(false),
            close: Notify::new(),
        })
    }

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

    /// Changes the memory that an exchange holds.
    pub(super) fn reserve(&self, before: u64, now: u64) {
        let others = self.reserved.get().saturating_sub(before);
        self.reserved.set(others.saturating_add(now));
    }

    /// Returns the memory that the connection holds, bytes.
    fn bytes(&self) -> u64 {
        CONNECTION + self.send_buffer.held() + self.reserved.get()
    }

    /// Returns whether a connection without a whole handshake and request may give way.
    fn gives_way(&self, now: Instant) -> bool {
        let is_handshake = self.meter.written() > 0;
        !is_handshake || now.saturating_duration_since(self.begun) >= FINISHING
    }
}

/// Reason for which a connection has made room for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// It was unfinished.
    OfNewcomer,
    /// Its client had most of them.
    OfGreediest,
}

/// The connections that may be closed in favour of others: all but those of trusted proxies.
#[derive(Debug, Default)]
pub(super) struct OpenConnections {
    clients: Clients,
    handles: BTreeMap<(ClientPrefix, u64), Rc<ConnectionHandle>>,
    /// Connections without a whole handshake, or without TLS those without a request, by number: the oldest first.
    unfinished: BTreeMap<u64, ClientPrefix>,
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
        self.unfinished.insert(number, client);
    }

    /// Notes that the handshake is complete.
    pub(super) fn on_handshake(&mut self, number: u64) {
        self.unfinished.remove(&number);
    }

    /// Removes a connection, unless it was closed in favour of others.
    pub(super) fn remove(&mut self, client: ClientPrefix, number: u64) {
        self.take(client, number);
    }

    fn take(&mut self, client: ClientPrefix, number: u64) -> Option<Rc<ConnectionHandle>> {
        let handle = self.handles.remove(&(client, number))?;
        self.clients.leave(client);
        self.on_handshake(number);
        Some(handle)
    }

    /// Closes a connection. It counts no longer from then on.
    fn close(&mut self, client: ClientPrefix, number: u64) -> bool {
        let handle = self.take(client, number);
        handle.map(|handle| handle.close()).is_some()
    }

    /// Closes a connection for one of `newcomer`: the oldest unfinished one, or else one of the client that has most, if that is
    /// more than `newcomer` with one more would have. Returns why there is room then.
    pub(super) fn make_room(&mut self, newcomer: ClientPrefix, now: Instant) -> Option<Room> {
        if let Some((client, number)) = self.oldest_unfinished(now) {
            return self.close(client, number).then_some(Room::OfNewcomer);
        }
        let wanted = self.of(newcomer) + 1;
        let greedy = self.clients.most().filter(|(_, open)| *open > wanted);
        let closed = greedy.is_some_and(|(client, _)| self.close_one(client));
        closed.then_some(Room::OfGreediest)
    }

    /// Returns the oldest unfinished connection that may give way.
    fn oldest_unfinished(&mut self, now: Instant) -> Option<(ClientPrefix, u64)> {
        let handles = &self.handles;
        let handle = |number: u64, client: ClientPrefix| handles.get(&(client, number));
        while let Some(first) = self.unfinished.first_entry()
            && handle(*first.key(), *first.get()).is_none_or(|h| h.had_request.get())
        {
            first.remove();
        }
        let mut oldest = self.unfinished.iter().take(SCANNED);
        let (number, client) = oldest.find(|(number, client)| {
            handle(**number, **client).is_some_and(|h| !h.had_request.get() && h.gives_way(now))
        })?;
        Some((*client, *number))
    }

    /// Closes connections of the clients that hold most memory at all fronts, those first that hold most, until enough will be free.
    /// Returns how many.
    pub(super) fn relieve(&mut self, relief: &FrontRelief, memory: &MemoryBudget) -> u64 {
        let limit = CLOSED + self.handles.len() / CLOSED_PART;
        let held = self.by_memory();
        let shares = relief.report(held.iter().copied(), std::iter::empty(), memory);
        let totals = held
            .into_iter()
            .map(|(client, own)| (shares.total(client, own), client));
        let mut holders: BinaryHeap<(u64, ClientPrefix)> = totals.collect();
        let mut closed = 0;
        while closed < limit
            && memory.to_free() > 0
            && let Some((bytes, client)) = holders.pop()
            && bytes > shares.keeps()
        {
            let Some((freed, number)) = self.largest(client) else {
                continue;
            };
            closed += usize::from(self.close(client, number));
            memory.on_closed(freed);
            holders.push((bytes.saturating_sub(freed), client));
        }
        closed as u64
    }

    /// Returns the clients with the memory that their connections hold.
    fn by_memory(&self) -> Vec<(ClientPrefix, u64)> {
        let mut sums: Vec<(ClientPrefix, u64)> = Vec::new();
        for ((client, _), handle) in &self.handles {
            match sums.last_mut() {
                Some((last, bytes)) if last == client => *bytes += handle.bytes(),
                _ => sums.push((*client, handle.bytes())),
            }
        }
        sums
    }

    /// Returns the connection of a client that holds most memory, and how much; of several, the oldest.
    fn largest(&self, client: ClientPrefix) -> Option<(u64, u64)> {
        let own = self.handles.range((client, 0)..=(client, u64::MAX));
        let held = own.map(|((_, number), handle)| (handle.bytes(), *number));
        held.max_by_key(|(bytes, number)| (*bytes, u64::MAX - number))
    }

    /// Closes the oldest idle connection of a client, or else its oldest one.
    fn close_one(&mut self, client: ClientPrefix) -> bool {
        let own = { self.handles.range((client, 0)..=(client, u64::MAX)) }.take(SCANNED);
        let chosen = own.min_by_key(|(_, handle)| handle.is_busy.get());
        let key = chosen.map(|(key, _)| *key);
        key.is_some_and(|(client, number)| self.close(client, number))
    }
}

#[cfg(test)]
mod tests;
