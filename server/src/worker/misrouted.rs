//! Datagrams that reached the wrong worker, on their way to the right one.
//!
//! Between each two workers of a group there is a pair of bounded single-producer rings: datagrams go one way, their emptied
//! buffers come back the other, so nothing is allocated per datagram. A worker is woken at most once per turn of another.

use rtrb::{Consumer, Producer, RingBuffer};
use sluicegate_dataplane::RxMeta;

/// Datagrams that wait for a worker at most, over all senders; further ones are dropped by their sender.
pub(super) const CAPACITY: usize = 1024;
/// Room for those of one sender in any case.
const MIN_CAPACITY: usize = 16;
/// Room that a kept buffer has, bytes: a full Ethernet frame. Larger datagrams pass, but their buffers are cut back.
const BUFFER: usize = 1500;

/// One worker's ends of all rings of its group.
#[derive(Debug)]
pub struct Misrouted {
    /// Rings to the other workers, by their index; `None` for the worker itself.
    outgoing: Vec<Option<Outgoing>>,
    incoming: Vec<Incoming>,
    /// Sender that comes first in the next turn.
    first: usize,
}

#[derive(Debug)]
struct Datagram {
    meta: RxMeta,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Outgoing {
    full: Producer<Datagram>,
    empty: Consumer<Vec<u8>>,
    /// Buffers that may still be made: with those that exist they fit into either ring.
    unmade: usize,
    /// Something was pushed since the last flush.
    pushed: bool,
}

#[derive(Debug)]
struct Incoming {
    full: Consumer<Datagram>,
    empty: Producer<Vec<u8>>,
}

/// Makes the rings between `workers` workers. The result is in worker order.
pub fn misrouted(workers: usize) -> Vec<Misrouted> {
    rings(workers, MIN_CAPACITY.max(CAPACITY / workers.max(1)))
}

/// Makes rings both ways between two threads, for so many datagrams each. Either has the other's index, 0 or 1.
pub(super) fn pair(capacity: usize) -> (Misrouted, Misrouted) {
    let mut ends = rings(2, capacity).into_iter();
    let end = || Misrouted { outgoing: Vec::new(), incoming: Vec::new(), first: 0 };
    (ends.next().unwrap_or_else(end), ends.next().unwrap_or_else(end))
}

fn rings(workers: usize, capacity: usize) -> Vec<Misrouted> {
    let mut ends: Vec<Misrouted> = (0..workers)
        .map(|_| Misrouted {
            outgoing: Vec::with_capacity(workers),
            incoming: Vec::with_capacity(workers),
            first: 0,
        })
        .collect();
    for from in 0..workers {
        for to in 0..workers {
            if from == to {
                ends[from].outgoing.push(None);
                continue;
            }
            let (full, received) = RingBuffer::new(capacity);
            let (returned, empty) = RingBuffer::new(capacity);
            ends[from].outgoing.push(Some(Outgoing {
                full,
                empty,
                unmade: capacity,
                pushed: false,
            }));
            ends[to].incoming.push(Incoming { full: received, empty: returned });
        }
    }
    ends
}

impl Misrouted {
    /// Copies a datagram into the ring to `worker`, which sees it after [`Misrouted::flush`] at the latest. Returns false
    /// where there is no room, no such worker, or no such worker any more.
    pub fn send(&mut self, worker: u8, meta: &RxMeta, datagram: &[u8]) -> bool {
        let Some(Some(outgoing)) = self.outgoing.get_mut(usize::from(worker)) else {
            return false;
        };
        if outgoing.full.is_abandoned() {
            return false;
        }
        let Some(mut bytes) = outgoing.buffer() else {
            return false;
        };
        bytes.extend_from_slice(datagram);
        let datagram = Datagram { meta: *meta, bytes };
        // There are no more buffers than places.
        let sent = outgoing.full.push(datagram).is_ok();
        debug_assert!(sent);
        outgoing.pushed |= sent;
        sent
    }

    /// Calls `wake` once for each worker that was sent something since the last flush.
    pub fn flush(&mut self, mut wake: impl FnMut(usize)) {
        for (worker, outgoing) in self.outgoing.iter_mut().enumerate() {
            if let Some(outgoing) = outgoing
                && std::mem::take(&mut outgoing.pushed)
            {
                wake(worker);
            }
        }
    }

    /// Returns whether all others have dropped their ends.
    pub(crate) fn is_abandoned(&self) -> bool {
        let mut outgoing = self.outgoing.iter().flatten();
        outgoing.all(|outgoing| outgoing.full.is_abandoned())
    }

    /// Returns the number of datagrams that others, which have dropped their ends, have not taken.
    pub(crate) fn untaken(&self) -> usize {
        let untaken = |outgoing: &Outgoing| {
            outgoing.full.buffer().capacity().saturating_sub(outgoing.full.slots())
        };
        self.outgoing.iter().flatten().map(untaken).sum()
    }

