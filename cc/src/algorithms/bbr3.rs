//! BBRv3 (draft-ietf-ccwg-bbr-06): follows a model of the path, instead of cutting a window after each loss.
//!
//! The model consists of the rate that the path delivers, its round-trip time without a queue, and bounds of the bytes in
//! flight. Pacing rate and window follow from it. The flow cycles through states that measure one after the other:
//!
//! ```text
//! Startup ─→ Drain ─→ DOWN ─→ CRUISE ─→ REFILL ─→ UP ─┐          any ─→ ProbeRTT ─→ CRUISE
//!                      ↑ └──────────────→ ↑           │                          └→ Startup, where the pipe
//!                      └──────────────────────────────┘                             was never full
//! ```
//!
//! A fall of the path's rate leads from any state of ProbeBW back to Drain, and from there to probes that come early.
//!
//! Names and section numbers are the draft's; its §5.1 to §5.6 are implemented in full. `cc/DEVIATIONS.md` lists the
//! differences, and the choices where the draft is incomplete.

mod climb;
mod control;
mod cwnd_limit;
mod cycle;
mod episode;
mod fall;
mod filters;
mod follow;
mod full_pipe;
mod host_delay;
mod inflight;
mod last_rounds;
mod long_term;
mod loss;
mod loss_rate;
mod loss_round;
mod min_rtt;
mod model;
mod observed;
mod output;
mod params;
mod probe_bw;
mod probe_rtt;
mod rtt_probe;
mod sampler;
mod short_term;
mod sizes;
mod startup;
mod states;
mod tolerance;
mod undo;

use std::time::Duration;

use climb::Climb;
use cwnd_limit::CwndLimit;
use cycle::Cycle;
use episode::Recovery;
use fall::FallDetector;
use filters::Rounds;
use full_pipe::FullPipe;
use host_delay::HostDelay;
use last_rounds::LastRounds;
use loss_rate::LossRate;
use loss_round::LossRound;
use model::PathModel;
use observed::Observed;
use output::Output;
use params::{HOST_DELAY, LOSS_THRESHOLD, MIN_WINDOW, PROBE_RTT_INTERVAL, Params};
use rtt_probe::RttProbe;
use sampler::{RateSample, Sampler};
use sizes::Sizes;

use crate::usage::Usage;
use crate::{
    AdoptedWindow, Algorithm, Controller, Event, Init, MAX_WINDOW, Model, Options, PacketState,
    PathChange, Sent, Snapshot, State, Time, pacing,
};

/// The algorithm as the registry lists it.
pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "bbr3",
    summary: "BBRv3 (draft-ietf-ccwg-bbr): sends at the rate that it measures the path to deliver; keeps queues short \
              and tolerates random loss.",
    options: &[HOST_DELAY, LOSS_THRESHOLD, MIN_WINDOW, PROBE_RTT_INTERVAL],
    model_based: true,
    has_window_law: false,
    scalable: false,
    build: |init, options| Box::new(Bbr3::new(init, options)),
};

/// A BBRv3 controller.
#[derive(Debug)]
pub(crate) struct Bbr3 {
    params: Params,
    sizes: Sizes,
    state: State,
    observed: Observed,
    sampler: Sampler,
    rounds: Rounds,
    recovery: Recovery,
    model: PathModel,
    full_pipe: FullPipe,
    loss_round: LossRound,
    /// Round in which Drain began.
    drain_start_round: u64,
    loss_rate: LossRate,
    cycle: Cycle,
    fall: FallDetector,
    climb: Climb,
    rtt_probe: RttProbe,
    host_delay: HostDelay,
    last_rounds: LastRounds,
    /// Whether sending resumed after a pause of the application and nothing sent since is acknowledged.
    idle_restart: bool,
    cwnd_limit: CwndLimit,
    usage: Usage,
    output: Output,
    congestion_events: u64,
}

impl Bbr3 {
    /// Returns a controller before its first packet (§5.2.1). Time begins with the first call that reports it.
    pub(crate) fn new(init: &Init, options: &Options) -> Self {
        Self::on_path(init, Params::new(options), 0)
    }

