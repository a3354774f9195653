//! The open connections of a front by client, and which of them give way to others.

use std::cell::Cell;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Bound::{Excluded, Unbounded};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use sluicegate_base::clients::relief::{CONNECTION, FrontRelief};
use sluicegate_base::clients::{ClientPrefix, Clients, FIRST_REQUEST, NEXT_REQUEST};
use sluicegate_base::observe::memory_budget::MemoryBudget;
use tokio::sync::Notify;

use super::metered::Meter;
use super::open_requests::OpenRequests;
use super::send_buffer::SendBuffer;

/// Connections that a search for one to close looks at.
const SCANNED: usize = 64;
/// Connections that a relief closes, at most, beside a part of all.
const CLOSED: usize = 16;
/// Part of all connections that a relief closes, at most: one in so many.
const CLOSED_PART: usize = 64;

/// A connection, as far as the others are concerned.
#[derive(Debug)]
pub(super) struct ConnectionHandle {
    /// It has open requests.
    is_busy: Cell<bool>,
    /// Time at which it last had none any more.
    idle_since: Cell<Instant>,
    /// It has brought a request.
    had_request: Cell<bool>,
    pub(super) meter: Rc<Meter>,
    pub(super) requests: OpenRequests,
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
    pub(super) fn new(send_buffer: u64, clock: fn() -> Instant) -> Rc<ConnectionHandle> {
        let now = clock();
        Rc::new(ConnectionHandle {
            is_busy: Cell::new(false),
            idle_since: Cell::new(now),
            had_request: Cell::new(false),
            meter: Meter::new(clock),
            requests: OpenRequests::default(),
            send_buffer: SendBuffer::new(usize::try_from(send_buffer).unwrap_or(usize::MAX)),
            reserved: Cell::new(0),
            begun: now,
            is_closed: Cell::new(false),
            close: Notify::new(),
        })
    }

    /// Notes a request.
    pub(super) fn on_request(&self) {
        self.is_busy.set(true);
        self.had_request.set(true);
    }

    /// Notes that no request is open any more.
    pub(super) fn on_idle(&self, now: Instant) {
        self.is_busy.set(false);
        self.idle_since.set(now);
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

    /// Returns whether a connection without a request may give way.
    fn gives_way(&self, now: Instant) -> bool {
        let is_handshake = self.meter.written() > 0;
        !is_handshake || now.saturating_duration_since(self.begun) >= FIRST_REQUEST
    }

    /// Returns since when a connection is idle that may give way for that.
    fn idle_since(&self, now: Instant) -> Option<Instant> {
        let since = self.idle_since.get();
        // What was taken last may still wait for the client, in hyper or h2.
        let is_at_rest = !self.is_busy.get() && !self.meter.is_blocked();
        let is_idle = self.had_request.get() && is_at_rest;
        (is_idle && now.saturating_duration_since(since) >= NEXT_REQUEST).then_some(since)
    }
}

/// Reason for which a connection has made room for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// It had brought no request.
    Newcomer,
    /// It was idle.
    Idle,
    /// Its client had most of them.
    Greediest,
}

/// The connections that may be closed in favour of others: all but those of trusted proxies.
#[derive(Debug, Default)]
pub(super) struct OpenConnections {
    clients: Clients,
    handles: BTreeMap<(ClientPrefix, u64), Rc<ConnectionHandle>>,
    /// Connections that had no request when they were last looked at, by number: the oldest first.
    newcomers: BTreeMap<u64, ClientPrefix>,
    /// Last connection that was looked at for an idle one.
    hand: Option<(ClientPrefix, u64)>,
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
        self.newcomers.insert(number, client);
    }

    /// Removes a connection, unless it was closed in favour of others.
    pub(super) fn remove(&mut self, client: ClientPrefix, number: u64) {
        self.take(client, number);
    }

    fn take(&mut self, client: ClientPrefix, number: u64) -> Option<Rc<ConnectionHandle>> {
        let handle = self.handles.remove(&(client, number))?;
        self.clients.leave(client);
        self.newcomers.remove(&number);
        Some(handle)
    }

    /// Closes a connection. It counts no longer from then on.
    fn close(&mut self, client: ClientPrefix, number: u64) -> bool {
        let handle = self.take(client, number);
        handle.map(|handle| handle.close()).is_some()
    }

    /// Closes a connection for one of `newcomer`: the oldest without a request, or else an idle one, or else one of the client that has
    /// most, if that is more than `newcomer` with one more would have. Returns why there is room then.
    pub(super) fn make_room(&mut self, newcomer: ClientPrefix, now: Instant) -> Option<Room> {
        if let Some((client, number)) = self.oldest_newcomer(now) {
            return self.close(client, number).then_some(Room::Newcomer);
        }
        if let Some((client, number)) = self.longest_idle(now) {
            return self.close(client, number).then_some(Room::Idle);
        }
        let wanted = self.of(newcomer) + 1;
        let greedy = self.clients.most().filter(|(_, open)| *open > wanted);
        let closed = greedy.is_some_and(|(client, _)| self.close_one(client));
        closed.then_some(Room::Greediest)
    }

    /// Returns the oldest connection without a request that may give way.
    fn oldest_newcomer(&mut self, now: Instant) -> Option<(ClientPrefix, u64)> {
        let mut served = Vec::new();
        let mut looked_at = 0;
        let mut found = None;
        for (number, client) in &self.newcomers {
            let handle = self.handles.get(&(*client, *number));
            let Some(handle) = handle.filter(|handle| !handle.had_request.get()) else {
                served.push(*number);
                continue;
            };
            if handle.gives_way(now) {
                found = Some((*client, *number));
                break;
            }
            looked_at += 1;
            if looked_at == SCANNED {
                break;
            }
        }
        for number in served {
            self.newcomers.remove(&number);
        }
        found
    }

    /// Returns the connection that has been idle for longest, of some that are looked at in turn.
    fn longest_idle(&mut self, now: Instant) -> Option<(ClientPrefix, u64)> {
        let behind = self.hand.map_or(Unbounded, Excluded);
        let handles = &self.handles;
        let all = handles.range((behind, Unbounded)).chain(handles);
        let mut longest = None;
        for (key, handle) in all.take(SCANNED.min(handles.len())) {
            self.hand = Some(*key);
            if let Some(since) = handle.idle_since(now)
                && longest.is_none_or(|(longest, _)| since < longest)
            {
                longest = Some((since, *key));
            }
        }
        longest.map(|(_, key)| key)
    }

    /// Closes connections of the clients that hold most memory at all fronts, those first that hold most, until enough will be free.
    /// Returns how many.
    pub(super) fn relieve(&mut self, relief: &FrontRelief, memory: &MemoryBudget) -> u64 {
        let limit = CLOSED + self.handles.len() / CLOSED_PART;
        let held = self.by_memory();
        let shares = relief.report(held.iter().copied(), std::iter::empty(), memory);
        let totals = held.into_iter().map(|(client, own)| (shares.total(client, own), client));
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
        let own = self.handles.range((client, 0)..=(client, u64::MAX)).take(SCANNED);
        let chosen = own.min_by_key(|(_, handle)| handle.is_busy.get());
        let key = chosen.map(|(key, _)| *key);
        key.is_some_and(|(client, number)| self.close(client, number))
    }
}

#[cfg(test)]
mod tests;
