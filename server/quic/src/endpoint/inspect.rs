//! What an operator sees of single connections.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_base::observe::account::Wait;
use sluicegate_dataplane::ListenerId;

use super::Endpoint;
use crate::application::Application;
use crate::connection::Connection;
pub use crate::connection::Snapshot;

/// Connections that an operator asks for. A condition that is `None` holds for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Connection ID that the client chose first, or one of the server's.
    pub id: Option<Vec<u8>>,
    /// Address of the client, with a port if that counts, too.
    pub client: Option<(IpAddr, Option<u16>)>,
    /// Name of the listener.
    pub listener: Option<String>,
    /// Congestion control algorithm.
    pub algorithm: Option<String>,
    /// What the connection waits for.
    pub wait: Option<Wait>,
}

/// What comes first in a list of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The longest wait for anything but the client.
    #[default]
    Stalled,
    /// The oldest.
    Age,
    /// The one to which the most bytes were sent.
    Sent,
    /// The one that has lost the most bytes.
    Lost,
}

impl Selection {
    /// Whether it has a connection. `listeners` are those of its name.
    fn has<A: Application>(&self, connection: &Connection<A>, listeners: &[ListenerId]) -> bool {
        let Selection { id, client, listener, algorithm, wait } = self;
        let address = connection.address.socket();
        id.as_ref().is_none_or(|id| connection.dcids().any(|own| own == id))
            && client.is_none_or(|(ip, port)| {
                address.ip().to_canonical() == ip.to_canonical()
                    && port.is_none_or(|port| port == address.port())
            })
            && (listener.is_none() || listeners.contains(&connection.listener))
            && algorithm.as_ref().is_none_or(|name| name == connection.algorithm)
            && wait.is_none_or(|wait| wait == connection.account().wait().0)
    }
}

impl Order {
    /// Place of a snapshot in a list of several endpoints: the highest comes first.
    pub fn place(self, snapshot: &Snapshot) -> u64 {
        match self {
            Order::Stalled => stall(snapshot.wait, snapshot.waiting),
            Order::Age => micros(snapshot.age),
            Order::Sent => snapshot.sent,
            Order::Lost => snapshot.lost,
        }
    }

    /// Place of a connection: the highest comes first.
    fn rank<A: Application>(self, connection: &Connection<A>, now: Instant) -> u64 {
        match self {
            Order::Stalled => {
                let (wait, since) = connection.account().wait();
                stall(wait, now.saturating_duration_since(since))
            }
            Order::Age => micros(connection.account().age(now)),
            Order::Sent => connection.sent_and_lost().0,
            Order::Lost => connection.sent_and_lost().1,
        }
    }
}

/// Length of a stall, µs. A connection whose client is in no hurry does not stall.
fn stall(wait: Wait, waiting: Duration) -> u64 {
    if matches!(wait, Wait::Client | Wait::Closing) { 0 } else { micros(waiting) }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl<A: Application> Endpoint<A> {
    /// Returns the first `limit` connections of a selection, and the number of all that it has.
    pub fn inspect(
        &self,
        selection: &Selection,
        order: Order,
        limit: usize,
        now: Instant,
    ) -> (Vec<Snapshot>, usize) {
        let named = self.settings.listeners.iter();
        let named =
            named.filter(|(_, listener)| selection.listener.as_deref() == Some(&listener.name));
        let named: Vec<ListenerId> = named.map(|(id, _)| *id).collect();
        let mut found: Vec<(u64, usize)> = (0..self.connections.slots())
            .filter_map(|slot| {
                let connection = self.connections.get(slot)?;
                let is_wanted = selection.has(connection, &named);
                is_wanted.then(|| (order.rank(connection, now), slot))
            })
            .collect();
        let count = found.len();
        found.sort_unstable_by_key(|(rank, slot)| (Reverse(*rank), *slot));
        let first = found.iter().take(limit);
        let shown = first.filter_map(|(_, slot)| {
            let connection = self.connections.get(*slot)?;
            Some(connection.snapshot(self.name_of(connection.listener), now))
        });
        (shown.collect(), count)
    }

    fn name_of(&self, listener: ListenerId) -> Arc<str> {
        let known = self.settings.listeners.get(&listener);
        known.map_or_else(|| "(removed)".into(), |known| Arc::clone(&known.name))
    }
}

#[cfg(test)]
mod tests;
