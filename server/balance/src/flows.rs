//! The table of flows: those that are proven and those that are not, each in the order of their last datagram.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::pool::ServerKey;
use crate::tuple::Tuple;

/// Place of no flow.
const NONE: u32 = u32::MAX;

/// Identifies a flow. Its place is used again after its end, with another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FlowId {
    /// Place in the table, from 0, less than the most flows that there have been.
    pub(crate) index: u32,
    /// Number of the flow at this place.
    pub(crate) generation: u32,
}

#[derive(Debug)]
struct Flow {
    tuple: Tuple,
    server: ServerKey,
    last: Instant,
    /// Whether the server has sent to the client.
    is_answered: bool,
    /// Whether the client has sent again since.
    is_proven: bool,
    /// Hash of the ID that the client has chosen for its last connection; 0 for none.
    begun: u64,
    /// Hash of the ID that the server has chosen last; 0 for none.
    answered: u64,
    /// Neighbours in the order of the last datagram.
    older: u32,
    newer: u32,
    /// Next flow of the same addresses, to another server.
    sibling: u32,
}

/// Flows in the order of their last datagram.
#[derive(Debug)]
struct Order {
    oldest: u32,
    newest: u32,
    len: usize,
}

impl Order {
    const EMPTY: Order = Order { oldest: NONE, newest: NONE, len: 0 };
}

#[derive(Debug, Default)]
struct Place {
    generation: u32,
    flow: Option<Flow>,
}

/// Flows by their addresses. Each operation takes constant time, beside a walk over the flows of the same addresses, of which there is
/// one for each server at most.
#[derive(Debug)]
pub(crate) struct Flows {
    places: Vec<Place>,
    free: Vec<u32>,
    /// First flow of each pair of addresses.
    first: HashMap<Tuple, u32>,
    unproven: Order,
    proven: Order,
}

