//! Holders of a worker's connections, with the number that each holds.
//!
//! A connection counts as its client's once the client's address is validated: strangers could open connections in a client's name
//! and use up its share. Until then it counts for the address that it claims, which makes the next one prove its address, and no more.

use std::fmt;

use sluicegate_base::address::{UnvalidatedAddress, ValidatedAddress};
use sluicegate_base::clients::{ClientPrefix, Clients, SourcePrefix};

/// Holder of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holder {
    /// A client.
    Client(ClientPrefix),
    /// A proxy that its listener trusts, and that bears the requests of many clients.
    Proxy(ClientPrefix),
    /// Somebody who has not proved the address yet.
    Unproved(SourcePrefix),
}

impl Holder {
    /// Returns the holder of connections from a validated address.
    pub(super) fn new(address: ValidatedAddress, is_proxy: bool) -> Holder {
        if is_proxy { Holder::Proxy(address.into()) } else { Holder::Client(address.into()) }
    }

    /// Returns the holder of a connection from an address that nobody has validated.
    pub(super) fn unproved(source: UnvalidatedAddress) -> Holder {
        Holder::Unproved(source.into())
    }

    pub(super) fn is_proxy(self) -> bool {
        matches!(self, Holder::Proxy(_))
    }

    /// Returns whether it has not proved its address.
    pub(super) fn is_unproved(self) -> bool {
        matches!(self, Holder::Unproved(_))
    }
}

/// Counts of connections, by their holders.
#[derive(Debug, Default)]
pub(super) struct Holders {
    clients: Clients,
    proxies: Clients,
    unproved: Clients<SourcePrefix>,
}

/// Connections of a client that somebody claims to be.
pub(super) struct ClaimedConnections {
    /// Connections whose client has proved that it is this one.
    pub(super) own: u64,
    /// With those of everybody who claims to be it.
    pub(super) with_unproved: u64,
}

impl Holders {
    /// Returns how many connections `holder` has.
    pub(super) fn open(&self, holder: Holder) -> u64 {
        match holder {
            Holder::Client(prefix) => self.clients.open(prefix),
            Holder::Proxy(prefix) => self.proxies.open(prefix),
            Holder::Unproved(source) => self.unproved.open(source),
        }
    }

    /// Returns the connections of the client that a sender claims to be.
    pub(super) fn claimed(&self, source: UnvalidatedAddress) -> ClaimedConnections {
        let source = SourcePrefix::from(source);
        let own = self.clients.open(source.claimed_client());
        ClaimedConnections { own, with_unproved: own + self.unproved.open(source) }
    }

    /// Counts a connection that `holder` has opened.
    pub(super) fn enter(&mut self, holder: Holder) {
        match holder {
            Holder::Client(prefix) => self.clients.enter(prefix),
            Holder::Proxy(prefix) => self.proxies.enter(prefix),
            Holder::Unproved(source) => self.unproved.enter(source),
        }
    }

    /// Counts a connection that had entered as gone.
    pub(super) fn leave(&mut self, holder: Holder) {
        match holder {
            Holder::Client(prefix) => self.clients.leave(prefix),
            Holder::Proxy(prefix) => self.proxies.leave(prefix),
            Holder::Unproved(source) => self.unproved.leave(source),
        }
    }

    /// Returns the number of holders with a connection.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub(super) fn len(&self) -> usize {
        self.clients.len() + self.proxies.len() + self.unproved.len()
    }
}

/// Writes its addresses, for a log.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Client(prefix) | Holder::Proxy(prefix) => prefix.fmt(f),
            Holder::Unproved(source) => source.fmt(f),
        }
    }
}
