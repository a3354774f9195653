//! The connections of a front, as operators see them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Bound::{Excluded, Unbounded};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::observe::access::PathState;
use sluicegate_base::observe::connections::{
    ConnectionFilter, ConnectionProtocol, ConnectionSnapshot, Inspected, Order, RANK_OF_NAMED,
    Ranking, rank_of, stall,
};
use tokio::sync::oneshot;

use super::config::TcpListeners;
use super::link_account::LinkState;
use super::listener_phases::FrontListener;
use super::open_connections::ConnectionHandle;
use super::socket_info::{self, SocketInfo};

/// Connections that a search looks at before the thread's other tasks go on: two system calls each.
const AT_ONCE: usize = 256;
/// Connections that a search describes before the thread's other tasks go on: two system calls each, and their oldest requests.
const DESCRIBED_AT_ONCE: usize = 16;
/// Length of an ID, bytes: shorter than any that a client of QUIC chooses first (RFC 9000 §7.2), so that none can pass for it.
const ID_LEN: usize = 7;
/// Bits of an ID that are the number of the connection. Those in front are the number of the front.
const NUMBER_BITS: u32 = 40;

/// Question about the connections of a front.
#[derive(Debug)]
pub struct FrontInspection {
    /// Connections that are wanted.
    pub selection: ConnectionFilter,
    /// Order of the list.
    pub order: Order,
    /// Most connections that are shown.
    pub limit: usize,
    /// Takes what was found.
    pub reply: oneshot::Sender<Inspected>,
}

/// The connections of a front by number.
#[derive(Debug)]
pub(super) struct ConnectionList {
    front: u64,
    listed: BTreeMap<u64, Listed>,
}

#[derive(Debug)]
struct Listed {
    handle: Rc<ConnectionHandle>,
    listener: Rc<FrontListener>,
    client: SocketAddr,
}

/// A search for connections, which looks at some of them at once.
#[derive(Debug)]
pub(super) struct ListSearch {
    selection: ConnectionFilter,
    order: Order,
    /// Number of the last connection that it has looked at.
    last: u64,
    ranking: Ranking<u64>,
    /// What it replies, once it has looked at all.
    found: Option<Found>,
}

/// Reply of a search, to which the first connections are added.
#[derive(Debug)]
struct Found {
    /// Ranks and numbers of those that are not described yet.
    left: std::vec::IntoIter<(u64, u64)>,
    inspected: Inspected,
}

impl ListSearch {
    pub(super) fn new(selection: ConnectionFilter, order: Order, limit: usize) -> ListSearch {
        ListSearch { selection, order, last: 0, ranking: Ranking::new(limit), found: None }
    }
}

impl ConnectionList {
    /// Returns the empty list of a front, whose number no other front of the process has.
    pub(super) fn new(front: usize) -> ConnectionList {
        ConnectionList { front: front as u64, listed: BTreeMap::new() }
    }

    /// Returns the ID by which logs and operators name a connection. No other connection of the process has it.
    pub(super) fn id(&self, number: u64) -> [u8; ID_LEN] {
        let [_, id @ ..] = (self.front << NUMBER_BITS | number).to_be_bytes();
        id
    }

    /// Adds a connection with its number, which is greater than those of the others.
    pub(super) fn add(
        &mut self,
        number: u64,
        handle: &Rc<ConnectionHandle>,
        listener: &Rc<FrontListener>,
        client: SocketAddr,
    ) {
        let (handle, listener) = (Rc::clone(handle), Rc::clone(listener));
        self.listed.insert(number, Listed { handle, listener, client });
    }

    /// Notes the client that a load balancer has named.
    pub(super) fn set_client(&mut self, number: u64, client: SocketAddr) {
        if let Some(listed) = self.listed.get_mut(&number) {
            listed.client = client;
        }
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&mut self, number: u64) {
        self.listed.remove(&number);
    }

    /// Looks at the next connections, or describes the next of those that were found. Returns the reply once it has all.
    pub(super) fn inspect(
        &self,
        search: &mut ListSearch,
        listeners: &TcpListeners,
    ) -> Option<Inspected> {
        let mut found = match search.found.take() {
            Some(found) => found,
            None => self.look(search, listeners)?,
        };
        let is_named = search.selection.id.is_some();
        for (rank, number) in found.left.by_ref().take(DESCRIBED_AT_ONCE) {
            let described = self.snapshot(number, listeners, is_named);
            found.inspected.shown.extend(described.map(|snapshot| (rank, snapshot)));
        }
        if found.left.as_slice().is_empty() {
            return Some(found.inspected);
        }
        search.found = Some(found);
        None
    }

