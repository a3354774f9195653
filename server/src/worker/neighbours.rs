//! The processes before and after this one, as far as datagrams of theirs reach its workers: while a server is upgraded.
//!
//! Rings lead to a thread for each such process and back, as between workers. Nothing of it exists while there is no such process.

use std::fmt;
use std::sync::Arc;

use sluicegate_dataplane::RxMeta;
use tokio::sync::Notify;

use super::misrouted::{Misrouted, pair};

/// Datagrams on their way from or to a neighbour, for each worker.
pub(super) const CAPACITY: usize = 4096;

/// Direction in which a neighbour lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The process that this one replaces.
    Older,
    /// A process that this one has started, whose connection IDs are of this generation: it replaces this one, or has left the service to
    /// it again.
    Newer(u8),
}

/// A worker's way to another process.
pub struct Neighbour {
    ring: Misrouted,
    /// Wakes the thread at the other end. It is dropped after the ring.
    thread: RelayWaker,
}

/// Wakes the thread that carries datagrams, also when it is dropped.
struct RelayWaker(Arc<Notify>);

impl Drop for RelayWaker {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl fmt::Debug for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Neighbour").finish_non_exhaustive()
    }
}

impl Neighbour {
    /// Makes the way to a process, by a thread that `thread` wakes. Returns the thread's end, too.
    pub fn new(thread: Arc<Notify>) -> (Neighbour, Misrouted) {
        let (ring, end) = pair(CAPACITY);
        (Neighbour { ring, thread: RelayWaker(thread) }, end)
    }

    fn send(&mut self, meta: &RxMeta, datagram: &[u8]) -> bool {
        // At the other end of the pair.
        self.ring.send(1, meta, datagram)
    }

    fn flush(&mut self) {
        let RelayWaker(thread) = &self.thread;
        self.ring.flush(|_| thread.notify_one());
    }
}

/// Result of forwarding a datagram to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forwarded {
    /// To so many processes.
    Sent(u64),
    /// The ring is full.
    Full,
    /// There is no such process.
    Nowhere,
}

/// The neighbours of a worker's process.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    older: Option<Neighbour>,
    /// Those that this process has started, by the generation of their connection IDs.
    newer: Vec<(u8, Neighbour)>,
}

impl Neighbours {
    /// Takes the way to a neighbour, or `None` once there is none any more.
    pub(super) fn set(&mut self, side: Side, neighbour: Option<Neighbour>) {
        match side {
            Side::Older => self.older = neighbour,
            Side::Newer(generation) => {
                self.newer.retain(|(one, _)| *one != generation);
                self.newer.extend(neighbour.map(|neighbour| (generation, neighbour)));
            }
        }
    }

    /// Returns the sides on which there are any.
    pub(super) fn sides(&self) -> impl Iterator<Item = Side> + use<> {
        let older = self.older.as_ref().map(|_| Side::Older);
        // Few, and only while a server is upgraded.
        let newer: Vec<u8> = self.newer.iter().map(|(generation, _)| *generation).collect();
        older.into_iter().chain(newer.into_iter().map(Side::Newer))
    }

    /// Forwards a datagram of a process of that generation. It never goes back to where it came `from`: several processes may drain one
    /// after the other, and only the next ones are known.
    pub(super) fn forward(
        &mut self,
        generation: u8,
        from: Option<Side>,
        meta: &RxMeta,
        datagram: &[u8],
    ) -> Forwarded {
        let is_from_there = from == Some(Side::Newer(generation));
        let newer = self.newer.iter_mut().find(|(one, _)| *one == generation);
        let neighbour = match newer.filter(|_| !is_from_there) {
            Some((_, newer)) => Some(newer),
            None => self.older.as_mut().filter(|_| from != Some(Side::Older)),
        };
        match neighbour.map(|neighbour| neighbour.send(meta, datagram)) {
            Some(true) => Forwarded::Sent(1),
            Some(false) => Forwarded::Full,
            None => Forwarded::Nowhere,
        }
    }

