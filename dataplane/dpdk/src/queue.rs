//! A worker's queue pair.
#![expect(unsafe_code, reason = "calls of the shim")]

use std::sync::Arc;

use crate::device::{Inner, PortStats};
use crate::error::Error;
use crate::ffi::{self, BURST};
use crate::mbuf::{Batch, Mbuf};
use crate::port_ref::PortRef;

/// A queue pair that no thread uses yet.
#[derive(Debug)]
pub struct QueueSeed {
    inner: Arc<Inner>,
    index: u16,
}

/// A queue pair of a port with its pool of buffers. It stays on the thread that opened it, and so do its buffers.
#[derive(Debug)]
pub struct Queue {
    port_ref: PortRef,
    port: u16,
    queue: u16,
    /// Index among the queues of all devices.
    index: u16,
    /// New buffers, taken from the pool many at a time.
    fresh: Batch,
}

impl QueueSeed {
    pub(crate) fn new(inner: Arc<Inner>, index: u16) -> Self {
        Self { inner, index }
    }

    /// Opens the queue pair on the current thread, which is registered with the library.
    ///
    /// # Errors
    /// More than about 128 threads are registered.
    pub fn open(self) -> Result<Queue, Error> {
        let (port, queue) = self.inner.place(self.index);
        Ok(Queue {
            port_ref: PortRef::new(self.inner)?,
            port,
            queue,
            index: self.index,
            fresh: Batch::default(),
        })
    }
}

impl Queue {
    /// Receives up to [`BURST`] frames into an empty batch; into another one it receives nothing.
    pub fn receive(&mut self, batch: &mut Batch) {
        if !batch.is_empty() {
            return;
        }
        let (port, queue) = (self.port, self.queue);
        batch.refill(&self.port_ref, 0, |frames| {
            let room = u16::try_from(frames.len()).unwrap_or(0);
            // SAFETY: the array has room for as many frames, which are ours from then on. The port runs while there is a
            // reference, and this queue is used by one thread, since it cannot leave it.
            unsafe { ffi::sg_receive(port, queue, frames.as_mut_ptr(), room) }
        });
    }

    /// Takes a new buffer, or returns `None` where the pool has none.
    pub fn allocate(&mut self) -> Option<Mbuf> {
        if self.fresh.is_empty() {
            let pool = self.port_ref.inner().pool(self.index).raw();
            self.fresh.refill_fresh(&self.port_ref, |frames| {
                let all = u16::try_from(frames.len() / 2).unwrap_or(1);
                // SAFETY: the array has room for them, and they are ours from then on; the pool lives as long as a reference.
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
    ///
    /// # Panics
    /// The frames are another port's: its pool must not be dropped while this port has them.
    pub fn send(&mut self, batch: &mut Batch) -> usize {
        assert!(batch.is_of(&self.port_ref), "buffers of another port");
        let (port, queue) = (self.port, self.queue);
        batch.consume(|frames| {
            let count = u16::try_from(frames.len().min(BURST)).unwrap_or(0);
            // SAFETY: as many frames, each ours with its data within its buffer, of a pool that lives as long as the port;
            // the port owns those that it took, and the batch forgets them. One thread uses the queue, as for receiving.
            unsafe { ffi::sg_send(port, queue, frames.as_ptr(), count) }
        })
    }

    /// Has the driver return the buffers of frames that have left, which some do only when they send.
    pub fn reclaim(&mut self) {
        // SAFETY: no frames. One thread uses the queue, as for receiving.
        unsafe { ffi::sg_send(self.port, self.queue, std::ptr::null(), 0) };
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
        let pool = self.port_ref.inner().pool(self.index);
        pool.missing().saturating_sub(waiting)
    }

    /// Returns whether this is the first queue of its device, which reports the device's counters.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.queue == 0
    }
}
