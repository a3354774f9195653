//! Service: sessions run where something gave them a reason, and write nothing to the network.

use std::time::Instant;

use super::Endpoint;
use crate::clock;
use crate::quic::application::{Application, Shared as _};

impl<A: Application> Endpoint<A> {
    /// Runs up to `budget` of the connections that wait for it: those with a new datagram, an expired timer, a message of a
    /// handler, or room in a buffer that was full. Returns whether more of them wait.
    pub fn service(&mut self, budget: usize, now: Instant) -> bool {
        self.announce_shutdown();
        self.announce_retirements(now);
        self.settings.shared.set_now(now);
        self.settings.shared.begin_service();
        self.relieve(now);
        for _ in 0..budget {
            let Some(slot) = self.to_service.pop_front() else {
                break;
            };
            self.service_connection(slot, now);
        }
        self.cancel_revoked();
        self.has_service()
    }

    /// Returns whether [`Endpoint::service`] has work.
    pub fn has_service(&self) -> bool {
        !self.to_service.is_empty()
            || self.is_announcing()
            || self.is_announcing_retirements()
            || self.relief.is_under_way()
    }

    /// Queues a connection for service, once.
    pub(super) fn queue_service(&mut self, slot: usize) {
        if let Some(connection) = self.connections[slot].as_mut()
            && !std::mem::replace(&mut connection.awaits_service, true)
        {
            self.to_service.push_back(slot);
        }
    }

    fn service_connection(&mut self, slot: usize, now: Instant) {
        self.prove_by_token(slot);
        self.note_validation(slot);
        let Some(connection) = self.connections[slot].as_mut() else {
            return;
        };
        connection.awaits_service = false;
        let begun = clock::now();
        connection.service(&mut self.settings.shared, now);
        if connection.is_spent() {
            self.overload.add(clock::now().saturating_duration_since(begun));
        }
        connection.note_requests(now);
        if self.shutdown.is_none()
            && let Some(reason) = connection.expire(now)
        {
            self.counters.expired[reason] += 1;
        }
        if connection.awaits_room() && !std::mem::replace(&mut connection.awaits_room, true) {
            self.awaiting_room.push(slot);
        }
        self.settle(slot, now);
        self.queue_emit(slot);
    }

    /// Brings the table of connection IDs in line with the connection's, and counts a finished handshake.
    fn settle(&mut self, slot: usize, now: Instant) {
        let Some(connection) = self.connections[slot].as_mut() else {
            return;
        };
        let mut validated = false;
        let draw = || u16::from_be_bytes(self.entropy.take());
        if connection.finish_handshake(&self.settings.limits, draw, now) {
            self.half_open.leave(connection.key.generation);
            self.counters.established += 1;
            validated = true;
            if self.shutdown.is_some() {
                connection.drain();
            }
            let mut retiring = self.retiring.iter();
            if let Some(retirement) = retiring.find(|r| r.listener == connection.listener) {
                connection.retire(retirement.limit, now);
            }
            if let Some((peer, min_rtt)) = connection.min_rtt()
                && let Some(listener) = self.settings.listeners.get_mut(&connection.listener)
                && let Some(network) = listener.selection.learn(peer, min_rtt, quiche::clock::now())
            {
                tracing::info!(
                    listener = %listener.name, %network, ?min_rtt,
                    "low round-trip time: no bbr3 for further connections from this network"
                );
            }
        }
        if let Some(address) = connection.take_move() {
            self.peers.remove(&(connection.address, slot));
            self.peers.insert((address, slot));
            connection.address = address;
            validated = true;
        }
        while let Some(retired) = connection.take_retired_cid() {
            self.cid_table.remove(retired.as_ref());
        }
        let (worker, generation) = (self.settings.worker, self.settings.secrets.generation());
        let scheme = &mut self.settings.cid_scheme;
        let generate = || scheme.generate(worker, generation, &mut self.entropy);
        for cid in connection.issue_cids(generate, &self.reset_tokens) {
            self.cid_table.insert(cid.as_bytes().to_vec(), slot);
        }
        if validated {
            self.give_token(slot);
        }
    }
}
