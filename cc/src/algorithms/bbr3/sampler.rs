//! Delivery-rate samples (draft-ietf-ccwg-bbr-06 §4.1).
//!
//! The state of each packet ([`PacketState`]) contains the bytes delivered before it left. When the packet is acknowledged,
//! the bytes delivered since then, divided by a time, are a sample of the delivery rate. The time is the longer of two: the
//! time in which the data was sent, and the time in which it was acknowledged. So neither compressed ACKs nor bursts look
//! like bandwidth.

use crate::rounding::whole;
use crate::{Packet, PacketState, Sent, Time};

/// A delivery-rate sample, from the newest packet that an event acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateSample {
    /// Bytes per second; `None` if the interval was too short to tell.
    pub(super) rate: Option<u64>,
    /// Bytes delivered between the packet's departure and now.
    pub(super) delivered: u64,
    /// Bytes delivered on the path before the packet left.
    pub(super) prior_delivered: u64,
    /// Whether the sample spans a gap that the application, or ProbeRTT, left.
    pub(super) app_limited: bool,
    /// Whether ProbeRTT left the gap.
    pub(super) probe_rtt: bool,
    /// Bytes in flight when the packet left, itself included.
    pub(super) tx_in_flight: u64,
    /// Bytes lost between the packet's departure and now.
    pub(super) lost: u64,
    /// Bytes that the event acknowledged.
    pub(super) newly_acked: u64,
}

/// A packet that was lost, or that stands for a lost one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LostPacket {
    pub(super) bytes: u64,
    /// Bytes in flight when it left, itself included.
    pub(super) tx_in_flight: u64,
    /// Bytes lost since it left, itself included.
    pub(super) lost: u64,
    pub(super) app_limited: bool,
}

/// The sampler of one path. The transport keeps the state of each packet.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    /// Packets below left on another path and are ignored.
    first_number: u64,
    next_number: u64,
    delivered: u64,
    delivered_time: Time,
    first_sent: Time,
    lost: u64,
    /// Packets below left before the application's latest gap; `None` if the gap has left the path.
    gap_end: Option<u64>,
    gap_of_probe_rtt: bool,
    /// Newest packet that the present event acknowledged.
    newest: Option<Packet>,
    /// Bytes that the present event acknowledged.
    newly_acked: u64,
    /// Rate of the latest sample that tells what the path delivers, bytes per second; 0 before the first.
    latest_rate: u64,
}

impl Sampler {
    /// Returns a sampler for a path whose first packet is `first_packet`.
    pub(super) fn beginning_at(first_packet: u64) -> Self {
        Self { first_number: first_packet, next_number: first_packet, ..Self::default() }
    }

    /// Returns the bytes delivered since the path began. Packets that hold nothing but ACKs do not count (§2.2).
    pub(super) const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the bytes lost since the path began.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the latest sample's rate, bytes per second; 0 before the first. A sample that the application limited counts
    /// only if it is higher than the one before.
    pub(super) const fn latest_rate(&self) -> u64 {
        self.latest_rate
    }

    /// Returns whether a gap that the application, or ProbeRTT, left is still on the path.
    pub(super) const fn is_app_limited(&self) -> bool {
        self.gap_end.is_some()
    }

    /// Marks a gap that the application left: packets sent until it has left the path do not show how much fits.
    ///
    /// The draft records the place of the gap in bytes delivered (§4.1.2.4), and every byte lost or discarded must then
    /// move it back, or the gap never leaves. Packet numbers need no such care: the gap has left once any packet sent
    /// after it is acknowledged.
    pub(super) const fn mark_app_limited(&mut self) {
        self.gap_end = Some(self.next_number);
        self.gap_of_probe_rtt = false;
    }

    /// Marks the gap that ProbeRTT leaves (§5.3.4.3).
    pub(super) const fn mark_probe_rtt(&mut self) {
        self.gap_end = Some(self.next_number);
        self.gap_of_probe_rtt = true;
    }

