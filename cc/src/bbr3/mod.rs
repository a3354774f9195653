//! BBRv3 (draft-ietf-ccwg-bbr-06): a model of the path instead of a window that reacts to loss.
//!
//! The model is a rate that the path delivers, its own round trip, and how much may be in flight; from it follow the
//! pacing rate and the window. The flow cycles through states that measure each in turn:
//!
//! ```text
//! Startup ─→ Drain ─→ DOWN ─→ CRUISE ─→ REFILL ─→ UP ─┐          any ─→ ProbeRTT ─→ CRUISE
//!                      ↑ └──────────────→ ↑           │                          └→ Startup, where the pipe
//!                      └──────────────────────────────┘                             was never full
//! ```
//!
//! Names and sections are the draft's. Everything from its §5.1 to §5.6 MUST be there; what differs, and how its
//! holes are closed, stands at the code and in this crate's README.

mod control;
mod cycle;
mod drain;
mod filters;
mod loss;
mod min_rtt;
mod params;
mod probe_bw;
mod probe_rtt;
mod sampler;
mod short_term;
mod startup;
mod undo;

use std::time::Duration;

use control::CwndLimit;
use cycle::Cycle;
use filters::{Aggregation, MaxBw, Rounds};
use min_rtt::MinRtt;
use params::{
    HOST_DELAY, LOSS_THRESHOLD, MIN_WINDOW, PROBE_RTT_INTERVAL, Params, UNBOUNDED, bounded,
};
use probe_rtt::ProbeRtt;
use sampler::{RateSample, Sampler};
use short_term::ShortTerm;
use startup::{FullPipe, LossRound};
use undo::Recovery;

use crate::usage::Usage;
use crate::{
    Algorithm, Controller, Event, Init, MAX_INITIAL_DATAGRAM, MAX_MTU, MAX_WINDOW, Model, Options,
    PacketState, PathChange, Sent, Snapshot, State, Time,
};

/// The algorithm as the registry lists it.
pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "bbr3",
    summary: "BBRv3 (draft-ietf-ccwg-bbr): paces at the rate that the path delivers; keeps queues short and bears \
              random loss.",
    options: &[HOST_DELAY, LOSS_THRESHOLD, MIN_WINDOW, PROBE_RTT_INTERVAL],
    model_based: true,
    has_window_law: false,
    build: |init, options| Box::new(Bbr3::new(init, options)),
};

/// A BBRv3 controller.
#[derive(Debug)]
pub(crate) struct Bbr3 {
    params: Params,
    mtu: u64,
    initial_packets: u64,
    initial_window: u64,
    started: bool,
    now: Time,
    state: State,
    sampler: Sampler,
    rounds: Rounds,
    recovery: Recovery,
    max_bw: MaxBw,
    /// What the flow believes to be there now, bytes per second.
    bw: u64,
    short_term: ShortTerm,
    inflight_longterm: u64,
    aggregation: Aggregation,
    full_pipe: FullPipe,
    loss_round: LossRound,
    drain_start_round: u64,
    cycle: Cycle,
    min_rtt: MinRtt,
    /// Zero before the first sample.
    srtt: Duration,
    latest_rtt: Duration,
    probe_rtt: ProbeRtt,
    idle_restart: bool,
    cwnd_limit: CwndLimit,
    usage: Usage,
    /// Before and after the present event.
    in_flight_before: u64,
    in_flight: u64,
    cwnd: u64,
    pacing_rate: u64,
    quantum: u64,
    congestion_events: u64,
}

impl Bbr3 {
    /// A controller before its first packet (§5.2.1). Time begins with the first call that tells it.
    pub(crate) fn new(init: &Init, options: &Options) -> Self {
        Self::on_path(init, Params::new(options), 0)
    }

