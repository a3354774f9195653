//! The sender: loss detection, timers and pacing around a controller (RFC 9002).

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_cc::{
    Controller, EcnCounts, Event, Packet, PathChange, PersistentCongestion, Sent, State, Time,
};

use super::application::Supply;
use super::outcome::{FlowOutcome, Sample, Transition};
use super::receiver::{AckFrame, Receiver};
use super::rtt::Estimator;
use super::sent::{Found, SentPackets};
use super::source::Source;

/// Packets that a probe timeout sends (RFC 9002 §6.2.4).
const PROBES: u32 = 2;
/// Largest exponent of the PTO backoff, so that a long blackout is probed now and then.
const MAX_BACKOFF: u32 = 8;

/// A packet to put on the bottleneck.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) number: u64,
    pub(super) bytes: u64,
    pub(super) chunk: usize,
}

/// One flow's sender.
#[derive(Debug)]
pub(super) struct Sender {
    controller: Box<dyn Controller>,
    pub(super) supply: Supply,
    start: Time,
    mtu: u64,
    rtt: Estimator,
    sent: SentPackets,
    persistent: PersistentCongestion,
    largest_acked: Option<u64>,
    ecn_seen: EcnCounts,
    loss_due: Option<Time>,
    last_sent: Time,
    pto_count: u32,
    probes: u32,
    pace_at: Time,
    resend: VecDeque<usize>,
    chunk_acked: Vec<bool>,
    acked: Vec<Packet>,
    lost: Vec<Packet>,
    late_acked: Vec<Packet>,
    /// Changes of the peer's address to come.
    path_changes: VecDeque<(Time, PathChange)>,
    /// Packets below left for the peer's former IP address.
    first_on_path: u64,
    state: State,
    burst_at: Time,
    burst: u64,
    largest_burst: u64,
    largest_quantum: u64,
    pub(super) outcome: FlowOutcome,
}

impl Sender {
    pub(super) fn new(
        controller: Box<dyn Controller>,
        source: Source,
        start: Time,
        mtu: u64,
        max_ack_delay: Duration,
    ) -> Self {
        let cwnd = controller.cwnd();
        let state = controller.state();
        Self {
            controller,
            supply: Supply::new(source, start, mtu),
            start,
            mtu,
            rtt: Estimator::new(max_ack_delay),
            sent: SentPackets::default(),
            persistent: PersistentCongestion::new(),
            largest_acked: None,
            ecn_seen: EcnCounts::NONE,
            loss_due: None,
            last_sent: Time::ZERO,
            pto_count: 0,
            probes: 0,
            pace_at: Time::ZERO,
            resend: VecDeque::new(),
            chunk_acked: Vec::new(),
            acked: Vec::new(),
            lost: Vec::new(),
            late_acked: Vec::new(),
            path_changes: VecDeque::new(),
            first_on_path: 0,
            state,
            burst_at: Time::ZERO,
            burst: 0,
            largest_burst: 0,
            largest_quantum: 0,
            outcome: FlowOutcome { min_cwnd: cwnd, max_cwnd: cwnd, ..FlowOutcome::default() },
        }
    }

    /// Returns the next packet to leave now; `None` if data, window or pacing allow none.
    pub(super) fn next_packet(&mut self, now: Time) -> Option<Outgoing> {
        if now < self.start {
            return None;
        }
        let probing = self.probes > 0;
        if !probing && (now < self.pace_at || !self.has_room()) {
            return None;
        }
        let Some(chunk) = self.take_chunk(now, probing) else {
            self.probes = 0;
            if now >= self.pace_at && self.has_room() {
                self.controller.on_app_limited(now, self.sent.in_flight());
            }
            return None;
        };
        self.probes = self.probes.saturating_sub(1);
        if !probing {
            self.note_burst(now);
        }
        Some(self.send(now, chunk))
    }

    fn has_room(&self) -> bool {
        self.sent.in_flight() + self.mtu <= self.controller.cwnd()
    }

    fn take_chunk(&mut self, now: Time, probing: bool) -> Option<usize> {
        while let Some(chunk) = self.resend.pop_front() {
            if self.chunk_acked.get(chunk) != Some(&true) {
                return Some(chunk);
            }
        }
        let new = self.supply.take(now);
        if new.is_some() {
            return new;
        }
        if probing { self.sent.oldest_chunk() } else { None }
    }

