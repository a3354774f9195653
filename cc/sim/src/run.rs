//! The loop that moves time from event to event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use sluicegate_cc::{Controller, PathChange, Time};

use super::bottleneck::{Bottleneck, BottleneckQueue};
use super::outcome::FlowOutcome;
use super::receiver::{AckFrame, Receiver};
use super::sender::Sender;
use super::source::Source;

/// One sender and its receiver.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Start time.
    pub start: Duration,
    /// Data that it sends.
    pub source: Source,
    /// Datagram size, bytes; the controller's own.
    pub mtu: u64,
    /// Packets that the receiver acknowledges with one ACK.
    pub ack_every: u32,
    /// Longest time for which the receiver delays an ACK.
    pub max_ack_delay: Duration,
    /// Changes of the receiver's address, in order of time. The bottleneck stays the same.
    pub path_changes: Vec<(Duration, PathChange)>,
}

impl Flow {
    /// Returns a flow of 1,200-byte datagrams that begins at once, with an ACK for every second packet or after 25 ms.
    pub const fn new(source: Source) -> Self {
        Self {
            start: Duration::ZERO,
            source,
            mtu: 1_200,
            ack_every: 2,
            max_ack_delay: Duration::from_millis(25),
            path_changes: Vec::new(),
        }
    }
}

/// Flows over one bottleneck.
#[derive(Debug)]
pub struct Simulation {
    queue: BottleneckQueue,
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
        let mut sender = Sender::new(controller, flow.source, start, flow.mtu, flow.max_ack_delay);
        for (at, change) in flow.path_changes {
            sender.change_path(Time::ZERO + at, change);
        }
        self.flows.push(Endpoints {
            total: sender.total(),
            sender,
            receiver: Receiver::new(flow.ack_every, flow.max_ack_delay),
            start,
            mtu: flow.mtu,
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
        self.flows
            .iter()
            .all(|flow| flow.sender.outcome.completed.is_some())
    }

    fn schedule(&mut self, at: Time, what: What) {
        self.entries += 1;
        self.agenda.push(Reverse(Entry {
            at,
            order: self.entries,
            what,
        }));
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
            What::Data {
                flow,
                number,
                chunk,
                ce,
            } => self.data(now, flow, (number, chunk, ce)),
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
        while let Some(packet) = self
            .flows
            .get_mut(flow)
            .and_then(|e| e.sender.next_packet(now))
        {
            if let Some(delivery) = self.queue.data(now, packet.bytes) {
                let (number, chunk) = (packet.number, packet.chunk);
                self.schedule(
                    delivery.arrives,
                    What::Data {
                        flow,
                        number,
                        chunk,
                        ce: delivery.ce,
                    },
                );
            }
        }
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

    fn data(&mut self, now: Time, flow: usize, (number, chunk, ce): (u64, usize, bool)) {
        let Some(ends) = self.flows.get_mut(flow) else {
            return;
        };
        let at_once = ends.receiver.on_data(now, number, chunk, ce);
        let outcome = &mut ends.sender.outcome;
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
mod tests {
    use super::*;
    use sluicegate_cc::Registry;

    fn run(seed: u64) -> Vec<FlowOutcome> {
        let bottleneck = Bottleneck {
            loss: vec![crate::LossWindow::always(0.01)],
            jitter: Duration::from_millis(2),
            ..Bottleneck::new(10_000_000, Duration::from_millis(40), 1.0)
        };
        let mut simulation = Simulation::new(bottleneck, seed);
        for algorithm in &Registry::builtin() {
            let init = sluicegate_cc::Init {
                mtu: 1_200,
                initial_window_packets: 10,
                seed,
            };
            let controller = algorithm.controller(&init, &algorithm.defaults());
            simulation = simulation.with(Flow::new(Source::Bulk(1_000_000)), controller);
        }
        simulation.run(Duration::from_secs(60))
    }

    #[test]
    fn same_seed_gives_the_same_run_and_another_seed_another() {
        let shape = |outcomes: &[FlowOutcome]| {
            outcomes
                .iter()
                .map(|o| (o.completed, o.sent_packets))
                .collect::<Vec<_>>()
        };
        assert_eq!(shape(&run(7)), shape(&run(7)));
        assert_ne!(shape(&run(7)), shape(&run(8)));
    }

    #[test]
    fn everything_offered_arrives_once() {
        for outcome in run(1) {
            assert!(outcome.completed.is_some());
            assert_eq!(outcome.delivered, 1_000_000u64.div_ceil(1_200) * 1_200);
        }
    }
}
