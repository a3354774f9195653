//! Searches of single connections, for operators.

use std::sync::Arc;
use std::time::Instant;

use sluicegate_base::observe::connections::{
    ConnectionFilter, ConnectionProtocol, Inspected, Order, RANK_OF_NAMED, Ranking, rank_of,
};
use sluicegate_dataplane::ListenerId;

use super::Endpoint;
use crate::application::Application;
use crate::connection::Connection;

/// Whether a filter has a connection. `listeners` are those of its name.
fn has<A: Application>(
    filter: &ConnectionFilter,
    connection: &Connection<A>,
    listeners: &[ListenerId],
) -> bool {
    let ConnectionFilter { id, client, protocol, listener, algorithm, wait } = filter;
    let address = connection.address.socket();
    id.as_ref().is_none_or(|id| connection.dcids().any(|own| id.begins(own)))
        && client.is_none_or(|clients| clients.has(address))
        && protocol.is_none_or(|protocol| protocol == ConnectionProtocol::Http3)
        && (listener.is_none() || listeners.contains(&connection.listener))
        && algorithm.as_ref().is_none_or(|name| name == connection.algorithm)
        && wait.is_none_or(|wait| wait == connection.account().wait().0)
}

fn rank<A: Application>(order: Order, connection: &Connection<A>, now: Instant) -> u64 {
    match order {
        Order::Busy => rank_of(connection.busy(now)),
        Order::Stalled => rank_of(connection.stall(now)),
        Order::Age => rank_of(connection.account().age(now)),
        Order::Sent => connection.path_sums().sent,
        Order::Lost => connection.path_sums().lost_packets,
    }
}

/// A search for connections, which looks at some of them in each turn of a worker.
#[derive(Debug)]
pub struct ConnectionSearch {
    selection: ConnectionFilter,
    order: Order,
    /// Slot at which it goes on.
    next: usize,
    /// By slots and the generations of their connections.
    ranking: Ranking<(usize, u64)>,
}

impl ConnectionSearch {
    /// Begins a search for the first `limit` connections of a selection.
    pub fn new(selection: ConnectionFilter, order: Order, limit: usize) -> ConnectionSearch {
        ConnectionSearch { selection, order, next: 0, ranking: Ranking::new(limit) }
    }
}

impl<A: Application> Endpoint<A> {
    /// Looks at the connections of the next `slots` slots. Returns what was found once it has looked at all.
    pub fn inspect(
        &self,
        search: &mut ConnectionSearch,
        slots: usize,
        now: Instant,
    ) -> Option<Inspected> {
        let named = self.settings.listeners.iter();
        let named =
            named.filter(|(_, known)| search.selection.listener.as_deref() == Some(&known.name));
        let named: Vec<ListenerId> = named.map(|(id, _)| *id).collect();
        let end = self.connections.slots().min(search.next.saturating_add(slots));
        for slot in search.next..end {
            let Some(connection) = self.connections.get(slot) else {
                continue;
            };
            if has(&search.selection, connection, &named) {
                let rank = if connection.dcids().any(|own| search.selection.names(own)) {
                    RANK_OF_NAMED
                } else {
                    rank(search.order, connection, now)
                };
                let key = (slot, connection.key.generation);
                let algorithm = connection.algorithm.into();
                let wait = connection.account().wait().0;
                search.ranking.add(rank, key, ConnectionProtocol::Http3, algorithm, wait);
            }
        }
        search.next = end;
        if end < self.connections.slots() {
            return None;
        }
        // A list shows no more of requests than how many wait for what.
        let is_named = search.selection.id.is_some();
        Some(search.ranking.finish(|(slot, generation)| {
            let connection = self.connections.get(slot)?;
            // It may have ended since an earlier turn.
            let is_same = connection.key.generation == generation;
            is_same.then(|| connection.snapshot(self.name_of(connection.listener), is_named, now))
        }))
    }

    pub(super) fn name_of(&self, listener: ListenerId) -> Arc<str> {
        let known = self.settings.listeners.get(&listener);
        known.map_or_else(|| "(removed)".into(), |known| Arc::clone(&known.name))
    }
}

#[cfg(test)]
mod tests;
