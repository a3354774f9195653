//! The open exchanges of a front, with the memory promised to each of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::clients::ClientPrefix;

use super::accounts::{Accounts, Direction, Permit};
use crate::id_map::IdMap;

/// Open exchanges, each with what its front keeps of it.
#[derive(Debug)]
pub(super) struct ExchangeTable<T> {
    pub(super) accounts: Arc<Accounts>,
    pub(super) entries: IdMap<Entry<T>>,
    /// Those of them whose memory can be revoked.
    revocable: Revocable,
    /// Number of the exchange opened last.
    last: u64,
}

/// Open exchange.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) permit: Permit,
    pub(super) kept: T,
}

impl<T> ExchangeTable<T> {
    pub(super) fn new(accounts: Arc<Accounts>) -> ExchangeTable<T> {
        ExchangeTable {
            accounts,
            entries: IdMap::default(),
            revocable: Revocable::default(),
            last: 0,
        }
    }

    /// Promises memory to an exchange of the client at `address`. If there is none left, an exchange of the client that holds the most
    /// is revoked for it, which its front then cancels; `None` if no client holds more than this one would.
    pub(super) fn admit(
        &mut self,
        address: ValidatedAddress,
        on_revoked: impl FnOnce(&mut T),
    ) -> Option<Permit> {
        let client = ClientPrefix::from(address);
        let permit = self.accounts.promise(client).or_else(|| {
            self.revoke(self.accounts.largest_holder(client)?, on_revoked);
            self.accounts.promise(client)
        });
        if permit.is_none() {
            self.accounts.count_refusal(client);
        }
        permit
    }

    /// Takes the memory of one of a client's exchanges, which is at least what another one needs.
    fn revoke(&mut self, client: ClientPrefix, on_revoked: impl FnOnce(&mut T)) {
        let exchange = self.revocable.take_first(client);
        if let Some(entry) = exchange.and_then(|exchange| self.entries.get_mut(&exchange)) {
            entry.permit.revoke();
            on_revoked(&mut entry.kept);
        }
    }

    /// Adds an exchange and returns its number.
    pub(super) fn insert(&mut self, permit: Permit, kept: T) -> u64 {
        self.last += 1;
        self.revocable.insert(self.last, &permit);
        self.entries.insert(self.last, Entry { permit, kept });
        self.last
    }

    /// Returns what its front keeps of an exchange.
    pub(super) fn get_mut(&mut self, exchange: u64) -> Option<&mut T> {
        self.entries.get_mut(&exchange).map(|entry| &mut entry.kept)
    }

    /// Removes an exchange, whose memory is free then.
    pub(super) fn remove(&mut self, exchange: u64) {
        if let Some(entry) = self.entries.remove(&exchange) {
            self.revocable.remove(exchange, &entry.permit);
        }
    }

    /// Raises the memory of a direction that moves. Returns the further credit, bytes.
    pub(super) fn grow(&mut self, exchange: u64, direction: Direction) -> u64 {
        let Some(entry) = self.entries.get_mut(&exchange) else {
            return 0;
        };
        let more = entry.permit.grow(direction);
        if more > 0 {
            self.revocable.on_growth(exchange, &entry.permit);
        }
        more
    }

    /// Returns the memory promised to an exchange, bytes.
    pub(super) fn promised(&self, exchange: u64) -> u64 {
        let entry = self.entries.get(&exchange);
        entry.map_or(0, |entry| entry.permit.promised())
    }
}

/// Exchanges that can be revoked, by client. Of each client, those that never moved a block stand first, and of these the oldest:
/// the others are the client's fast ones, or its latest.
#[derive(Debug, Default)]
struct Revocable {
    order: BTreeSet<(ClientPrefix, bool, u64)>,
}

impl Revocable {
    /// Adds an exchange that begins.
    fn insert(&mut self, exchange: u64, permit: &Permit) {
        if let Some(client) = permit.holder() {
            self.order.insert((client, permit.has_grown(), exchange));
        }
    }

    /// Moves an exchange whose permit has grown behind those that never moved.
    fn on_growth(&mut self, exchange: u64, permit: &Permit) {
        if let Some(client) = permit.holder() {
            self.order.remove(&(client, false, exchange));
            self.order.insert((client, true, exchange));
        }
    }

    /// Removes an exchange that ends.
    fn remove(&mut self, exchange: u64, permit: &Permit) {
        if let Some(client) = permit.holder() {
            self.order.remove(&(client, permit.has_grown(), exchange));
        }
    }

    /// Takes the exchange of `client` that gives way first.
    fn take_first(&mut self, client: ClientPrefix) -> Option<u64> {
        let first = *self.order.range((client, false, 0)..).next()?;
        let (holder, _, exchange) = first;
        (holder == client && self.order.remove(&first)).then_some(exchange)
    }
}
