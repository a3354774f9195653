//! Packets in flight and progress of streams, as far as a trace tells.

use std::collections::BTreeMap;

use crate::event::{Space, StreamPiece};

/// Packets that are remembered until they are acknowledged or lost, of each space. Beyond it the oldest are forgotten.
const MAX_PACKETS: usize = 1 << 16;
/// Bytes by which the first part of a stream to arrive may be late.
const MAX_REORDERED: u64 = 1 << 18;
/// Streams whose progress is remembered.
const MAX_STREAMS: usize = 4096;

/// Sizes of packets that are neither acknowledged nor lost.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    spaces: [BTreeMap<u64, u64>; 3],
}

impl InFlight {
    fn space(&mut self, space: Space) -> Option<&mut BTreeMap<u64, u64>> {
        match space {
            Space::Initial => Some(&mut self.spaces[0]),
            Space::Handshake => Some(&mut self.spaces[1]),
            Space::Application => Some(&mut self.spaces[2]),
            Space::None => None,
        }
    }

    pub(crate) fn on_sent(&mut self, space: Space, number: u64, size: u64) {
        let Some(packets) = self.space(space) else {
            return;
        };
        packets.insert(number, size);
        if packets.len() > MAX_PACKETS {
            packets.pop_first();
        }
    }

    /// Returns the bytes of packets that are acknowledged by these ranges and were not before.
    pub(crate) fn on_acked(&mut self, space: Space, ranges: &[(u64, u64)]) -> u64 {
        let Some(packets) = self.space(space) else {
            return 0;
        };
        let mut bytes = 0;
        for (first, last) in ranges {
            while let Some((number, size)) = packets.range(first..=last).next() {
                bytes += *size;
                let number = *number;
                packets.remove(&number);
            }
        }
        bytes
    }

    /// Returns the size of a lost packet, if it is known.
    pub(crate) fn on_lost(&mut self, space: Space, number: Option<u64>) -> u64 {
        let packets = self.space(space);
        packets.zip(number).and_then(|(packets, number)| packets.remove(&number)).unwrap_or(0)
    }
}

/// Progress of the streams in one direction.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    ends: BTreeMap<u64, u64>,
    /// Bytes up to the furthest of each stream.
    pub(crate) bytes: u64,
    /// Bytes that had come before.
    pub(crate) repeated: u64,
}

impl Streams {
    pub(crate) fn add(&mut self, piece: StreamPiece) {
        let StreamPiece { stream, offset, length } = piece;
        if !self.ends.contains_key(&stream) && self.ends.len() >= MAX_STREAMS {
            self.ends.pop_first();
        }
        // A stream that is first seen far behind its beginning began before the trace.
        let begin = if offset > MAX_REORDERED { offset } else { 0 };
        let end = self.ends.entry(stream).or_insert(begin);
        let repeated = length.min(end.saturating_sub(offset));
        self.repeated = self.repeated.saturating_add(repeated);
        // What arrives later fills the gap.
        let progress = offset.saturating_add(length).saturating_sub(*end);
        self.bytes = self.bytes.saturating_add(progress);
        *end += progress;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledged_packets_count_once() {
        let mut flight = InFlight::default();
        for number in 0..10 {
            flight.on_sent(Space::Application, number, 100);
        }
        assert_eq!(flight.on_lost(Space::Application, Some(4)), 100);
        assert_eq!(flight.on_acked(Space::Application, &[(0, 5)]), 500);
        assert_eq!(flight.on_acked(Space::Application, &[(0, u64::MAX)]), 400);
        assert_eq!(flight.on_acked(Space::None, &[(0, 5)]), 0);
    }

    #[test]
    fn parts_that_come_again_are_counted_apart() {
        let mut streams = Streams::default();
        for (offset, length) in [(0, 100), (100, 100), (50, 100), (150, 100)] {
            streams.add(StreamPiece { stream: 0, offset, length });
        }
        assert_eq!((streams.bytes, streams.repeated), (250, 150));
        streams.add(StreamPiece { stream: 8, offset: 500, length: 100 });
        streams.add(StreamPiece { stream: 12, offset: 1 << 30, length: 100 });
        assert_eq!(streams.bytes, 950);
        streams.add(StreamPiece { stream: 4, offset: u64::MAX, length: u64::MAX });
    }

    #[test]
    fn memory_is_bounded() {
        let (mut flight, mut streams) = (InFlight::default(), Streams::default());
        for number in 0..3 * MAX_PACKETS as u64 {
            flight.on_sent(Space::Application, number, 1);
            streams.add(StreamPiece { stream: number, offset: 0, length: 1 });
        }
        assert_eq!((flight.spaces[2].len(), streams.ends.len()), (MAX_PACKETS, MAX_STREAMS));
    }
}