    fn send(&mut self, now: Time, chunk: usize) -> Outgoing {
        let number = self.sent.next_number();
        let bytes = self.mtu;
        let in_flight_before = self.sent.in_flight();
        self.last_sent = now;
        self.pace(now, bytes);
        let sent = Sent { packet_number: number, bytes, in_flight_before, has_data: true };
        let packet = Packet {
            packet_number: number,
            time_sent: now,
            bytes,
            state: self.controller.on_sent(now, &sent),
        };
        self.sent.push(packet, chunk);
        self.outcome.sent_packets += 1;
        self.outcome.max_in_flight = self.outcome.max_in_flight.max(self.sent.in_flight());
        Outgoing { number, bytes, chunk }
    }

    fn note_burst(&mut self, now: Time) {
        if self.burst_at != now {
            self.burst = 0;
        }
        self.burst_at = now;
        self.burst += self.mtu;
        self.largest_burst = self.largest_burst.max(self.burst);
        self.largest_quantum = self.largest_quantum.max(self.controller.send_quantum());
    }

    /// Charges a packet to a token bucket one quantum deep that fills at the pacing rate.
    fn pace(&mut self, now: Time, bytes: u64) {
        let Some(rate) = self.controller.pacing_rate() else {
            self.pace_at = now;
            return;
        };
        let cost = |bytes: u64| u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        let depth = cost(self.controller.send_quantum().saturating_sub(bytes));
        let earliest = u128::from(now.as_nanos()).saturating_sub(depth);
        let next = earliest.max(u128::from(self.pace_at.as_nanos())) + cost(bytes);
        self.pace_at = Time::from_nanos(u64::try_from(next).unwrap_or(u64::MAX));
    }

    /// An ACK arrived.
    pub(super) fn on_ack(&mut self, now: Time, frame: &AckFrame, receiver: &mut Receiver) {
        let in_flight_before = self.sent.in_flight();
        self.supply.on_limit(frame.data_limit);
        self.acked.clear();
        self.late_acked.clear();
        self.sent.forget(now, self.rtt.pto());
        while let Some(number) = receiver.next_reported(frame.arrivals) {
            match self.sent.acknowledge(number) {
                Found::InFlight(acked, chunk) => {
                    self.acked.push(acked);
                    self.on_chunk_acked(now, chunk);
                }
                Found::Late(packet, chunk) => {
                    self.late_acked.push(packet);
                    self.on_chunk_acked(now, chunk);
                }
                Found::Nothing => {}
            }
        }
        for packets in [&mut self.acked, &mut self.late_acked] {
            packets.sort_unstable_by_key(|packet| packet.packet_number);
        }
        self.outcome.spurious_losses += self.late_acked.len() as u64;
        self.sent.tolerate(&self.late_acked, frame.largest);
        let ecn = frame.ecn.since(self.ecn_seen);
        if ecn != EcnCounts::NONE {
            self.ecn_seen = frame.ecn;
        }
        let newest = self.acked.last().copied();
        let sampled = newest.filter(|packet| {
            packet.packet_number == frame.largest && packet.packet_number >= self.first_on_path
        });
        if let Some(packet) = sampled {
            self.rtt.on_sample(now.saturating_since(packet.time_sent), frame.ack_delay);
        }
        if let Some(packet) = newest {
            self.largest_acked = self.largest_acked.max(Some(packet.packet_number));
            self.pto_count = 0;
        }
        self.finish_event(now, in_flight_before, sampled.is_some(), ecn);
    }

    fn on_chunk_acked(&mut self, now: Time, chunk: usize) {
        if self.chunk_acked.len() <= chunk {
            self.chunk_acked.resize(chunk + 1, false);
        }
        if let Some(acked) = self.chunk_acked.get_mut(chunk)
            && !std::mem::replace(acked, true)
        {
            self.supply.on_acked(now);
        }
    }

