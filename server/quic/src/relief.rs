//! State of a worker's relief while memory is short: what the holders of connections hold, and who is to lose how much.

use std::collections::BTreeMap;

use sluicegate_base::clients::relief::{FrontRelief, kept_by_proxies};
use sluicegate_base::observe::memory_budget::MemoryBudget;

use super::holders::Holder;

/// Progress of the relief after a measurement of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pass {
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
pub(super) struct Relief {
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
    pub(super) fn pass(&mut self, memory: &MemoryBudget) -> Pass {
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
    pub(super) fn is_under_way(&self) -> bool {
        self.pass != Pass::None
    }

    /// Returns the next of so many slots in this pass; `None` at its end.
    pub(super) fn next_slot(&mut self, slots: usize) -> Option<usize> {
        let slot = self.next;
        self.next += 1;
        (slot < slots).then_some(slot)
    }

    /// Adds what a connection holds.
    pub(super) fn add(&mut self, holder: Holder, bytes: u64) {
        let held = self.held.entry(holder).or_default();
        held.bytes += bytes;
        held.connections += 1;
    }

    /// Returns the bytes of a connection if it is to be closed: its holder holds too much, and it at least as much as the average of
    /// the holder's connections.
    pub(super) fn too_much(&self, holder: Holder, bytes: impl FnOnce() -> u64) -> Option<u64> {
        let held = self.held.get(&holder).filter(|held| held.excess > 0)?;
        let bytes = bytes();
        (bytes >= held.bytes / held.connections.max(1)).then_some(bytes)
    }

    /// Notes that a connection of `bytes` is being closed.
    pub(super) fn on_closed(&mut self, holder: Holder, bytes: u64) {
        if let Some(held) = self.held.get_mut(&holder) {
            held.excess = held.excess.saturating_sub(bytes);
        }
    }

    /// Ends a pass. After the first one it reports what clients hold, and the second begins if some hold too much.
    pub(super) fn end_pass(&mut self, front: &FrontRelief, memory: &MemoryBudget) {
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
