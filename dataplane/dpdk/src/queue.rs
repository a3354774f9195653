//! A worker's queue pair.
#![expect(unsafe_code, reason = "calls of the shim")]

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::device::{Inner, PortStats};
use crate::eal::Eal;
use crate::ffi::{self, BURST};
use crate::mbuf::{Batch, Mbuf};

/// A queue pair of a port with its pool of buffers. One thread at a time uses it.
#[derive(Debug)]
pub struct Queue {
    inner: Arc<Inner>,
    port: u16,
    queue: u16,
    /// Index among the queues of all devices.
    index: u16,
    /// New buffers, taken from the pool many at a time.
    fresh: Batch,
    not_sync: PhantomData<Cell<()>>,
}

impl Queue {
    pub(crate) fn new(inner: Arc<Inner>, index: u16, per_device: u16) -> Self {
        let (port, queue) = inner.place(index, per_device);
        Self {
            inner,
            port,
            queue,
            index,
            fresh: Batch::default(),
            not_sync: PhantomData,
        }
    }

    /// Returns the proof that the environment runs.
    #[must_use]
    pub fn eal(&self) -> Eal {
        self.inner.eal()
    }

    /// Receives up to [`BURST`] frames into an empty batch; into another one it receives nothing.
    pub fn receive(&mut self, batch: &mut Batch) {
        if !batch.is_empty() {
            return;
        }
        let (port, queue) = (self.port, self.queue);
        batch.refill(0, |frames| {
            let room = u16::try_from(frames.len()).unwrap_or(0);
            // SAFETY: the array has room for as many frames, which are ours from then on. The port runs while `inner`
            // lives, and this queue is used by one thread, since it is borrowed mutably and not `Sync`.
            unsafe { ffi::sg_receive(port, queue, frames.as_mut_ptr(), room) }
        });
    }

    /// Takes a new buffer, or returns `None` where the pool has none.
    pub fn allocate(&mut self) -> Option<Mbuf> {
        if self.fresh.is_empty() {
            let pool = self.inner.pool(self.index).raw();
            self.fresh.refill_fresh(|frames| {
                let all = u16::try_from(frames.len() / 2).unwrap_or(1);
                // SAFETY: the array has room for them, and they are ours from then on; the pool lives as long as `inner`.
                let mut taken = unsafe { ffi::sg_allocate(pool, frames.as_mut_ptr(), all) };
                if taken == 0 {
                    // SAFETY: likewise.
                    taken = unsafe { ffi::sg_allocate(pool, frames.as_mut_ptr(), 1) };
                }
                taken
            });
        }
        self.fresh.pop()
    }

    /// Sends the frames of a batch from the oldest on, as many as the port takes. Returns how many.
    pub fn send(&mut self, batch: &mut Batch) -> usize {
        let (port, queue) = (self.port, self.queue);
        batch.consume(|frames| {
            let count = u16::try_from(frames.len().min(BURST)).unwrap_or(0);
            // SAFETY: as many frames, each ours with its data within its buffer; the port owns those that it took, and the
            // batch forgets them. One thread uses the queue, as for receiving.
            unsafe { ffi::sg_send(port, queue, frames.as_ptr(), count) }
        })
    }

    /// Returns the counters of the device behind this queue.
    #[must_use]
    pub fn stats(&self) -> PortStats {
        PortStats::read(self.port)
    }

    /// Returns the number of buffers of this queue's pool that are in use, those of the port's descriptors included. New ones
    /// that wait here for [`Queue::allocate`] do not count.
    #[must_use]
    pub fn buffers_in_use(&self) -> u32 {
        let waiting = u32::try_from(self.fresh.len()).unwrap_or(u32::MAX);
        self.inner
            .pool(self.index)
            .missing()
            .saturating_sub(waiting)
    }

    /// Returns whether this is the first queue of its device, which reports the device's counters.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.queue == 0
    }
}
