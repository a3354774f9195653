//! The packets that left and what became of them.

use std::collections::VecDeque;
use std::time::Duration;

use crate::{Acked, Lost, Time};

/// Packets sent after a lost one that prove its loss (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u64 = 3;
/// Lost packets remembered, so that a late ACK can be told from the first.
const REMEMBERED: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    InFlight,
    Acked,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    time_sent: Time,
    bytes: u64,
    chunk: usize,
    fate: Fate,
}

/// What a late ACK found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// In flight until now.
    InFlight(Acked, usize),
    /// Declared lost before.
    Spurious(usize),
    /// Forgotten.
    Nothing,
}

/// A record of sent packets.
#[derive(Debug, Default)]
pub(super) struct SentPackets {
    packets: VecDeque<Packet>,
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

    /// The data in the oldest packet in flight.
    pub(super) fn oldest_chunk(&self) -> Option<usize> {
        self.get(self.oldest).map(|packet| packet.chunk)
    }

    pub(super) fn push(&mut self, time_sent: Time, bytes: u64, chunk: usize) {
        self.packets.push_back(Packet {
            time_sent,
            bytes,
            chunk,
            fate: Fate::InFlight,
        });
        self.in_flight += bytes;
    }

    pub(super) fn acknowledge(&mut self, number: u64) -> Found {
        let Some(packet) = self.get_mut(number) else {
            return Found::Nothing;
        };
        let Packet {
            time_sent,
            bytes,
            chunk,
            fate,
        } = *packet;
        packet.fate = Fate::Acked;
        match fate {
            Fate::InFlight => {
                self.in_flight -= bytes;
                Found::InFlight(
                    Acked {
                        packet_number: number,
                        time_sent,
                        bytes,
                    },
                    chunk,
                )
            }
            Fate::Lost => Found::Spurious(chunk),
            Fate::Acked => Found::Nothing,
        }
    }

    /// Declares losses below `largest_acked` into `lost`, with their data, and answers when the next one is due
    /// (RFC 9002 §6.1).
    pub(super) fn detect(
        &mut self,
        now: Time,
        largest_acked: u64,
        delay: Duration,
        mut lost: impl FnMut(Lost, usize),
    ) -> Option<Time> {
        let mut due = None;
        for number in self.oldest..largest_acked {
            let Some(packet) = self.get_mut(number) else {
                continue;
            };
            if packet.fate != Fate::InFlight {
                continue;
            }
            let late = packet.time_sent + delay;
            if number + PACKET_THRESHOLD > largest_acked && late > now {
                due = Some(late);
                break;
            }
            packet.fate = Fate::Lost;
            let Packet {
                time_sent,
                bytes,
                chunk,
                ..
            } = *packet;
            self.in_flight -= bytes;
            lost(
                Lost {
                    packet_number: number,
                    time_sent,
                    bytes,
                },
                chunk,
            );
        }
        due
    }

    /// Moves past what is settled.
    pub(super) fn settle(&mut self, now: Time) {
        while self
            .get(self.oldest)
            .is_some_and(|p| p.fate != Fate::InFlight)
        {
            self.oldest += 1;
        }
        while let Some(first) = self.packets.front() {
            let remembered = now.saturating_since(first.time_sent) < REMEMBERED;
            if self.start >= self.oldest || (first.fate == Fate::Lost && remembered) {
                break;
            }
            self.packets.pop_front();
            self.start += 1;
        }
    }

    fn get(&self, number: u64) -> Option<&Packet> {
        self.packets
            .get(usize::try_from(number.checked_sub(self.start)?).ok()?)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Packet> {
        self.packets
            .get_mut(usize::try_from(number.checked_sub(self.start)?).ok()?)
    }
}
