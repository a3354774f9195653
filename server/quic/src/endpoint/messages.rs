//! Messages of other threads, brought to their connections.

use std::time::Instant;

use sluicegate_base::keys::{ConnectionKey, ExchangeKey};

use super::Endpoint;
use crate::application::{Application, Shared as _};
use crate::connection::Connection;

impl<A: Application> Endpoint<A> {
    /// Takes up to `budget` messages to their connections. Returns whether there may be more.
    pub fn on_messages(&mut self, budget: usize, now: Instant) -> bool {
        self.settings.shared.set_now(now);
        self.connections.set_now(now);
        let mut more = true;
        for _ in 0..budget {
            let Some((key, message)) = self.settings.shared.next_message() else {
                more = false;
                break;
            };
            self.with_connection(key, |connection, shared| {
                connection.on_message(key.stream, message, shared);
            });
        }
        if !self.awaiting_room.is_empty() && self.settings.shared.has_room() {
            for slot in std::mem::take(&mut self.awaiting_room) {
                if let Some(connection) = self.connections.get_mut(slot) {
                    connection.awaits_room = false;
                    self.connections.queue_service(slot);
                }
            }
        }
        more
    }

    /// Has a handshake go on whose signature is there.
    pub fn on_signature(&mut self, connection: ConnectionKey) {
        let key = ExchangeKey { connection, stream: 0 };
        self.with_connection(key, |connection, _| connection.awaits_signature = false);
    }

    /// Cancels the requests whose memory others got in this turn.
    pub(super) fn cancel_revoked(&mut self) {
        while let Some(key) = self.settings.shared.next_revoked() {
            self.with_connection(key, |connection, shared| connection.revoke(key.stream, shared));
        }
    }

    /// Wakes other threads if there is news for them.
    pub fn flush_messages(&mut self) {
        self.settings.shared.flush();
    }

    /// Passes a connection to `act`, if it is still there, and has it serviced.
    fn with_connection(
        &mut self,
        key: ExchangeKey,
        act: impl FnOnce(&mut Connection<A>, &mut A::Shared),
    ) {
        let slot = key.connection.slot;
        let connection = self.connections.get_mut(slot);
        if let Some(connection) = connection.filter(|c| c.key == key.connection) {
            act(connection, &mut self.settings.shared);
            self.connections.queue_service(slot);
        }
    }
}