    /// A controller for a path whose first packet is `first_packet`.
    fn on_path(init: &Init, params: Params, first_packet: u64) -> Self {
        let mut this = Self {
            params,
            mtu: init.mtu.clamp(1, MAX_MTU),
            initial_packets: init.initial_window_packets.max(params.min_window_packets),
            initial_window: 0,
            started: false,
            now: Time::ZERO,
            state: State::Startup,
            sampler: Sampler::beginning_at(first_packet),
            rounds: Rounds::default(),
            recovery: Recovery::beginning_at(first_packet),
            max_bw: MaxBw::default(),
            bw: 0,
            short_term: ShortTerm::new(),
            inflight_longterm: UNBOUNDED,
            aggregation: Aggregation::default(),
            full_pipe: FullPipe::default(),
            loss_round: LossRound::default(),
            drain_start_round: 0,
            cycle: Cycle::new(init.seed),
            min_rtt: MinRtt::default(),
            srtt: Duration::ZERO,
            latest_rtt: Duration::ZERO,
            probe_rtt: ProbeRtt::default(),
            idle_restart: false,
            cwnd_limit: CwndLimit::default(),
            usage: Usage::default(),
            in_flight_before: 0,
            in_flight: 0,
            cwnd: 0,
            pacing_rate: 0,
            quantum: 0,
            congestion_events: 0,
        };
        this.begin();
        this
    }

    /// Begins a path of which nothing is known. Packets sent so far say nothing about it.
    fn start_over(&mut self) {
        let init = Init {
            mtu: self.mtu,
            initial_window_packets: self.initial_packets,
            seed: self.cycle.draw(),
        };
        let (now, congestion_events) = (self.now, self.congestion_events);
        *self = Self::on_path(&init, self.params, self.recovery.next_packet());
        self.congestion_events = congestion_events;
        self.advance(now);
    }

    /// Window, rate and burst before any feedback.
    fn begin(&mut self) {
        self.initial_window = self
            .initial_packets
            .saturating_mul(self.mtu.min(MAX_INITIAL_DATAGRAM))
            .max(self.min_window())
            .min(MAX_WINDOW);
        self.cwnd = self.initial_window;
        self.pacing_rate = self.nominal_pacing_rate(None);
        self.set_quantum();
    }

    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        if !self.started {
            self.started = true;
            self.min_rtt.start(now);
            self.aggregation.restart(now);
        }
    }

    /// Before a packet leaves an empty path because the application had nothing to send (§5.4.1).
    fn restart_from_idle(&mut self) {
        self.idle_restart = true;
        self.aggregation.restart(self.now);
        if self.is_in_probe_bw() {
            self.set_pacing_rate(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done();
        }
    }

    fn note_numbers(&mut self, event: &Event<'_>) {
        let acked = event.acked.iter().map(|a| a.packet_number);
        let lost = event.lost.iter().map(|l| l.packet_number);
        acked
            .chain(lost)
            .for_each(|number| self.recovery.on_packet(number));
    }

    /// Packets acknowledged and lost. ACKs are counted first, so that a loss is judged by all that was delivered.
    fn take_packets(&mut self, event: &Event<'_>) -> Option<RateSample> {
        for packet in event.acked {
            self.sampler.on_acked(event.now, packet);
        }
        for packet in event.lost {
            self.on_lost(packet);
        }
        if let (1.., Some(newest)) = (event.ecn.ce, event.acked.last()) {
            self.on_marked(event.ecn.ce, newest.packet_number);
        }
        let min_rtt = self.min_rtt.lifetime().unwrap_or_default().as_nanos();
        self.sampler
            .sample(u64::try_from(min_rtt).unwrap_or(u64::MAX))
    }

    /// One ACK's walk through the model and the states, in the draft's order (§5.2.3).
    fn on_ack(&mut self, event: &Event<'_>, sample: &RateSample) {
        if let Some(newest) = event.acked.last() {
            let next = self.recovery.next_packet();
            self.usage
                .on_acked(newest.packet_number, next, event.in_flight);
        }
        self.update_signals(sample);
        self.aggregation.update(
            self.now,
            self.bw,
            sample.newly_acked,
            self.cwnd,
            self.rounds.count,
            !self.full_pipe.reached,
        );
        self.check_full_pipe(sample);
        self.check_startup_done();
        self.check_drain_done();
        self.update_cycle(sample);
        let rtt_before = self.min_rtt.get();
        let rtt = event.rtt_updated.then_some(event.rtt.latest);
        self.min_rtt
            .update(self.now, rtt, self.params.probe_rtt_interval);
        self.check_probe_rtt(rtt_before, sample);
        self.short_term.advance_latest(sample, self.pacing_gain());
        self.bw = self.max_bw.get().min(self.short_term.bw);
        self.set_pacing_rate(self.pacing_gain());
        self.set_quantum();
        self.set_cwnd(sample.newly_acked);
    }

    fn model(&self) -> Model {
        let (bw_shortterm, inflight_shortterm) = self.short_term.bounds();
        Model {
            max_bw: self.max_bw.get(),
            bw_shortterm,
            min_rtt: self.min_rtt.get(),
            inflight_longterm: bounded(self.inflight_longterm),
            inflight_shortterm,
            extra_acked: self.aggregation.extra(),
            round_count: self.rounds.count,
            full_bw_reached: self.full_pipe.reached,
            pacing_gain: self.pacing_gain(),
            cwnd_gain: self.cwnd_gain(),
            app_limited: self.sampler.is_app_limited(),
            idle_restart: self.idle_restart,
        }
    }
}