impl Flows {
    pub(crate) fn new() -> Flows {
        let (places, free) = (Vec::new(), Vec::new());
        let (unproven, proven) = (Order::EMPTY, Order::EMPTY);
        Flows { places, free, first: HashMap::new(), unproven, proven }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Returns the flow of these addresses that has lasted longest, or that was put before the others since.
    pub(crate) fn first_of(&self, tuple: &Tuple) -> Option<FlowId> {
        self.id(*self.first.get(tuple)?)
    }

    /// Returns the flow of these addresses to a server.
    pub(crate) fn find(&self, tuple: &Tuple, server: ServerKey) -> Option<FlowId> {
        let mut index = *self.first.get(tuple)?;
        while let Some(flow) = self.at(index) {
            if flow.server == server {
                return self.id(index);
            }
            index = flow.sibling;
        }
        None
    }

    /// Returns the server of a flow.
    pub(crate) fn server(&self, id: FlowId) -> Option<ServerKey> {
        let place = self.places.get(slot(id.index))?;
        let flow = place.flow.as_ref().filter(|_| place.generation == id.generation)?;
        Some(flow.server)
    }

    /// Notes a datagram of the client, if the flow has not ended.
    pub(crate) fn touch_by_client(&mut self, id: FlowId, now: Instant) {
        self.touch(id, now, |flow| flow.is_proven |= flow.is_answered);
    }

    /// Notes a datagram of the server, if the flow has not ended.
    pub(crate) fn touch_by_server(&mut self, id: FlowId, now: Instant) {
        self.touch(id, now, |flow| flow.is_answered = true);
    }

    fn touch(&mut self, id: FlowId, now: Instant, note: impl FnOnce(&mut Flow)) {
        if self.server(id).is_none() {
            return;
        }
        if let Some(flow) = self.at(id.index)
            && (flow.newer != NONE || flow.is_answered && !flow.is_proven)
        {
            self.unlink(id.index);
            if let Some(flow) = self.at_mut(id.index) {
                note(flow);
            }
            self.link(id.index);
        } else if let Some(flow) = self.at_mut(id.index) {
            note(flow);
        }
        if let Some(flow) = self.at_mut(id.index) {
            flow.last = now;
        }
    }

    /// Adds a flow behind those of the same addresses; there is none to that server yet.
    pub(crate) fn add(&mut self, tuple: Tuple, server: ServerKey, now: Instant) -> FlowId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            u32::try_from(self.places.len() - 1).unwrap_or(NONE)
        });
        let (is_answered, is_proven) = (false, false);
        let (older, newer, sibling) = (NONE, NONE, NONE);
        let (begun, answered) = (0, 0);
        let flow = Flow {
            tuple,
            server,
            last: now,
            is_answered,
            is_proven,
            begun,
            answered,
            older,
            newer,
            sibling,
        };
        let place = &mut self.places[slot(index)];
        place.generation = place.generation.wrapping_add(1);
        place.flow = Some(flow);
        let id = FlowId { index, generation: place.generation };
        let mut last = *self.first.entry(tuple).or_insert(index);
        while last != index {
            let Some(flow) = self.at_mut(last) else { break };
            if flow.sibling == NONE {
                flow.sibling = index;
            }
            last = flow.sibling;
        }
        self.link(index);
        id
    }

    /// Returns whether the client has begun its last connection in this flow with this ID, by its hash.
    pub(crate) fn has_begun(&self, id: FlowId, begun: u64) -> bool {
        self.at(id.index).is_some_and(|flow| flow.begun == begun)
    }

    /// Returns whether the server has chosen this ID last, by its hash.
    pub(crate) fn has_answered(&self, id: FlowId, answered: u64) -> bool {
        self.at(id.index).is_some_and(|flow| flow.answered == answered)
    }

    /// Notes the ID that the server has chosen for a connection, by its hash, if the flow has not ended.
    pub(crate) fn answer(&mut self, id: FlowId, answered: u64) {
        if self.server(id).is_some()
            && let Some(flow) = self.at_mut(id.index)
        {
            flow.answered = answered;
        }
    }

    /// Notes the ID that the client has chosen for a connection, by its hash, and puts the flow before the others of its addresses.
    pub(crate) fn begin(&mut self, id: FlowId, begun: u64) {
        let Some(flow) = self.at_mut(id.index) else { return };
        flow.begun = begun;
        let (tuple, sibling) = (flow.tuple, flow.sibling);
        if self.first.get(&tuple).is_some_and(|first| *first != id.index) {
            self.leave(id.index, tuple, sibling);
            let former = self.first.insert(tuple, id.index);
            if let Some(flow) = self.at_mut(id.index) {
                flow.sibling = former.unwrap_or(NONE);
            }
        }
    }

    /// Removes a flow, if it has not ended.
    pub(crate) fn remove(&mut self, id: FlowId) {
        if self.server(id).is_none() {
            return;
        }
        self.unlink(id.index);
        let Some(flow) = self.places[slot(id.index)].flow.take() else { return };
        self.free.push(id.index);
        self.leave(id.index, flow.tuple, flow.sibling);
    }

    /// Takes a flow out of those of its addresses.
    fn leave(&mut self, index: u32, tuple: Tuple, sibling: u32) {
        match self.first.get(&tuple).copied() {
            Some(first) if first == index && sibling == NONE => {
                self.first.remove(&tuple);
            }
            Some(first) if first == index => {
                self.first.insert(tuple, sibling);
            }
            Some(mut before) => {
                while let Some(one) = self.at_mut(before) {
                    if one.sibling == index {
                        one.sibling = sibling;
                        break;
                    }
                    before = one.sibling;
                }
            }
            None => {}
        }
    }

    /// Returns the number of flows that are not proven.
    pub(crate) fn unproven(&self) -> usize {
        self.unproven.len
    }

    /// Returns the flow whose last datagram is longest ago, of those that are proven or those that are not.
    pub(crate) fn oldest_of(&self, is_proven: bool) -> Option<FlowId> {
        self.id(if is_proven { self.proven.oldest } else { self.unproven.oldest })
    }

    /// Returns the flow whose last datagram is longest ago.
    pub(crate) fn oldest(&self) -> Option<FlowId> {
        let oldest = [self.unproven.oldest, self.proven.oldest].into_iter();
        let index = oldest.filter_map(|index| Some((self.at(index)?.last, index))).min()?.1;
        self.id(index)
    }

    /// Returns the time at which the oldest flow has been silent for so long.
    pub(crate) fn deadline(&self, silence: Duration) -> Option<Instant> {
        self.at(self.oldest()?.index).map(|flow| flow.last + silence)
    }

    fn at(&self, index: u32) -> Option<&Flow> {
        self.places.get(slot(index))?.flow.as_ref()
    }

    fn at_mut(&mut self, index: u32) -> Option<&mut Flow> {
        self.places.get_mut(slot(index))?.flow.as_mut()
    }

    fn id(&self, index: u32) -> Option<FlowId> {
        let place = self.places.get(slot(index))?;
        place.flow.as_ref().map(|_| FlowId { index, generation: place.generation })
    }

    fn order(&mut self, is_proven: bool) -> &mut Order {
        if is_proven { &mut self.proven } else { &mut self.unproven }
    }

    /// Puts a flow at the end of its order.
    fn link(&mut self, index: u32) {
        let Some(is_proven) = self.at(index).map(|flow| flow.is_proven) else { return };
        let order = self.order(is_proven);
        order.len += 1;
        let older = std::mem::replace(&mut order.newest, index);
        if let Some(flow) = self.at_mut(index) {
            (flow.older, flow.newer) = (older, NONE);
        }
        match self.at_mut(older) {
            Some(flow) => flow.newer = index,
            None => self.order(is_proven).oldest = index,
        }
    }

    /// Takes a flow out of its order.
    fn unlink(&mut self, index: u32) {
        let Some(flow) = self.at(index) else { return };
        let (older, newer, is_proven) = (flow.older, flow.newer, flow.is_proven);
        self.order(is_proven).len -= 1;
        match self.at_mut(older) {
            Some(flow) => flow.newer = newer,
            None => self.order(is_proven).oldest = newer,
        }
        match self.at_mut(newer) {
            Some(flow) => flow.older = older,
            None => self.order(is_proven).newest = older,
        }
    }

    /// Checks that the orders and the addresses hold the same flows.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        for (order, is_proven) in [(&self.unproven, false), (&self.proven, true)] {
            let mut seen = Vec::new();
            let mut index = order.oldest;
            while let Some(flow) = self.at(index) {
                assert_eq!(flow.is_proven, is_proven);
                assert_eq!(flow.older, seen.last().copied().unwrap_or(NONE));
                assert!(self.find(&flow.tuple, flow.server).is_some_and(|id| id.index == index));
                assert!(seen.len() < self.len(), "a circle");
                seen.push(index);
                index = flow.newer;
            }
            assert_eq!(order.newest, seen.last().copied().unwrap_or(NONE));
            assert_eq!(seen.len(), order.len);
        }
        assert_eq!(self.unproven.len + self.proven.len, self.len());
        assert!(self.first.len() <= self.len());
    }
}

