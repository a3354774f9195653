//! Relief while memory is short: clients that hold most bytes lose connections, and only then proxies that listeners trust.
//!
//! Newcomers are refused then. Without relief, a client that has used the memory up would keep it, and lock all others out.
//!
//! A turn looks at a few connections, slot by slot. After a measurement, a first pass over all of them adds up what each holder has.
//! A second one closes connections of those that hold too much, by what clients hold at all fronts: those first that hold as much as
//! the average of their holder's, or more.

use std::collections::BTreeMap;
use std::time::Instant;

use sluicegate_base::clients::relief::{FrontRelief, kept_by_proxies};
use sluicegate_base::observe::memory_budget::MemoryBudget;

use crate::application::{Application, Shared as _};
use crate::endpoint::Endpoint;
use crate::holders::Holder;

/// Slots that a turn looks at, at most.
const SCANNED_PER_TURN: usize = 256;
/// Connections that a turn closes, at most.
const CLOSED_PER_TURN: usize = 16;

impl<A: Application> Endpoint<A> {
    /// Closes connections of the clients that hold most if there is memory to be freed; called once per turn.
    pub(in crate::endpoint) fn relieve(&mut self, now: Instant) {
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

/// Progress of the relief after a measurement of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::endpoint) enum Pass {
    /// Nothing is left to do until the next measurement.
    #[default]
    None,
    /// The memory of all connections is added up.
    Look,
    /// Connections of those that hold too much are closed.
    Close,
}

/// The relief of a worker; at rest while memory suffices.
#[derive(Debug, Default)]
pub(in crate::endpoint) struct Relief {
    pass: Pass,
    /// Slot that is looked at next.
    next: usize,
    /// Number of the measurement that the passes are about.
    measurement: u64,
    /// Memory of each holder; in the second pass only of those that hold too much.
    held: BTreeMap<Holder, Held>,
}

/// Memory of a holder's connections.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    bytes: u64,
    connections: u64,
    /// Bytes that the holder is to lose.
    excess: u64,
}

impl Relief {
    /// Returns the present pass. One begins after each measurement that finds bytes to free, and all end when enough will be free.
    pub(in crate::endpoint) fn pass(&mut self, memory: &MemoryBudget) -> Pass {
        if memory.to_free() == 0 {
            if self.is_under_way() {
                self.end();
            }
        } else if self.pass == Pass::None && self.measurement != memory.measurements() {
            self.measurement = memory.measurements();
            self.pass = Pass::Look;
        }
        self.pass
    }

    /// Returns whether a pass is under way.
    pub(in crate::endpoint) fn is_under_way(&self) -> bool {
        self.pass != Pass::None
    }

    /// Returns the next of so many slots in this pass; `None` at its end.
    pub(in crate::endpoint) fn next_slot(&mut self, slots: usize) -> Option<usize> {
        let slot = self.next;
        self.next += 1;
        (slot < slots).then_some(slot)
    }

    /// Adds what a connection holds.
    pub(in crate::endpoint) fn add(&mut self, holder: Holder, bytes: u64) {
        let held = self.held.entry(holder).or_default();
        held.bytes += bytes;
        held.connections += 1;
    }

    /// Returns the bytes of a connection if it is to be closed: its holder holds too much, and it at least as much as the average of
    /// the holder's connections.
    pub(in crate::endpoint) fn too_much(
        &self,
        holder: Holder,
        bytes: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let held = self.held.get(&holder).filter(|held| held.excess > 0)?;
        let bytes = bytes();
        (bytes >= held.bytes / held.connections.max(1)).then_some(bytes)
    }

    /// Notes that a connection of `bytes` is being closed.
    pub(in crate::endpoint) fn on_closed(&mut self, holder: Holder, bytes: u64) {
        if let Some(held) = self.held.get_mut(&holder) {
            held.excess = held.excess.saturating_sub(bytes);
        }
    }

    /// Ends a pass. After the first one it reports what clients hold, and the second begins if some hold too much.
    pub(in crate::endpoint) fn end_pass(&mut self, front: &FrontRelief, memory: &MemoryBudget) {
        if self.pass == Pass::Look {
            self.judge(front, memory);
            self.held.retain(|_, held| held.excess > 0);
            if !self.held.is_empty() {
                (self.pass, self.next) = (Pass::Close, 0);
                return;
            }
        }
        self.end();
    }

    fn end(&mut self) {
        *self = Relief { measurement: self.measurement, ..Relief::default() };
    }

    /// Determines who is to lose how much. Proxies lose only if nobody else holds too much.
    fn judge(&mut self, front: &FrontRelief, memory: &MemoryBudget) {
        let clients = self.held.iter().filter_map(|(holder, held)| match holder {
            Holder::Client(client) => Some((*client, held.bytes)),
            _ => None,
        });
        let strangers = self
            .held
            .iter()
            .filter_map(|(holder, held)| holder.is_unproved().then_some(held.bytes));
        let shares = front.report(clients, strangers, memory);
        for (holder, held) in &mut self.held {
            held.excess = match holder {
                Holder::Client(client) => shares.excess(*client, held.bytes),
                Holder::Unproved(_) => held.bytes.saturating_sub(shares.keeps()),
                Holder::Proxy(_) => 0,
            };
        }
        if self.held.values().any(|held| held.excess > 0) {
            return;
        }
        let proxies =
            self.held.iter().filter_map(|(holder, held)| holder.is_proxy().then_some(held.bytes));
        let keeps = kept_by_proxies(proxies, memory);
        for (holder, held) in &mut self.held {
            if holder.is_proxy() {
                held.excess = held.bytes.saturating_sub(keeps);
            }
        }
    }
}
