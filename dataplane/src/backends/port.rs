//! A port like a network card's: its workers poll queues of their own and lend its buffers, one per datagram. For tests.
//!
//! It shows what a backend without sockets looks like: a group is opened once for all workers, a seed is a queue, received
//! datagrams are spread by a hash of addresses that knows no connection IDs, and nothing sleeps.

mod switch;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use self::switch::{Buffer, Frame, Refusal};
pub use self::switch::{PortId, Switch};
use crate::addr;
use crate::contract::Dataplane;
use crate::counters::Counters;
use crate::egress::{Egress, NoRoom};
use crate::error::BindError;
use crate::event::{Event, Events};
use crate::meta::{Budget, ListenerId, RxMeta, TxMeta};
use crate::waker::Waker;

/// Name of the backend.
const NAME: &str = "port";

/// Largest UDP payload that a port carries, bytes: that of a full Ethernet frame over IPv4.
pub const LARGEST_PAYLOAD: usize = 1472;

/// A port of one group of workers, opened and not yet running.
#[derive(Debug)]
pub struct PortGroup {
    /// Port, for [`Switch::set_link`].
    pub port: PortId,
    /// One seed per worker, in worker order.
    pub seeds: Vec<PortSeed>,
    /// Addresses of the listeners, in the order in which they were given.
    pub addresses: Vec<SocketAddr>,
}

/// One worker's queue.
#[derive(Debug)]
pub struct PortSeed {
    switch: Switch,
    port: PortId,
    queue: usize,
    listeners: Vec<(ListenerId, SocketAddr)>,
}

/// A driver that polls a queue of a port.
#[derive(Debug)]
pub struct Port {
    switch: Switch,
    port: PortId,
    queue: usize,
    listeners: Vec<(ListenerId, SocketAddr)>,
    /// Frames whose departure has not come.
    timed: VecDeque<(Instant, Frame)>,
    /// The port had no buffer left to lend.
    blocked: bool,
    /// State of the link that was last reported.
    link: bool,
    waker: Waker,
    events: Events,
    counters: Counters,
}

/// Opens a port on `switch` for `workers` workers with these listeners; wildcards and port 0 mean what they mean for
/// sockets.
///
/// # Errors
/// Another port has an address.
pub fn open_group(
    switch: &Switch,
    listeners: &[(ListenerId, SocketAddr)],
    workers: usize,
) -> Result<PortGroup, BindError> {
    let (port, listeners) = switch.attach(listeners, workers)?;
    let seed =
        |queue| PortSeed { switch: switch.clone(), port, queue, listeners: listeners.clone() };
    Ok(PortGroup {
        port,
        seeds: (0..workers).map(seed).collect(),
        addresses: listeners.iter().map(|(_, address)| *address).collect(),
    })
}

impl PortSeed {
    /// Makes the driver, on the thread that will use it.
    #[must_use]
    pub fn open(self) -> Port {
        Port {
            switch: self.switch,
            port: self.port,
            queue: self.queue,
            listeners: self.listeners,
            timed: VecDeque::new(),
            blocked: false,
            link: true,
            waker: Waker::idle(),
            events: Events::new(),
            counters: Counters::default(),
        }
    }
}

/// Reads the clock that departures and timeouts are measured by.
#[expect(
    clippy::disallowed_methods,
    reason = "a driver that polls has no kernel to time its waits"
)]
fn now() -> Instant {
    Instant::now()
}

impl Port {
    /// Hands a frame to the switch and notes what became of it.
    fn send(&mut self, listener: ListenerId, peer: SocketAddr, frame: Frame) {
        let size = frame.len;
        match self.switch.send(self.port, frame) {
            Ok(()) => {
                self.counters.tx_messages += 1;
                self.counters.tx_datagrams += 1;
                self.counters.tx_bytes += size as u64;
            }
            Err(refusal) => {
                self.counters.tx_errors += 1;
                if refusal == Refusal::Unreachable {
                    let event = Event::Unreachable { listener, peer };
                    self.events.push(event, &mut self.counters);
                }
            }
        }
    }

    /// Sends the timed frames that are due.
    fn send_due(&mut self, now: Instant) {
        for _ in 0..self.timed.len() {
            let Some((departure, frame)) = self.timed.pop_front() else {
                return;
            };
            if departure <= now {
                self.send(frame.sender, frame.meta.local, frame);
            } else {
                self.timed.push_back((departure, frame));
            }
        }
    }

