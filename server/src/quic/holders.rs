//! Holders of a worker's connections, with the number that each holds.

use std::fmt;
use std::net::IpAddr;

use crate::http::clients::{ClientPrefix, Clients};

/// Holder of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// A client.
    Client(ClientPrefix),
    /// A proxy that its listener trusts, and that bears the requests of many clients.
    Proxy(ClientPrefix),
}

impl Holder {
    /// Returns the holder of connections from an address.
    pub(super) fn new(address: IpAddr, is_proxy: bool) -> Holder {
        if is_proxy {
            Holder::Proxy(address.into())
        } else {
            Holder::Client(address.into())
        }
    }

    /// Returns whether it is a proxy.
    pub(super) fn is_proxy(self) -> bool {
        matches!(self, Holder::Proxy(_))
    }
}

/// Counts of connections, by their holders.
#[derive(Debug, Default)]
pub(super) struct Holders {
    clients: Clients,
    proxies: Clients,
}

impl Holders {
    /// Returns how many connections `holder` has.
    pub(super) fn open(&self, holder: Holder) -> u64 {
        match holder {
            Holder::Client(prefix) => self.clients.open(prefix),
            Holder::Proxy(prefix) => self.proxies.open(prefix),
        }
    }

    /// Returns the largest number of connections of one proxy, or of one client.
    pub(super) fn most(&self, of_proxies: bool) -> u64 {
        let holders = if of_proxies {
            &self.proxies
        } else {
            &self.clients
        };
        holders.most().map_or(0, |(_, most)| most)
    }

    /// Counts a connection that `holder` has opened.
    pub(super) fn enter(&mut self, holder: Holder) {
        match holder {
            Holder::Client(prefix) => self.clients.enter(prefix),
            Holder::Proxy(prefix) => self.proxies.enter(prefix),
        }
    }

    /// Counts a connection that had entered as gone.
    pub(super) fn leave(&mut self, holder: Holder) {
        match holder {
            Holder::Client(prefix) => self.clients.leave(prefix),
            Holder::Proxy(prefix) => self.proxies.leave(prefix),
        }
    }

    /// Returns the number of holders with a connection.
    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.clients.len() + self.proxies.len()
    }
}

/// Writes its addresses, for a log.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Holder::Client(prefix) | Holder::Proxy(prefix)) = self;
        prefix.fmt(f)
    }
}