impl Controller for Bbr3 {
    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        self.advance(now);
        self.recovery.on_packet(sent.packet_number);
        if sent.in_flight_before == 0 && self.sampler.is_app_limited() {
            self.restart_from_idle();
        }
        let state = self.sampler.on_sent(now, sent);
        let in_flight = sent.in_flight_before.saturating_add(sent.bytes);
        self.usage.on_sent(in_flight);
        self.cwnd_limit
            .note(in_flight.saturating_add(self.mtu) > self.cwnd);
        state
    }

    fn on_event(&mut self, event: &Event<'_>) {
        self.advance(event.now);
        self.note_numbers(event);
        if !event.late_acked.is_empty() {
            self.on_late_acked(event.late_acked);
        }
        self.in_flight_before = event.in_flight_before;
        self.in_flight = event.in_flight;
        if event.rtt_updated {
            self.srtt = event.rtt.smoothed;
            self.latest_rtt = event.rtt.latest;
        }
        if event.rtt_updated && self.min_rtt.on_sample(event.rtt.latest) && self.bw == 0 {
            self.pacing_rate = self.nominal_pacing_rate(Some(event.rtt.latest));
        }
        if let Some(sample) = self.take_packets(event) {
            if event
                .acked
                .last()
                .is_some_and(|newest| self.recovery.on_acked(newest.packet_number))
            {
                self.cwnd = self.recovery.restored(self.cwnd);
            }
            self.on_ack(event, &sample);
        }
    }

    fn on_app_limited(&mut self, now: Time, _in_flight: u64) {
        self.advance(now);
        self.sampler.mark_app_limited();
    }

    /// RFC 9002 §7.6.2. The draft's response to a timeout (§5.6.4.4) leaves room for one packet; two are this
    /// contract's least, and the window grows from there with what is acknowledged. The model stays.
    fn on_persistent_congestion(&mut self, now: Time) {
        self.advance(now);
        self.cwnd = 2 * self.mtu;
        self.recovery.abandon();
        self.congestion_events += 1;
    }

    fn on_discarded(&mut self, now: Time, packet_number: u64) {
        self.advance(now);
        self.recovery.on_packet(packet_number);
    }

    fn on_path_changed(&mut self, now: Time, change: PathChange) {
        self.advance(now);
        if change == PathChange::Address {
            self.start_over();
        }
    }

    fn on_mtu(&mut self, mtu: u64) {
        let untouched = self.sampler.delivered() == 0 && self.cwnd == self.initial_window;
        self.mtu = mtu.clamp(1, MAX_MTU);
        if untouched {
            self.begin();
        } else {
            self.cwnd = self.cwnd.max(2 * self.mtu);
            self.pacing_rate = self.pacing_rate.max(1);
            self.set_quantum();
        }
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pacing_rate)
    }

    fn send_quantum(&self) -> u64 {
        self.quantum
    }

    fn state(&self) -> State {
        self.state
    }

    fn ssthresh(&self) -> Option<u64> {
        None
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cwnd: self.cwnd,
            ssthresh: None,
            pacing_rate: Some(self.pacing_rate),
            state: self.state,
            epoch: None,
            idle_excluded: Duration::ZERO,
            congestion_events: self.congestion_events,
            model: Some(self.model()),
        }
    }
}
