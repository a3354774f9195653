//! Listeners that a reload has removed: their connections end as those that expire, and then the sockets are free.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_dataplane::ListenerId;

use super::Endpoint;
use crate::application::Application;
use crate::settings::{Lease, Listener};

/// Number of connections that a turn looks at for each removed listener.
const RETIRED_PER_TURN: usize = 1024;

/// A removed listener that still has connections.
#[derive(Debug)]
pub(super) struct Retirement {
    pub(super) listener: ListenerId,
    /// Name of the listener.
    name: Arc<str>,
    /// Time that requests get to finish.
    pub(super) limit: Duration,
    /// First slot whose connection was not looked at.
    pub(super) next: usize,
    /// Need of the sockets, until the last connection has ended.
    pub(super) _lease: Lease,
}

impl<A: Application> Endpoint<A> {
    /// Begins the end of the listeners of `before` that the configuration in effect does not have; requests get `limit` to finish.
    /// No further connection of theirs is accepted.
    pub(super) fn retire_listeners(
        &mut self,
        before: HashMap<ListenerId, Listener<A>>,
        limit: Duration,
    ) {
        let current = &self.settings.listeners;
        // One that was removed and is configured again.
        self.retiring.retain(|retirement| !current.contains_key(&retirement.listener));
        let removed = before.into_iter().filter(|(id, _)| !current.contains_key(id));
        let retirements = removed.map(|(listener, before)| Retirement {
            listener,
            name: before.name,
            limit,
            next: 0,
            _lease: before.lease,
        });
        self.retiring.extend(retirements);
        self.end_retirements();
        // A listener may also have another name.
        self.forget_removed_names();
    }

    /// Returns whether there are connections that were not looked at for a removed listener.
    pub(super) fn is_announcing_retirements(&self) -> bool {
        let count = self.connections.slots();
        self.retiring.iter().any(|r| r.next < count)
    }

    /// Tells the clients of the next connections of removed listeners to open other connections.
    pub(super) fn announce_retirements(&mut self, now: Instant) {
        if !self.is_announcing_retirements() {
            return;
        }
        for index in 0..self.retiring.len() {
            let retirement = &mut self.retiring[index];
            let (listener, limit) = (retirement.listener, retirement.limit);
            let first = retirement.next;
            let end = self.connections.slots().min(first + RETIRED_PER_TURN);
            retirement.next = end;
            for slot in first..end {
                let connection = self.connections.get_mut(slot);
                // One in its handshake follows once that is complete.
                if let Some(connection) = connection.filter(|c| c.listener == listener)
                    && !connection.is_half_open()
                {
                    connection.retire(limit, now);
                    self.connections.queue_service(slot);
                }
            }
        }
        self.end_retirements();
    }

    /// Notes that a connection of a listener has gone.
    pub(super) fn leave_listener(&mut self, listener: ListenerId) {
        if let Some(count) = self.by_listener.get_mut(&listener) {
            *count -= 1;
            if *count == 0 {
                self.by_listener.remove(&listener);
                self.end_retirements();
            }
        }
    }

    /// Returns the name of a listener, also of a removed one that still has connections.
    pub(super) fn name_until_end(&self, listener: ListenerId) -> Option<Arc<str>> {
        let known = self.settings.listeners.get(&listener).map(|known| &known.name);
        let removed = || self.retiring.iter().find(|r| r.listener == listener).map(|r| &r.name);
        known.or_else(removed).cloned()
    }

    /// Ends those whose connections have all ended, with the figures under their names: a metric of a listener goes with it.
    fn end_retirements(&mut self) {
        let (count, by_listener) = (self.connections.slots(), &self.by_listener);
        let before = self.retiring.len();
        self.retiring.retain(|r| r.next < count || by_listener.contains_key(&r.listener));
        if self.retiring.len() < before {
            self.forget_removed_names();
        }
    }

    /// Forgets the figures under names that no listener has any more.
    fn forget_removed_names(&mut self) {
        let (current, retiring) = (&self.settings.listeners, &self.retiring);
        self.counters.ended.retain(|class, _| {
            current.values().any(|listener| listener.name == class.listener)
                || retiring.iter().any(|r| r.name == class.listener)
        });
    }
}
