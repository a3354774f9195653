//! Receiving: frames of the queue, parsed in place.

use std::time::Instant;

use sluicegate_dpdk::{Checksum, Mbuf};
use sluicegate_frames::{ChecksumState, RxChecksums, SlowKind, UdpFrame, Verdict};

use super::core::{Core, KEPT};
use super::reasons::{NO_LISTENER, SLOW_PATH_BUSY};
use crate::meta::{Budget, Ecn, RxMeta};

/// Most frames for the slow path in one call, by kind: a flood of one must not delay the others.
const SLOW_BUDGETS: [usize; SlowKind::ALL.len()] = [32, 16, 16];
/// Least number of frames that are looked at in one call.
const LEAST: usize = 64;

impl Core {
    /// Passes datagrams to `sink` until the queue is empty or the budget is spent. Returns how many there were.
    pub(super) fn receive(
        &mut self,
        mut budget: Budget,
        now: Instant,
        mut sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> usize {
        let now_ms = self.millis(now);
        let before = budget.datagrams;
        let mut slow = SLOW_BUDGETS;
        // Frames that are no datagrams are bounded, too: a flood of them must not hold up the turn.
        let mut frames = budget.datagrams.saturating_mul(2).max(LEAST);
        while !budget.is_spent() && frames > 0 {
            self.queue.receive(&mut self.received);
            if self.received.is_empty() {
                break;
            }
            while !budget.is_spent()
                && frames > 0
                && let Some(mut mbuf) = self.received.pop()
            {
                frames -= 1;
                self.active = now;
                let checksums = checksums(&mbuf);
                match self.parser.parse(mbuf.bytes(), checksums) {
                    Verdict::Udp(udp) => {
                        self.deliver(&mut mbuf, udp, now_ms, &mut budget, &mut sink);
                    }
                    Verdict::Slow(kind) => {
                        self.take_slow(mbuf, kind, now_ms, &mut slow[kind.index()]);
                    }
                    Verdict::Dropped(reason) => self.frames.on_drop(reason.index()),
                }
            }
        }
        before - budget.datagrams
    }

    fn deliver(
        &mut self,
        mbuf: &mut Mbuf,
        udp: UdpFrame,
        now_ms: u64,
        budget: &mut Budget,
        sink: &mut impl FnMut(&RxMeta, &mut [u8]),
    ) {
        let Some(listener) = self.shared.listener_at(&udp.local) else {
            self.frames.on_drop(NO_LISTENER);
            return;
        };
        self.hops.on_received(udp.peer.ip(), udp.source_mac, now_ms);
        let payload = &mut mbuf.bytes()[udp.payload];
        budget.spend(payload.len());
        self.counters.rx_messages += 1;
        self.counters.rx_datagrams += 1;
        self.counters.rx_bytes += payload.len() as u64;
        let meta =
            RxMeta { listener, peer: udp.peer, local: udp.local, ecn: Ecn::from_bits(udp.ecn) };
        sink(&meta, payload);
    }

    fn take_slow(&mut self, mut mbuf: Mbuf, kind: SlowKind, now_ms: u64, budget: &mut usize) {
        if let Some(left) = budget.checked_sub(1) {
            *budget = left;
            let replies = kind != SlowKind::TooBig;
            if self.pass_slow(&mut mbuf, replies, now_ms) {
                return;
            }
            if kind == SlowKind::Neighbor && self.kept.len() < KEPT {
                self.kept.push_back(mbuf);
                return;
            }
        }
        self.frames.on_drop(SLOW_PATH_BUSY);
    }
}

/// Returns what the port says of a frame's checksums.
fn checksums(mbuf: &Mbuf) -> RxChecksums {
    let state = |checksum| match checksum {
        Checksum::Unknown => ChecksumState::Unknown,
        Checksum::Good => ChecksumState::Intact,
        Checksum::Bad => ChecksumState::Wrong,
    };
    let (ip, udp) = mbuf.checksums();
    RxChecksums { ip: state(ip), udp: state(udp) }
}

#[cfg(test)]
mod tests;
