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

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::http::clients::ClientPrefix;

/// Memory of each direction of an exchange at its beginning, at most, bytes.
const FIRST: u64 = 32 << 10;
/// Clients that a search in vain for the one that holds the most may look at for each refusal.
const SEARCH: u64 = 64;

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
    /// Part of each client with open exchanges.
    clients: HashMap<ClientPrefix, Held>,
    /// Pauses between searches for the client that holds the most: of memory, and of the number of exchanges.
    pauses: [Pause; 2],
    /// Permits refused for want of memory.
    refused_memory: u64,
    /// Permits refused to the client that held the most.
    refused_client: u64,
}

/// Pause after a search in vain. It holds for clients that no other one would give way to; the client that holds the most can
/// keep nobody else out by its own refusals.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    /// Refusals until the next search.
    left: u64,
    /// Largest part that the search found.
    most: u64,
}

/// Memory and exchanges of one client.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    bytes: u64,
    /// Exchanges whose permit was not revoked.
    exchanges: u64,
    /// All exchanges.
    permits: u64,
}

/// Sums of [`Accounts`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
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
        Arc::new(Accounts {
            memory,
            share,
            most,
            open: Mutex::default(),
        })
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
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Permit> {
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
        let held = open.clients.entry(client).or_default();
        held.bytes += needs;
        held.exchanges += 1;
        held.permits += 1;
        Some(Permit {
            accounts: Arc::clone(self),
            client,
            exchanges: held.exchanges,
            promised: needs,
            request_grown: false,
            response_grown: false,
        })
    }

    /// Returns the client that holds the most memory, if it is to give way to a further exchange of `client`.
    pub(super) fn most_greedy(&self, client: ClientPrefix) -> Option<ClientPrefix> {
        let mut open = self.open();
        let by_number = open.exchanges >= self.most;
        let needs = if by_number { 1 } else { self.needs() };
        let part = |held: &Held| {
            if by_number {
                held.exchanges
            } else {
                held.bytes
            }
        };
        let own = open.clients.get(&client).map_or(0, part);
        let would_hold = own.saturating_add(needs);
        let pause = &mut open.pauses[usize::from(by_number)];
        if pause.left > 0 && would_hold >= pause.most {
            pause.left -= 1;
            return None;
        }
        let held = open.clients.iter();
        let parts = held.map(|(client, held)| (*client, part(held)));
        let (found, most) = parts.max_by_key(|(_, part)| *part)?;
        if most > would_hold {
            return Some(found);
        }
        let left = open.clients.len() as u64 / SEARCH;
        open.pauses[usize::from(by_number)] = Pause { left, most };
        None
    }

    /// Counts that `client` got no permit.
    pub(super) fn count_refusal(&self, client: ClientPrefix) {
        let mut open = self.open();
        if open.clients.contains_key(&client) && open.clients.len() > 1 {
            open.refused_client += 1;
        } else {
            open.refused_memory += 1;
        }
    }

    /// Returns the present sums.
    pub fn balance(&self) -> Balance {
        let open = self.open();
        Balance {
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

    /// Returns whether `client` holds it and it was not revoked.
    pub(super) fn is_held_by(&self, client: ClientPrefix) -> bool {
        self.promised > 0 && self.client == client
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
        if let Some(held) = open.clients.get_mut(&self.client) {
            held.bytes += more;
        }
        more
    }

    /// Returns its part to the accounts: its exchange is being cancelled.
    pub(super) fn revoke(&mut self) {
        self.release(false);
    }

    /// Returns its part to the accounts; `closed` says that the exchange is gone, too.
    fn release(&mut self, closed: bool) {
        let promised = std::mem::take(&mut self.promised);
        let exchanges = u64::from(promised > 0);
        let mut open = self.accounts.open();
        open.promised = open.promised.saturating_sub(promised);
        open.exchanges = open.exchanges.saturating_sub(exchanges);
        let Some(held) = open.clients.get_mut(&self.client) else {
            return;
        };
        held.bytes = held.bytes.saturating_sub(promised);
        held.exchanges = held.exchanges.saturating_sub(exchanges);
        held.permits = held.permits.saturating_sub(u64::from(closed));
        if held.permits == 0 {
            open.clients.remove(&self.client);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.release(true);
    }
}

#[cfg(test)]
mod tests;
