//! The packets that left and what became of them. Lost ones are remembered, and the threshold adapts, as in the patched quiche.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_cc::{Packet, Time};

/// Packets sent after a lost one that prove its loss, until some proved nothing (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u64 = 3;
/// Bound of the threshold that late acknowledgements raise.
const MAX_PACKET_THRESHOLD: u64 = 300;
/// PTOs for which a lost packet is remembered.
const REMEMBERED_PTOS: u32 = 2;
/// Lost packets remembered; the oldest makes room.
const MAX_REMEMBERED: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    InFlight,
    Acked,
    /// Declared lost then.
    Lost(Time),
    /// Lost too long ago to be remembered.
    Forgotten,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    packet: Packet,
    chunk: usize,
    fate: Fate,
}

/// Result of acknowledging a packet number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A packet that was in flight until now, with its data.
    InFlight(Packet, usize),
    /// A packet that was declared lost before, with its data.
    Late(Packet, usize),
    /// A packet that was acknowledged before or is forgotten.
    Nothing,
}

/// A record of sent packets.
#[derive(Debug)]
pub(super) struct SentPackets {
    packet_threshold: u64,
    is_reordered: bool,
    /// Numbers of lost packets that are remembered, ascending.
    lost: VecDeque<u64>,
    packets: VecDeque<Record>,
    /// Number of the first in `packets`.
    start: u64,
    /// Smallest number in flight, or the next number.
    oldest: u64,
    in_flight: u64,
}

impl Default for SentPackets {
    fn default() -> Self {
        Self {
            packet_threshold: PACKET_THRESHOLD,
            is_reordered: false,
            lost: VecDeque::new(),
            packets: VecDeque::new(),
            start: 0,
            oldest: 0,
            in_flight: 0,
        }
    }
}

impl SentPackets {
    pub(super) fn next_number(&self) -> u64 {
        self.start + self.packets.len() as u64
    }

    pub(super) const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(super) const fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Returns the data in the oldest packet in flight.
    pub(super) fn oldest_chunk(&self) -> Option<usize> {
        self.get(self.oldest).map(|record| record.chunk)
    }

    /// Records a packet with the next number.
    pub(super) fn push(&mut self, packet: Packet, chunk: usize) {
        self.in_flight += packet.bytes;
        self.packets.push_back(Record { packet, chunk, fate: Fate::InFlight });
    }

    pub(super) fn acknowledge(&mut self, number: u64) -> Found {
        let Some(record) = self.get_mut(number) else {
            return Found::Nothing;
        };
        let fate = std::mem::replace(&mut record.fate, Fate::Acked);
        let Record { packet, chunk, .. } = *record;
        match fate {
            Fate::InFlight => {
                self.in_flight -= packet.bytes;
                Found::InFlight(packet, chunk)
            }
            Fate::Lost(_) => Found::Late(packet, chunk),
            Fate::Acked | Fate::Forgotten => Found::Nothing,
        }
    }

    /// Takes packets acknowledged late, ascending. Raises the threshold so that a packet which as many later ones overtake no
    /// longer counts as lost.
    pub(super) fn tolerate(&mut self, late: &[Packet], largest_acked: u64) {
        let Some(late) = late.first() else {
            return;
        };
        let overtaken_by = largest_acked.saturating_sub(late.packet_number);
        let threshold = (overtaken_by + 1).min(MAX_PACKET_THRESHOLD);
        self.packet_threshold = self.packet_threshold.max(threshold);
        self.is_reordered = true;
    }

    /// Returns whether a packet was ever acknowledged late.
    pub(super) const fn is_reordered(&self) -> bool {
        self.is_reordered
    }

    /// Declares losses below `largest_acked` into `lost`, with their data, and returns when the next one is due
    /// (RFC 9002 §6.1).
    pub(super) fn detect(
        &mut self,
        now: Time,
        largest_acked: u64,
        delay: Duration,
        mut lost: impl FnMut(Packet, usize),
    ) -> Option<Time> {
        let threshold = self.packet_threshold;
        let mut due = None;
        for number in self.oldest..largest_acked {
            let Some(record) = self.get_mut(number) else {
                continue;
            };
            if record.fate != Fate::InFlight {
                continue;
            }
            let late = record.packet.time_sent + delay;
            if number + threshold > largest_acked && late > now {
                due = Some(late);
                break;
            }
            record.fate = Fate::Lost(now);
            let Record { packet, chunk, .. } = *record;
            self.in_flight -= packet.bytes;
            self.lost.push_back(number);
            lost(packet, chunk);
        }
        due
    }

    /// Forgets packets that were declared lost more than two PTOs ago, and the oldest if there are too many.
    pub(super) fn forget(&mut self, now: Time, pto: Duration) {
        let keep = pto * REMEMBERED_PTOS;
        while let Some(&number) = self.lost.front() {
            let is_full = self.lost.len() > MAX_REMEMBERED;
            match self.get_mut(number).map(|record| &mut record.fate) {
                Some(Fate::Lost(at)) if !is_full && now.saturating_since(*at) <= keep => break,
                Some(fate @ Fate::Lost(_)) => *fate = Fate::Forgotten,
                _ => {}
            }
            self.lost.pop_front();
        }
    }

    /// Drops records that are no longer needed.
    pub(super) fn settle(&mut self) {
        while self.get(self.oldest).is_some_and(|p| p.fate != Fate::InFlight) {
            self.oldest += 1;
        }
        while let Some(first) = self.packets.front() {
            if self.start >= self.oldest || matches!(first.fate, Fate::Lost(_)) {
                break;
            }
            self.packets.pop_front();
            self.start += 1;
        }
    }

    fn get(&self, number: u64) -> Option<&Record> {
        self.packets.get(usize::try_from(number.checked_sub(self.start)?).ok()?)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Record> {
        self.packets.get_mut(usize::try_from(number.checked_sub(self.start)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1_000);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// Returns a record of packets that are declared lost at the start, and of one that is acknowledged.
    fn lost(packets: u64) -> SentPackets {
        let mut sent = SentPackets::default();
        for packet_number in 0..packets + PACKET_THRESHOLD {
            let packet = Packet { packet_number, bytes: 1_200, ..Packet::default() };
            sent.push(packet, 0);
        }
        let newest = packets + PACKET_THRESHOLD - 1;
        sent.acknowledge(newest);
        let mut count = 0;
        sent.detect(at(0), newest, LONG, |_, _| count += 1);
        assert_eq!(count, packets);
        sent
    }

    #[test]
    fn lost_packet_is_remembered_for_a_while() {
        let ms = Duration::from_millis;
        for (now, found) in [(at(100), true), (at(101), false)] {
            let mut sent = lost(1);
            sent.forget(now, ms(50));
            sent.settle();
            assert_eq!(matches!(sent.acknowledge(0), Found::Late(..)), found);
        }
    }

    #[test]
    fn only_the_latest_lost_packets_are_remembered() {
        let mut sent = lost(MAX_REMEMBERED as u64 + 1);
        sent.forget(at(0), LONG);
        sent.settle();
        assert_eq!(sent.acknowledge(0), Found::Nothing);
        assert!(matches!(sent.acknowledge(1), Found::Late(..)));
    }

    #[test]
    fn threshold_grows_up_to_a_bound_and_never_falls() {
        let mut sent = SentPackets::default();
        for (overtaken_by, threshold) in [(2, 3), (20, 21), (5, 21), (1_000, 300)] {
            sent.tolerate(&[Packet::default()], overtaken_by);
            assert_eq!(sent.packet_threshold, threshold);
        }
    }
}