    /// Returns a controller for a path whose first packet is `first_packet`.
    fn on_path(init: &Init, params: Params, first_packet: u64) -> Self {
        let mut this = Self {
            params,
            sizes: Sizes::new(init, &params),
            state: State::Startup,
            observed: Observed::default(),
            sampler: Sampler::beginning_at(first_packet),
            rounds: Rounds::default(),
            recovery: Recovery::beginning_at(first_packet),
            model: PathModel::new(),
            full_pipe: FullPipe::default(),
            loss_round: LossRound::default(),
            drain_start_round: 0,
            cycle: Cycle::new(init.seed),
            fall: FallDetector::default(),
            climb: Climb::default(),
            rtt_probe: RttProbe::new(None, false),
            host_delay: HostDelay::default(),
            last_rounds: LastRounds::default(),
            loss_rate: LossRate::default(),
            idle_restart: false,
            cwnd_limit: CwndLimit::default(),
            usage: Usage::default(),
            output: Output::default(),
            congestion_events: 0,
        };
        this.begin();
        this
    }

    /// Begins a path of which nothing is known. Packets sent so far say nothing about it.
    fn start_over(&mut self) {
        let init = Init {
            mtu: self.sizes.mtu(),
            initial_window_packets: self.sizes.initial_packets(),
            seed: self.cycle.draw(),
        };
        let (now, congestion_events) = (self.observed.now(), self.congestion_events);
        *self = Self::on_path(&init, self.params, self.recovery.next_packet());
        self.congestion_events = congestion_events;
        self.advance(now);
    }

    /// Sets window, rate and burst before any feedback.
    fn begin(&mut self) {
        self.sizes.update_initial_window();
        self.output.set_cwnd(self.sizes.initial_window());
        self.set_nominal_pacing_rate(None);
        self.set_quantum();
    }

    fn advance(&mut self, now: Time) {
        if self.observed.advance(now) {
            self.model.min_rtt.start(now);
            self.model.aggregation.restart(now);
        }
    }

