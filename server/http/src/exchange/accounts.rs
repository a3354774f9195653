//! Memory for exchanges and their number, and each client's part of both.
//!
//! One [`Accounts`] covers a worker and its origin thread. Every front asks it for a [`Permit`] before it opens an exchange,
//! so the bounds hold for all fronts together.
//!
//! A client alone may use the whole memory. Once that is used up, the client that holds the most gives way to every client that
//! would hold less than it (max-min fairness). The number of exchanges is bounded the same way, because each may hold a descriptor. A fixed share would slow a single client on an idle server down, and would not
//! help against more clients than there are shares: they could keep all others out for as long as they like.
//!
//! An exchange begins with a small part of its memory. It gets the rest of it for each direction once that direction moves, while
//! half of the memory is free. So exchanges whose client takes nothing stay small, and many small requests fit in.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::clients::{ClientPrefix, Clients};

/// Memory of each direction of an exchange at its beginning, at most, bytes.
const FIRST: u64 = 32 << 10;

/// Memory that exchanges may hold, and the part promised to open ones.
#[derive(Debug)]
pub struct Accounts {
    /// Memory for all exchanges, bytes.
    memory: u64,
    /// Largest sum of an exchange's blocks in each direction, bytes.
    share: u64,
    /// Largest number of exchanges.
    most: u64,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// Bytes promised to open exchanges.
    promised: u64,
    /// Open exchanges whose permit was not revoked.
    exchanges: u64,
    /// Bytes of each client's exchanges.
    bytes: Clients,
    /// Exchanges of each client whose permit was not revoked.
    numbers: Clients,
    /// Permits refused for want of memory.
    refused_memory: u64,
    /// Permits refused to the client that held the most.
    refused_client: u64,
}

/// Sums of [`Accounts`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountTotals {
    /// Bytes promised to open exchanges.
    pub promised: u64,
    /// Permits refused because the memory was promised to others.
    pub refused_memory: u64,
    /// Permits refused because no client held more of the memory than the one that asked.
    pub refused_client: u64,
}

/// Direction of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The request's body.
    Request,
    /// The response's body.
    Response,
}

/// Memory of one exchange, held until neither the handler nor the front has any of its messages; dropping it returns the memory.
#[derive(Debug)]
pub struct Permit {
    accounts: Arc<Accounts>,
    client: ClientPrefix,
    /// Exchanges of the client when this one was admitted, itself included.
    exchanges: u64,
    /// Bytes promised to it; 0 once it was revoked.
    promised: u64,
    /// Whether each direction has its whole share.
    request_grown: bool,
    response_grown: bool,
}

impl Accounts {
    /// Returns accounts of `memory` bytes, for exchanges of `share` bytes in each direction.
    pub fn new(share: u64, memory: u64) -> Arc<Accounts> {
        Accounts::with_limit(share, memory, u64::MAX)
    }

    /// Does the same for `most` exchanges at a time.
    pub fn with_limit(share: u64, memory: u64, most: u64) -> Arc<Accounts> {
        Arc::new(Accounts { memory, share, most, open: Mutex::default() })
    }

    /// Returns the largest sum of an exchange's blocks in each direction, bytes by [`cost`](super::message::cost).
    pub fn share(&self) -> u64 {
        self.share
    }

    /// Returns the sum of an exchange's blocks in each direction at its beginning, bytes by [`cost`](super::message::cost).
    pub fn first_credit(&self) -> u64 {
        self.share.min(FIRST)
    }

    /// Promises memory to an exchange of the client at `address`; `None` if there is none left, or no exchange. The first exchange
    /// always gets its memory, however small the whole is.
    pub fn admit(self: &Arc<Self>, address: ValidatedAddress) -> Option<Permit> {
        let client = ClientPrefix::from(address);
        let permit = self.promise(client);
        if permit.is_none() {
            self.count_refusal(client);
        }
        permit
    }

    /// Returns a permit as [`Accounts::admit`] does, and counts no refusal.
    pub(super) fn promise(self: &Arc<Self>, client: ClientPrefix) -> Option<Permit> {
        let needs = self.needs();
        let mut open = self.open();
        let full = open.promised > 0 && open.promised.saturating_add(needs) > self.memory;
        if full || open.exchanges >= self.most {
            return None;
        }
        open.promised += needs;
        open.exchanges += 1;
        open.bytes.add(client, needs);
        let exchanges = open.numbers.add(client, 1);
        Some(Permit {
            accounts: Arc::clone(self),
            client,
            exchanges,
            promised: needs,
            request_grown: false,
            response_grown: false,
        })
    }

    /// Returns the client that holds the most memory, if it is to give way to a further exchange of `client`.
    pub(super) fn largest_holder(&self, client: ClientPrefix) -> Option<ClientPrefix> {
        let open = self.open();
        let (parts, needs) = if open.exchanges >= self.most {
            (&open.numbers, 1)
        } else {
            (&open.bytes, self.needs())
        };
        let would_hold = parts.open(client).saturating_add(needs);
        let (found, most) = parts.most()?;
        (most > would_hold).then_some(found)
    }

    /// Counts that `client` got no permit.
    pub(super) fn count_refusal(&self, client: ClientPrefix) {
        let mut open = self.open();
        if open.numbers.open(client) > 0 && open.numbers.len() > 1 {
            open.refused_client += 1;
        } else {
            open.refused_memory += 1;
        }
    }

    /// Returns the present sums.
    pub fn totals(&self) -> AccountTotals {
        let open = self.open();
        AccountTotals {
            promised: open.promised,
            refused_memory: open.refused_memory,
            refused_client: open.refused_client,
        }
    }

    /// Returns the memory of an exchange at its beginning, bytes.
    fn needs(&self) -> u64 {
        self.first_credit().saturating_mul(2)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // No code panics while it holds the lock.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Returns the exchanges that its client had when this one was admitted, itself included.
    pub(super) fn exchanges(&self) -> u64 {
        self.exchanges
    }

    /// Returns the memory promised to it, bytes; 0 once it was revoked.
    pub(super) fn promised(&self) -> u64 {
        self.promised
    }

    /// Returns the client that holds it; `None` once it was revoked.
    pub(super) fn holder(&self) -> Option<ClientPrefix> {
        (self.promised > 0).then_some(self.client)
    }

    /// Returns whether a direction has moved and got its whole share.
    pub(super) fn has_grown(&self) -> bool {
        self.request_grown || self.response_grown
    }

    /// Raises the memory of a direction that moves to its whole share, if enough is free. Returns the further credit, bytes.
    pub(super) fn grow(&mut self, direction: Direction) -> u64 {
        let grown = match direction {
            Direction::Request => &mut self.request_grown,
            Direction::Response => &mut self.response_grown,
        };
        let more = self.accounts.share - self.accounts.first_credit();
        if *grown || more == 0 || self.promised == 0 {
            return 0;
        }
        let mut open = self.accounts.open();
        if open.promised.saturating_add(more) > self.accounts.memory / 2 {
            return 0;
        }
        *grown = true;
        self.promised += more;
        open.promised += more;
        open.bytes.add(self.client, more);
        more
    }

    /// Returns its part to the accounts: its exchange is being cancelled, or gone.
    pub(super) fn revoke(&mut self) {
        let promised = std::mem::take(&mut self.promised);
        if promised == 0 {
            return;
        }
        let mut open = self.accounts.open();
        open.promised = open.promised.saturating_sub(promised);
        open.exchanges = open.exchanges.saturating_sub(1);
        open.bytes.subtract(self.client, promised);
        open.numbers.subtract(self.client, 1);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.revoke();
    }
}

#[cfg(test)]
mod tests;
