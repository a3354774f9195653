//! Exchanges of a front that runs on the origin thread itself, so that there is no ring between it and the handlers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::observe::metrics::metrics;
use tokio::sync::Notify;

use super::accounts::{Accounts, Direction};
use super::table::ExchangeTable;

/// The exchanges of a front on one origin thread, within their accounts.
#[derive(Debug)]
pub struct LocalExchanges {
    open: RefCell<ExchangeTable<Rc<Revocation>>>,
    counters: Cell<LocalCounters>,
}

/// Withdrawal of an exchange's memory.
#[derive(Debug, Default)]
pub struct Revocation {
    done: Cell<bool>,
    notify: Notify,
}

impl Revocation {
    /// Waits until the memory is taken for another client; the front then cancels the exchange, and frees what it holds of it.
    pub async fn revoked(&self) {
        while !self.done.get() {
            self.notify.notified().await;
        }
    }
}

metrics! {
    /// Counters of the exchanges of a front without a ring.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LocalCounters: Sum {
        /// Requests over TCP that handlers work on, or whose responses wait for their clients.
        pub open: u64 = gauge("sluicegate_tcp_exchanges"),
        /// Memory reserved for them.
        pub reserved: u64 = gauge("sluicegate_tcp_reserved_bytes"),
        /// Requests over TCP that were passed to handlers.
        pub opened: u64 = counter("sluicegate_tcp_exchanges_opened_total"),
        /// Requests over TCP that were cancelled because the memory for requests was used up and their client held the most of
        /// it.
        pub revoked: u64 = counter("sluicegate_tcp_exchanges_revoked_total"),
    }
}

/// One exchange, with the memory promised to it until it is dropped.
#[derive(Debug)]
pub struct LocalExchange {
    exchanges: Rc<LocalExchanges>,
    number: u64,
    revocation: Rc<Revocation>,
}

impl LocalExchanges {
    /// Returns exchanges that take their memory from `accounts`.
    pub fn new(accounts: Arc<Accounts>) -> Rc<LocalExchanges> {
        let open = RefCell::new(ExchangeTable::new(accounts));
        Rc::new(LocalExchanges { open, counters: Cell::default() })
    }

    /// Returns the counters.
    pub fn counters(&self) -> LocalCounters {
        let open = self.open.borrow();
        LocalCounters {
            open: open.entries.len() as u64,
            reserved: open.accounts.totals().promised,
            ..self.counters.get()
        }
    }

    fn count(&self, change: impl FnOnce(&mut LocalCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// Returns the credit that each direction of an exchange begins with, bytes by [`cost`](super::message::cost).
    pub fn first_credit(&self) -> u64 {
        self.open.borrow().accounts.first_credit()
    }

    /// Opens an exchange of the client at `address`. If no memory is left, an exchange of the client that holds the most is
    /// cancelled for it; `None` if no client holds more than this one would.
    pub fn open(self: &Rc<Self>, address: ValidatedAddress) -> Option<LocalExchange> {
        let mut open = self.open.borrow_mut();
        let permit = open.admit(address, |revocation| {
            revocation.done.set(true);
            revocation.notify.notify_one();
            self.count(|counters| counters.revoked += 1);
        })?;
        self.count(|counters| counters.opened += 1);
        let revocation = Rc::<Revocation>::default();
        let number = open.insert(permit, Rc::clone(&revocation));
        Some(LocalExchange { exchanges: Rc::clone(self), number, revocation })
    }
}

impl LocalExchange {
    /// Raises the memory of a direction that moves. Returns the further credit, bytes.
    pub fn grow(&self, direction: Direction) -> u64 {
        self.exchanges.open.borrow_mut().grow(self.number, direction)
    }

    /// Returns the memory promised to it, bytes.
    pub fn promised(&self) -> u64 {
        self.exchanges.open.borrow().promised(self.number)
    }

    /// Returns the withdrawal of its memory, to wait for.
    pub fn revocation(&self) -> Rc<Revocation> {
        Rc::clone(&self.revocation)
    }
}

impl Drop for LocalExchange {
    fn drop(&mut self) {
        self.exchanges.open.borrow_mut().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: &str = "192.0.2.1";
    const OTHER: &str = "192.0.2.2";

    /// Returns exchanges whose memory suffices for four.
    fn four() -> Rc<LocalExchanges> {
        LocalExchanges::new(Accounts::new(1000, 8000))
    }

    #[tokio::test]
    async fn the_client_with_most_gives_way_to_another_one_and_to_no_exchange_of_its_own() {
        let exchanges = four();
        let held: Vec<_> =
            (0..4).map(|_| exchanges.open(GREEDY.parse().unwrap()).unwrap()).collect();
        assert!(exchanges.open(GREEDY.parse().unwrap()).is_none());
        let other = exchanges.open(OTHER.parse().unwrap()).unwrap();
        // Of those that never moved, the oldest.
        held[0].revocation().revoked().await;
        assert!(!held[1].revocation.done.get() && !other.revocation.done.get());
        assert_eq!(
            exchanges.counters(),
            LocalCounters { open: 5, reserved: 8000, opened: 5, revoked: 1 }
        );
    }

    #[test]
    fn an_exchange_that_is_dropped_returns_its_memory() {
        let exchanges = four();
        let held: Vec<_> =
            (0..4).map(|_| exchanges.open(GREEDY.parse().unwrap()).unwrap()).collect();
        drop(held);
        assert_eq!(exchanges.counters().reserved, 0);
        assert!(exchanges.open(GREEDY.parse().unwrap()).is_some());
    }
}
