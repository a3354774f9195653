//! The packets that left and what became of them.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_cc::{Packet, Time};

/// Packets sent after a lost one that prove its loss (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u64 = 3;
/// Time for which a lost packet is remembered, so that a late ACK is recognised.
const REMEMBERED: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    InFlight,
    Acked,
    Lost,
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
#[derive(Debug, Default)]
pub(super) struct SentPackets {
    packets: VecDeque<Record>,
    /// Number of the first in `packets`.
    start: u64,
    /// Smallest number in flight, or the next number.
    oldest: u64,
    in_flight: u64,
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
        self.packets.push_back(Record {
            packet,
            chunk,
            fate: Fate::InFlight,
        });
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
            Fate::Lost => Found::Late(packet, chunk),
            Fate::Acked => Found::Nothing,
        }
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
        let mut due = None;
        for number in self.oldest..largest_acked {
            let Some(record) = self.get_mut(number) else {
                continue;
            };
            if record.fate != Fate::InFlight {
                continue;
            }
            let late = record.packet.time_sent + delay;
            if number + PACKET_THRESHOLD > largest_acked && late > now {
                due = Some(late);
                break;
            }
            record.fate = Fate::Lost;
            let Record { packet, chunk, .. } = *record;
            self.in_flight -= packet.bytes;
            lost(packet, chunk);
        }
        due
    }

    /// Drops records that are no longer needed.
    pub(super) fn settle(&mut self, now: Time) {
        while self
            .get(self.oldest)
            .is_some_and(|p| p.fate != Fate::InFlight)
        {
            self.oldest += 1;
        }
        while let Some(first) = self.packets.front() {
            let remembered = now.saturating_since(first.packet.time_sent) < REMEMBERED;
            if self.start >= self.oldest || (first.fate == Fate::Lost && remembered) {
                break;
            }
            self.packets.pop_front();
            self.start += 1;
        }
    }

    fn get(&self, number: u64) -> Option<&Record> {
        self.packets
            .get(usize::try_from(number.checked_sub(self.start)?).ok()?)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Record> {
        self.packets
            .get_mut(usize::try_from(number.checked_sub(self.start)?).ok()?)
    }
}