    /// Copies a datagram to all processes that this one has started, but not back to where it came `from`: its connection has an ID that
    /// this process has made, and may be with any of them.
    pub(super) fn share(
        &mut self,
        from: Option<Side>,
        meta: &RxMeta,
        datagram: &[u8],
    ) -> Forwarded {
        let others = self.newer.iter_mut();
        let others = others.filter(|(generation, _)| from != Some(Side::Newer(*generation)));
        let sent = others.map(|(_, other)| u64::from(other.send(meta, datagram)));
        match sent.reduce(|one, other| one + other) {
            Some(0) => Forwarded::Full,
            Some(copies) => Forwarded::Sent(copies),
            None => Forwarded::Nowhere,
        }
    }

    /// Wakes the threads of those that were sent something.
    pub(super) fn flush(&mut self) {
        let newer = self.newer.iter_mut().map(|(_, newer)| newer);
        for neighbour in self.older.iter_mut().chain(newer) {
            neighbour.flush();
        }
    }

    /// Hands up to `budget` datagrams of a side to `sink`, together with the neighbours on the other side. Returns whether there are more.
    pub(super) fn receive(
        &mut self,
        side: Side,
        budget: usize,
        mut sink: impl FnMut(&mut Neighbours, &RxMeta, &mut [u8]),
    ) -> bool {
        let own = match side {
            Side::Older => self.older.take(),
            Side::Newer(generation) => {
                let own = self.newer.extract_if(.., |(one, _)| *one == generation).next();
                own.map(|(_, own)| own)
            }
        };
        let Some(mut own) = own else {
            return false;
        };
        let more = own.ring.receive(budget, |meta, datagram| sink(self, meta, datagram));
        self.set(side, Some(own));
        more
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

    fn received(end: &mut Misrouted) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        end.receive(usize::MAX, |_, bytes| all.push(bytes.to_vec()));
        all
    }

    #[test]
    fn datagrams_go_to_a_newer_one_by_its_generation_and_else_to_the_older_one() {
        let mut neighbours = Neighbours::default();
        assert_eq!(neighbours.forward(5, None, &meta(), b"x"), Forwarded::Nowhere);
        let thread = Arc::new(Notify::new());
        let (older, mut to_older) = Neighbour::new(Arc::clone(&thread));
        let (newer, mut to_newer) = Neighbour::new(Arc::clone(&thread));
        let (newest, mut to_newest) = Neighbour::new(thread);
        neighbours.set(Side::Older, Some(older));
        neighbours.set(Side::Newer(7), Some(newer));
        neighbours.set(Side::Newer(8), Some(newest));
        let sides: Vec<_> = neighbours.sides().collect();
        assert_eq!(sides, [Side::Older, Side::Newer(7), Side::Newer(8)]);
        let [seventh, eighth] = [7, 8].map(|generation| Some(Side::Newer(generation)));
        for (generation, from, sent) in [
            (7, None, Forwarded::Sent(1)),
            (5, None, Forwarded::Sent(1)),
            // Of one that is older still.
            (4, seventh, Forwarded::Sent(1)),
            (7, Some(Side::Older), Forwarded::Sent(1)),
            (4, Some(Side::Older), Forwarded::Nowhere),
            // From one that serves to one that has left the service to this process.
            (7, eighth, Forwarded::Sent(1)),
        ] {
            assert_eq!(neighbours.forward(generation, from, &meta(), &[generation]), sent);
        }
        // What the newer one sent does not go back to it.
        assert_eq!(neighbours.forward(7, seventh, &meta(), b"up"), Forwarded::Sent(1));
        assert_eq!(neighbours.share(seventh, &meta(), b"own"), Forwarded::Sent(1));
        assert_eq!(received(&mut to_newer), [[7], [7], [7]]);
        assert_eq!(received(&mut to_newest), [b"own"]);
        assert_eq!(received(&mut to_older), [b"\x05".to_vec(), b"\x04".to_vec(), b"up".to_vec()]);
        neighbours.set(Side::Newer(7), None);
        assert_eq!(neighbours.share(eighth, &meta(), b"own"), Forwarded::Nowhere);
    }
}
