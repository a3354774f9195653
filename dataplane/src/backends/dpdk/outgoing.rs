//! Frames on their way to the queue.

use sluicegate_dpdk::{Batch, Mbuf, Queue, TxOffload};

/// Frames on their way to the queue, sent in bursts.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    batch: Batch,
    /// A buffer that was taken to see whether there is one.
    spare: Option<Mbuf>,
    /// There was no room for a datagram: no buffer, or too many frames waited.
    blocked: bool,
}

impl Outgoing {
    /// Sends as many frames as the port takes.
    pub(super) fn flush(&mut self, queue: &mut Queue) {
        while !self.batch.is_empty() && queue.send(&mut self.batch) > 0 {}
    }

    /// Returns a new buffer, or `None` where there is none or too many frames wait.
    pub(super) fn allocate(&mut self, queue: &mut Queue) -> Option<Mbuf> {
        let mbuf = if self.has_room(queue) {
            self.spare.take().or_else(|| queue.allocate())
        } else {
            None
        };
        self.blocked = mbuf.is_none();
        mbuf
    }

    /// Returns whether there is room again after there was none.
    pub(super) fn is_unblocked(&mut self, queue: &mut Queue) -> bool {
        if !self.blocked || !self.has_room(queue) {
            return false;
        }
        self.spare = self.spare.take().or_else(|| queue.allocate());
        self.blocked = self.spare.is_none();
        !self.blocked
    }

    /// Returns the number of buffers that are kept for the next frame.
    pub(super) fn spare(&self) -> u64 {
        u64::from(self.spare.is_some())
    }

    /// Returns whether [`Outgoing::copy`] has a buffer and room for a frame.
    pub(super) fn can_copy(&mut self, queue: &mut Queue) -> bool {
        if !self.has_room(queue) {
            return false;
        }
        self.spare = self.spare.take().or_else(|| queue.allocate());
        self.spare.is_some()
    }

    /// Copies a frame of the slow path; it is lost where there is no buffer.
    pub(super) fn copy(&mut self, queue: &mut Queue, frame: &[u8]) {
        let Some(mut mbuf) = self.allocate(queue) else {
            return;
        };
        if let Some(room) = mbuf.bytes().get_mut(..frame.len()) {
            room.copy_from_slice(frame);
            mbuf.truncate(frame.len());
            mbuf.offload(TxOffload::None);
            self.push(queue, mbuf);
        }
    }

    /// Appends a frame. Returns false if there is no room for it, which a flood of the slow path may have taken.
    pub(super) fn push(&mut self, queue: &mut Queue, mbuf: Mbuf) -> bool {
        self.has_room(queue) && self.batch.push(mbuf).is_none()
    }

    fn has_room(&mut self, queue: &mut Queue) -> bool {
        if self.batch.is_full() {
            self.flush(queue);
        }
        !self.batch.is_full()
    }
}
