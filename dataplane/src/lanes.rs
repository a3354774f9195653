//! Transmit buffers and queues per listener: the place where a datagram is written and the batch that it joins.
//!
//! Shared by the backends of sockets. Each listener has a lane: buffers of its own, at most one open batch, and a queue of
//! closed ones. So a listener whose socket is full keeps its buffers and its order, and the others go on.

use std::collections::VecDeque;
use std::ops::Range;

use crate::batch::{Batch, Effects, Gso, Layout, MAX_SEGMENTS, MAX_TRANSMIT, Progress};
use crate::counters::Counters;
use crate::egress::NoRoom;
use crate::event::{Event, Events};
use crate::meta::{ListenerId, TxMeta};

/// Size of a transmit buffer, bytes: [`MAX_TRANSMIT`] rounded up to pages.
pub(crate) const BUFFER: usize = MAX_TRANSMIT.next_multiple_of(4096);

/// All lanes of a driver and its transmit buffers, which are known by their indices.
pub(crate) struct Lanes {
    lanes: Box<[Lane]>,
    /// Per buffer, how many batches have bytes in it.
    uses: Box<[u32]>,
    free: Vec<usize>,
    /// Lanes without a buffer; each has one reserved.
    bare: usize,
    /// Room handed out and not committed.
    lent: Option<Lent>,
}

/// A place in a transmit buffer.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) buffer: usize,
    pub(crate) range: Range<usize>,
}

struct Lent {
    lane: usize,
    buffer: usize,
    start: usize,
    size: usize,
}

struct Lane {
    listener: ListenerId,
    gso: Gso,
    /// Buffer that is written to.
    current: Option<usize>,
    /// Next free byte in it.
    at: usize,
    /// Buffers that it holds.
    buffers: usize,
    open: Option<Open>,
    queue: VecDeque<Batch>,
    blocked: bool,
    down: bool,
}

/// A batch that may still grow.
struct Open {
    meta: TxMeta,
    layout: Layout,
    datagrams: usize,
}

impl Open {
    /// Returns whether a datagram of `len` bytes at `start` in `buffer` can go as a further segment.
    fn takes(&self, meta: &TxMeta, buffer: usize, start: usize, len: usize) -> bool {
        let Layout { segment, .. } = self.layout;
        self.meta == *meta
            && (buffer, start) == (self.layout.buffer, self.layout.start + self.layout.len)
            && (1..=segment).contains(&len)
            && self.layout.len == segment * self.datagrams
            && self.datagrams < MAX_SEGMENTS
            && self.layout.len + len <= MAX_TRANSMIT
    }
}

impl Lanes {
    /// Returns the number of buffers for `lanes` of which each can hold `share` while the others have one.
    pub(crate) const fn buffers(share: usize, lanes: usize) -> usize {
        let share = if share < 2 { 2 } else { share };
        share + lanes.saturating_sub(1)
    }

    /// Lanes over `buffers` buffers, each with its listener and whether its socket can segment.
    pub(crate) fn new(buffers: usize, listeners: impl Iterator<Item = (ListenerId, bool)>) -> Self {
        let lanes: Box<[Lane]> = listeners
            .map(|(listener, gso)| Lane {
                listener,
                gso: Gso::new(gso),
                current: None,
                at: 0,
                buffers: 0,
                open: None,
                queue: VecDeque::with_capacity(2 * MAX_SEGMENTS),
                blocked: false,
                down: false,
            })
            .collect();
        debug_assert!(buffers >= lanes.len());
        Self {
            bare: lanes.len(),
            lanes,
            uses: vec![0; buffers].into_boxed_slice(),
            free: (0..buffers).rev().collect(),
            lent: None,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.lanes.len()
    }

    pub(crate) fn find(&self, listener: ListenerId) -> Result<usize, NoRoom> {
        let found = self.lanes.iter().position(|l| l.listener == listener);
        found.ok_or(NoRoom::Unknown)
    }

    /// Returns room for a datagram of `size` bytes; `None` where all buffers of the lane are full of what is not sent.
    pub(crate) fn room(&mut self, lane: usize, size: usize) -> Option<Place> {
        let size = size.min(MAX_TRANSMIT);
        let this = &mut self.lanes[lane];
        if let Some(current) = this.current
            && self.uses[current] == 0
        {
            this.at = 0;
        }
        if this.current.is_none() || this.at + size > BUFFER {
            // What is left is reserved for lanes that have none.
            if this.buffers > 0 && self.free.len() <= self.bare {
                return None;
            }
            let next = self.free.pop()?;
            self.bare -= usize::from(this.buffers == 0);
            this.buffers += 1;
            this.current = Some(next);
            this.at = 0;
        }
        let (buffer, start) = (this.current?, this.at);
        self.lent = Some(Lent { lane, buffer, start, size });
        Some(Place { buffer, range: start..start + size })
    }

    /// Takes the room returned last as a datagram of `len` bytes. Returns the lane where that closed an earlier batch.
    pub(crate) fn commit(
        &mut self,
        len: usize,
        meta: &TxMeta,
        counters: &mut Counters,
    ) -> Option<usize> {
        let Some(lent) = self.lent.take().filter(|lent| len <= lent.size) else {
            debug_assert!(false, "{len} bytes were committed without room for them");
            counters.tx_errors += 1;
            return None;
        };
        let Lent { lane, buffer, start, .. } = lent;
        let this = &mut self.lanes[lane];
        this.at = start + len;
        if let Some(open) = &mut this.open
            && this.gso.is_usable()
            && open.takes(meta, buffer, start, len)
        {
            open.layout.len += len;
            open.datagrams += 1;
            return None;
        }
        let closed = this.close();
        self.uses[buffer] += 1;
        let layout = Layout { buffer, start, len, segment: len };
        this.open = Some(Open { meta: *meta, layout, datagrams: 1 });
        closed.then_some(lane)
    }

    /// Closes the open batch of a lane.
    pub(crate) fn close(&mut self, lane: usize) {
        self.lanes[lane].close();
    }

    /// Closes the open batches of all lanes.
    pub(crate) fn close_all(&mut self) {
        for lane in &mut self.lanes {
            lane.close();
        }
    }

    /// Returns whether the lane takes no datagram before its socket has room.
    pub(crate) fn is_blocked(&self, lane: usize) -> bool {
        self.lanes[lane].blocked
    }

    /// Returns whether anything can be sent, on any lane.
    pub(crate) fn can_send(&self) -> bool {
        self.lanes.iter().any(|l| !l.blocked && !l.queue.is_empty())
    }

    /// Records that the lane's socket may have room again.
    pub(crate) fn on_writable(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.blocked = false;
        }
    }

