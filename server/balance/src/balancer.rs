//! Routes datagrams, without sockets and clock.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluicegate_base::hash::hash;

use crate::counters::Counters;
use crate::datagram::{destination_id, may_begin, source_id};
use crate::flows::{FlowId, Flows};
use crate::ids::Ids;
use crate::new_flows::{NewFlows, Opening};
use crate::pool::{Pool, Server, ServerKey};
use crate::settings::BalancerSettings;
use crate::tuple::Tuple;

/// The flow that a datagram belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// One that there was.
    Known(FlowId),
    /// A new one, to a server at this address. It may stand at the place of one that has ended.
    New(FlowId, SocketAddr),
}

/// Reason why a datagram goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unrouted {
    /// The header ends too early.
    Malformed,
    /// All servers drain.
    NoServer,
    /// It names no server and cannot begin a connection, and the table is full.
    NoRoom,
    /// It would begin a flow, of which there have been too many in the last second.
    RateLimited,
}

/// Part of the table that unproven flows may take from proven ones: 1 / `NEWCOMERS`.
pub(crate) const NEWCOMERS: usize = 8;

/// Servers, connection IDs and flows.
///
/// A datagram goes
/// 1. to the server that its connection ID names, whatever the health of it;
/// 2. else to the server of the first flow of its addresses, unless it begins a connection and that server takes no clients;
/// 3. else to one that is chosen by a hash of them.
///
/// Each pair of addresses has a flow for each server that it sends to. An ID is a hint: it may be forged, and one that a client has chosen
/// may name a server by chance. Either costs a flow.
///
/// A flow is proven once its client has sent again after its server has. In a full table a new flow ends the one that has been silent
/// longest: of the unproven ones, if these are more than an eighth of the table; of the proven ones if not. So new clients have time to
/// prove their flows, and a flood from forged addresses takes no more than an eighth of the table from the others. And no more flows begin
/// in a second than the settings allow, so that a flood leaves the time of the thread to known flows.
#[derive(Debug)]
pub(crate) struct Balancer {
    ids: Ids,
    pool: Pool,
    flows: Flows,
    new_flows: NewFlows,
    idle_timeout: Duration,
    max_flows: usize,
    counters: Counters,
}

impl Balancer {
    /// Makes a balancer without flows.
    pub(crate) fn new(settings: BalancerSettings) -> Balancer {
        let mut balancer = Balancer {
            ids: Ids::default(),
            pool: Pool::default(),
            flows: Flows::new(),
            new_flows: NewFlows::new(settings.new_flows_per_second),
            idle_timeout: settings.idle_timeout,
            max_flows: settings.max_flows,
            counters: Counters::default(),
        };
        balancer.adopt(settings);
        balancer
    }

    /// Replaces the settings. Flows stay, also those of servers that are not there any more.
    pub(crate) fn adopt(&mut self, settings: BalancerSettings) {
        let servers = self.pool.adopt(&settings.servers);
        self.ids = Ids::new(settings.ids, servers);
        self.new_flows.change_to(settings.new_flows_per_second);
        self.idle_timeout = settings.idle_timeout;
        self.max_flows = settings.max_flows.max(1);
    }

    /// Returns the flow of a client's datagram.
    ///
    /// # Errors
    /// It goes nowhere.
    pub(crate) fn route(
        &mut self,
        tuple: &Tuple,
        datagram: &[u8],
        now: Instant,
    ) -> Result<Placed, Unrouted> {
        let Some(id) = destination_id(datagram) else {
            self.counters.malformed += 1;
            return Err(Unrouted::Malformed);
        };
        if let Some(key) = self.ids.decode(id)
            && let Some(server) = self.pool.find(key)
        {
            let address = server.address;
            let placed = self.place(tuple, (key, address), Opening::Named, now)?;
            self.counters.by_id += 1;
            return Ok(placed);
        }
        let first = self.flows.first_of(tuple);
        let begun = (may_begin(datagram) && self.ids.are_used()).then(|| hash(id));
        // An ID without the number of a server may be one that the server has chosen, such as one of the last configuration.
        let begun =
            begun.filter(|begun| !first.is_some_and(|flow| self.flows.has_answered(flow, *begun)));
        if let Some(flow) = first
            && self.stays(tuple, flow, begun)
        {
            self.counters.by_flow += 1;
            begun.into_iter().for_each(|begun| self.flows.begin(flow, begun));
            return Ok(self.known(flow, now));
        }
        if self.flows.len() >= self.max_flows && !may_begin(datagram) {
            self.counters.no_room += 1;
            return Err(Unrouted::NoRoom);
        }
        let Some(&Server { key, address, .. }) = self.pool.choose(tuple) else {
            self.counters.no_server += 1;
            return Err(Unrouted::NoServer);
        };
        let opening = if may_begin(datagram) { Opening::Connection } else { Opening::Other };
        let placed = self.place(tuple, (key, address), opening, now)?;
        self.counters.by_hash += 1;
        let (Placed::New(flow, _) | Placed::Known(flow)) = placed;
        begun.into_iter().for_each(|begun| self.flows.begin(flow, begun));
        Ok(placed)
    }

