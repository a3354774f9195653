//! State of a worker's queue, which receiving and sending share.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_dpdk::{Batch, Mbuf, Queue};
use sluicegate_frames::{FrameParser, NextHops, StackEvent};

use super::link::Link;
use super::outgoing::Outgoing;
use super::shared::Shared;
use crate::counters::{Counters, FrameCounters};
use crate::event::{Event, Events, Quote};
use crate::meta::ListenerId;

/// Time between two looks at the device's counters and its link.
const SURVEY: Duration = Duration::from_millis(250);

/// Most frames of neighbours that are kept while the stack is in use or nothing can be sent.
pub(super) const KEPT: usize = 16;

/// State of a worker's queue.
pub(super) struct Core {
    pub(super) queue: Queue,
    pub(super) shared: Arc<Shared>,
    /// Index of the worker; the first one runs the timers of the slow path.
    index: usize,
    pub(super) parser: FrameParser,
    pub(super) hops: NextHops,
    /// Number of the latest change of the slow path that was seen.
    seen: u64,
    /// Received frames that were not passed on yet.
    pub(super) received: Batch,
    /// Frames of neighbours that the stack could not take, oldest first; at most [`KEPT`].
    pub(super) kept: VecDeque<Mbuf>,
    pub(super) outgoing: Outgoing,
    /// Time of the last frame in either direction.
    pub(super) active: Instant,
    surveyed: Instant,
    link: Link,
    pub(super) events: Events,
    pub(super) counters: Counters,
    pub(super) frames: FrameCounters,
}

impl Core {
    pub(super) fn new(queue: Queue, shared: Arc<Shared>, index: usize, now: Instant) -> Self {
        let random = RandomState::new();
        let key = [random.hash_one(0), random.hash_one(1)];
        let mut core = Self {
            parser: FrameParser::new(&shared.config),
            hops: NextHops::new(Arc::clone(&shared.config), key),
            seen: 0,
            received: Batch::default(),
            kept: VecDeque::with_capacity(KEPT),
            outgoing: Outgoing::default(),
            active: now,
            surveyed: now,
            link: Link::new(shared.interface.as_deref()),
            events: Events::new(),
            counters: Counters::default(),
            frames: FrameCounters::default(),
            queue,
            shared,
            index,
        };
        core.survey(now);
        core
    }

    /// Returns the time since the port's opening, milliseconds.
    pub(super) fn millis(&self, now: Instant) -> u64 {
        let age = now.saturating_duration_since(self.shared.epoch).as_millis();
        u64::try_from(age).unwrap_or(u64::MAX)
    }

    /// Runs the timers of the slow path, takes its news, and now and then looks at counters and link.
    pub(super) fn housekeep(&mut self, now: Instant) {
        let now_ms = self.millis(now);
        self.retry_kept(now_ms);
        if now.saturating_duration_since(self.surveyed) >= SURVEY {
            self.survey(now);
        }
        let Self { shared, seen, hops, events, counters, index, queue, outgoing, .. } = self;
        let Some(stack) = shared.stack() else {
            return;
        };
        // What is due waits until it can be sent.
        if *index == 0 && outgoing.can_copy(queue) {
            stack.on_time(now_ms, &mut |frame| outgoing.copy(queue, frame));
        }
        stack.news(
            seen,
            |table| hops.set_resolved(table),
            |StackEvent::TooBig { local, peer, size, quote, .. }| {
                if let Some(listener) = shared.listener_at(&local) {
                    let event = Event::TooBigReport {
                        listener,
                        peer,
                        size,
                        quote: Quote::new(quote.bytes()),
                    };
                    events.push(event, counters);
                }
            },
        );
    }

    /// Passes a frame to the stack. Returns false if that is in use, or if there is no room for a reply to be expected.
    pub(super) fn pass_slow(&mut self, mbuf: &mut Mbuf, replies: bool, now_ms: u64) -> bool {
        let (queue, outgoing) = (&mut self.queue, &mut self.outgoing);
        if replies && !outgoing.can_copy(queue) {
            return false;
        }
        let mut send = |frame: &[u8]| outgoing.copy(queue, frame);
        let stack = self.shared.stack();
        // Without one such frames are the kernel's, and none arrives here.
        stack.is_none_or(|stack| stack.input(mbuf.bytes(), now_ms, &mut send))
    }

    /// Passes the frames of neighbours that were kept to the stack.
    fn retry_kept(&mut self, now_ms: u64) {
        while let Some(mut mbuf) = self.kept.pop_front() {
            if !self.pass_slow(&mut mbuf, true, now_ms) {
                self.kept.push_front(mbuf);
                return;
            }
        }
    }

    /// Takes over the device's counters, and reports a link that went down.
    fn survey(&mut self, now: Instant) {
        self.surveyed = now;
        self.queue.reclaim();
        let in_use = u64::from(self.queue.buffers_in_use());
        self.frames.buffers_in_use = in_use.saturating_sub(self.outgoing.spare());
        if self.queue.is_first() {
            let stats = self.queue.stats();
            self.frames.received = stats.received;
            self.frames.sent = stats.sent;
            self.counters.rx_errors = stats.receive_errors;
            self.counters.rx_buffers_exhausted = stats.no_buffer;
            self.frames.send_errors = stats.send_errors;
            let missed = stats.missed.saturating_sub(self.counters.rx_overflows);
            self.counters.rx_overflows = stats.missed;
            if missed > 0 {
                let dropped = u32::try_from(missed).unwrap_or(u32::MAX);
                self.each_listener(|listener| Event::ReceiveOverflow { listener, dropped });
            }
        }
        if self.index != 0 {
            return;
        }
        match self.link.look() {
            Some(false) => self.each_listener(|listener| Event::PortDown { listener }),
            Some(true) => {
                if let Some(stack) = self.shared.stack() {
                    stack.on_link_up();
                }
            }
            None => {}
        }
    }

    fn each_listener(&mut self, event: impl Fn(ListenerId) -> Event) {
        for (listener, _) in self.shared.listeners() {
            self.events.push(event(*listener), &mut self.counters);
        }
    }

    /// Sends as many frames as the port takes.
    pub(super) fn flush(&mut self) {
        self.outgoing.flush(&mut self.queue);
    }

    /// Returns whether the worker has something to do: frames, events, or room where there was none.
    pub(super) fn is_ready(&mut self) -> bool {
        self.queue.receive(&mut self.received);
        !self.received.is_empty()
            || !self.events.is_empty()
            || self.outgoing.is_unblocked(&mut self.queue)
    }
}
