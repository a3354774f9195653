//! Relief while memory is short: clients that hold most bytes lose connections, and only then proxies that listeners trust.
//!
//! Newcomers are refused then. Without relief, a client that has used the memory up would keep it, and lock all others out.
//!
//! A turn looks at a few connections, slot by slot. After a measurement, a first pass over all of them adds up what each holder has.
//! A second one closes connections of those that hold too much, by what clients hold at all fronts: those first that hold as much as
//! the average of their holder's, or more.

use std::time::Instant;

use super::Endpoint;
use crate::application::{Application, Shared as _};
use crate::relief::Pass;

/// Slots that a turn looks at, at most.
const SCANNED_PER_TURN: usize = 256;
/// Connections that a turn closes, at most.
const CLOSED_PER_TURN: usize = 16;

impl<A: Application> Endpoint<A> {
    /// Closes connections of the clients that hold most if there is memory to be freed; called once per turn.
    pub(super) fn relieve(&mut self, now: Instant) {
        let mut closed = 0;
        for _ in 0..SCANNED_PER_TURN {
            let pass = self.relief.pass(self.settings.shared.memory());
            if pass == Pass::None || closed == CLOSED_PER_TURN {
                return;
            }
            let Some(slot) = self.relief.next_slot(self.connections.slots()) else {
                let shared = &self.settings.shared;
                self.relief.end_pass(shared.relief(), shared.memory());
                continue;
            };
            if pass == Pass::Look {
                self.look_at(slot);
            } else {
                closed += usize::from(self.close_if_too_much(slot, now));
            }
        }
    }

    /// Adds what a connection holds to what its holder does.
    fn look_at(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get(slot)
            && let Some(holder) = connection.holder
        {
            let held = connection.held(&self.settings.shared);
            self.relief.add(holder, held);
        }
    }

    /// Closes a connection if its holder holds too much, and it a part of that. Returns whether it did.
    fn close_if_too_much(&mut self, slot: usize, now: Instant) -> bool {
        let shared = &self.settings.shared;
        let Some(connection) = self.connections.get_mut(slot) else {
            return false;
        };
        let Some(holder) = connection.holder else {
            return false;
        };
        let too_much = self.relief.too_much(holder, || connection.held(shared));
        let Some(bytes) = too_much.filter(|_| connection.give_up()) else {
            return false;
        };
        // It counts no longer, or the client would lose more than it has too much before the first one is gone.
        connection.holder = None;
        self.holders.leave(holder);
        self.relief.on_closed(holder, bytes);
        shared.memory().on_closed(bytes);
        self.counters.relieved += 1;
        self.connections.queue_service(slot);
        if self.may_log(now) {
            tracing::warn!(client = %holder, bytes, closed = self.counters.relieved, "connection closed: memory is short");
        }
        true
    }
}