    /// Returns whether a datagram that names no server goes where the first flow of its addresses goes. Those that begin another connection
    /// leave a server that takes no clients, if there is a better one.
    fn stays(&self, tuple: &Tuple, flow: FlowId, begun: Option<u64>) -> bool {
        let Some(begun) = begun else { return true };
        let server = self.flows.server(flow);
        self.flows.has_begun(flow, begun)
            || server.is_some_and(|key| self.pool.takes_clients(key))
            || self.pool.choose(tuple).is_none_or(|chosen| server == Some(chosen.key))
    }

    fn known(&mut self, flow: FlowId, now: Instant) -> Placed {
        self.flows.touch_by_client(flow, now);
        Placed::Known(flow)
    }

    /// Returns the flow to a server, which may be a new one.
    fn place(
        &mut self,
        tuple: &Tuple,
        (key, address): (ServerKey, SocketAddr),
        opening: Opening,
        now: Instant,
    ) -> Result<Placed, Unrouted> {
        if let Some(flow) = self.flows.find(tuple, key) {
            return Ok(self.known(flow, now));
        }
        if !self.new_flows.admit(opening, now) {
            self.counters.rate_limited += 1;
            return Err(Unrouted::RateLimited);
        }
        // One for one, so that the new flow gets the place of the one that it ends.
        if self.flows.len() >= self.max_flows {
            self.evict();
        }
        self.counters.opened += 1;
        Ok(Placed::New(self.flows.add(*tuple, key, now), address))
    }

    /// Notes a datagram of a server.
    pub(crate) fn touch_by_server(&mut self, flow: FlowId, datagram: &[u8], now: Instant) {
        self.flows.touch_by_server(flow, now);
        if let Some(id) = source_id(datagram) {
            self.flows.answer(flow, hash(id));
        }
    }

    /// Ends a flow for which there is no socket.
    pub(crate) fn remove(&mut self, flow: FlowId) {
        self.flows.remove(flow);
    }

    /// Ends a flow whose socket cannot send any more. The next datagram of its client begins another one.
    pub(crate) fn fail(&mut self, flow: FlowId) {
        self.flows.remove(flow);
        self.counters.failed += 1;
    }

    /// Ends a flow to make room, and returns it: of the unproven ones, if these are many, else of the proven ones, that which has been
    /// silent longest.
    pub(crate) fn evict(&mut self) -> Option<FlowId> {
        let is_proven = self.flows.unproven() <= self.max_flows / NEWCOMERS;
        let oldest = self.flows.oldest_of(is_proven).or_else(|| self.flows.oldest())?;
        self.flows.remove(oldest);
        self.counters.evicted += 1;
        Some(oldest)
    }

    /// Ends a flow that has been silent for too long, or one of too many, and returns it. Call it until there is none.
    pub(crate) fn next_ended(&mut self, now: Instant) -> Option<FlowId> {
        if self.flows.len() > self.max_flows {
            return self.evict();
        }
        let oldest = self.flows.oldest()?;
        if self.next_deadline()? > now {
            return None;
        }
        self.flows.remove(oldest);
        self.counters.expired += 1;
        Some(oldest)
    }

    /// Returns the time at which a flow ends by silence.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.flows.deadline(self.idle_timeout)
    }

    /// Notes whether the checks of a server succeed. One that is down gets no new clients.
    pub(crate) fn set_health(&mut self, server: ServerKey, is_up: bool) {
        self.pool.set_health(server, is_up);
    }

    /// Returns whether all servers drain, so that new clients are dropped.
    pub(crate) fn drains(&self) -> bool {
        self.pool.drains()
    }

    /// Returns the servers in the order of the configuration.
    pub(crate) fn servers(&self) -> &[Server] {
        self.pool.servers()
    }

    /// Returns the number of flows.
    pub(crate) fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Returns the totals.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the totals, for what sockets count.
    pub(crate) fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }
}

#[cfg(test)]
mod tests;
