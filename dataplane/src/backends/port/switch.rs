//! The switch that ports are connected to. It moves buffers and copies no bytes.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::addr::covers;
use crate::error::BindError;
use crate::meta::{ListenerId, RxMeta};

/// Size of a buffer's data room, bytes.
const ROOM: usize = 2048;
/// Buffers of a port.
const BUFFERS: usize = 1024;
/// Frames that wait in a queue; further ones are dropped.
const QUEUE: usize = 384;
/// First port that is chosen for port 0.
const FIRST_PORT: u16 = 49_152;

/// A switch without delay or loss. Clones are the same switch.
#[derive(Clone, Debug, Default)]
pub struct Switch {
    state: Arc<Mutex<State>>,
}

/// Number of a port of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortId(usize);

/// A buffer of a port's pool.
#[derive(Debug)]
pub(super) struct Buffer {
    owner: PortId,
    pub(super) bytes: Box<[u8; ROOM]>,
}

/// A datagram in a buffer.
#[derive(Debug)]
pub(super) struct Frame {
    /// Listener that it left by.
    pub(super) sender: ListenerId,
    /// Metadata for its receiver, once it is delivered.
    pub(super) meta: RxMeta,
    pub(super) buffer: Buffer,
    pub(super) len: usize,
}

/// Reason for which a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The sender's link is down.
    LinkDown,
    /// No port has the address.
    Unreachable,
}

#[derive(Debug, Default)]
struct State {
    ports: Vec<PortState>,
    chosen: u16,
}

#[derive(Debug)]
struct PortState {
    link: bool,
    listeners: Vec<(ListenerId, SocketAddr)>,
    pool: Vec<Buffer>,
    queues: Vec<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Frame>,
    /// Frames dropped since the worker looked, per listener.
    overflow: Vec<(ListenerId, u32)>,
    closed: bool,
}

impl Switch {
    /// Takes the link of a port down, or up again.
    pub fn set_link(&self, port: PortId, up: bool) {
        self.lock().ports[port.0].link = up;
    }

    pub(super) fn attach(
        &self,
        listeners: &[(ListenerId, SocketAddr)],
        workers: usize,
    ) -> Result<(PortId, Vec<(ListenerId, SocketAddr)>), BindError> {
        let mut state = self.lock();
        let id = PortId(state.ports.len());
        let mut listeners = listeners.to_vec();
        for (_, address) in &mut listeners {
            if address.port() == 0 {
                address.set_port(FIRST_PORT + state.chosen);
                state.chosen += 1;
            }
            let mut taken = state.ports.iter().flat_map(|port| &port.listeners);
            if taken.any(|(_, other)| covers(other, address)) {
                return Err(BindError::InUse { address: *address });
            }
        }
        let buffer = || Buffer { owner: id, bytes: Box::new([0; ROOM]) };
        state.ports.push(PortState {
            link: true,
            listeners: listeners.clone(),
            pool: std::iter::repeat_with(buffer).take(BUFFERS).collect(),
            queues: std::iter::repeat_with(Queue::default).take(workers).collect(),
        });
        Ok((id, listeners))
    }

    /// Closes a queue; the last one to close frees the addresses.
    pub(super) fn detach(&self, port: PortId, queue: usize) {
        let mut state = self.lock();
        let this = &mut state.ports[port.0];
        let closed = &mut this.queues[queue];
        closed.closed = true;
        let frames = std::mem::take(&mut closed.frames);
        if this.queues.iter().all(|queue| queue.closed) {
            this.listeners.clear();
        }
        for frame in frames {
            state.free(frame.buffer);
        }
    }

    pub(super) fn link(&self, port: PortId) -> bool {
        self.lock().ports[port.0].link
    }

    pub(super) fn has_buffers(&self, port: PortId) -> bool {
        !self.lock().ports[port.0].pool.is_empty()
    }

    pub(super) fn has_frames(&self, port: PortId, queue: usize) -> bool {
        !self.lock().ports[port.0].queues[queue].frames.is_empty()
    }

    /// Takes a buffer of the port's pool.
    pub(super) fn allocate(&self, port: PortId) -> Option<Buffer> {
        self.lock().ports[port.0].pool.pop()
    }

    /// Returns a buffer to the pool that it came from.
    pub(super) fn free(&self, buffer: Buffer) {
        self.lock().free(buffer);
    }

    /// Takes the oldest frame of a queue.
    pub(super) fn poll(&self, port: PortId, queue: usize) -> Option<Frame> {
        self.lock().ports[port.0].queues[queue].frames.pop_front()
    }

    /// Takes the numbers of frames that a queue had no room for, per listener.
    pub(super) fn overflow(&self, port: PortId, queue: usize) -> Vec<(ListenerId, u32)> {
        std::mem::take(&mut self.lock().ports[port.0].queues[queue].overflow)
    }

    /// Moves a frame into a queue of the port that has its destination.
    pub(super) fn send(&self, from: PortId, frame: Frame) -> Result<(), Refusal> {
        let mut state = self.lock();
        if !state.ports[from.0].link {
            state.free(frame.buffer);
            return Err(Refusal::LinkDown);
        }
        match state.deliver(frame) {
            Ok(None) => Ok(()),
            // What a full queue drops is the receiver's loss, not the sender's.
            Ok(Some(buffer)) => {
                state.free(buffer);
                Ok(())
            }
            Err(buffer) => {
                state.free(buffer);
                Err(Refusal::Unreachable)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn free(&mut self, buffer: Buffer) {
        self.ports[buffer.owner.0].pool.push(buffer);
    }

    /// Queues a frame. Returns its buffer where the queue is full; that is the error where no port has the address.
    fn deliver(&mut self, mut frame: Frame) -> Result<Option<Buffer>, Buffer> {
        let destination = frame.meta.local;
        for port in self.ports.iter_mut().filter(|port| port.link) {
            let mut listeners = port.listeners.iter();
            let Some((listener, _)) = listeners.find(|(_, bound)| covers(bound, &destination))
            else {
                continue;
            };
            // Receive side scaling: addresses and ports alone decide.
            let mut hash = DefaultHasher::new();
            (frame.meta.peer, destination).hash(&mut hash);
            let queues = port.queues.len() as u64;
            let queue = usize::try_from(hash.finish() % queues).unwrap_or(0);
            let queue = &mut port.queues[queue];
            if queue.frames.len() >= QUEUE || queue.closed {
                match queue.overflow.iter_mut().find(|(id, _)| id == listener) {
                    Some((_, dropped)) => *dropped += 1,
                    None => queue.overflow.push((*listener, 1)),
                }
                return Ok(Some(frame.buffer));
            }
            frame.meta.listener = *listener;
            queue.frames.push_back(frame);
            return Ok(None);
        }
        Err(frame.buffer)
    }
}
