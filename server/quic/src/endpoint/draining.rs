//! Shutdown: no further connection, no further request, then CONNECTION_CLOSE to every client. A connection that expires
//! drains in the same way.
//!
//! A drain looks at a connection when something happens to it or its own time is up, never at all of them at once.

use std::time::Instant;

#[cfg(doc)]
use super::Ingest;
use super::{Endpoint, Shutdown};
use crate::application::Application;

/// Number of connections to which a turn announces a shutdown.
const ANNOUNCED_PER_TURN: usize = 1024;

impl<A: Application> Endpoint<A> {
    /// Returns whether new connections are refused.
    pub fn is_draining(&self) -> bool {
        self.shutdown.is_some()
    }

    /// Leaves new connections to the process of that generation: what belongs to no connection here is [`Ingest::Foreign`].
    pub fn leave_new(&mut self, generation: Option<u8>) {
        self.successor = generation;
    }

    /// Notes whether connections of other processes may have IDs of this one's making, which they got by its Retry: a short packet that
    /// belongs to no connection here is [`Ingest::Foreign`] then, of the own generation.
    pub fn share_ids(&mut self, on: bool) {
        self.shares_ids = on;
    }

    /// Returns the generation of its connection IDs.
    pub fn generation(&self) -> u8 {
        self.settings.secrets.generation()
    }

    /// Refuses new connections and, in the next turns, tells every client that no further request will be taken. A
    /// connection is closed once its client has had all responses for a while.
    pub fn drain(&mut self, now: Instant) {
        self.shutdown.get_or_insert(Shutdown { since: now, at_once: false, next: 0 });
    }

    /// Accepts new connections again. Those whose clients were told of the shutdown end all the same.
    pub fn resume(&mut self) {
        self.shutdown.take_if(|shutdown| !shutdown.at_once);
    }

    /// Refuses new connections and, in the next turns, closes all.
    pub fn close_all(&mut self, now: Instant) {
        let since = self.shutdown.as_ref().map_or(now, |before| before.since);
        if !self.shutdown.as_ref().is_some_and(|before| before.at_once) {
            self.shutdown = Some(Shutdown { since, at_once: true, next: 0 });
        }
    }

    /// Returns whether every connection of an endpoint that shuts down has sent CONNECTION_CLOSE or received one.
    pub fn is_drained(&self) -> bool {
        self.shutdown.is_some() && !self.is_announcing() && self.ended == self.len()
    }

    /// Returns whether there are connections to which the shutdown was not announced.
    pub(super) fn is_announcing(&self) -> bool {
        let shutdown = self.shutdown.as_ref();
        shutdown.is_some_and(|shutdown| shutdown.next < self.connections.slots())
    }

    /// Announces the shutdown to the next connections.
    pub(super) fn announce_shutdown(&mut self) {
        let Some(shutdown) = &mut self.shutdown else {
            return;
        };
        let first = shutdown.next;
        let end = self.connections.slots().min(first + ANNOUNCED_PER_TURN);
        shutdown.next = end;
        let at_once = shutdown.at_once;
        for slot in first..end {
            let Some(connection) = self.connections.get_mut(slot) else {
                continue;
            };
            connection.shut_down(shutdown.since);
            if at_once {
                connection.close();
            } else {
                connection.drain();
            }
            self.connections.queue_service(slot);
        }
    }

    /// Closes a connection at rest that a drain need not wait for, or plans the next look; counts those that have ended.
    /// Returns whether it was closed, so that it has something to send.
    pub(super) fn note_shutdown(&mut self, slot: usize, now: Instant) -> bool {
        let Some(connection) = self.connections.get_mut(slot) else {
            return false;
        };
        if connection.has_ended() {
            self.ended += usize::from(!connection.count_end());
            return false;
        }
        let drains = connection.shut_down_since().into_iter().chain(connection.expired_since());
        let Some(since) = drains.min() else {
            return false;
        };
        let closed = connection.finish(since, now);
        if closed {
            self.connections.queue_emit(slot);
        }
        closed
    }
}
