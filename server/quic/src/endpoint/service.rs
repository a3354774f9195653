//! Service: sessions run where something gave them a reason, and write nothing to the network.

use std::time::Instant;

use sluicegate_base::clock;

use super::Endpoint;
use super::table::make_unused;
use crate::application::{Application, Shared as _};

impl<A: Application> Endpoint<A> {
    /// Runs up to `budget` of the connections that wait for it: those with a new datagram, an expired timer, a message of a
    /// handler, or room in a buffer that was full.
    pub fn service(&mut self, budget: usize, now: Instant) {
        self.announce_shutdown();
        self.announce_retirements(now);
        self.settings.shared.set_now(now);
        self.connections.set_now(now);
        self.settings.shared.begin_service();
        self.relieve(now);
        for _ in 0..budget {
            let Some(slot) = self.connections.next_to_service() else {
                break;
            };
            self.service_connection(slot, now);
        }
        self.cancel_revoked();
    }

    /// Returns whether [`Endpoint::service`] has work.
    pub fn has_service(&self) -> bool {
        self.connections.has_service()
            || self.is_announcing()
            || self.is_announcing_retirements()
            || self.relief.is_under_way()
    }

    fn service_connection(&mut self, slot: usize, now: Instant) {
        self.prove_by_token(slot);
        self.note_validation(slot);
        if !self.watches.is_empty() {
            self.trace_named(slot, now);
        }
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        connection.awaits_service = false;
        connection.note_turn(now);
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
        let may_emit = !connection.awaits_signature;
        self.settle(slot, now);
        if may_emit {
            self.connections.queue_emit(slot);
        }
    }

    /// Brings the table of connection IDs in line with the connection's, and counts a finished handshake.
    fn settle(&mut self, slot: usize, now: Instant) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let mut validated = false;
        let draw = || u16::from_be_bytes(self.entropy.take());
        if connection.finish_handshake(&self.settings.limits, draw, now) {
            self.half_open.leave(connection.key.generation);
            self.counters.established += 1;
            validated = true;
            let shutdown = self.shutdown.as_ref().map(|shutdown| shutdown.since);
            if let Some(since) = connection.shut_down_since().or(shutdown) {
                connection.shut_down(since);
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
            self.connections.move_peer(slot, address);
            validated = true;
        }
        let Some((connection, taken)) = self.connections.get_with_ids(slot) else {
            return;
        };
        let mut retired = Vec::new();
        while let Some(id) = connection.take_retired_cid() {
            retired.push(id);
        }
        let (worker, generation) = (self.settings.worker, self.settings.secrets.generation());
        let scheme = &mut self.settings.cid_scheme;
        let mut made = || scheme.generate(worker, generation, &mut self.entropy);
        let generate = || make_unused(taken, &mut made);
        let fresh = if self.gives_spares {
            connection.issue_cids(generate, &self.reset_tokens)
        } else {
            Vec::new()
        };
        for id in retired {
            self.connections.remove_id(id.as_ref(), slot);
        }
        for id in fresh {
            self.connections.add_id(id.as_bytes().to_vec(), slot);
        }
        if validated {
            self.give_token(slot);
        }
    }
}
