//! The loop that moves time from event to event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use sluicegate_cc::{Controller, Time};

use super::application::Reader;
use super::aqm::{Ecn, QueuedPacket};
use super::aqm_queue::AqmQueue;
use super::bottleneck::{Bottleneck, BottleneckQueue, Delivery};
use super::flow::Flow;
use super::outcome::FlowOutcome;
use super::receiver::{AckFrame, Receiver};
use super::sender::{Outgoing, Sender};

/// Flows over one bottleneck.
#[derive(Debug)]
pub struct Simulation {
    queue: BottleneckQueue,
    /// The queue of data, where there is an AQM.
    aqm: Option<AqmQueue<Outgoing>>,
    /// Departure on the agenda.
    departs_at: Option<Time>,
    flows: Vec<Endpoints>,
    agenda: BinaryHeap<Reverse<Entry>>,
    entries: u64,
    sample_every: Duration,
}

#[derive(Debug)]
struct Endpoints {
    sender: Sender,
    receiver: Receiver,
    start: Time,
    mtu: u64,
    ecn: Ecn,
    total: Option<u64>,
    /// Earliest wake-up on the agenda.
    wake_at: Option<Time>,
    ack_at: Option<Time>,
}

/// A scheduled event, ordered by time and then by entry.
#[derive(Debug)]
struct Entry {
    at: Time,
    order: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Data {
        flow: usize,
        number: u64,
        chunk: usize,
        ce: bool,
    },
    Ack {
        flow: usize,
        frame: AckFrame,
    },
    AckTimer {
        flow: usize,
    },
    Wake {
        flow: usize,
    },
    /// The receiver tells how much of the data its application has read.
    Update {
        flow: usize,
        every: Duration,
    },
    /// The link behind an AQM is free.
    Departure,
    Sample,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl Simulation {
    /// Returns a simulation without flows; `seed` drives everything random on the bottleneck.
    pub fn new(bottleneck: Bottleneck, seed: u64) -> Self {
        Self {
            aqm: AqmQueue::of(&bottleneck),
            departs_at: None,
            queue: BottleneckQueue::new(bottleneck, seed),
            flows: Vec::new(),
            agenda: BinaryHeap::new(),
            entries: 0,
            sample_every: Duration::from_millis(100),
        }
    }

    /// Sets the interval between samples, 100 ms by default.
    #[must_use]
    pub const fn sampled_every(mut self, interval: Duration) -> Self {
        self.sample_every = interval;
        self
    }

    /// Adds a flow with its controller.
    #[must_use]
    pub fn with(mut self, flow: Flow, controller: Box<dyn Controller>) -> Self {
        let start = Time::ZERO + flow.start;
        let reader = flow.receive_window.map(Reader::new);
        if let Some(every) = reader.as_ref().and_then(Reader::update_every) {
            let flow = self.flows.len();
            self.schedule(start + every, What::Update { flow, every });
        }
        let receiver = Receiver::new(&flow, reader);
        let mut sender = Sender::new(controller, flow.source, start, flow.mtu, flow.max_ack_delay);
        let window = flow.receive_window.map(|window| window.bytes);
        sender.supply.limit(flow.pages, window.unwrap_or(u64::MAX));
        for (at, change) in flow.path_changes {
            sender.change_path(Time::ZERO + at, change);
        }
        self.flows.push(Endpoints {
            total: sender.supply.total(),
            sender,
            receiver,
            start,
            mtu: flow.mtu,
            ecn: flow.ecn,
            wake_at: None,
            ack_at: None,
        });
        self
    }

    /// Runs until every flow is done or `limit` has passed, and returns the flows' results in the order added.
    pub fn run(mut self, limit: Duration) -> Vec<FlowOutcome> {
        let limit = Time::ZERO + limit;
        let mut now = Time::ZERO;
        self.schedule(now, What::Sample);
        for flow in 0..self.flows.len() {
            self.turn(now, flow);
        }
        while let Some(Reverse(entry)) = self.agenda.pop() {
            if entry.at > limit || self.is_done() {
                break;
            }
            now = entry.at;
            self.handle(now, entry.what);
        }
        let end = if self.is_done() { now } else { limit };
        self.sample(end);
        let finish = |flow: Endpoints| {
            let mut outcome = flow.sender.outcome;
            outcome.delivered = flow.receiver.distinct() * flow.mtu;
            outcome
        };
        self.flows.into_iter().map(finish).collect()
    }

    fn is_done(&self) -> bool {
        self.flows.iter().all(|flow| flow.sender.outcome.completed.is_some())
    }

    fn schedule(&mut self, at: Time, what: What) {
        self.entries += 1;
        self.agenda.push(Reverse(Entry { at, order: self.entries, what }));
    }

    fn sample(&mut self, now: Time) {
        for flow in &mut self.flows {
            flow.sender.sample(now, flow.receiver.distinct() * flow.mtu);
        }
    }

    fn handle(&mut self, now: Time, what: What) {
        match what {
            What::Sample => {
                self.sample(now);
                self.schedule(now + self.sample_every, What::Sample);
            }
            What::Update { flow, every } => {
                self.acknowledge(now, flow);
                self.schedule(now + every, What::Update { flow, every });
            }
            What::Departure => {
                self.departs_at = None;
                self.depart(now);
            }
            What::Data { flow, number, chunk, ce } => self.data(now, flow, (number, chunk, ce)),
            What::Ack { flow, frame } => {
                let Some(ends) = self.flows.get_mut(flow) else {
                    return;
                };
                ends.sender.on_ack(now, &frame, &mut ends.receiver);
                self.turn(now, flow);
            }
            What::AckTimer { flow } => {
                let Some(ends) = self.flows.get_mut(flow) else {
                    return;
                };
                ends.ack_at = None;
                match ends.receiver.ack_due() {
                    Some(due) if due <= now => self.acknowledge(now, flow),
                    Some(due) => self.schedule_ack_timer(flow, due),
                    None => {}
                }
            }
            What::Wake { flow } => {
                let Some(ends) = self.flows.get_mut(flow) else {
                    return;
                };
                if ends.wake_at.is_some_and(|at| at <= now) {
                    ends.wake_at = None;
                }
                self.turn(now, flow);
            }
        }
    }

    /// Handles a flow's timers, then sends everything that may leave.
    fn turn(&mut self, now: Time, flow: usize) {
        let Some(ends) = self.flows.get_mut(flow) else {
            return;
        };
        ends.sender.on_timer(now);
        while let Some(packet) = self.flows.get_mut(flow).and_then(|e| e.sender.next_packet(now)) {
            self.transmit(now, flow, packet);
        }
        self.schedule_departure(now);
        let Some(ends) = self.flows.get_mut(flow) else {
            return;
        };
        if let Some(at) = ends.sender.next_deadline(now)
            && ends.wake_at.is_none_or(|scheduled| at < scheduled)
        {
            ends.wake_at = Some(at);
            self.schedule(at, What::Wake { flow });
        }
    }

    /// Puts a packet on the bottleneck, where it may get lost.
    fn transmit(&mut self, now: Time, flow: usize, packet: Outgoing) {
        if let Some(aqm) = &mut self.aqm {
            let packet = QueuedPacket {
                flow,
                bytes: packet.bytes,
                ecn: self.flows.get(flow).map_or(Ecn::NotEct, |ends| ends.ecn),
                ce: false,
                arrived: now,
                packet,
            };
            aqm.enqueue(&mut self.queue, packet);
        } else if let Some(delivery) = self.queue.data(now, packet.bytes) {
            self.deliver(flow, packet, delivery);
        }
    }

    /// Sends what the AQM lets go.
    fn depart(&mut self, now: Time) {
        while let Some(aqm) = &mut self.aqm
            && let Some((queued, delivery)) = aqm.dequeue(&mut self.queue, now)
        {
            self.deliver(queued.flow, queued.packet, delivery);
        }
        self.schedule_departure(now);
    }

    fn schedule_departure(&mut self, now: Time) {
        let next = self.aqm.as_ref().and_then(AqmQueue::next_departure);
        if let Some(at) = next
            && self.departs_at.is_none()
        {
            let at = at.max(now);
            self.departs_at = Some(at);
            self.schedule(at, What::Departure);
        }
    }

    fn deliver(&mut self, flow: usize, packet: Outgoing, delivery: Delivery) {
        let Outgoing { number, chunk, .. } = packet;
        let ce = delivery.ce;
        self.schedule(delivery.arrives, What::Data { flow, number, chunk, ce });
    }

    fn data(&mut self, now: Time, flow: usize, (number, chunk, ce): (u64, usize, bool)) {
        let Some(ends) = self.flows.get_mut(flow) else {
            return;
        };
        let at_once = ends.receiver.on_data(now, number, chunk, ce);
        let outcome = &mut ends.sender.outcome;
        if let Some(requested) = ends.sender.supply.on_arrival(ends.receiver.distinct()) {
            let way = self.queue.delay_at(requested);
            outcome.pages.push(now.saturating_since(requested) + way);
        }
        if outcome.completed.is_none() && ends.total.is_some_and(|t| ends.receiver.distinct() >= t)
        {
            outcome.completed = Some(now.saturating_since(ends.start));
        }
        if at_once {
            self.acknowledge(now, flow);
        } else if let Some(due) = ends.receiver.ack_due()
            && ends.ack_at.is_none()
        {
            self.schedule_ack_timer(flow, due);
        }
    }

    fn schedule_ack_timer(&mut self, flow: usize, due: Time) {
        if let Some(ends) = self.flows.get_mut(flow) {
            ends.ack_at = Some(due);
            self.schedule(due, What::AckTimer { flow });
        }
    }

    fn acknowledge(&mut self, now: Time, flow: usize) {
        let Some(ends) = self.flows.get_mut(flow) else {
            return;
        };
        let Some(frame) = ends.receiver.take_ack(now) else {
            return;
        };
        if let Some(arrives) = self.queue.ack(now) {
            self.schedule(arrives, What::Ack { flow, frame });
        }
    }
}

#[cfg(test)]
mod tests;
