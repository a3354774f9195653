//! Messages of handlers on the origin thread, brought to their connections.

use std::time::Instant;

use super::Endpoint;
use crate::http::exchange::ring::{Depth, OriginRing};

impl Endpoint {
    /// Takes up to `budget` messages of handlers to their connections. Returns whether there may be more.
    pub fn on_origin(&mut self, budget: usize, now: Instant) -> bool {
        self.settings.sessions.now = now;
        let mut more = true;
        for _ in 0..budget {
            let sessions = &mut self.settings.sessions;
            let Some((key, message)) = sessions.origin_ring.as_mut().and_then(OriginRing::take)
            else {
                more = false;
                break;
            };
            let slot = key.connection.slot;
            let connection = self.connections.get_mut(slot).and_then(Option::as_mut);
            let Some(connection) = connection.filter(|c| c.key == key.connection) else {
                continue;
            };
            connection.on_message(key.stream, message, sessions);
            self.queue_service(slot);
        }
        let origin_ring = self.settings.sessions.origin_ring.as_ref();
        if !self.awaiting_ring.is_empty() && origin_ring.is_some_and(OriginRing::has_room) {
            for slot in std::mem::take(&mut self.awaiting_ring) {
                if let Some(connection) = &mut self.connections[slot] {
                    connection.awaits_ring = false;
                    self.queue_service(slot);
                }
            }
        }
        more
    }

    /// Cancels the requests whose memory others got in this turn.
    pub(super) fn cancel_revoked(&mut self) {
        loop {
            let sessions = &mut self.settings.sessions;
            let origin_ring = sessions.origin_ring.as_mut();
            let Some(key) = origin_ring.and_then(OriginRing::take_revoked) else {
                return;
            };
            let slot = key.connection.slot;
            let connection = self.connections.get_mut(slot).and_then(Option::as_mut);
            if let Some(connection) = connection.filter(|c| c.key == key.connection) {
                connection.revoke(key.stream, sessions);
                self.queue_service(slot);
            }
        }
    }

    /// Returns how full the rings are; all zero where there is no origin.
    pub fn origin_depth(&self) -> Depth {
        let origin_ring = self.settings.sessions.origin_ring.as_ref();
        origin_ring.map(OriginRing::depth).unwrap_or_default()
    }

    /// Wakes the origin thread if there is news for it.
    pub fn flush_origin(&mut self) {
        if let Some(origin_ring) = &mut self.settings.sessions.origin_ring {
            origin_ring.flush();
        }
    }
}
