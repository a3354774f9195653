//! Searches of single connections, for operators.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use sluicegate_base::observe::account::Wait;
use sluicegate_base::observe::metrics::Label as _;
use sluicegate_dataplane::ListenerId;

use super::Endpoint;
use crate::application::Application;
use crate::connection::Connection;
pub use crate::connection::Snapshot;

/// Connections that an operator asks for. A condition that is `None` holds for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionFilter {
    /// Connection ID that the client chose first, or one of the server's.
    pub id: Option<Vec<u8>>,
    /// Address of the client.
    pub client: Option<ClientFilter>,
    /// Name of the listener.
    pub listener: Option<String>,
    /// Congestion control algorithm.
    pub algorithm: Option<String>,
    /// Current wait of the connection.
    pub wait: Option<Wait>,
}

/// Clients by their addresses: a network, with a port if that counts, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFilter {
    network: IpNet,
    port: Option<u16>,
}

impl ClientFilter {
    /// Returns the clients of a network. One of IPv4 addresses within IPv6 counts as IPv4.
    pub fn new(network: IpNet, port: Option<u16>) -> Self {
        let mapped = network.prefix_len().checked_sub(128 - 32);
        let network = match (network.network().to_canonical(), mapped) {
            (IpAddr::V4(v4), Some(length)) if network.network().is_ipv6() => {
                IpNet::new(v4.into(), length).unwrap_or(network)
            }
            _ => network,
        };
        ClientFilter { network, port }
    }

    /// Returns whether a client is among them.
    pub fn has(&self, client: SocketAddr) -> bool {
        self.network.contains(&client.ip().to_canonical())
            && self.port.is_none_or(|port| port == client.port())
    }
}

/// Order of a list of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The one that has waited longest for anything but its client, without a break.
    #[default]
    Busy,
    /// The longest wait for one thing, which is not the client.
    Stalled,
    /// The oldest.
    Age,
    /// The one to which the most bytes were sent.
    Sent,
    /// The one that has lost the most packets.
    Lost,
}

impl ConnectionFilter {
    /// Whether it has a connection. `listeners` are those of its name.
    fn has<A: Application>(&self, connection: &Connection<A>, listeners: &[ListenerId]) -> bool {
        let ConnectionFilter { id, client, listener, algorithm, wait } = self;
        let address = connection.address.socket();
        id.as_ref().is_none_or(|id| connection.dcids().any(|own| own == id))
            && client.is_none_or(|clients| clients.has(address))
            && (listener.is_none() || listeners.contains(&connection.listener))
            && algorithm.as_ref().is_none_or(|name| name == connection.algorithm)
            && wait.is_none_or(|wait| wait == connection.account().wait().0)
    }
}

impl Order {
    fn rank<A: Application>(self, connection: &Connection<A>, now: Instant) -> u64 {
        match self {
            Order::Busy => micros(connection.busy(now)),
            Order::Stalled => micros(connection.stall(now)),
            Order::Age => micros(connection.account().age(now)),
            Order::Sent => connection.sent_and_lost().0,
            Order::Lost => connection.sent_and_lost().1,
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A search for connections, which looks at some of them in each turn of a worker.
#[derive(Debug)]
pub struct Search {
    selection: ConnectionFilter,
    order: Order,
    limit: usize,
    /// Slot at which it goes on.
    next: usize,
    /// The first connections so far, the last of them on top.
    best: BinaryHeap<Reverse<(u64, Reverse<usize>, u64)>>,
    census: Census,
}

/// Result of a search.
#[derive(Debug, Default, PartialEq)]
pub struct Inspected {
    /// The first connections with their ranks, the highest first.
    pub shown: Vec<(u64, Snapshot)>,
    /// Numbers of all that were selected.
    pub census: Census,
}

/// Numbers of connections by algorithm and wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census(BTreeMap<(&'static str, &'static str), usize>);

impl Census {
    /// Counts a connection.
    pub fn note(&mut self, algorithm: &'static str, wait: Wait) {
        *self.0.entry((algorithm, wait.name())).or_default() += 1;
    }

    /// Returns the number of all.
    pub fn count(&self) -> usize {
        self.0.values().sum()
    }

    /// Returns the numbers by congestion control algorithm.
    pub fn algorithms(&self) -> BTreeMap<&'static str, usize> {
        self.by(|(algorithm, _)| algorithm)
    }

    /// Returns the numbers by wait.
    pub fn waits(&self) -> BTreeMap<&'static str, usize> {
        self.by(|(_, wait)| wait)
    }

    fn by(
        &self,
        key: impl Fn((&'static str, &'static str)) -> &'static str,
    ) -> BTreeMap<&'static str, usize> {
        let mut sums = BTreeMap::new();
        for (of, count) in &self.0 {
            *sums.entry(key(*of)).or_default() += count;
        }
        sums
    }

    /// Adds those of another worker.
    pub fn add(&mut self, more: &Census) {
        for (of, count) in &more.0 {
            *self.0.entry(*of).or_default() += count;
        }
    }
}

impl Search {
    /// Begins a search for the first `limit` connections of a selection.
    pub fn new(selection: ConnectionFilter, order: Order, limit: usize) -> Search {
        Search {
            selection,
            order,
            limit,
            next: 0,
            best: BinaryHeap::new(),
            census: Census::default(),
        }
    }
}

impl<A: Application> Endpoint<A> {
    /// Looks at the connections of the next `slots` slots. Returns what was found once it has looked at all.
    pub fn inspect(&self, search: &mut Search, slots: usize, now: Instant) -> Option<Inspected> {
        let named = self.settings.listeners.iter();
        let named =
            named.filter(|(_, known)| search.selection.listener.as_deref() == Some(&known.name));
        let named: Vec<ListenerId> = named.map(|(id, _)| *id).collect();
        let end = self.connections.slots().min(search.next.saturating_add(slots));
        for slot in search.next..end {
            let Some(connection) = self.connections.get(slot) else {
                continue;
            };
            if search.selection.has(connection, &named) {
                search.census.note(connection.algorithm, connection.account().wait().0);
                let rank = search.order.rank(connection, now);
                search.best.push(Reverse((rank, Reverse(slot), connection.key.generation)));
                if search.best.len() > search.limit {
                    search.best.pop();
                }
            }
        }
        search.next = end;
        if end < self.connections.slots() {
            return None;
        }
        let best = std::mem::take(&mut search.best).into_sorted_vec();
        // A list shows no more of requests than how many wait for what.
        let is_named = search.selection.id.is_some();
        let shown = best.into_iter().filter_map(|Reverse((rank, Reverse(slot), generation))| {
            let connection = self.connections.get(slot)?;
            // It may have ended since an earlier turn.
            let is_same = connection.key.generation == generation;
            is_same.then(|| {
                (rank, connection.snapshot(self.name_of(connection.listener), is_named, now))
            })
        });
        Some(Inspected { shown: shown.collect(), census: std::mem::take(&mut search.census) })
    }

    pub(super) fn name_of(&self, listener: ListenerId) -> Arc<str> {
        let known = self.settings.listeners.get(&listener);
        known.map_or_else(|| "(removed)".into(), |known| Arc::clone(&known.name))
    }
}

#[cfg(test)]
mod tests;
