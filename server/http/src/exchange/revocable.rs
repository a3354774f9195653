//! The exchanges whose memory can be revoked.

use std::collections::BTreeSet;

use sluicegate_base::clients::ClientPrefix;

use crate::exchange::accounts::Permit;

/// Exchanges that can be revoked, by client. Of each client, those that never moved a block stand first, and of these the oldest:
/// the others are the client's fast ones, or its latest.
#[derive(Debug, Default)]
pub(super) struct Revocable {
    order: BTreeSet<(ClientPrefix, bool, u64)>,
}

impl Revocable {
    /// Adds an exchange that begins.
    pub(super) fn insert(&mut self, exchange: u64, permit: &Permit) {
        if let Some(client) = permit.holder() {
            self.order.insert((client, permit.has_grown(), exchange));
        }
    }

    /// Moves an exchange whose permit has grown behind those that never moved.
    pub(super) fn on_growth(&mut self, exchange: u64, permit: &Permit) {
        if let Some(client) = permit.holder() {
            self.order.remove(&(client, false, exchange));
            self.order.insert((client, true, exchange));
        }
    }

    /// Removes an exchange that ends.
    pub(super) fn remove(&mut self, exchange: u64, permit: &Permit) {
        if let Some(client) = permit.holder() {
            self.order.remove(&(client, permit.has_grown(), exchange));
        }
    }

    /// Takes the exchange of `client` that gives way first.
    pub(super) fn take_first(&mut self, client: ClientPrefix) -> Option<u64> {
        let first = *self.order.range((client, false, 0)..).next()?;
        let (holder, _, exchange) = first;
        (holder == client && self.order.remove(&first)).then_some(exchange)
    }
}
