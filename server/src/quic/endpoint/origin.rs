//! What handlers on the origin thread say, brought to their connections.

use std::time::Instant;

use super::{Endpoint, session_context};
use crate::http::exchange::ring::{Depth, OriginRing};

impl Endpoint {
    /// Takes up to `budget` messages of handlers on the origin thread to their connections; answers whether there may be
    /// more.
    pub fn on_origin(&mut self, budget: usize, now: Instant) -> bool {
        let mut more = true;
        for _ in 0..budget {
            let taken = self
                .settings
                .origin_ring
                .as_mut()
                .and_then(OriginRing::take);
            let Some((place, message)) = taken else {
                more = false;
                break;
            };
            let slot = self.connections.get_mut(place.slot);
            let Some(connection) = slot.and_then(Option::as_mut) else {
                continue;
            };
            if connection.serial != place.serial {
                continue;
            }
            let at = (place.slot, place.serial);
            let (cache, counters) = (&mut self.cache, &mut self.counters.h3);
            let mut context = session_context(&mut self.settings, cache, counters, at, now);
            connection.on_message(place.stream, message, &mut context);
            self.queue(place.slot);
        }
        if !self.awaiting_ring.is_empty()
            && self
                .settings
                .origin_ring
                .as_ref()
                .is_some_and(OriginRing::has_room)
        {
            for key in std::mem::take(&mut self.awaiting_ring) {
                if let Some(connection) = &mut self.connections[key] {
                    connection.awaiting_ring = false;
                    self.queue(key);
                }
            }
        }
        more
    }

    /// How full the rings are; nothing where there is no origin.
    pub fn origin_depth(&self) -> Depth {
        let origin_ring = self.settings.origin_ring.as_ref();
        origin_ring.map(OriginRing::depth).unwrap_or_default()
    }

    /// Wakes the origin thread if there is news for it.
    pub fn flush_origin(&mut self) {
        if let Some(origin_ring) = &mut self.settings.origin_ring {
            origin_ring.flush();
        }
    }
}
