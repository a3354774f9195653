//! Idle connections that give way to newcomers of a worker that has as many connections as it may.

use std::time::Instant;

use sluicegate_base::clients::{FIRST_REQUEST, NEXT_REQUEST};

use crate::activity::Idle;
use crate::application::Application;
use crate::endpoint::Endpoint;

/// Slots that a search looks at.
const SCANNED: usize = 64;

impl<A: Application> Endpoint<A> {
    /// Returns the slot of a connection that gives way, of some that are looked at in turn: of those without any request the oldest,
    /// or else the one that has been idle for longest. Proxies that listeners trust give way to nobody.
    pub(in crate::endpoint) fn longest_idle(&mut self, now: Instant) -> Option<usize> {
        let slots = self.connections.slots();
        let looked_at = (0..SCANNED.min(slots)).map(|step| (self.idle_hand + step) % slots);
        let idle = looked_at.filter_map(|slot| Some((self.gives_way(slot, now)?, slot)));
        let longest = idle.min().map(|(_, slot)| slot);
        if longest.is_none() {
            self.look_further();
        }
        longest
    }

    /// Has the next search look at other slots.
    pub(in crate::endpoint) fn look_further(&mut self) {
        let slots = self.connections.slots().max(1);
        self.idle_hand = (self.idle_hand + SCANNED) % slots;
    }

    /// Returns since when the connection in a slot is idle, if it may give way for that.
    fn gives_way(&self, slot: usize, now: Instant) -> Option<Idle> {
        let connection = self.connections.get(slot)?;
        // What has just arrived may be a request.
        let idle = connection.idle().filter(|_| !connection.awaits_service)?;
        let (since, allowed) = match idle {
            Idle::SinceStart(start) => (start, FIRST_REQUEST),
            Idle::SinceRequest(end) => (end, NEXT_REQUEST),
        };
        let is_client = connection.holder.is_some_and(|holder| !holder.is_proxy());
        (is_client && now.saturating_duration_since(since) >= allowed).then_some(idle)
    }
}
