//! A transport in the test's hand: packets leave, are acknowledged and are lost when the test says so.

use std::collections::VecDeque;
use std::ops::RangeBounds;
use std::time::Duration;

use sluicegate_cc::{
    AdoptedWindow, Controller, EcnCounts, Event, Packet, Rtt, Sent, Snapshot, State, Time,
};

/// One controller and the packets it believes to be on their way.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) now: Time,
    pub(crate) rtt: Duration,
    /// The smoothed estimate, where it is not the newest sample.
    pub(crate) smoothed: Option<Duration>,
    /// The path's smallest sample, where it is not the newest.
    pub(crate) shortest: Option<Duration>,
    pub(crate) in_flight: u64,
    pub(crate) next_number: u64,
    packets: VecDeque<Packet>,
    /// Packets lost and not acknowledged since, in the order of their losses.
    lost: Vec<Packet>,
    /// Bytes of one datagram.
    pub(crate) mtu: u64,
}

impl Wire {
    pub(crate) fn new(controller: Box<dyn Controller>, rtt: Duration) -> Self {
        Self {
            controller,
            now: Time::ZERO + Duration::from_secs(1),
            rtt,
            smoothed: None,
            shortest: None,
            in_flight: 0,
            next_number: 0,
            packets: VecDeque::new(),
            lost: Vec::new(),
            mtu: super::MTU,
        }
    }

    /// Puts another controller in the place of this one, as a transport does in a running connection.
    pub(crate) fn switch(&mut self, mut next: Box<dyn Controller>) {
        next.on_mtu(self.mtu);
        next.on_event(&Event { rtt_updated: true, ..self.empty_event() });
        next.adopt(self.now, AdoptedWindow::after(&self.snapshot(), next.cwnd()));
        let mut in_flight_before = 0;
        for packet in &mut self.packets {
            let Packet { packet_number, bytes, .. } = *packet;
            let sent = Sent { packet_number, bytes, in_flight_before, has_data: true };
            packet.state = next.on_sent(self.now, &sent);
            in_flight_before += bytes;
        }
        self.controller = next;
    }

    pub(crate) fn cwnd(&self) -> u64 {
        self.controller.cwnd()
    }

    pub(crate) fn state(&self) -> State {
        self.controller.state()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.controller.snapshot()
    }

    /// Returns the packets on their way.
    pub(crate) fn packets(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    pub(crate) fn send_bytes(&mut self, bytes: u64, has_data: bool) {
        let sent = Sent {
            packet_number: self.next_number,
            bytes,
            in_flight_before: self.in_flight,
            has_data,
        };
        self.packets.push_back(Packet {
            packet_number: self.next_number,
            time_sent: self.now,
            bytes,
            state: self.controller.on_sent(self.now, &sent),
        });
        self.next_number += 1;
        self.in_flight += bytes;
    }

    pub(crate) fn send(&mut self, packets: usize) {
        for _ in 0..packets {
            self.send_bytes(self.mtu, true);
        }
    }

    /// Sends what the window has room for.
    pub(crate) fn fill(&mut self) {
        while self.in_flight + self.mtu <= self.cwnd() {
            self.send(1);
        }
    }

    pub(crate) fn app_limited(&mut self) {
        self.controller.on_app_limited(self.now, self.in_flight);
    }

    /// One event: the oldest `lost` packets are lost, the next `acked` acknowledged, `ecn_ce` CE marks reported.
    pub(crate) fn event(&mut self, lost: usize, acked: usize, ecn_ce: u64) {
        let in_flight_before = self.in_flight;
        let lost: Vec<_> = self.take(lost).collect();
        let acked: Vec<_> = self.take(acked).collect();
        let gone = lost.iter().chain(&acked).map(|p| p.bytes);
        self.in_flight -= gone.sum::<u64>();
        self.controller.on_event(&Event {
            acked: &acked,
            lost: &lost,
            in_flight_before,
            rtt_updated: !acked.is_empty(),
            ecn: EcnCounts {
                ect0: (acked.len() as u64).saturating_sub(ecn_ce),
                ..EcnCounts::ce(ecn_ce)
            },
            ..self.empty_event()
        });
        self.lost.extend(lost);
    }

    /// Some of the packets that were lost, in the order of their losses, are acknowledged after all.
    pub(crate) fn acknowledge_late(&mut self, packets: impl RangeBounds<usize>) {
        let late_acked: Vec<_> = self.lost.drain(packets).collect();
        self.controller.on_event(&Event { late_acked: &late_acked, ..self.empty_event() });
    }

    /// Returns an event that reports nothing.
    fn empty_event(&self) -> Event<'static> {
        Event {
            now: self.now,
            acked: &[],
            lost: &[],
            late_acked: &[],
            in_flight_before: self.in_flight,
            in_flight: self.in_flight,
            rtt: Rtt {
                latest: self.rtt,
                smoothed: self.smoothed.unwrap_or(self.rtt),
                var: Duration::ZERO,
                min: Some(self.shortest.unwrap_or(self.rtt)),
                max_ack_delay: Duration::from_millis(25),
            },
            rtt_updated: false,
            ecn: EcnCounts::NONE,
            least_unacked: self.packets.front().map_or(self.next_number, |p| p.packet_number),
        }
    }

    fn take(&mut self, count: usize) -> impl Iterator<Item = Packet> + '_ {
        let count = count.min(self.packets.len());
        self.packets.drain(..count)
    }

    pub(crate) fn ack(&mut self, packets: usize) {
        self.event(0, packets, 0);
    }

    pub(crate) fn lose(&mut self, packets: usize) {
        self.event(packets, 0, 0);
    }

    /// Fills the window and, a round trip later, has it acknowledged two packets at a time.
    pub(crate) fn round(&mut self) {
        self.fill();
        self.wait(self.rtt);
        for _ in 0..self.packets().div_ceil(2) {
            self.ack(2);
        }
    }

    /// Fills the window and loses all of it, which is persistent congestion.
    pub(crate) fn congest_persistently(&mut self) {
        self.fill();
        self.wait(self.rtt);
        self.lose(10);
        self.controller.on_persistent_congestion(self.now);
        self.lose(usize::MAX);
    }

    /// Loses a packet and goes on to avoidance, with nothing in flight.
    pub(crate) fn reach_avoidance(&mut self) {
        self.fill();
        self.wait(self.rtt);
        self.event(1, usize::MAX, 0);
        self.send(1);
        self.wait(self.rtt);
        self.ack(1);
        assert_eq!(self.state(), State::CongestionAvoidance);
    }
}
