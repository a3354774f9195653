//! The common part of loss-based algorithms: slow start, recovery, use of the window, pacing. An algorithm states only how
//! it cuts the window and how it grows it ([`WindowLaw`]).

mod adopt;
mod marks;
mod options;
mod saved;
mod sent;
mod undo;
mod window_law;

use std::time::Duration;

pub(crate) use options::{MIN_WINDOW, PACING, PACING_GAIN, SLOW_START};
use saved::{Phase, Saved};
pub(crate) use window_law::{Credit, Feedback, Response, Start, WindowLaw};

use crate::idle::ActiveClock;
use crate::prr::{Progress, Reduction};
use crate::recovery::Boundary;
use crate::slow_start::{Ack, SlowStart, Step};
use crate::usage::{self, Usage};
use crate::{
    AdoptedWindow, Controller, Event, Init, MAX_INITIAL_DATAGRAM, MAX_MTU, MAX_WINDOW, Options,
    Packet, PacketState, PathChange, Sent, Snapshot, State, Time, pacing,
};

/// A loss-based controller.
#[derive(Debug)]
pub(crate) struct LossBased<L> {
    law: L,
    /// The law in its initial state, for a new path.
    initial_law: L,
    mtu: u64,
    min_packets: u64,
    initial_packets: u64,
    pacing_gain: Option<f64>,
    cwnd: u64,
    ssthresh: Option<u64>,
    phase: Phase,
    /// A path's first slow start in its initial state.
    initial_slow_start: SlowStart,
    slow_start: SlowStart,
    boundary: Boundary,
    usage: Usage,
    /// Account of the present recovery period, if losses began it.
    reduction: Option<Reduction>,
    /// State before the latest cut; `None` if the cut cannot be spurious.
    saved: Option<Saved<L>>,
    clock: ActiveClock,
    srtt: Option<Duration>,
    congestion_events: u64,
}

impl<L: WindowLaw> LossBased<L> {
    /// Returns a controller before its first packet; `options` contain the options of this module.
    pub(crate) fn new(law: L, init: &Init, options: &Options) -> Self {
        let paced = options.boolean(PACING.name);
        let min_packets = options.integer(MIN_WINDOW.name);
        let slow_start = SlowStart::new(options.choice(SLOW_START.name), paced);
        let mut this = Self {
            law: law.clone(),
            initial_law: law,
            mtu: init.mtu.clamp(1, MAX_MTU),
            min_packets,
            initial_packets: init.initial_window_packets.max(min_packets),
            pacing_gain: paced.then(|| options.number(PACING_GAIN.name)),
            cwnd: 0,
            ssthresh: None,
            phase: Phase::SlowStart,
            initial_slow_start: slow_start.clone(),
            slow_start,
            boundary: Boundary::default(),
            usage: Usage::default(),
            reduction: None,
            saved: None,
            clock: ActiveClock::default(),
            srtt: None,
            congestion_events: 0,
        };
        this.cwnd = this.initial_window();
        this
    }

    fn initial_window(&self) -> u64 {
        self.initial_packets
            .saturating_mul(self.mtu.min(MAX_INITIAL_DATAGRAM))
            .max(self.floor())
            .min(MAX_WINDOW)
    }

    fn floor(&self) -> u64 {
        self.min_packets.saturating_mul(self.mtu)
    }

    fn in_use(&self, in_flight: u64) -> bool {
        usage::in_use(in_flight, self.cwnd, self.mtu)
    }

    /// Returns whether the event carries losses that the present recovery period does not explain.
    fn is_signalled(&self, event: &Event<'_>) -> bool {
        let lost = |l: &Packet| l.bytes > 0 && self.boundary.is_after(l.packet_number);
        event.lost.iter().any(lost)
    }

    fn cut(&mut self, in_flight: u64) {
        self.cwnd = self.law.cut(self.cwnd).clamp(self.floor(), MAX_WINDOW);
        self.ssthresh = Some(self.cwnd);
        self.phase = Phase::Recovery;
        self.slow_start = SlowStart::Standard;
        self.boundary.set();
        self.usage.restart(in_flight);
        self.saved = None;
        self.congestion_events += 1;
    }

