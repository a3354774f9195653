//! FQ-CoDel (RFC 8290): a queue with CoDel for each flow, served by deficit round robin, new flows first. Flows have their
//! queues by number, so that no two share one.

use std::collections::VecDeque;
use std::fmt::Debug;

use sluicegate_cc::Time;

use super::codel::CoDel;
use super::discipline::{Discipline, QueuedPacket};
use crate::Rng;

/// Bytes that a queue may send in its turn (RFC 8290 §5.2.3).
const QUANTUM: i64 = 1_514;

/// The queues of all flows.
#[derive(Debug)]
pub(super) struct FqCoDel<T> {
    queues: Vec<FlowQueue<T>>,
    /// Flows that had no packets for a while, in the order of their turns.
    new: VecDeque<usize>,
    /// The other flows with packets, likewise.
    old: VecDeque<usize>,
    bytes: u64,
    limit: u64,
    ecn: bool,
}

#[derive(Debug)]
struct FlowQueue<T> {
    codel: CoDel<T>,
    credits: i64,
    /// Whether the flow is in one of the lists.
    active: bool,
}

impl<T> FqCoDel<T> {
    pub(super) const fn new(limit: u64, ecn: bool) -> Self {
        Self {
            queues: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            bytes: 0,
            limit,
            ecn,
        }
    }

    /// Drops at the heads of the longest queues until there is no more than the limit (RFC 8290 §4.1.3).
    fn shrink(&mut self) {
        while self.bytes > self.limit {
            let longest = self.queues.iter_mut().max_by_key(|q| q.codel.bytes());
            let Some(dropped) = longest.and_then(|queue| queue.codel.pop()) else {
                return;
            };
            self.bytes -= dropped.bytes;
        }
    }
}

impl<T: Debug + Send> Discipline<T> for FqCoDel<T> {
    fn enqueue(&mut self, packet: QueuedPacket<T>, _: &mut Rng) {
        let flow = packet.flow;
        while self.queues.len() <= flow {
            self.queues.push(FlowQueue {
                codel: CoDel::new(u64::MAX, self.ecn),
                credits: 0,
                active: false,
            });
        }
        let Some(queue) = self.queues.get_mut(flow) else {
            return;
        };
        self.bytes += packet.bytes;
        queue.codel.push(packet);
        if !queue.active {
            queue.active = true;
            queue.credits = QUANTUM;
            self.new.push_back(flow);
        }
        self.shrink();
    }

    fn dequeue(&mut self, now: Time) -> Option<QueuedPacket<T>> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let flow = *list.front()?;
            let queue = self.queues.get_mut(flow)?;
            if queue.credits <= 0 {
                queue.credits += QUANTUM;
                list.pop_front();
                self.old.push_back(flow);
                continue;
            }
            let before = queue.codel.bytes();
            let packet = queue.codel.take(now);
            self.bytes -= before - queue.codel.bytes();
            let Some(packet) = packet else {
                list.pop_front();
                // A new flow waits for its turn among the old ones, so that it cannot come back as new at once.
                if is_new {
                    self.old.push_back(flow);
                } else {
                    queue.active = false;
                }
                continue;
            };
            queue.credits -= i64::try_from(packet.bytes).unwrap_or(i64::MAX);
            return Some(packet);
        }
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn packets(&self) -> usize {
        self.queues.iter().map(|queue| queue.codel.packets()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::discipline::Ecn;
    use super::super::discipline::fixture::{at, packet};
    use super::*;

    fn queue(limit: u64) -> FqCoDel<u64> {
        FqCoDel::new(limit, false)
    }

    fn fill(queue: &mut FqCoDel<u64>, flow: usize, packets: u64) {
        for number in 0..packets {
            queue.enqueue(packet(flow, Ecn::NotEct, at(0), number), &mut Rng::new(0));
        }
    }

    #[test]
    fn flows_share_the_link_however_many_packets_they_queue() {
        let mut queue = queue(1 << 20);
        fill(&mut queue, 0, 300);
        fill(&mut queue, 1, 30);
        let mut counts = [0u32; 2];
        for _ in 0..60 {
            counts[queue.dequeue(at(1)).expect("has packets").flow] += 1;
        }
        assert!(counts[0].abs_diff(counts[1]) <= 2, "{counts:?}");
        let rest = std::iter::from_fn(|| queue.dequeue(at(1))).count();
        assert_eq!((rest, queue.bytes()), (270, 0));
    }

    #[test]
    fn new_flow_overtakes_those_that_queue() {
        let mut queue = queue(1 << 20);
        fill(&mut queue, 0, 100);
        for _ in 0..10 {
            assert_eq!(queue.dequeue(at(1)).expect("has packets").flow, 0);
        }
        fill(&mut queue, 1, 1);
        assert_eq!(queue.dequeue(at(1)).expect("has packets").flow, 1);
    }

    #[test]
    fn full_queue_drops_at_the_head_of_the_longest() {
        let mut queue = queue(10_000);
        fill(&mut queue, 0, 10);
        fill(&mut queue, 1, 2);
        assert_eq!(queue.bytes(), 10_000);
        let left: Vec<_> = std::iter::from_fn(|| queue.dequeue(at(1))).collect();
        let of = |flow| left.iter().filter(move |p| p.flow == flow);
        assert_eq!(of(1).count(), 2);
        assert_eq!(of(0).map(|p| p.packet).min(), Some(2));
    }
}
