//! The queue of a bottleneck with AQM. Packets may be dropped, and flows overtake one another, until they leave.

use std::fmt::Debug;

use sluicegate_cc::Time;

use super::aqm::{Discipline, QueuedPacket};
use super::bottleneck::{Bottleneck, BottleneckQueue, Delivery};
use super::transmitter::Transmitter;

/// Takes the place of the drop-tail queue of a [`BottleneckQueue`], whose other faults still apply.
#[derive(Debug)]
pub struct AqmQueue<T> {
    discipline: Box<dyn Discipline<T>>,
    transmitter: Transmitter,
}

impl<T: Debug + Send + 'static> AqmQueue<T> {
    /// Returns the empty queue of a bottleneck; `None` if it has no AQM.
    pub fn of(bottleneck: &Bottleneck) -> Option<Self> {
        Some(Self {
            discipline: bottleneck.aqm?.queue(bottleneck.queue_bytes),
            transmitter: Transmitter::new(bottleneck.rate.clone()),
        })
    }

    /// Takes a packet, never earlier than the one before; `path` or the AQM may lose it.
    pub fn enqueue(&mut self, path: &mut BottleneckQueue, packet: QueuedPacket<T>) {
        if path.admits(packet.arrived, packet.bytes) {
            self.discipline.enqueue(packet, path.rng());
        }
    }

    /// Returns when the link is free for the next packet; `None` if there is none. In the past if it is free already.
    pub fn next_departure(&self) -> Option<Time> {
        (self.discipline.bytes() > 0).then(|| self.transmitter.busy_until())
    }

    /// Returns the next packet with its arrival if the link is free at `now`.
    pub fn dequeue(
        &mut self,
        path: &mut BottleneckQueue,
        now: Time,
    ) -> Option<(QueuedPacket<T>, Delivery)> {
        self.next_departure().filter(|at| *at <= now)?;
        let packet = self.discipline.dequeue(now)?;
        let departs = self.transmitter.send(now, packet.bytes);
        let arrives = path.arrival(departs);
        let ce = packet.ce;
        Some((packet, Delivery { arrives, ce }))
    }

    /// Returns the bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.discipline.bytes()
    }

    /// Returns the packets that wait.
    pub fn packets(&self) -> usize {
        self.discipline.packets()
    }
}
