//! Room for an exchange at the expense of the client that holds the most memory.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::OriginRing;
use crate::http::clients::ClientPrefix;
use crate::http::exchange::ExchangeKey;
use crate::http::exchange::accounts::Permit;

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
    fn take_first(&mut self, client: ClientPrefix) -> Option<u64> {
        let first = *self.order.range((client, false, 0)..).next()?;
        let (holder, _, exchange) = first;
        (holder == client && self.order.remove(&first)).then_some(exchange)
    }
}

impl OriginRing {
    /// Promises memory to an exchange of the client at `address`. If there is none left, an exchange of the client that holds the
    /// most is cancelled for it; `None` if no client holds more than this one would.
    pub fn admit(&mut self, address: IpAddr) -> Option<Permit> {
        let client = ClientPrefix::from(address);
        if let Some(permit) = self.accounts.promise(client) {
            return Some(permit);
        }
        if let Some(greedy) = self.accounts.most_greedy(client) {
            self.revoke(greedy);
            if let Some(permit) = self.accounts.promise(client) {
                return Some(permit);
            }
        }
        self.accounts.count_refusal(client);
        None
    }

    /// Takes the memory of one of a client's exchanges, which is at least what another one needs.
    fn revoke(&mut self, client: ClientPrefix) {
        let exchange = self.revocable.take_first(client);
        if let Some(entry) = exchange.and_then(|exchange| self.exchanges.get_mut(&exchange)) {
            entry.permit.revoke();
            self.revoked.push(entry.key);
            self.counters.revoked += 1;
        }
    }

    /// Returns the key of an exchange whose memory was revoked, for its front to cancel it.
    pub fn take_revoked(&mut self) -> Option<ExchangeKey> {
        self.revoked.pop()
    }
}
