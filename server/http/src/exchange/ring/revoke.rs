//! Room for an exchange at the expense of the client that holds the most memory.

use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::clients::ClientPrefix;
use sluicegate_base::keys::ExchangeKey;

use super::OriginRing;
use crate::exchange::accounts::Permit;

impl OriginRing {
    /// Promises memory to an exchange of the client at `address`. If there is none left, an exchange of the client that holds the
    /// most is cancelled for it; `None` if no client holds more than this one would.
    pub fn admit(&mut self, address: ValidatedAddress) -> Option<Permit> {
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
