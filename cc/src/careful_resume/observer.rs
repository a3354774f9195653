//! Measurement of what a path carries, for later connections (RFC 9959 §3.1 and §4.1).

use std::time::Duration;

use super::{Observation, PathCapacity};
use crate::{Event, Packet, Time};

/// Shortest time between two reports of one connection; a report of the rest comes when its data runs out, or at its end.
const INTERVAL: Duration = Duration::from_secs(1);

/// Counts the bytes that arrive in each round trip.
///
/// A round trip counts if the application limited neither it nor the one before, whose packets it acknowledges, and if no
/// window was being reduced in it. What it carried is the capacity, but no more than twice what the one before did: slow
/// start does not grow faster, and a single burst of acknowledgements proves little. Only what has arrived counts, so in
/// slow start this is half of the window (§4.1).
#[derive(Debug, Default)]
pub(super) struct Observer {
    began: Option<Time>,
    /// Packets below were sent before the round trip began.
    end: u64,
    delivered: u64,
    /// Whether something limited this round trip, or the one before.
    limited: bool,
    was_limited: bool,
    /// Bytes of the last round trip, if it counts.
    before: Option<u64>,
    unsaved: Option<Observation>,
    saved_at: Option<Time>,
}

impl Observer {
    /// Begins again with the next event. The first round trip does not count, because most of its packets were sent before.
    pub(super) fn restart(&mut self) {
        self.began = None;
        self.before = None;
        self.limited = true;
    }

    pub(super) fn on_app_limited(&mut self) {
        self.limited = true;
    }

    /// Takes an event; `reduced` if the window is being reduced. Returns a capacity at the end of a round trip.
    pub(super) fn on_event(
        &mut self,
        event: &Event<'_>,
        next_packet: u64,
        min_rtt: Duration,
        reduced: bool,
    ) -> Option<PathCapacity> {
        self.limited |= reduced;
        let newest = event.acked.last()?.packet_number;
        let Some(began) = self.began else {
            self.begin(event.now, next_packet);
            return None;
        };
        self.delivered = self.delivered.saturating_add(bytes(event.acked));
        if newest < self.end {
            return None;
        }
        let took = event.now.saturating_since(began);
        let counts = !self.limited && !self.was_limited;
        let own = counts.then(|| without_queue(self.delivered, took, min_rtt));
        let before = std::mem::replace(&mut self.before, own);
        self.begin(event.now, next_packet);
        let cwnd = own?.min(before?.saturating_mul(2));
        Some(PathCapacity { cwnd, min_rtt })
    }

    fn begin(&mut self, now: Time, next_packet: u64) {
        self.began = Some(now);
        self.end = next_packet;
        self.delivered = 0;
        self.was_limited = std::mem::take(&mut self.limited);
    }

    /// Returns what was observed if it is time to save it, and otherwise keeps it.
    pub(super) fn due(&mut self, now: Time, observed: Observation) -> Option<Observation> {
        let is_soon = |at: Time| now.saturating_since(at) < INTERVAL;
        if self.saved_at.is_some_and(is_soon) {
            self.unsaved = Some(observed);
            return None;
        }
        self.saved_at = Some(now);
        self.unsaved = None;
        Some(observed)
    }

    /// Returns what was observed last, if it was not saved.
    pub(super) fn take_unsaved(&mut self) -> Option<Observation> {
        self.unsaved.take()
    }
}

/// Returns the part of the bytes delivered in `took` that a round trip of `min_rtt` carries.
fn without_queue(delivered: u64, took: Duration, min_rtt: Duration) -> u64 {
    if took <= min_rtt {
        return delivered;
    }
    let part = u128::from(delivered).saturating_mul(min_rtt.as_nanos()) / took.as_nanos();
    u64::try_from(part).unwrap_or(delivered)
}

/// Returns the sum of the packets' sizes.
pub(super) fn bytes(packets: &[Packet]) -> u64 {
    let sum = |sum: u64, packet: &Packet| sum.saturating_add(packet.bytes);
    packets.iter().fold(0, sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_the_queue_is_no_capacity() {
        let ms = Duration::from_millis;
        assert_eq!(without_queue(100_000, ms(100), ms(100)), 100_000);
        assert_eq!(without_queue(100_000, ms(200), ms(100)), 50_000);
        assert_eq!(without_queue(100_000, ms(90), ms(100)), 100_000);
        let longest = Duration::from_nanos(u64::MAX);
        let shorter = Duration::from_nanos(u64::MAX - 1);
        assert_eq!(without_queue(u64::MAX, longest, shorter), u64::MAX - 1);
    }
}