    /// Reports a link that went down, for each listener; one that came up again says nothing.
    fn look_at_link(&mut self) {
        let link = self.switch.link(self.port);
        if self.link && !link {
            for (listener, _) in &self.listeners {
                let event = Event::PortDown { listener: *listener };
                self.events.push(event, &mut self.counters);
            }
        }
        self.link = link;
    }
}

impl Dataplane for Port {
    fn backend(&self) -> &'static str {
        NAME
    }

    fn receive(
        &mut self,
        mut budget: Budget,
        mut sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        self.look_at_link();
        for (listener, dropped) in self.switch.overflow(self.port, self.queue) {
            self.counters.rx_overflows += u64::from(dropped);
            let event = Event::ReceiveOverflow { listener, dropped };
            self.events.push(event, &mut self.counters);
        }
        let before = budget.datagrams;
        while !budget.is_spent()
            && let Some(mut frame) = self.switch.poll(self.port, self.queue)
        {
            budget.spend(frame.len);
            self.counters.rx_messages += 1;
            self.counters.rx_datagrams += 1;
            self.counters.rx_bytes += frame.len as u64;
            sink(&frame.meta, &mut frame.buffer.bytes[..frame.len]);
            self.switch.free(frame.buffer);
        }
        Ok(before - budget.datagrams)
    }

    fn transmit<R>(
        &mut self,
        budget: Budget,
        emit: impl FnOnce(&mut dyn Egress) -> R,
    ) -> io::Result<R> {
        self.send_due(now());
        self.blocked = false;
        let mut emission = Emission { port: self, budget, lent: None };
        let result = emit(&mut emission);
        if let Some(Lent { buffer, .. }) = emission.lent {
            self.switch.free(buffer);
        }
        Ok(result)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let limit = timeout.map(|timeout| now() + timeout);
        loop {
            // One reading: what is due by the limit leaves before it.
            let at = now();
            self.send_due(at);
            self.look_at_link();
            let room = self.blocked && self.switch.has_buffers(self.port);
            let due = room || self.switch.has_frames(self.port, self.queue) || self.waker.take();
            if due || limit.is_some_and(|limit| at >= limit) {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    fn take_event(&mut self) -> Option<Event> {
        self.events.take()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        for (_, frame) in self.timed.drain(..) {
            self.switch.free(frame.buffer);
        }
        self.switch.detach(self.port, self.queue);
    }
}

/// One transmission.
struct Emission<'a> {
    port: &'a mut Port,
    budget: Budget,
    lent: Option<Lent>,
}

/// A buffer handed out and not committed.
struct Lent {
    listener: ListenerId,
    bound: SocketAddr,
    buffer: Buffer,
}

impl Egress for Emission<'_> {
    fn room(&mut self, listener: ListenerId, size: usize) -> Result<&mut [u8], NoRoom> {
        if self.budget.is_spent() {
            return Err(NoRoom::Budget);
        }
        let listeners = &self.port.listeners;
        let found = listeners.iter().find(|(id, _)| *id == listener);
        let bound = found.ok_or(NoRoom::Unknown)?.1;
        let kept = self.lent.take().map(|lent| lent.buffer);
        let Some(buffer) = kept.or_else(|| self.port.switch.allocate(self.port.port)) else {
            self.port.blocked = true;
            return Err(NoRoom::Blocked);
        };
        let lent = self.lent.insert(Lent { listener, bound, buffer });
        let size = size.min(LARGEST_PAYLOAD);
        Ok(&mut lent.buffer.bytes[..size])
    }

    fn commit(&mut self, len: usize, meta: &TxMeta) {
        self.budget.spend(len);
        let Some(Lent { listener, bound, buffer }) = self.lent.take() else {
            debug_assert!(false, "{len} bytes were committed without room");
            return;
        };
        let source = addr::source(bound, meta.peer, meta.local).filter(|_| self.port.link);
        let Some(source) = source else {
            self.port.counters.tx_errors += 1;
            self.port.switch.free(buffer);
            return;
        };
        let frame = Frame {
            sender: listener,
            meta: RxMeta { listener, peer: source, local: meta.peer, ecn: meta.ecn },
            buffer,
            len,
        };
        match meta.departure.filter(|departure| *departure > now()) {
            Some(departure) => self.port.timed.push_back((departure, frame)),
            None => self.port.send(listener, meta.peer, frame),
        }
    }
}