    /// Begins a path of which nothing is known. Packets sent so far neither cut nor grow its window.
    fn start_over(&mut self) {
        self.law = self.initial_law.clone();
        self.slow_start = self.initial_slow_start.clone();
        self.cwnd = self.initial_window();
        self.ssthresh = None;
        self.phase = Phase::SlowStart;
        self.boundary = Boundary::at(self.boundary.next_packet());
        self.usage.restart(0);
        self.reduction = None;
        self.saved = None;
        self.srtt = None;
        self.note_use();
    }

    fn begin_avoidance(&mut self, start: Start) {
        self.law.begin(start, self.cwnd, self.mtu);
        self.phase = Phase::Avoidance { epoch: self.clock.read() };
    }

    fn on_acked(&mut self, event: &Event<'_>) {
        let Some(newest) = event.acked.last() else {
            return;
        };
        let next = self.boundary.next_packet();
        let new_round = self.usage.on_acked(newest.packet_number, next, event.in_flight);
        let fresh = event.acked.iter().filter(|a| self.boundary.is_after(a.packet_number));
        let fresh = fresh.fold(0u64, |sum, a| sum.saturating_add(a.bytes));
        if fresh == 0 {
            return;
        }
        if self.phase == Phase::Recovery {
            self.reduction = None;
            self.begin_avoidance(Start::Recovery);
        }
        let beyond = match self.phase {
            Phase::SlowStart => self.grow_exponentially(fresh, event, new_round),
            _ => fresh,
        };
        if beyond > 0 {
            self.avoidance(beyond);
        }
    }

    /// Grows in slow start and returns the bytes of growth past the threshold.
    fn grow_exponentially(&mut self, acked: u64, event: &Event<'_>, new_round: bool) -> u64 {
        let earned = self.slow_start.growth(acked, self.mtu);
        let room = self.usage.slow_start_limit().min(MAX_WINDOW).saturating_sub(self.cwnd);
        let to_threshold = self.ssthresh.map_or(u64::MAX, |t| t.saturating_sub(self.cwnd));
        let growth = earned.min(room).min(to_threshold);
        self.cwnd += growth;
        if growth == to_threshold {
            self.begin_avoidance(Start::SlowStart);
            return earned - growth;
        }
        let (cwnd, initial_window) = (self.cwnd, self.initial_window());
        let step = self.slow_start.on_ack(|| Ack {
            now: event.now,
            bytes: acked,
            sample: event.rtt_updated.then_some(event.rtt.latest),
            latest_rtt: event.rtt.latest,
            new_round,
            in_flight: event.in_flight,
            cwnd,
            initial_window,
        });
        match step {
            Step::Continue => {}
            Step::Reduce(window) => self.cwnd = window.max(self.floor()),
            Step::End(window) => {
                self.cwnd = window.max(self.floor());
                self.ssthresh = Some(self.cwnd);
                self.slow_start = SlowStart::Standard;
                self.begin_avoidance(Start::SlowStart);
            }
        }
        0
    }

    fn avoidance_limit(&self) -> u64 {
        self.usage.avoidance_limit(self.mtu).min(MAX_WINDOW)
    }

    /// Stops the clock while an unused window may not follow its curve.
    fn note_use(&mut self) {
        let avoidance = matches!(self.phase, Phase::Avoidance { .. });
        let withheld = avoidance && self.cwnd >= self.avoidance_limit();
        self.clock.on_growth(withheld);
    }

    fn avoidance(&mut self, bytes: u64) {
        let Phase::Avoidance { epoch } = self.phase else {
            return;
        };
        let limit = self.avoidance_limit();
        if self.cwnd >= limit {
            return;
        }
        let growth = self.law.grow(&Credit {
            bytes,
            cwnd: self.cwnd,
            mtu: self.mtu,
            elapsed: self.clock.since(epoch),
            srtt: self.srtt.unwrap_or_default(),
        });
        self.cwnd = self.cwnd.saturating_add(growth).min(limit);
    }
}

fn bytes_of(packets: &[Packet]) -> u64 {
    packets.iter().fold(0, |sum, p| sum.saturating_add(p.bytes))
}