    /// Hands up to `budget` datagrams to `sink`, from each sender in turn. Returns whether there are more.
    pub fn receive(&mut self, budget: usize, mut sink: impl FnMut(&RxMeta, &mut [u8])) -> bool {
        let senders = self.incoming.len();
        let mut left = budget;
        for step in 0..senders {
            let incoming = &mut self.incoming[(self.first + step) % senders];
            while left > 0
                && let Ok(Datagram { meta, mut bytes }) = incoming.full.pop()
            {
                left -= 1;
                sink(&meta, &mut bytes);
                bytes.clear();
                bytes.shrink_to(BUFFER);
                // There are no more buffers than places.
                let returned = incoming.empty.push(bytes).is_ok();
                debug_assert!(returned);
            }
        }
        self.first = (self.first + 1) % senders.max(1);
        left == 0 && self.incoming.iter().any(|i| !i.full.is_empty())
    }
}

impl Outgoing {
    /// Returns an empty buffer: one that came back, or a new one while there may be more.
    fn buffer(&mut self) -> Option<Vec<u8>> {
        if let Ok(buffer) = self.empty.pop() {
            return Some(buffer);
        }
        self.unmade = self.unmade.checked_sub(1)?;
        Some(Vec::with_capacity(BUFFER))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use sluicegate_dataplane::{Ecn, ListenerId};

    use super::*;

    fn meta() -> RxMeta {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        RxMeta { listener: ListenerId(3), peer: here, local: here, ecn: Ecn::Ect0 }
    }

    fn received(ends: &mut Misrouted, budget: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        ends.receive(budget, |seen, bytes| {
            assert_eq!(*seen, meta());
            all.push(bytes.to_vec());
        });
        all
    }

    #[test]
    fn datagrams_arrive_in_order_and_their_buffers_are_used_again() {
        let mut ends = misrouted(2);
        let mut buffers = std::collections::BTreeSet::new();
        for round in 0..1000u32 {
            let bytes = round.to_be_bytes();
            assert!(ends[0].send(1, &meta(), &bytes));
            ends[1].receive(1, |_, datagram| {
                buffers.insert(datagram.as_ptr().addr());
                assert_eq!(datagram, bytes);
            });
        }
        assert_eq!(buffers.len(), 1);
    }

    #[test]
    fn a_worker_is_woken_once_for_all_that_a_turn_sent_it() {
        let mut ends = misrouted(3);
        for _ in 0..5 {
            assert!(ends[0].send(2, &meta(), b"x"));
        }
        let mut woken = Vec::new();
        ends[0].flush(|worker| woken.push(worker));
        ends[0].flush(|worker| woken.push(worker));
        assert_eq!(woken, [2]);
    }

    #[test]
    fn a_full_ring_refuses_and_does_not_stop_other_senders() {
        let mut ends = misrouted(3);
        let sent = (0..).take_while(|_| ends[0].send(2, &meta(), b"flood")).count();
        assert_eq!(sent, CAPACITY / 3);
        assert!(ends[1].send(2, &meta(), b"other"));
        // Each sender comes first in turn.
        let seen: Vec<_> = (0..2).flat_map(|_| received(&mut ends[2], 1)).collect();
        assert!(seen.contains(&b"other".to_vec()));
        assert!(ends[0].send(2, &meta(), b"again"));
    }

    #[test]
    fn what_an_end_has_not_taken_is_counted_once_it_is_dropped() {
        let (mut worker, mut thread) = pair(8);
        for datagram in [b"a", b"b", b"c"] {
            assert!(worker.send(1, &meta(), datagram));
        }
        assert_eq!(received(&mut thread, 2), [b"a", b"b"]);
        assert!(!worker.is_abandoned());
        drop(thread);
        assert!(worker.is_abandoned());
        assert_eq!(worker.untaken(), 1);
        assert!(!worker.send(1, &meta(), b"d"));
    }

    #[test]
    fn a_large_datagram_passes_and_leaves_no_large_buffer() {
        let mut ends = misrouted(2);
        assert!(ends[0].send(1, &meta(), &[7; 60_000]));
        assert_eq!(received(&mut ends[1], 9), [vec![7; 60_000]]);
        let buffer = ends[0].outgoing[1].as_mut().unwrap().buffer().unwrap();
        assert!(buffer.capacity() < 2 * BUFFER);
    }

    #[test]
    fn nobody_sends_to_itself_or_to_a_worker_that_there_is_not() {
        let mut ends = misrouted(2);
        assert!(!ends[0].send(0, &meta(), b"x"));
        assert!(!ends[0].send(2, &meta(), b"x"));
        assert!(misrouted(1)[0].incoming.is_empty());
    }
}
