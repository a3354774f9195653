//! How fast the path delivers (draft-ietf-ccwg-bbr-06 §4.1).
//!
//! Each packet that leaves takes a note of how much was delivered by then. When it is acknowledged, the difference
//! over the time since is a sample of the delivery rate: the time is the longer one of how long it took to send the
//! data and how long it took to have it acknowledged, so that neither compressed ACKs nor bursts pass for bandwidth.

use std::collections::VecDeque;

use crate::{Sent, Time};

/// One packet's notes.
#[derive(Clone, Copy, Debug)]
struct Packet {
    number: u64,
    bytes: u64,
    sent: Time,
    /// All that was delivered, and when the last of it was, as it left.
    delivered: u64,
    delivered_time: Time,
    /// When the newest packet delivered by then had left.
    first_sent: Time,
    /// All that was lost as it left.
    lost: u64,
    /// The flight with it.
    tx_in_flight: u64,
    app_limited: bool,
    /// Whether ProbeRTT was what left the gap.
    probe_rtt: bool,
    /// Acknowledged, lost or discarded.
    settled: bool,
}

/// A sample, from the newest packet that an event acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateSample {
    /// Bytes per second; `None` where the interval was too short to tell.
    pub(super) rate: Option<u64>,
    /// Delivered between the packet's departure and now.
    pub(super) delivered: u64,
    /// All that was delivered as the packet left.
    pub(super) prior_delivered: u64,
    /// Whether the application left a gap in what the sample saw.
    pub(super) app_limited: bool,
    /// Whether ProbeRTT was what left the gap.
    pub(super) probe_rtt: bool,
    /// The flight as the packet left, itself included.
    pub(super) tx_in_flight: u64,
    /// Lost between the packet's departure and now.
    pub(super) lost: u64,
    /// Acknowledged by the event.
    pub(super) newly_acked: u64,
}

/// A packet that was lost, or that stands for a lost one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LostPacket {
    pub(super) bytes: u64,
    /// The flight as it left, itself included.
    pub(super) tx_in_flight: u64,
    /// Lost since it left, itself included.
    pub(super) lost: u64,
    pub(super) app_limited: bool,
}

/// The sampler of one path.
///
/// Memory is bounded by what is in flight: notes below the transport's oldest packet are dropped.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    /// Ascending numbers.
    packets: VecDeque<Packet>,
    next_number: u64,
    delivered: u64,
    delivered_time: Time,
    first_sent: Time,
    lost: u64,
    /// Packets below left before the application's latest gap; `None` where the gap has left the path.
    gap_end: Option<u64>,
    gap_of_probe_rtt: bool,
    /// Of the present event.
    newest: Option<Packet>,
    newly_acked: u64,
}

/// Room for a first few round trips, so that steady state allocates nothing.
const ROOM: usize = 512;

impl Sampler {
    pub(super) fn new() -> Self {
        Self {
            packets: VecDeque::with_capacity(ROOM),
            ..Self::default()
        }
    }

    /// Delivered since the path began, bytes. Packets that hold nothing but ACKs never come here (§2.2).
    pub(super) const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Lost since the path began, bytes.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether a gap that the application left is still on the path.
    pub(super) const fn is_app_limited(&self) -> bool {
        self.gap_end.is_some()
    }

    /// What is on the path from now on says nothing about how much would fit.
    ///
    /// The draft marks the place of the gap in bytes delivered (§4.1.2.4), and a byte that is lost or discarded must
    /// then move the mark back, or the gap never leaves. Packet numbers need no such care: the gap has left once any
    /// packet sent after it is acknowledged.
    pub(super) const fn mark_app_limited(&mut self) {
        self.gap_end = Some(self.next_number);
        self.gap_of_probe_rtt = false;
    }

    /// The same, for the small flight of ProbeRTT (§5.3.4.3).
    pub(super) const fn mark_probe_rtt(&mut self) {
        self.gap_end = Some(self.next_number);
        self.gap_of_probe_rtt = true;
    }

    /// §4.1.2.2.
    pub(super) fn on_sent(&mut self, now: Time, sent: &Sent) {
        if sent.packet_number < self.next_number {
            return;
        }
        self.next_number = sent.packet_number.saturating_add(1);
        if sent.in_flight_before == 0 {
            self.first_sent = now;
            self.delivered_time = now;
        }
        self.packets.push_back(Packet {
            number: sent.packet_number,
            bytes: sent.bytes,
            sent: now,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent: self.first_sent,
            lost: self.lost,
            tx_in_flight: sent.in_flight_before.saturating_add(sent.bytes),
            app_limited: self.is_app_limited(),
            probe_rtt: self.is_app_limited() && self.gap_of_probe_rtt,
            settled: false,
        });
    }

