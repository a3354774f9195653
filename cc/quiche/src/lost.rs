//! Packets that were declared lost, kept for a while: some are only late.
//!
//! The build script places this file at `recovery/gcongestion/external/lost.rs` of the patched source.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use super::Acked;

/// Packets kept per packet number space; the oldest makes room.
const MAX_KEPT: usize = 256;

/// The lost packets of a packet number space, by ascending number, and those of them that were acknowledged after all.
#[derive(Default)]
pub struct LostPackets {
    kept: VecDeque<Kept>,
    /// Packets acknowledged late and not yet reported to the controller.
    late: Vec<Acked>,
}

struct Kept {
    packet: Acked,
    lost_at: Instant,
}

impl LostPackets {
    /// Keeps a packet that is declared lost now.
    pub fn push(&mut self, packet: Acked, now: Instant) {
        if self.kept.len() == MAX_KEPT {
            self.kept.pop_front();
        }
        let number = packet.pkt_num;
        let at = match self.kept.back() {
            Some(last) if last.packet.pkt_num > number =>
                self.kept.partition_point(|kept| kept.packet.pkt_num < number),
            _ => self.kept.len(),
        };
        self.kept.insert(at, Kept { packet, lost_at: now });
    }

    /// Takes an acknowledged range. Returns how many kept packets it holds, and the lowest of their numbers.
    pub fn acknowledge(&mut self, range: &Range<u64>) -> Option<(usize, u64)> {
        if self.kept.is_empty() {
            return None;
        }
        let from = self.kept.partition_point(|kept| kept.packet.pkt_num < range.start);
        let to = self.kept.partition_point(|kept| kept.packet.pkt_num < range.end);
        let lowest = self.kept.get(from).filter(|_| from < to)?.packet.pkt_num;
        self.late.extend(self.kept.drain(from..to).map(|kept| kept.packet));
        Some((to - from, lowest))
    }

    /// Drops packets that were declared lost before `time`, which is asked for only if there may be any.
    pub fn drop_before(&mut self, time: impl FnOnce() -> Option<Instant>) {
        if self.kept.capacity() == 0 {
            return;
        }
        let time = time();
        let is_old = |kept: &Kept| time.is_some_and(|time| kept.lost_at < time);
        while self.kept.front().is_some_and(is_old) {
            self.kept.pop_front();
        }
        if self.kept.is_empty() {
            self.kept = VecDeque::new();
        }
    }

    /// Returns whether packets were acknowledged late since the report before.
    pub fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// Removes the packets that were acknowledged late, for the report to the controller.
    pub fn take_late(&mut self) -> impl Iterator<Item = Acked> {
        std::mem::take(&mut self.late).into_iter()
    }
}
