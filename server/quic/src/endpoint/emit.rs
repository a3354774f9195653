//! Emit: connections are asked for packets, and nothing else happens.

use std::time::Instant;

use sluicegate_dataplane::{Egress, NoRoom};

use super::Endpoint;
use crate::application::Application;
use crate::connection::Emitted;
use crate::recorder::Trigger;

impl<A: Application> Endpoint<A> {
    /// Writes what may leave: a burst of each connection in turn, and between them up to `stateless` packets without a
    /// connection. Returns whether another call could send more right now; packets that wait for a full socket do not count.
    pub fn emit(&mut self, out: &mut dyn Egress, mut stateless: usize, now: Instant) -> bool {
        self.connections.set_now(now);
        // Rounds, until no connection has sent anything in one.
        let mut active = true;
        while std::mem::take(&mut active) {
            for _ in 0..self.connections.awaiting_emission() {
                self.emit_stateless(out, &mut stateless);
                let Some(slot) = self.connections.next_to_emit() else {
                    break;
                };
                match self.emit_from(slot, out, now) {
                    Emitted::More | Emitted::LowOnData => active = true,
                    Emitted::NoRoom(NoRoom::Budget) => return true,
                    Emitted::NoRoom(_) | Emitted::Nothing => {}
                }
            }
        }
        let mut left = self.stateless.len();
        while left > 0 && self.emit_stateless(out, &mut stateless) {
            left -= 1;
        }
        // Each of the others found no room in its socket.
        left > 0
    }

    /// Returns whether [`Endpoint::emit`] has work.
    pub fn has_unsent(&self) -> bool {
        self.connections.awaiting_emission() > 0 || !self.stateless.is_empty()
    }

    /// Sends the oldest stateless packet, if `allowed` is not used up. Returns whether it left the queue's head.
    fn emit_stateless(&mut self, out: &mut dyn Egress, allowed: &mut usize) -> bool {
        if *allowed == 0 {
            return false;
        }
        let Some(packet) = self.stateless.pop_front() else {
            return false;
        };
        match out.room(packet.listener, packet.bytes.len()) {
            Ok(room) => {
                room.copy_from_slice(&packet.bytes);
                out.commit(packet.bytes.len(), &packet.meta);
                *allowed -= 1;
            }
            Err(NoRoom::Unknown) => {}
            Err(NoRoom::Blocked) => self.stateless.push_back(packet),
            Err(NoRoom::Budget) => {
                self.stateless.push_front(packet);
                return false;
            }
        }
        true
    }

    fn emit_from(&mut self, slot: usize, out: &mut dyn Egress, now: Instant) -> Emitted {
        let Some(connection) = self.connections.get_mut(slot) else {
            return Emitted::Nothing;
        };
        connection.awaits_emit = false;
        connection.note_turn(now);
        let emitted = connection.emit(out, now);
        match emitted {
            Emitted::More => self.connections.queue_emit(slot),
            Emitted::LowOnData => self.connections.queue_service(slot),
            Emitted::Nothing => return self.rest(slot, now),
            Emitted::NoRoom(_) => {
                connection.note_full_socket(now);
                self.arm(slot, now);
                self.connections.queue_emit(slot);
            }
        }
        emitted
    }

    /// Ends the turn of a connection that has nothing to send: it waits for its next timer, is closed by a drain, or
    /// is removed.
    fn rest(&mut self, slot: usize, now: Instant) -> Emitted {
        let Some(connection) = self.connections.get_mut(slot) else {
            return Emitted::Nothing;
        };
        if connection.is_over() {
            if connection.has_failed_handshake() && self.shutdown.is_none() {
                self.on_trigger(slot, Trigger::Handshake, now);
            }
            self.remove(slot, now);
            return Emitted::Nothing;
        }
        let rest = connection.note_rest(now);
        if connection.has_room_again() {
            self.connections.queue_service(slot);
        }
        self.record_rest(slot, rest, now);
        self.note_controller(slot);
        let closed = self.note_shutdown(slot, now);
        self.arm(slot, now);
        if closed { Emitted::More } else { Emitted::Nothing }
    }

    /// Sets the timer of a connection.
    pub(super) fn arm(&mut self, slot: usize, now: Instant) {
        if let Some(connection) = self.connections.get(slot) {
            self.timers.set(slot, connection.deadline(), now);
        }
    }
}
