//! The record of the consistent transport: packets leave, are acknowledged and are lost, and what it reports adds up.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_cc::{Controller, EcnCounts, Event, Packet, PathChange, Rtt, Sent, Time};

use super::outcome::Violation;
use super::rules::{Call, Rules};

/// Packets in flight at most, so that a run stays short whatever window it is given.
const MAX_PACKETS: usize = 1_024;

/// One controller, and the packets that it believes to be on their way.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) controller: Box<dyn Controller>,
    rules: Rules,
    now: Time,
    mtu: u64,
    rtt: Option<Rtt>,
    next_number: u64,
    in_flight: u64,
    /// All in flight, oldest first.
    packets: VecDeque<Packet>,
    acked: Vec<Packet>,
    lost: Vec<Packet>,
    /// Packets declared lost and not acknowledged since, ascending numbers.
    late: VecDeque<Packet>,
    /// Packets below left for the peer's former address.
    first_on_path: u64,
}

impl Path {
    pub(super) fn new(controller: Box<dyn Controller>, rules: Rules, mtu: u64) -> Self {
        Self {
            controller,
            rules,
            now: Time::ZERO,
            mtu,
            rtt: None,
            next_number: 0,
            in_flight: 0,
            packets: VecDeque::new(),
            acked: Vec::new(),
            lost: Vec::new(),
            late: VecDeque::new(),
            first_on_path: 0,
        }
    }

    pub(super) const fn calls(&self) -> u64 {
        self.rules.calls()
    }