    /// Prepares for a packet that leaves an empty path because the application had nothing to send (§5.4.1).
    fn restart_from_idle(&mut self) {
        self.idle_restart = true;
        self.model.aggregation.restart(self.observed.now());
        self.last_rounds = LastRounds::default();
        if self.is_in_probe_bw() {
            self.set_pacing_rate(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done();
        }
    }

    fn note_numbers(&mut self, event: &Event<'_>) {
        for packet in event.acked.iter().chain(event.lost) {
            self.recovery.on_packet(packet.packet_number);
        }
    }

    /// Takes the packets of an event. ACKs are counted first, so that a loss is judged by all that was delivered.
    fn take_packets(&mut self, event: &Event<'_>) -> Option<RateSample> {
        self.count_between_probes(event);
        for packet in event.acked {
            self.sampler.on_acked(event.now, packet);
        }
        for packet in event.lost {
            self.on_lost(packet);
        }
        if let (1.., Some(newest)) = (event.ecn.ce, event.acked.last()) {
            self.on_ce_marked(event.ecn.ce, newest.packet_number);
        }
        let min_rtt = self.model.min_rtt.lifetime().unwrap_or_default();
        self.sampler.sample(u64::try_from(min_rtt.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Takes one ACK through the model and the states, in the draft's order (§5.2.3).
    fn on_ack(&mut self, event: &Event<'_>, sample: &RateSample) {
        if let Some(newest) = event.acked.last() {
            let next = self.recovery.next_packet();
            self.usage.on_acked(newest.packet_number, next, event.in_flight);
        }
        let now = self.observed.now();
        self.update_signals(sample);
        self.follow_falls(sample);
        self.model.aggregation.update(
            now,
            self.model.bw(),
            sample.newly_acked,
            self.output.cwnd(),
            self.rounds.count(),
            !self.full_pipe.is_reached(),
        );
        self.check_full_pipe(sample);
        self.check_startup_done();
        self.check_drain_done();
        self.update_cycle(sample);
        let rtt_before = self.model.min_rtt.get();
        let rtt = event.rtt_updated.then_some(event.rtt.latest);
        self.model.min_rtt.update(now, rtt, self.params.probe_rtt_interval);
        self.last_rounds.on_ack(event.now, rtt, self.rounds.started());
        self.check_probe_rtt(rtt_before, rtt, sample);
        let gain = self.pacing_gain();
        self.model.short_term.advance_latest(sample, gain);
        self.model.update_bw();
        self.set_pacing_rate(gain);
        self.set_quantum();
        self.set_cwnd(sample.newly_acked);
    }

    /// Returns the model for a plot.
    fn shown_model(&self) -> Model {
        let (bw_shortterm, inflight_shortterm) = self.model.short_term.bounds();
        Model {
            delivery_rate: self.sampler.latest_rate(),
            max_bw: self.model.max_bw.get(),
            bw_shortterm,
            min_rtt: self.model.min_rtt.get(),
            inflight_longterm: self.model.long_term.bounded(),
            inflight_shortterm,
            extra_acked: self.model.aggregation.extra(),
            round_count: self.rounds.count(),
            full_bw_reached: self.full_pipe.is_reached(),
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
        let is_full = in_flight.saturating_add(self.sizes.mtu()) > self.output.cwnd();
        self.cwnd_limit.note(is_full);
        state
    }

    fn on_event(&mut self, event: &Event<'_>) {
        self.advance(event.now);
        self.note_numbers(event);
        if !event.late_acked.is_empty() {
            self.on_late_acked(event.late_acked);
        }
        self.observed.on_event(event);
        let first_rtt = event.rtt_updated && self.model.min_rtt.on_sample(event.rtt.latest);
        if first_rtt && self.model.bw() == 0 {
            self.set_nominal_pacing_rate(Some(event.rtt.latest));
        }
        if let Some(sample) = self.take_packets(event) {
            let newest = event.acked.last();
            if newest.is_some_and(|newest| self.recovery.on_acked(newest.packet_number)) {
                let cwnd = self.recovery.restored(self.output.cwnd());
                self.output.set_cwnd(cwnd);
            }
            self.on_ack(event, &sample);
        }
    }

    fn on_app_limited(&mut self, now: Time, _in_flight: u64) {
        self.advance(now);
        self.sampler.mark_app_limited();
    }

    /// Cuts the window to two datagrams (RFC 9002 §7.6.2). The draft's response to a timeout (§5.6.4.4) leaves room for
    /// one packet; two are this contract's least, and the window grows from there with what is acknowledged. The model
    /// stays.
    fn on_persistent_congestion(&mut self, now: Time) {
        self.advance(now);
        self.output.set_cwnd(2 * self.sizes.mtu());
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
        let is_initial = self.output.cwnd() == self.sizes.initial_window();
        let untouched = self.sampler.delivered() == 0 && is_initial;
        self.sizes.set_mtu(mtu);
        if untouched {
            self.begin();
        } else {
            self.output.raise_cwnd(2 * self.sizes.mtu());
            self.set_quantum();
        }
    }

    /// Goes on in Startup, with this window and a rate that sends it once per round trip: the model needs samples of its own,
    /// and the first of them come within a round trip.
    fn adopt(&mut self, now: Time, window: AdoptedWindow) {
        self.advance(now);
        self.output.set_cwnd(window.cwnd.clamp(self.sizes.min_window(), MAX_WINDOW));
        if self.model.min_rtt.lifetime().is_some() {
            let rate = pacing::rate(self.output.cwnd(), self.observed.srtt, 1.0);
            self.output.set_pacing_rate(rate, self.sizes.mtu());
        }
        self.set_quantum();
    }

    fn cwnd(&self) -> u64 {
        self.output.cwnd()
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.output.pacing_rate())
    }

    fn send_quantum(&self) -> u64 {
        self.output.quantum()
    }

    fn state(&self) -> State {
        self.state
    }

    fn ssthresh(&self) -> Option<u64> {
        None
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cwnd: self.cwnd(),
            ssthresh: None,
            pacing_rate: self.pacing_rate(),
            state: self.state,
            epoch: None,
            idle_excluded: Duration::ZERO,
            congestion_events: self.congestion_events,
            model: Some(self.shown_model()),
        }
    }
}
