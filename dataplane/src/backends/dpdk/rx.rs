//! Receiving: frames of the queue, parsed in place.

use std::time::Instant;

use sluicegate_dpdk::{Checksum, Mbuf};
use sluicegate_frames::{ChecksumState, RxChecksums, UdpFrame, Verdict};

use super::core::Core;
use super::reasons::{NO_LISTENER, SLOW_PATH_BUSY};
use crate::meta::{Budget, Ecn, RxMeta};

/// Most frames for the slow path in one call.
const SLOW_BUDGET: usize = 32;

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
        let mut slow = SLOW_BUDGET;
        // Frames that are no datagrams are bounded, too: a flood of them must not hold up the turn.
        let mut frames = budget.datagrams.saturating_mul(2).max(SLOW_BUDGET);
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
                    Verdict::Slow => self.take_slow(&mut mbuf, now_ms, &mut slow),
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
        let meta = RxMeta {
            listener,
            peer: udp.peer,
            local: udp.local,
            ecn: Ecn::from_bits(udp.ecn),
        };
        sink(&meta, payload);
    }

    fn take_slow(&mut self, mbuf: &mut Mbuf, now_ms: u64, slow: &mut usize) {
        let (queue, outgoing) = (&mut self.queue, &mut self.outgoing);
        let taken = *slow > 0
            && self.shared.slow.input(mbuf.bytes(), now_ms, &mut |frame| {
                outgoing.copy(queue, frame)
            });
        *slow = slow.saturating_sub(1);
        if !taken {
            self.frames.on_drop(SLOW_PATH_BUSY);
        }
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
    RxChecksums {
        ip: state(ip),
        udp: state(udp),
    }
}
