//! Room for an exchange at the expense of the client that holds the most memory.

use std::net::IpAddr;

use super::OriginRing;
use crate::http::clients::ClientPrefix;
use crate::http::exchange::ExchangeKey;
use crate::http::exchange::accounts::Permit;

/// Part of a client's exchanges that is cancelled at once, so that not every request has to look at all exchanges.
const PART: usize = 64;

impl OriginRing {
    /// Promises memory to an exchange of the client at `address`. If there is none left, exchanges of the client that holds the
    /// most are cancelled for it; `None` if no client holds more than this one would.
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

    /// Takes the memory of a part of a client's exchanges: of those that never moved a block first, and of these the oldest. The
    /// others are the client's fast ones, or its latest.
    fn revoke(&mut self, client: ClientPrefix) {
        let held = { self.exchanges.iter() }.filter(|(_, entry)| entry.permit.is_held_by(client));
        let mut order: Vec<(bool, u64)> = held
            .map(|(exchange, entry)| (entry.permit.has_grown(), *exchange))
            .collect();
        let count = order.len().div_ceil(PART);
        if count < order.len() {
            order.select_nth_unstable(count);
            order.truncate(count);
        }
        for (_, exchange) in order {
            if let Some(entry) = self.exchanges.get_mut(&exchange) {
                entry.permit.revoke();
                self.revoked.push(entry.key);
                self.counters.revoked += 1;
            }
        }
    }

    /// Returns the key of an exchange whose memory was revoked, for its front to cancel it.
    pub fn take_revoked(&mut self) -> Option<ExchangeKey> {
        self.revoked.pop()
    }
}
