//! Packets that leave, and the numbers of those that come back.

use super::{LossBased, WindowLaw};
use crate::slow_start::SlowStart;
use crate::{Packet, PacketState, Sent, Time};

impl<L: WindowLaw> LossBased<L> {
    /// Lets the slow start in force, and the one that an undo would return to, note something of whatever phase. Only SEARCH
    /// does, and only a path's first slow start is of that kind.
    pub(super) fn note_for_search(&mut self, note: impl Fn(&mut SlowStart)) {
        if self.initial_slow_start.is_search() {
            note(&mut self.slow_start);
            let saved = self.saved.as_mut().map(|saved| &mut saved.slow_start);
            saved.into_iter().for_each(note);
        }
    }

    /// Notes a packet that leaves, and returns the state for it.
    pub(super) fn note_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        self.clock.advance(now);
        self.clock.on_sent(sent.has_data);
        self.boundary.on_packet(sent.packet_number);
        self.usage.on_sent(sent.in_flight_before.saturating_add(sent.bytes));
        if let Some(reduction) = &mut self.reduction {
            reduction.on_sent(sent.bytes);
        }
        self.note_use();
        PacketState::default()
    }

    /// Does so for SEARCH as well. Apart, because its calls would cost each packet of the other slow starts.
    #[inline(never)]
    pub(super) fn note_sent_with_search(&mut self, now: Time, sent: &Sent) -> PacketState {
        self.note_for_search(|search| search.on_sent(now, sent));
        self.note_sent(now, sent)
    }

    /// Notes the largest number of packets in ascending order.
    pub(super) fn note_newest(&mut self, packets: &[Packet]) {
        if let Some(newest) = packets.last() {
            self.boundary.on_packet(newest.packet_number);
        }
    }
}
