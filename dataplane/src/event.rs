//! Events of the path: what the network refuses, per listener.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::counters::Counters;
use crate::meta::ListenerId;

/// Events kept until they are taken; further ones are dropped and counted.
const CAPACITY: usize = 64;

/// A fact that a driver learned about the network, taken by [`Dataplane::take_event`](crate::Dataplane::take_event).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A datagram did not fit the interface or route of the host and was dropped.
    TooBig {
        /// Listener that the datagram was to leave by.
        listener: ListenerId,
        /// Destination of the datagram.
        peer: SocketAddr,
        /// Size of its UDP payload, bytes.
        size: usize,
    },
    /// A router reports that a datagram was too big for the path (ICMP). Anybody may have forged that.
    TooBigReport {
        /// Listener that the datagram left by.
        listener: ListenerId,
        /// Destination of the datagram.
        peer: SocketAddr,
        /// Size of its UDP payload, bytes.
        size: usize,
        /// First bytes of its UDP payload.
        quote: Quote,
    },
    /// The host knows no route to a peer; the datagram was dropped.
    Unreachable {
        /// Listener that the datagram was to leave by.
        listener: ListenerId,
        /// Destination of the datagram.
        peer: SocketAddr,
    },
    /// Datagrams were dropped before the worker could read them (SO_RXQ_OVFL).
    ReceiveOverflow {
        /// Listener whose queue was full, or whose filter of Initial packets dropped some.
        listener: ListenerId,
        /// Datagrams dropped since the last such event.
        dropped: u32,
    },
    /// The socket or port behind a listener is broken. The driver's other listeners go on.
    PortDown {
        /// Listener that neither receives nor sends any more.
        listener: ListenerId,
    },
}

/// First bytes of the payload of a datagram that a router quotes, at most 26. There may be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    bytes: [u8; Self::LEN],
    len: usize,
}

impl Quote {
    /// Most bytes kept: the longest connection ID of QUIC, and 6 bytes in front of it.
    const LEN: usize = 26;

    /// Keeps the first bytes of a quoted payload.
    #[must_use]
    pub fn new(payload: &[u8]) -> Self {
        let len = payload.len().min(Self::LEN);
        let mut bytes = [0; Self::LEN];
        bytes[..len].copy_from_slice(&payload[..len]);
        Self { bytes, len }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Queue of events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<Event>,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { queue: VecDeque::with_capacity(CAPACITY) }
    }

    /// Keeps an event, or counts it where the queue is full.
    pub(crate) fn push(&mut self, event: Event, counters: &mut Counters) {
        if self.queue.len() < CAPACITY {
            self.queue.push_back(event);
        } else {
            counters.events_dropped += 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn take(&mut self) -> Option<Event> {
        self.queue.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_beyond_the_capacity_are_counted() {
        let (mut events, mut counters) = (Events::new(), Counters::default());
        let down = |id| Event::PortDown { listener: ListenerId(id) };
        for id in 0..70 {
            events.push(down(id), &mut counters);
        }
        assert_eq!(counters.events_dropped, 6);
        assert_eq!(events.take(), Some(down(0)));
        events.push(down(99), &mut counters);
        assert_eq!(counters.events_dropped, 6);
        assert_eq!(std::iter::from_fn(|| events.take()).count(), 64);
    }
}