    /// Returns the state of a packet that leaves (§4.1.2.2).
    pub(super) fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        self.next_number = self.next_number.max(sent.packet_number.saturating_add(1));
        if sent.in_flight_before == 0 {
            self.first_sent = now;
            self.delivered_time = now;
        }
        PacketState {
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent_time: self.first_sent,
            lost: self.lost,
            tx_in_flight: sent.in_flight_before.saturating_add(sent.bytes),
            app_limited: self.is_app_limited(),
            probe_rtt: self.is_app_limited() && self.gap_of_probe_rtt,
        }
    }

    /// Returns whether the packet left since the path began.
    const fn is_of_this_path(&self, packet: &Packet) -> bool {
        packet.packet_number >= self.first_number
    }

    /// A packet was acknowledged; ascending numbers within an event. Call [`Sampler::sample`] after the last (§4.1.2.3).
    pub(super) fn on_acked(&mut self, now: Time, packet: &Packet) {
        if !self.is_of_this_path(packet) {
            return;
        }
        self.delivered = self.delivered.saturating_add(packet.bytes);
        self.delivered_time = now;
        self.newly_acked = self.newly_acked.saturating_add(packet.bytes);
        if self.newest.is_none_or(|newest| packet.packet_number > newest.packet_number) {
            self.newest = Some(*packet);
            self.first_sent = packet.time_sent;
        }
    }

    /// A packet that was declared lost has arrived: it counts as delivered (§2.2). It makes no sample of its own. The count of
    /// losses stays: packets sent since the loss were told the higher count, and would have as many real losses hidden.
    pub(super) fn on_late_acked(&mut self, now: Time, packet: &Packet) {
        if self.is_of_this_path(packet) {
            self.delivered = self.delivered.saturating_add(packet.bytes);
            self.delivered_time = now;
        }
    }

    /// A packet was lost; `None` if it left on another path.
    pub(super) fn on_lost(&mut self, packet: &Packet) -> Option<LostPacket> {
        if !self.is_of_this_path(packet) {
            return None;
        }
        self.lost = self.lost.saturating_add(packet.bytes);
        Some(self.since(packet))
    }

    /// `bytes` of the packets that the event acknowledged carry CE marks and count as lost (§3.7).
    pub(super) fn on_ce_marked(&mut self, bytes: u64) -> Option<LostPacket> {
        let packet = self.newest?;
        self.lost = self.lost.saturating_add(bytes);
        Some(self.since(&packet))
    }

    const fn since(&self, packet: &Packet) -> LostPacket {
        LostPacket {
            bytes: packet.bytes,
            tx_in_flight: packet.state.tx_in_flight,
            lost: self.lost.saturating_sub(packet.state.lost),
            app_limited: packet.state.app_limited,
        }
    }

    /// Ends the event; `None` if it acknowledged nothing of this path. `min_rtt_nanos` is the shortest round trip of all.
    pub(super) fn sample(&mut self, min_rtt_nanos: u64) -> Option<RateSample> {
        let packet = self.newest.take()?;
        let state = packet.state;
        let newly_acked = std::mem::take(&mut self.newly_acked);
        if self.gap_end.is_some_and(|end| packet.packet_number >= end) {
            self.gap_end = None;
        }
        let send_elapsed = packet.time_sent.saturating_since(state.first_sent_time);
        let ack_elapsed = self.delivered_time.saturating_since(state.delivered_time);
        let interval = send_elapsed.max(ack_elapsed).as_nanos();
        let delivered = self.delivered.saturating_sub(state.delivered);
        let reliable = interval > 0 && interval >= u128::from(min_rtt_nanos);
        let rate = reliable.then(|| per_second(delivered, interval));
        if let Some(rate) = rate
            && (!state.app_limited || rate > self.latest_rate)
        {
            self.latest_rate = rate;
        }
        Some(RateSample {
            rate,
            delivered,
            prior_delivered: state.delivered,
            app_limited: state.app_limited,
            probe_rtt: state.probe_rtt,
            tx_in_flight: state.tx_in_flight,
            lost: self.lost.saturating_sub(state.lost),
            newly_acked,
        })
    }
}

fn per_second(bytes: u64, nanos: u128) -> u64 {
    whole(bytes as f64 * 1e9 / nanos as f64)
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
