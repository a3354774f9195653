//! One direction of the network: the simulator's bottleneck, with real packets.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_cc::Time;
use sluicegate_sim::{AqmQueue, Bottleneck, BottleneckQueue, Delivery, Ecn, QueuedPacket};

/// Returns both directions of a path of the simulator, each as a path of its own: towards the client, and back.
pub(crate) fn directions(path: &Bottleneck) -> (Bottleneck, Bottleneck) {
    let down = Bottleneck { ack_hold: Duration::ZERO, ack_path: None, ..path.clone() };
    let mut up = Bottleneck {
        delay_steps: path.delay_steps.clone(),
        loss: path.ack_loss.clone(),
        ack_hold: path.ack_hold,
        ..Bottleneck::unlimited(path.delay)
    };
    if let Some(ack_path) = path.ack_path {
        up.rate = vec![(Duration::ZERO, ack_path.bits_per_second)];
        up.queue_bytes = ack_path.queue_bytes;
    }
    (down, up)
}

/// A bottleneck with packets on their way through it. Times count from the start of the run.
#[derive(Debug)]
pub(crate) struct Wire {
    bottleneck: BottleneckQueue,
    /// The queue, where there is an AQM.
    aqm: Option<AqmQueue<(u64, Vec<u8>)>>,
    /// Packets of each flow so far.
    sent: Vec<u64>,
    /// When the last packet entered.
    entered: Time,
    /// Packets on the way, in order of arrival.
    packets: VecDeque<InTransit>,
    bytes: u64,
    /// Buffers for packets to come.
    spare: Vec<Vec<u8>>,
}

/// A packet that the wire carries or has delivered.
#[derive(Debug)]
pub(crate) struct InTransit {
    /// Time at which the packet entered.
    pub(crate) departed: Duration,
    /// Time at which it reaches the other end.
    pub(crate) arrives: Duration,
    /// Flow that the packet belongs to.
    pub(crate) flow: usize,
    /// Place of the packet in its flow, from 0, as the packets entered.
    pub(crate) number: u64,
    /// ECN field with which it entered.
    pub(crate) ecn: Ecn,
    /// Whether the bottleneck marked it Congestion Experienced. Its bytes are as they were.
    pub(crate) ce: bool,
    /// Contents.
    pub(crate) bytes: Vec<u8>,
}

impl Wire {
    /// Returns a direction without packets; `seed` drives everything random on it.
    pub(crate) fn new(path: &Bottleneck, seed: u64) -> Self {
        Self {
            bottleneck: BottleneckQueue::new(path.clone(), seed),
            aqm: AqmQueue::of(path),
            sent: Vec::new(),
            entered: Time::ZERO,
            packets: VecDeque::new(),
            bytes: 0,
            spare: Vec::new(),
        }
    }

    /// Takes a packet that departs at `at`, never earlier than the one before it; it may get lost. All packets are of one flow, and
    /// not capable of ECN.
    pub(crate) fn depart(&mut self, at: Duration, packet: &[u8]) {
        self.depart_of(at, packet, 0, Ecn::NotEct);
    }

    /// Takes a packet of a flow, which has a small number, with its ECN field.
    pub(crate) fn depart_of(&mut self, at: Duration, packet: &[u8], flow: usize, ecn: Ecn) {
        let size = packet.len() as u64;
        let now = Time::ZERO + at;
        let number = self.number(flow);
        // What left earlier is not in this packet's way.
        self.serve(now);
        if let Some(aqm) = &mut self.aqm {
            let packet = QueuedPacket {
                flow,
                bytes: size,
                ecn,
                ce: false,
                arrived: now,
                packet: (number, copy(&mut self.spare, packet)),
            };
            self.entered = now;
            aqm.enqueue(&mut self.bottleneck, packet);
            self.serve(now);
        } else if let Some(delivery) = self.bottleneck.data(now, size) {
            let packet = copy(&mut self.spare, packet);
            self.insert(at, flow, number, ecn, packet, delivery);
        }
    }

    /// Sends what the AQM lets go by `now`, each packet when the link is free for it: a late call costs no time of the link.
    fn serve(&mut self, now: Time) {
        while let Some(aqm) = &mut self.aqm
            && let Some(free) = aqm.next_departure().filter(|at| *at <= now)
            // A link that was free before there was a packet sends that when it enters.
            && let at = free.max(self.entered)
            && let Some((queued, delivery)) = aqm.dequeue(&mut self.bottleneck, at)
        {
            let departed = queued.arrived.saturating_since(Time::ZERO);
            let (number, packet) = queued.packet;
            self.insert(departed, queued.flow, number, queued.ecn, packet, delivery);
        }
    }

    /// Returns the place of the next packet of a flow.
    fn number(&mut self, flow: usize) -> u64 {
        if self.sent.len() <= flow {
            self.sent.resize(flow + 1, 0);
        }
        let number = self.sent[flow];
        self.sent[flow] += 1;
        number
    }

    fn insert(
        &mut self,
        departed: Duration,
        flow: usize,
        number: u64,
        ecn: Ecn,
        packet: Vec<u8>,
        delivery: Delivery,
    ) {
        let arrives = self.bottleneck.held(delivery.arrives);
        let arrives = arrives.saturating_since(Time::ZERO);
        self.bytes += packet.len() as u64;
        let earlier = self.packets.iter().rev();
        let overtaken = earlier.take_while(|packet| packet.arrives > arrives);
        let place = self.packets.len() - overtaken.count();
        let packet =
            InTransit { departed, arrives, flow, number, ecn, ce: delivery.ce, bytes: packet };
        self.packets.insert(place, packet);
    }

    /// Returns when to call [`Wire::take_delivery`] next: at the next arrival, or when the AQM sends.
    pub(crate) fn next_arrival(&self) -> Option<Duration> {
        let departure = self.aqm.as_ref().and_then(AqmQueue::next_departure);
        let departure = departure.map(|at| at.saturating_since(Time::ZERO));
        let arrival = self.packets.front().map(|packet| packet.arrives);
        [departure, arrival].into_iter().flatten().min()
    }

    /// Takes a packet that arrived by `now`, with its times; give the buffer back with [`Wire::recycle`].
    pub(crate) fn take_delivery(&mut self, now: Duration) -> Option<InTransit> {
        self.serve(Time::ZERO + now);
        if self.packets.front()?.arrives > now {
            return None;
        }
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.bytes.len() as u64;
        Some(packet)
    }

    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        self.spare.push(buffer);
    }

    /// Returns the bytes on the way.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes + self.aqm.as_ref().map_or(0, AqmQueue::bytes)
    }

    /// Returns the packets on the way.
    pub(crate) fn packets(&self) -> u64 {
        let waiting = self.aqm.as_ref().map_or(0, AqmQueue::packets);
        (self.packets.len() + waiting) as u64
    }
}

/// Returns a copy of the packet, in a spare buffer if there is one.
fn copy(spare: &mut Vec<Vec<u8>>, packet: &[u8]) -> Vec<u8> {
    let mut buffer = spare.pop().unwrap_or_default();
    buffer.clear();
    buffer.extend_from_slice(packet);
    buffer
}

#[cfg(test)]
mod tests;
