//! A path with nothing on it but one flow, to measure what a controller costs.
//!
//! 50 Mbit/s, round trip 40 ms and what the queue adds, one packet in 10,000 lost, an ACK for every second packet, the window always
//! in use. The transport keeps only what it reports to a controller.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use sluicegate_cc::{
    Algorithm, Controller, EcnCounts, Event, Init, Packet, PacketState, PathChange, Rtt, Sent,
    Snapshot, State, Time,
};

const MTU: u64 = 1_200;
const RTT: Duration = Duration::from_millis(40);
/// Service time of the packets of one ACK at the bottleneck, at 50 Mbit/s.
const SERVICE: Duration = Duration::from_nanos(PACKETS_PER_ACK as u64 * MTU * 8 * 20);
const LOSS_EVERY: u64 = 10_000;
const PACKETS_PER_ACK: usize = 2;

/// Controller that does nothing: its window has the size of those that the others have on a [`SteadyPath`].
#[derive(Debug)]
pub struct FixedWindow;

/// Window, bytes.
const WINDOW: u64 = 150 * MTU;

impl Controller for FixedWindow {
    fn on_sent(&mut self, _now: Time, _sent: &Sent) -> PacketState {
        PacketState::default()
    }
    fn on_path_changed(&mut self, _now: Time, _change: PathChange) {}
    fn on_event(&mut self, _event: &Event<'_>) {}
    fn on_app_limited(&mut self, _now: Time, _in_flight: u64) {}
    fn on_persistent_congestion(&mut self, _now: Time) {}
    fn on_discarded(&mut self, _now: Time, _packet_number: u64) {}
    fn on_mtu(&mut self, _mtu: u64) {}
    fn cwnd(&self) -> u64 {
        WINDOW
    }
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
    fn send_quantum(&self) -> u64 {
        10 * MTU
    }
    fn state(&self) -> State {
        State::CongestionAvoidance
    }
    fn ssthresh(&self) -> Option<u64> {
        None
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cwnd: WINDOW,
            ssthresh: None,
            pacing_rate: None,
            state: State::CongestionAvoidance,
            epoch: None,
            idle_excluded: Duration::ZERO,
            congestion_events: 0,
            model: None,
        }
    }
}

/// A controller on the path, and the records of its transport.
#[derive(Debug)]
pub struct SteadyPath {
    controller: Box<dyn Controller>,
    now: Time,
    srtt: Duration,
    next_number: u64,
    in_flight: u64,
    packets: VecDeque<Packet>,
    acked: Vec<Packet>,
    lost: Vec<Packet>,
}

impl SteadyPath {
    /// Returns a path that a controller has used for `warm_up` packets.
    pub fn new(controller: Box<dyn Controller>, warm_up: u64) -> Self {
        let mut path = Self {
            controller,
            now: Time::ZERO,
            srtt: RTT,
            next_number: 0,
            in_flight: 0,
            packets: VecDeque::new(),
            acked: Vec::new(),
            lost: Vec::new(),
        };
        while path.next_number < warm_up {
            path.fill();
            path.acknowledge_half();
        }
        path
    }

    /// Returns a path that an algorithm with its defaults has used for `warm_up` packets.
    pub fn of(algorithm: &Algorithm, warm_up: u64) -> Self {
        let init = Init { mtu: MTU, initial_window_packets: 10, seed: 1 };
        Self::new(algorithm.controller(&init, &algorithm.defaults()), warm_up)
    }

    /// Sends what the window has room for and returns the number of packets.
    pub fn fill(&mut self) -> u64 {
        let first = self.next_number;
        while self.in_flight + MTU <= self.controller.cwnd() {
            let sent = Sent {
                packet_number: self.next_number,
                bytes: MTU,
                in_flight_before: self.in_flight,
                has_data: true,
            };
            self.packets.push_back(Packet {
                packet_number: sent.packet_number,
                time_sent: self.now,
                bytes: MTU,
                state: self.controller.on_sent(self.now, black_box(&sent)),
            });
            self.next_number += 1;
            self.in_flight += MTU;
            black_box(self.controller.pacing_rate());
            black_box(self.controller.send_quantum());
        }
        self.next_number - first
    }

    /// Acknowledges the older half of the packets in flight and returns the number of ACKs.
    pub fn acknowledge_half(&mut self) -> u64 {
        let acks = (self.packets.len() / 2).div_ceil(PACKETS_PER_ACK);
        (0..acks).for_each(|_| self.acknowledge());
        acks as u64
    }

    fn acknowledge(&mut self) {
        self.acked.clear();
        self.lost.clear();
        let newest = PACKETS_PER_ACK.min(self.packets.len()) - 1;
        let time_sent = self.packets[newest].time_sent;
        self.now = (self.now + SERVICE).max(time_sent + RTT);
        let latest = self.now.saturating_since(time_sent);
        self.srtt = (self.srtt * 7 + latest) / 8;
        for packet in self.packets.drain(..=newest) {
            if packet.packet_number % LOSS_EVERY == LOSS_EVERY - 1 {
                self.lost.push(packet);
            } else {
                self.acked.push(packet);
            }
        }
        let in_flight_before = self.in_flight;
        self.in_flight = self.packets.len() as u64 * MTU;
        self.controller.on_event(black_box(&Event {
            now: self.now,
            acked: &self.acked,
            lost: &self.lost,
            late_acked: &[],
            in_flight_before,
            in_flight: self.in_flight,
            rtt: Rtt {
                latest,
                smoothed: self.srtt,
                var: Duration::ZERO,
                min: Some(RTT),
                max_ack_delay: Duration::from_millis(25),
            },
            rtt_updated: true,
            ecn: EcnCounts::NONE,
            least_unacked: self.packets.front().map_or(self.next_number, |p| p.packet_number),
        }));
    }
}