    /// Looks at the next connections. Returns what was found once it has looked at all.
    fn look(&self, search: &mut ListSearch, listeners: &TcpListeners) -> Option<Found> {
        let left = self.listed.range((Excluded(search.last), Unbounded));
        for (looked_at, (number, listed)) in left.enumerate() {
            if looked_at == AT_ONCE {
                return None;
            }
            search.last = *number;
            if self.has(&search.selection, *number, listed, listeners)
                && let Some(seen) = Seen::of(listed)
                && seen.is_in(&search.selection)
            {
                let is_named = search.selection.names(&self.id(*number));
                let rank = if is_named { RANK_OF_NAMED } else { seen.rank(search.order) };
                let algorithm = seen.algorithm.clone().into();
                search.ranking.add(rank, *number, seen.protocol, algorithm, seen.state.wait);
            }
        }
        let (left, census) = search.ranking.take();
        let inspected = Inspected { shown: Vec::new(), census };
        Some(Found { left: left.into_iter(), inspected })
    }

    /// Whether a filter has a connection, by all that it costs no system call to know.
    fn has(
        &self,
        filter: &ConnectionFilter,
        number: u64,
        listed: &Listed,
        listeners: &TcpListeners,
    ) -> bool {
        let ConnectionFilter { id, client, protocol, listener, algorithm: _, wait: _ } = filter;
        id.as_ref().is_none_or(|id| id.begins(&self.id(number)))
            && client.is_none_or(|clients| clients.has(listed.client))
            && protocol.is_none_or(|protocol| protocol == listed.protocol())
            && listener
                .as_deref()
                .is_none_or(|name| listed.name(listeners).as_deref() == Some(name))
    }

    /// Returns what a connection is now; its requests have their targets if `is_named`.
    fn snapshot(
        &self,
        number: u64,
        listeners: &TcpListeners,
        is_named: bool,
    ) -> Option<ConnectionSnapshot> {
        // It may have ended since an earlier look.
        let listed = self.listed.get(&number)?;
        let seen = Seen::of(listed)?;
        let (busy, has_tunnel) = (seen.busy(), seen.has_tunnel);
        let requests = &listed.handle.requests;
        let Seen { protocol, algorithm, info, state, .. } = seen;
        let PathState { rtt, min_rtt, window, delivery_rate, retransmitted, timeouts } =
            info.path_state();
        Some(ConnectionSnapshot {
            id: self.id(number).to_vec(),
            protocol,
            listener: listed.name(listeners).unwrap_or_else(|| "(removed)".into()),
            client: listed.client,
            is_client_validated: true,
            algorithm: algorithm.into(),
            state: info.congestion_state(),
            age: state.age,
            wait: state.wait,
            waiting: state.waiting,
            busy,
            troubles: Vec::new(),
            has_tunnel,
            silence: info.silence(),
            open_requests: requests.snapshots(&state, is_named),
            requests: requests.taken(),
            rtt: rtt.zip(min_rtt),
            window,
            // RFC 5681 §4.1 allows no less, but for the time after a timeout.
            is_window_at_floor: window <= 2 * info.segment(),
            mtu: info.segment(),
            delivery_rate,
            sent: info.sent(),
            received: info.received(),
            lost: None,
            retransmitted,
            timeouts,
            spent: state.spent,
        })
    }
}

impl Listed {
    fn protocol(&self) -> ConnectionProtocol {
        let account = self.handle.meter.account();
        match (account.is_open(), account.is_http2()) {
            (false, _) => ConnectionProtocol::Tls,
            (true, true) => ConnectionProtocol::Http2,
            (true, false) => ConnectionProtocol::Http1,
        }
    }

    /// Returns the name of its listener.
    fn name(&self, listeners: &TcpListeners) -> Option<Arc<str>> {
        Some(Arc::clone(&self.listener.settings(listeners)?.name))
    }
}

/// A connection at a moment, without its requests.
struct Seen {
    protocol: ConnectionProtocol,
    algorithm: String,
    info: SocketInfo,
    state: LinkState,
    has_tunnel: bool,
}

impl Seen {
    /// Looks at a connection; `None` if it has no stream any more, or none yet: a load balancer is to name its client.
    fn of(listed: &Listed) -> Option<Seen> {
        let handle = &listed.handle;
        let socket = handle.meter.socket()?;
        let info = SocketInfo::read(socket)?;
        Some(Seen {
            protocol: listed.protocol(),
            algorithm: socket_info::algorithm(socket)?,
            state: handle.meter.account().state(&info),
            info,
            has_tunnel: handle.requests.have_tunnel(),
        })
    }

    fn is_in(&self, filter: &ConnectionFilter) -> bool {
        filter.algorithm.as_ref().is_none_or(|name| *name == self.algorithm)
            && filter.wait.is_none_or(|wait| wait == self.state.wait)
    }

    fn stall(&self) -> Duration {
        stall(self.state.wait, self.state.waiting, self.has_tunnel)
    }

    /// Returns for how long it has waited for anything but its client, without a break or progress. A connection with a tunnel always does.
    fn busy(&self) -> Duration {
        if self.has_tunnel { self.stall() } else { self.state.busy }
    }

    fn rank(&self, order: Order) -> u64 {
        match order {
            Order::Busy => rank_of(self.busy()),
            Order::Stalled => rank_of(self.stall()),
            Order::Age => rank_of(self.state.age),
            Order::Sent => self.info.sent(),
            Order::Lost => self.info.resent(),
        }
    }
}

#[cfg(test)]
mod tests;