    /// Returns the number of closed batches of a lane.
    pub(crate) fn queued(&self, lane: usize) -> usize {
        self.lanes[lane].queue.len()
    }

    /// Returns a closed batch of a lane that may send, the oldest being number 0.
    pub(crate) fn batch(&self, lane: usize, number: usize) -> Option<&Batch> {
        let lane = &self.lanes[lane];
        lane.queue.get(number).filter(|_| !lane.blocked)
    }

    /// Applies the outcome of the message of the oldest batch (sent, or the system's error): the batch leaves the queue where it is finished, stays the oldest
    /// where `keep` is [`Keep::First`], and goes to the end otherwise. A caller that sent several at once uses the latter,
    /// once for each, which keeps their order.
    pub(crate) fn settle(
        &mut self,
        lane: usize,
        keep: Keep,
        outcome: Result<(), i32>,
        counters: &mut Counters,
        events: &mut Events,
    ) {
        let this = &mut self.lanes[lane];
        let Some(mut batch) = this.queue.pop_front() else {
            return;
        };
        let mut effects = Effects { gso: &mut this.gso, counters, events };
        let progress = match outcome {
            Ok(()) => batch.on_sent(&mut effects),
            Err(code) => batch.on_error(code, &mut effects),
        };
        match progress {
            Progress::Finished => {
                this.down &= !batch.was_sent();
                self.release(lane, batch.buffer());
            }
            Progress::SocketDown => {
                if !std::mem::replace(&mut this.down, true) {
                    let listener = this.listener;
                    events.push(Event::PortDown { listener }, counters);
                }
                self.release(lane, batch.buffer());
            }
            Progress::Ready | Progress::Blocked => {
                this.blocked |= progress == Progress::Blocked;
                match keep {
                    Keep::First => this.queue.push_front(batch),
                    Keep::Last => this.queue.push_back(batch),
                }
            }
        }
    }

    /// Moves the `count` oldest batches of a lane behind the others.
    pub(crate) fn rotate(&mut self, lane: usize, count: usize) {
        self.lanes[lane].queue.rotate_left(count);
    }

    /// Keeps `buffer` in use until [`Lanes::release`], also after its batches are finished.
    pub(crate) fn hold(&mut self, buffer: usize) {
        self.uses[buffer] += 1;
    }

    /// Takes a finished batch off `buffer`. A buffer without batches is free, but for the one that is written to.
    pub(crate) fn release(&mut self, lane: usize, buffer: usize) {
        self.uses[buffer] -= 1;
        let this = &mut self.lanes[lane];
        if self.uses[buffer] == 0 && this.current != Some(buffer) {
            this.buffers -= 1;
            self.bare += usize::from(this.buffers == 0);
            self.free.push(buffer);
        }
    }
}

/// New place in the queue of a batch that is not finished.
#[derive(Clone, Copy)]
pub(crate) enum Keep {
    /// It stays the oldest.
    First,
    /// It becomes the youngest.
    Last,
}

impl Lane {
    /// Queues the open batch; false where there is none.
    fn close(&mut self) -> bool {
        let Some(open) = self.open.take() else {
            return false;
        };
        self.queue.push_back(Batch::new(self.listener, open.meta, open.layout));
        true
    }
}

#[cfg(test)]
mod tests;