    /// Declares losses and reports the event to the controller.
    fn finish_event(
        &mut self,
        now: Time,
        in_flight_before: u64,
        rtt_updated: bool,
        ecn: EcnCounts,
    ) {
        self.lost.clear();
        let (lost, resend) = (&mut self.lost, &mut self.resend);
        if let Some(largest) = self.largest_acked {
            let delay = self.rtt.loss_delay(self.sent.is_reordered());
            self.loss_due = self.sent.detect(now, largest, delay, |packet, chunk| {
                lost.push(packet);
                resend.push_back(chunk);
            });
        }
        self.sent.settle();
        self.outcome.lost_packets += self.lost.len() as u64;
        let settled = !self.acked.is_empty() || !self.lost.is_empty();
        if !settled && self.late_acked.is_empty() && ecn.ce == 0 {
            return;
        }
        let event = Event {
            now,
            acked: &self.acked,
            lost: &self.lost,
            late_acked: &self.late_acked,
            in_flight_before,
            in_flight: self.sent.in_flight(),
            rtt: self.rtt.rtt(),
            rtt_updated,
            ecn,
            least_unacked: self.sent.oldest(),
        };
        self.controller.on_event(&event);
        let persistent = self.persistent.on_event(&event);
        self.note_state(now, self.lost.is_empty() && ecn.ce == 0);
        if persistent {
            self.outcome.persistent_congestions += 1;
            self.controller.on_persistent_congestion(now);
            self.note_state(now, false);
        }
    }

    fn note_state(&mut self, now: Time, clean: bool) {
        let cwnd = self.controller.cwnd();
        self.outcome.min_cwnd = self.outcome.min_cwnd.min(cwnd);
        self.outcome.max_cwnd = self.outcome.max_cwnd.max(cwnd);
        let to = self.controller.state();
        if to == self.state {
            return;
        }
        let at = now.saturating_since(Time::ZERO);
        self.outcome.transitions.push(Transition { at, from: self.state, to });
        self.outcome.unexplained_recoveries += u64::from(clean && to == State::Recovery);
        self.state = to;
    }

    /// Has the peer's address change at `at`; changes are given in order of time.
    pub(super) fn change_path(&mut self, at: Time, change: PathChange) {
        self.path_changes.push_back((at, change));
    }

    fn on_path_changed(&mut self, now: Time, change: PathChange) {
        if change == PathChange::Address {
            self.rtt = Estimator::new(self.rtt.rtt().max_ack_delay);
            self.first_on_path = self.sent.next_number();
            self.persistent = PersistentCongestion::new();
            self.pto_count = 0;
        }
        self.controller.on_path_changed(now, change);
        self.note_state(now, true);
    }

    /// Handles timers and changes of the path that are due.
    pub(super) fn on_timer(&mut self, now: Time) {
        while let Some(&(at, change)) = self.path_changes.front()
            && at <= now
        {
            self.path_changes.pop_front();
            self.on_path_changed(now, change);
        }
        if let Some(due) = self.loss_due {
            if due <= now {
                self.acked.clear();
                self.late_acked.clear();
                self.finish_event(now, self.sent.in_flight(), false, EcnCounts::NONE);
            }
        } else if self.pto_due().is_some_and(|due| due <= now) {
            self.pto_count += 1;
            self.probes = PROBES;
        }
    }

    fn pto_due(&self) -> Option<Time> {
        let backoff = 1u32 << self.pto_count.min(MAX_BACKOFF);
        (self.sent.in_flight() > 0).then(|| self.last_sent + self.rtt.pto() * backoff)
    }

    /// Returns when to call again though nothing arrives. Called after [`Sender::next_packet`] has returned `None`.
    pub(super) fn next_deadline(&self, now: Time) -> Option<Time> {
        let timer = self.loss_due.or_else(|| self.pto_due());
        let pacing = (self.pace_at > now && self.has_room()).then_some(self.pace_at);
        let start = (now < self.start).then_some(self.start);
        if start.is_some() {
            return start;
        }
        let path = self.path_changes.front().map(|&(at, _)| at);
        [timer, pacing, self.supply.next(now), path].into_iter().flatten().min()
    }

    /// Records the state of the flow.
    pub(super) fn sample(&mut self, now: Time, delivered: u64) {
        self.outcome.samples.push(Sample {
            at: now.saturating_since(Time::ZERO),
            snapshot: self.controller.snapshot(),
            in_flight: self.sent.in_flight(),
            delivered,
            sent_packets: self.outcome.sent_packets,
            lost_packets: self.outcome.lost_packets,
            srtt: self.rtt.rtt().min.map(|_| self.rtt.rtt().smoothed),
            burst: self.largest_burst,
            quantum: self.largest_quantum,
        });
        self.largest_burst = 0;
        self.largest_quantum = 0;
    }
}