fn slot(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use sluicegate_base::clock;

    use super::*;
    use crate::pool::Pool;
    use crate::settings::ServerSettings;

    fn keys() -> Vec<ServerKey> {
        let settings = |port: u16| ServerSettings {
            name: port.to_string(),
            address: (Ipv4Addr::LOCALHOST, port).into(),
            ids: Vec::new(),
            health: None,
            drain: false,
        };
        let mut pool = Pool::default();
        pool.adopt(&[1, 2, 3].map(settings));
        pool.servers().iter().map(|server| server.key).collect()
    }

    fn tuple(port: u16) -> Tuple {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Tuple { client: at(port), local: at(443) }
    }

    #[test]
    fn flows_of_the_same_addresses_keep_their_order_as_others_end() {
        let (keys, now) = (keys(), clock::now());
        for ended in 0..3 {
            let mut flows = Flows::new();
            let mut ids: Vec<_> = keys.iter().map(|key| flows.add(tuple(1), *key, now)).collect();
            flows.remove(ids.remove(ended));
            flows.check();
            assert_eq!(flows.first_of(&tuple(1)), Some(ids[0]));
            assert_eq!(flows.find(&tuple(1), keys[ended]), None);
            for id in &ids {
                let server = flows.server(*id).unwrap();
                assert_eq!(flows.find(&tuple(1), server), Some(*id));
            }
            ids.into_iter().for_each(|id| flows.remove(id));
            assert_eq!((flows.len(), flows.first_of(&tuple(1))), (0, None));
        }
    }

    #[test]
    fn a_place_that_is_used_again_is_another_flow() {
        let (keys, now) = (keys(), clock::now());
        let mut flows = Flows::new();
        let former = flows.add(tuple(1), keys[0], now);
        flows.remove(former);
        let id = flows.add(tuple(2), keys[1], now);
        assert_eq!((id.index, flows.server(former)), (former.index, None));
        flows.remove(former);
        flows.touch_by_client(former, now);
        assert_eq!(flows.server(id), Some(keys[1]));
        flows.check();
    }

    #[test]
    fn the_oldest_is_the_one_that_has_been_silent_longest() {
        let (keys, now) = (keys(), clock::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        let mut flows = Flows::new();
        let ids: Vec<_> = (1..4).map(|port| flows.add(tuple(port), keys[0], now)).collect();
        for (touched, oldest) in [(0, 1), (2, 1), (1, 0), (1, 0), (0, 2)] {
            flows.touch_by_client(ids[touched], later(1));
            assert_eq!(flows.oldest(), Some(ids[oldest]));
            flows.check();
        }
        assert_eq!(flows.deadline(Duration::from_secs(9)), Some(later(10)));
    }

    #[test]
    fn a_client_that_sends_after_its_server_has_proves_the_flow() {
        let (keys, now) = (keys(), clock::now());
        let mut flows = Flows::new();
        let ids: Vec<_> = (1..4).map(|port| flows.add(tuple(port), keys[0], now)).collect();
        flows.touch_by_client(ids[0], now);
        flows.touch_by_server(ids[1], now);
        assert_eq!((flows.unproven(), flows.oldest_of(true)), (3, None));
        flows.touch_by_client(ids[1], now);
        flows.check();
        assert_eq!((flows.unproven(), flows.oldest_of(true)), (2, Some(ids[1])));
        flows.remove(ids[1]);
        flows.check();
        assert_eq!((flows.unproven(), flows.oldest_of(false)), (2, Some(ids[2])));
    }
}