    /// A packet was acknowledged; ascending numbers within an event. Call [`Sampler::sample`] after the last (§4.1.2.3).
    pub(super) fn on_acked(&mut self, now: Time, number: u64) {
        let Some(packet) = self.settle(number) else {
            return;
        };
        self.delivered = self.delivered.saturating_add(packet.bytes);
        self.delivered_time = now;
        self.newly_acked = self.newly_acked.saturating_add(packet.bytes);
        if self.newest.is_none_or(|n| number > n.number) {
            self.newest = Some(packet);
            self.first_sent = packet.sent;
        }
    }

    /// A packet was lost.
    pub(super) fn on_lost(&mut self, number: u64) -> Option<LostPacket> {
        let packet = self.settle(number)?;
        self.lost = self.lost.saturating_add(packet.bytes);
        Some(self.since(&packet))
    }

    /// `bytes` of what the event acknowledged came marked, which counts as lost (§3.7).
    pub(super) fn on_marked(&mut self, bytes: u64) -> Option<LostPacket> {
        let packet = self.newest?;
        self.lost = self.lost.saturating_add(bytes);
        Some(self.since(&packet))
    }

    fn since(&self, packet: &Packet) -> LostPacket {
        LostPacket {
            bytes: packet.bytes,
            tx_in_flight: packet.tx_in_flight,
            lost: self.lost.saturating_sub(packet.lost),
            app_limited: packet.app_limited,
        }
    }

    /// A packet will be neither acknowledged nor lost.
    pub(super) fn on_discarded(&mut self, number: u64) {
        self.settle(number);
        self.trim(0);
    }

    /// Ends the event; `None` where it acknowledged nothing known. `min_rtt_nanos` is the shortest round trip of all.
    pub(super) fn sample(&mut self, min_rtt_nanos: u64) -> Option<RateSample> {
        let packet = self.newest.take()?;
        let newly_acked = std::mem::take(&mut self.newly_acked);
        if self.gap_end.is_some_and(|end| packet.number >= end) {
            self.gap_end = None;
        }
        let send_elapsed = packet.sent.saturating_since(packet.first_sent);
        let ack_elapsed = self.delivered_time.saturating_since(packet.delivered_time);
        let interval = send_elapsed.max(ack_elapsed).as_nanos();
        let delivered = self.delivered.saturating_sub(packet.delivered);
        let reliable = interval > 0 && interval >= u128::from(min_rtt_nanos);
        Some(RateSample {
            rate: reliable.then(|| per_second(delivered, interval)),
            delivered,
            prior_delivered: packet.delivered,
            app_limited: packet.app_limited,
            probe_rtt: packet.probe_rtt,
            tx_in_flight: packet.tx_in_flight,
            lost: self.lost.saturating_sub(packet.lost),
            newly_acked,
        })
    }

    /// Drops what the transport has dropped.
    pub(super) fn trim(&mut self, least_unacked: u64) {
        while let Some(first) = self.packets.front()
            && (first.settled || first.number < least_unacked)
        {
            self.packets.pop_front();
        }
    }

    /// Takes a packet that is still in flight.
    fn settle(&mut self, number: u64) -> Option<Packet> {
        let at = self.position(number)?;
        let packet = self.packets.get_mut(at)?;
        if packet.settled {
            return None;
        }
        packet.settled = true;
        Some(*packet)
    }

    /// Numbers rarely have gaps, so the place is nearly always where counting from the first puts it.
    fn position(&self, number: u64) -> Option<usize> {
        let guess = usize::try_from(number.checked_sub(self.packets.front()?.number)?).ok()?;
        if self.packets.get(guess).is_some_and(|p| p.number == number) {
            return Some(guess);
        }
        self.packets
            .binary_search_by_key(&number, |p| p.number)
            .ok()
    }
}

fn per_second(bytes: u64, nanos: u128) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "never negative, saturates, and a fraction of a byte does not matter"
    )]
    let whole = (bytes as f64 * 1e9 / nanos as f64) as u64;
    whole
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
