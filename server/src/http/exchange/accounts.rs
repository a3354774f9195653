//! Memory for exchanges, and each client's share of it.
//!
//! One [`Accounts`] covers a worker and its origin thread. Every front asks it for a [`Permit`] before it opens an exchange,
//! so the bounds hold for all fronts together.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::http::clients::{ClientPrefix, Clients};

/// Divisor of the memory: one client gets at most an eighth of it, so that it cannot keep all others out.
const CLIENT_PART: u64 = 8;

/// Memory that exchanges may hold, and the part promised to open ones.
#[derive(Debug)]
pub struct Accounts {
    /// Memory for all exchanges, bytes.
    memory: u64,
    /// Largest sum of an exchange's blocks in each direction, bytes.
    share: u64,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// Bytes promised to open exchanges.
    promised: u64,
    /// Open exchanges of each client.
    clients: Clients,
    /// Permits refused for want of memory.
    refused_memory: u64,
    /// Permits refused to clients that had their share.
    refused_client: u64,
}

/// Sums of [`Accounts`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Bytes promised to open exchanges.
    pub promised: u64,
    /// Permits refused because the memory was promised to others.
    pub refused_memory: u64,
    /// Permits refused because their client had its part of the memory.
    pub refused_client: u64,
}

/// Memory of one exchange; dropping it returns the memory.
#[derive(Debug)]
pub struct Permit {
    accounts: Arc<Accounts>,
    client: ClientPrefix,
}

impl Accounts {
    /// Returns accounts of `memory` bytes, for exchanges of `share` bytes in each direction.
    pub fn new(share: u64, memory: u64) -> Arc<Accounts> {
        Arc::new(Accounts {
            memory,
            share,
            open: Mutex::default(),
        })
    }

    /// Returns the largest sum of an exchange's blocks in each direction, bytes by [`cost`](super::message::cost).
    pub fn share(&self) -> u64 {
        self.share
    }

    /// Promises memory to an exchange of the client at `address`; `None` if there is none left, or the client has its part.
    /// The first exchange always gets a permit, however small the memory.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Permit> {
        let client = ClientPrefix::from(address);
        let needs = self.needs();
        let mut open = self.open();
        if open.promised > 0 && open.promised.saturating_add(needs) > self.memory {
            open.refused_memory += 1;
            return None;
        }
        let others = open.clients.open(client);
        if others > 0 && needs.saturating_mul(others + 1) > self.memory / CLIENT_PART {
            open.refused_client += 1;
            return None;
        }
        open.promised += needs;
        open.clients.enter(client);
        Some(Permit {
            accounts: Arc::clone(self),
            client,
        })
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

    fn needs(&self) -> u64 {
        self.share.saturating_mul(2)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // No code panics while it holds the lock.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.accounts.open();
        open.promised = open.promised.saturating_sub(self.accounts.needs());
        open.clients.leave(self.client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn fronts_that_share_accounts_share_the_bounds() {
        let accounts = Accounts::new(1000, 48_000);
        let other = Arc::clone(&accounts);
        let one = [
            accounts.admit(address(1)),
            other.admit(address(1)),
            accounts.admit(address(1)),
        ];
        assert!(one.iter().all(Option::is_some));
        // An eighth of the memory is three exchanges of 2000 bytes.
        assert!(other.admit(address(1)).is_none());
        assert!(other.admit(address(2)).is_some());
        let balance = accounts.balance();
        assert_eq!((balance.promised, balance.refused_client), (6000, 1));
        drop(one);
        assert_eq!(accounts.balance().promised, 0);
        assert!(accounts.admit(address(1)).is_some());
    }

    #[test]
    fn one_exchange_is_possible_however_small_the_memory() {
        let accounts = Accounts::new(1000, 0);
        let first = accounts.admit(address(1));
        assert!(first.is_some() && accounts.admit(address(2)).is_none());
        assert_eq!(accounts.balance().refused_memory, 1);
    }
}