impl<L: WindowLaw> Controller for LossBased<L> {
    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        if self.initial_slow_start.is_search() {
            self.note_sent_with_search(now, sent)
        } else {
            self.note_sent(now, sent)
        }
    }

    fn on_event(&mut self, event: &Event<'_>) {
        self.clock.advance(event.now);
        self.note_newest(event.acked);
        self.note_newest(event.lost);
        if event.rtt.min.is_some() {
            self.srtt = Some(event.rtt.smoothed);
        }
        self.take_late_acked(event);
        let marked = self.take_marks(event);
        if marked || self.is_signalled(event) {
            let before = self.save();
            self.cut(event.in_flight);
            let lost = event.lost.iter().any(|l| l.bytes > 0);
            self.reduction = lost.then(|| Reduction::new(event.in_flight_before, before.cwnd));
            self.saved = (event.ecn.ce == 0).then_some(before);
        }
        self.count_for_undo(event.now, event.acked);
        let lost = event.lost.iter().filter(|l| l.bytes > 0);
        lost.for_each(|l| self.boundary.on_lost(l.packet_number));
        self.on_acked(event);
        if let Some(reduction) = &mut self.reduction {
            reduction.on_event(&Progress::of(event), self.cwnd, self.mtu);
        }
        self.clock.on_in_flight(self.in_use(event.in_flight));
        self.note_use();
    }

    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        self.clock.advance(now);
        self.clock.on_out_of_data(self.in_use(in_flight));
        self.note_for_search(|search| search.on_app_limited(now));
    }

    /// Keeps the threshold: the event before has cut the window already. Losses among packets sent so far are part of the
    /// same congestion, as in RFC 9002 §7.6, and do not cut again. If every packet of that cut arrives after all, there was
    /// no congestion, and the window before the cut returns.
    fn on_persistent_congestion(&mut self, now: Time) {
        self.clock.advance(now);
        if self.ssthresh.is_none() {
            self.cut(0);
        }
        self.cwnd = self.floor();
        self.boundary.extend();
        self.usage.restart(0);
        self.reduction = None;
        self.phase = Phase::SlowStart;
        self.note_use();
    }

    fn on_discarded(&mut self, now: Time, packet_number: u64) {
        self.clock.advance(now);
        self.boundary.on_packet(packet_number);
    }

    fn on_path_changed(&mut self, now: Time, change: PathChange) {
        self.clock.advance(now);
        if change == PathChange::Address {
            self.start_over();
        }
    }

    fn on_mtu(&mut self, mtu: u64) {
        let untouched = self.congestion_events == 0 && self.cwnd == self.initial_window();
        self.mtu = mtu.clamp(1, MAX_MTU);
        self.cwnd = if untouched { self.initial_window() } else { self.cwnd.max(self.floor()) };
    }

    fn adopt(&mut self, now: Time, window: AdoptedWindow) {
        self.clock.advance(now);
        self.adopt_window(window);
    }

    fn cwnd(&self) -> u64 {
        let reduced = self.reduction.as_ref().map(Reduction::window);
        reduced.map_or(self.cwnd, |window| window.max(self.floor()))
    }

    fn pacing_rate(&self) -> Option<u64> {
        let gain = match self.phase {
            Phase::SlowStart => self.pacing_gain?.max(pacing::SLOW_START_GAIN),
            _ => self.pacing_gain?,
        };
        Some(pacing::rate(self.cwnd, self.srtt?, gain))
    }

    fn send_quantum(&self) -> u64 {
        pacing::quantum(self.pacing_rate(), L::BURST, self.mtu)
    }

    fn state(&self) -> State {
        match self.phase {
            Phase::SlowStart if self.slow_start.is_conservative() => State::ConservativeSlowStart,
            Phase::SlowStart if self.slow_start.is_draining() => State::Drain,
            Phase::SlowStart => State::SlowStart,
            Phase::Recovery => State::Recovery,
            Phase::Avoidance { .. } => State::CongestionAvoidance,
        }
    }

    fn ssthresh(&self) -> Option<u64> {
        self.ssthresh
    }

    fn snapshot(&self) -> Snapshot {
        let epoch = match self.phase {
            Phase::Avoidance { epoch } => Some(self.clock.origin(epoch)),
            _ => None,
        };
        Snapshot {
            cwnd: Controller::cwnd(self),
            ssthresh: self.ssthresh,
            pacing_rate: self.pacing_rate(),
            state: self.state(),
            epoch,
            idle_excluded: self.clock.excluded(),
            congestion_events: self.congestion_events,
            model: None,
        }
    }
}
