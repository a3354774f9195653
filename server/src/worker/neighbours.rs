//! The processes before and after this one, as far as datagrams of theirs reach its workers: while a server is upgraded.
//!
//! Rings lead to a thread for each such process and back, as between workers. Nothing of it exists while there is no such process.

use std::fmt;
use std::sync::Arc;

use sluicegate_dataplane::RxMeta;
use tokio::sync::Notify;

use super::misrouted::{Misrouted, pair};

/// Datagrams on their way from or to a neighbour, for each worker.
const CAPACITY: usize = 4096;

/// Direction in which a neighbour lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The process that this one replaces.
    Older,
    /// The process that replaces this one.
    Newer,
}

/// A worker's way to another process.
pub struct Neighbour {
    /// Generation of the connection IDs that the process makes.
    generation: u8,
    ring: Misrouted,
    /// Wakes the thread at the other end.
    thread: Arc<Notify>,
}

impl fmt::Debug for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Neighbour").field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl Neighbour {
    /// Makes the way to a process of this generation, by a thread that `thread` wakes. Returns the thread's end, too.
    pub fn new(generation: u8, thread: Arc<Notify>) -> (Neighbour, Misrouted) {
        let (ring, end) = pair(CAPACITY);
        (Neighbour { generation, ring, thread }, end)
    }

    fn send(&mut self, meta: &RxMeta, datagram: &[u8]) -> bool {
        // At the other end of the pair.
        self.ring.send(1, meta, datagram)
    }

    fn flush(&mut self) {
        let thread = &self.thread;
        self.ring.flush(|_| thread.notify_one());
    }
}

/// Result of forwarding a datagram to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forwarded {
    Sent,
    /// The ring is full.
    Full,
    /// There is no such process.
    Nowhere,
}

/// The neighbours of a worker's process.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    older: Option<Neighbour>,
    newer: Option<Neighbour>,
}

impl Neighbours {
    /// Takes the way to a neighbour, or `None` once there is none any more.
    pub(super) fn set(&mut self, side: Side, neighbour: Option<Neighbour>) {
        match side {
            Side::Older => self.older = neighbour,
            Side::Newer => self.newer = neighbour,
        }
    }

    /// Returns whether there are any.
    pub(super) fn are_there(&self) -> bool {
        self.older.is_some() || self.newer.is_some()
    }

    /// Returns whether datagrams of the process before may still come.
    pub(super) fn has_older(&self) -> bool {
        self.older.is_some()
    }

    /// Forwards a datagram of a process of that generation. It never goes back to where it came `from`: several processes may drain one
    /// after the other, and only the next one is known.
    pub(super) fn forward(
        &mut self,
        generation: u8,
        from: Option<Side>,
        meta: &RxMeta,
        datagram: &[u8],
    ) -> Forwarded {
        let newer = self.newer.as_mut().filter(|_| from != Some(Side::Newer));
        let neighbour = match newer.filter(|newer| newer.generation == generation) {
            Some(newer) => Some(newer),
            None => self.older.as_mut().filter(|_| from != Some(Side::Older)),
        };
        match neighbour.map(|neighbour| neighbour.send(meta, datagram)) {
            Some(true) => Forwarded::Sent,
            Some(false) => Forwarded::Full,
            None => Forwarded::Nowhere,
        }
    }

    /// Wakes the threads of those that were sent something.
    pub(super) fn flush(&mut self) {
        for neighbour in [&mut self.older, &mut self.newer].into_iter().flatten() {
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
            Side::Newer => self.newer.take(),
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
    fn datagrams_go_to_the_newer_one_by_its_generation_and_else_to_the_older_one() {
        let mut neighbours = Neighbours::default();
        assert_eq!(neighbours.forward(5, None, &meta(), b"x"), Forwarded::Nowhere);
        let thread = Arc::new(Notify::new());
        let (older, mut to_older) = Neighbour::new(5, Arc::clone(&thread));
        let (newer, mut to_newer) = Neighbour::new(7, thread);
        neighbours.set(Side::Older, Some(older));
        neighbours.set(Side::Newer, Some(newer));
        for (generation, from, sent) in [
            (7, None, Forwarded::Sent),
            (5, None, Forwarded::Sent),
            // Of one that is older still.
            (4, Some(Side::Newer), Forwarded::Sent),
            (7, Some(Side::Older), Forwarded::Sent),
            (4, Some(Side::Older), Forwarded::Nowhere),
        ] {
            assert_eq!(neighbours.forward(generation, from, &meta(), &[generation]), sent);
        }
        // What the newer one sent does not go back to it.
        assert_eq!(neighbours.forward(7, Some(Side::Newer), &meta(), b"up"), Forwarded::Sent);
        assert_eq!(received(&mut to_newer), [[7], [7]]);
        assert_eq!(received(&mut to_older), [b"\x05".to_vec(), b"\x04".to_vec(), b"up".to_vec()]);
    }
}