    pub(super) fn packets(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    fn check(&mut self, name: &'static str, acked: u64, signal: bool) -> Result<(), Violation> {
        let call = Call { name, now: self.now, acked, signal };
        self.rules.check(self.controller.as_ref(), call)
    }

    fn send_one(&mut self, bytes: u64, has_data: bool) -> Result<(), Violation> {
        if self.packets.len() >= MAX_PACKETS {
            return Ok(());
        }
        let sent = Sent {
            packet_number: self.next_number,
            bytes,
            in_flight_before: self.in_flight,
            has_data,
        };
        self.in_flight += bytes;
        self.rules.note_in_flight(self.in_flight);
        self.packets.push_back(Packet {
            packet_number: self.next_number,
            time_sent: self.now,
            bytes,
            state: self.controller.on_sent(self.now, &sent),
        });
        self.next_number += 1;
        self.check("on_sent", 0, false)
    }

    /// Sends full datagrams, whatever the window.
    pub(super) fn send(&mut self, packets: usize) -> Result<(), Violation> {
        (0..packets).try_for_each(|_| self.send_one(self.mtu, true))
    }

    /// Sends a packet that carries nothing of the application.
    pub(super) fn probe(&mut self) -> Result<(), Violation> {
        self.send_one(40, false)
    }

    fn least_unacked(&self) -> u64 {
        let oldest = self.packets.front();
        oldest.map_or(self.next_number, |packet| packet.packet_number)
    }

    fn has_room(&self) -> bool {
        self.in_flight.saturating_add(self.mtu) <= self.controller.cwnd()
    }

    /// Sends until `part` eighths of the window are in flight.
    pub(super) fn fill(&mut self, part: u64) -> Result<(), Violation> {
        while self.packets.len() < MAX_PACKETS
            && self.has_room()
            && (self.in_flight + self.mtu) / part <= self.controller.cwnd() / 8
        {
            self.send(1)?;
        }
        Ok(())
    }

    /// Says that there is nothing to send, where that could be said.
    pub(super) fn app_limited(&mut self) -> Result<(), Violation> {
        if !self.has_room() {
            return Ok(());
        }
        self.controller.on_app_limited(self.now, self.in_flight);
        self.check("on_app_limited", 0, false)
    }

    /// One event: of the packets in flight, `fate` decides by place; `Some(true)` is acknowledged, `Some(false)` lost.
    pub(super) fn event(
        &mut self,
        ecn_ce: u64,
        fate: impl Fn(usize) -> Option<bool>,
    ) -> Result<(), Violation> {
        let in_flight_before = self.in_flight;
        self.acked.clear();
        self.lost.clear();
        let (acked, lost) = (&mut self.acked, &mut self.lost);
        let mut place = 0;
        self.packets.retain(|packet| {
            place += 1;
            match fate(place - 1) {
                None => return true,
                Some(true) => acked.push(*packet),
                Some(false) => lost.push(*packet),
            }
            false
        });
        let ecn_ce = ecn_ce.min(self.acked.len() as u64);
        if self.acked.is_empty() && self.lost.is_empty() {
            return Ok(());
        }
        let acked_bytes: u64 = self.acked.iter().map(|a| a.bytes).sum();
        let lost_bytes: u64 = self.lost.iter().map(|l| l.bytes).sum();
        self.in_flight -= acked_bytes + lost_bytes;
        self.late.extend(&self.lost);
        let newest = self
            .acked
            .last()
            .filter(|a| a.packet_number >= self.first_on_path)
            .map(|a| self.now.saturating_since(a.time_sent));
        let rtt_updated = newest.is_some();
        let rtt = newest.map_or(self.rtt, |sample| Some(smoothed(self.rtt, sample)));
        self.rtt = rtt;
        let event = Event {
            now: self.now,
            acked: &self.acked,
            lost: &self.lost,
            late_acked: &[],
            in_flight_before,
            in_flight: self.in_flight,
            rtt: rtt.unwrap_or(UNSAMPLED),
            rtt_updated,
            ecn: EcnCounts { ect0: self.acked.len() as u64 - ecn_ce, ..EcnCounts::ce(ecn_ce) },
            least_unacked: self.least_unacked(),
        };
        self.controller.on_event(&event);
        let signal = !self.lost.is_empty() || ecn_ce > 0;
        self.check("on_event", acked_bytes, signal)
    }

    /// Everything in flight is lost, and that over a long time.
    pub(super) fn persistent_congestion(&mut self) -> Result<(), Violation> {
        if self.packets.is_empty() {
            return Ok(());
        }
        self.event(0, |_| Some(false))?;
        self.controller.on_persistent_congestion(self.now);
        self.check("on_persistent_congestion", 0, true)
    }

    /// A packet in flight is forgotten.
    pub(super) fn discard(&mut self, place: usize) -> Result<(), Violation> {
        let Some(packet) = self.packets.remove(place) else {
            return Ok(());
        };
        self.in_flight -= packet.bytes;
        self.controller.on_discarded(self.now, packet.packet_number);
        self.check("on_discarded", 0, false)
    }

    /// The oldest lost packets are acknowledged after all.
    pub(super) fn acknowledge_late(&mut self, packets: usize) -> Result<(), Violation> {
        let late_acked: Vec<_> = self.late.drain(..packets.min(self.late.len())).collect();
        if late_acked.is_empty() {
            return Ok(());
        }
        self.controller.on_event(&Event {
            now: self.now,
            acked: &[],
            lost: &[],
            late_acked: &late_acked,
            in_flight_before: self.in_flight,
            in_flight: self.in_flight,
            rtt: self.rtt.unwrap_or(UNSAMPLED),
            rtt_updated: false,
            ecn: EcnCounts::NONE,
            least_unacked: self.least_unacked(),
        });
        self.check("on_event (late)", 0, false)
    }

    pub(super) fn change_path(&mut self, change: PathChange) -> Result<(), Violation> {
        if change == PathChange::Address {
            self.rtt = None;
            self.first_on_path = self.next_number;
        }
        self.controller.on_path_changed(self.now, change);
        self.check("on_path_changed", 0, false)
    }

    pub(super) fn set_mtu(&mut self, mtu: u64) -> Result<(), Violation> {
        self.mtu = mtu;
        self.rules.note_mtu(mtu);
        self.controller.on_mtu(mtu);
        self.check("on_mtu", 0, false)
    }
}

/// The estimate before the first sample (RFC 9002 §5.3).
const UNSAMPLED: Rtt = Rtt {
    latest: Duration::ZERO,
    smoothed: Duration::from_millis(333),
    var: Duration::from_micros(166_500),
    min: None,
    max_ack_delay: Duration::from_millis(25),
};

/// Returns the estimate with one sample more (RFC 9002 §5.3), from a peer that never delays its ACKs.
fn smoothed(before: Option<Rtt>, sample: Duration) -> Rtt {
    let Some(before) = before else {
        return Rtt {
            latest: sample,
            smoothed: sample,
            var: sample / 2,
            min: Some(sample),
            ..UNSAMPLED
        };
    };
    Rtt {
        latest: sample,
        smoothed: (before.smoothed * 7 + sample) / 8,
        var: (before.var * 3 + before.smoothed.abs_diff(sample)) / 4,
        min: before.min.map(|min| min.min(sample)),
        ..before
    }
}
