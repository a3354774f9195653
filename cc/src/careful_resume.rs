//! Careful resume (RFC 9959): a connection tries half of the capacity that an earlier one had on the same path, once its
//! initial window has arrived and the round trip is alike.
//!
//! [`CarefulResume`] is a layer around a loss-based controller, which works as always beneath it. The phases:
//!
//! ```text
//!                              ┌──────────────────────────────┐
//!                              │                              ▼
//! Reconnaissance ──► Unvalidated ──► Validating ──────────► Normal
//!        │                     └──────────┴─► Safe Retreat ──►▲
//!        └────────────────────────────────────────────────────┘
//! ```
//!
//! In the Normal phase it observes what the path carries, for later connections ([`PathMemory`]).

mod memory;
mod observer;
mod phase;
mod transitions;

use std::time::Duration;

pub use memory::{Observation, PathCapacity, PathMemory, ResumeEvent};
use observer::Observer;
use phase::Phase;

use crate::{
    AdoptedWindow, Controller, Event, Layer, MAX_MTU, MAX_WINDOW, PacketState, PathChange, Sent,
    Snapshot, State, Time, pacing,
};

/// Initial windows that a capacity must exceed to be worth saving (RFC 9959 §3.1).
const WORTHWHILE: u64 = 4;

/// A controller that resumes the capacity of an earlier connection with the same client.
#[derive(Debug)]
pub struct CarefulResume {
    inner: Box<dyn Controller>,
    /// What is known of the path; `None` on a path that the connection did not begin on.
    memory: Option<Box<dyn PathMemory>>,
    max_jump: u64,
    initial_window: u64,
    mtu: u64,
    phase: Phase,
    /// Whether other connections must leave the saved capacity to this one.
    has_claim: bool,
    /// Number after the largest packet number sent.
    next_packet: u64,
    /// Latest and smallest round-trip time.
    rtt: Option<(Duration, Duration)>,
    /// Time until which the latest acknowledgement confirms the path: a jump long after it would rest on an old round trip.
    confirmed_until: Time,
    observer: Observer,
}

impl CarefulResume {
    /// Wraps a controller before its first packet. A jump is at most `max_jump` bytes. `mtu` is the datagram size that the
    /// controller was built with, bytes.
    pub fn new(
        inner: Box<dyn Controller>,
        mtu: u64,
        max_jump: u64,
        memory: Box<dyn PathMemory>,
    ) -> Self {
        Self {
            initial_window: inner.cwnd(),
            inner,
            memory: Some(memory),
            max_jump: max_jump.min(MAX_WINDOW),
            mtu: mtu.clamp(1, MAX_MTU),
            phase: Phase::Reconnaissance { acked: 0 },
            has_claim: false,
            next_packet: 0,
            rtt: None,
            confirmed_until: Time::ZERO,
            observer: Observer::default(),
        }
    }

    fn floor(&self) -> u64 {
        2 * self.mtu
    }

    fn note(&self, event: ResumeEvent) {
        if let Some(memory) = &self.memory {
            memory.on_event(event);
        }
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.has_claim)
            && let Some(memory) = &self.memory
        {
            memory.release();
        }
    }

    /// Stops resuming. A claim stays for as long as the connection goes on using the capacity.
    fn finish(&mut self) {
        self.phase = Phase::Normal;
        self.observer.restart();
    }

    /// Counts a try that has no result yet, and leaves the saved capacity to other connections.
    fn leave_path(&mut self) {
        self.note_undecided();
        self.release();
    }

    /// Counts a try that ends without a result.
    fn note_undecided(&mut self) {
        if let Phase::Unvalidated { .. } | Phase::Validating { .. } = self.phase {
            self.note(ResumeEvent::Undecided);
        }
    }

    /// Stops for good: the connection has left the path that the memory is about.
    fn detach(&mut self) {
        self.leave_path();
        self.memory = None;
        self.finish();
    }

    /// Measures what the path carries (RFC 9959 §3.1).
    fn observe(&mut self, event: &Event<'_>) {
        if self.memory.is_none() {
            return;
        }
        let Some((_, min_rtt)) = self.rtt else {
            return;
        };
        let reduced = self.inner.state().is_recovering();
        let observed = self.observer.on_event(event, self.next_packet, min_rtt, reduced);
        if let Some(capacity) = observed
            && capacity.cwnd >= WORTHWHILE.saturating_mul(self.initial_window)
        {
            let observed = Observation { capacity, is_least: self.is_growing() };
            if let Some(observed) = self.observer.due(event.now, observed) {
                self.save(observed);
            }
        }
    }

    /// Returns whether the connection is in its first slow start: whatever it carries, the path may carry more. A slow start after
    /// persistent congestion has a threshold, and follows a path that carried less.
    fn is_growing(&self) -> bool {
        // HyStart++ may return from the conservative one (RFC 9406 §4.2).
        let grows = matches!(self.inner.state(), State::SlowStart | State::ConservativeSlowStart);
        grows && self.inner.ssthresh().is_none()
    }

    fn save(&mut self, observed: Observation) {
        if let Some(memory) = &self.memory {
            memory.save(observed);
            self.has_claim = true;
        }
    }

    fn save_rest(&mut self) {
        if let Some(observed) = self.observer.take_unsaved() {
            self.save(observed);
        }
    }

    /// Returns the rate of the Unvalidated Phase: one window per round trip (RFC 9959 §4.3.2).
    fn jump_rate(&self) -> Option<u64> {
        let Phase::Unvalidated { jump, .. } = &self.phase else {
            return None;
        };
        let rtt = self.rtt.map_or(jump.rtt, |(latest, _)| latest);
        Some(pacing::rate(jump.window, rtt, 1.0))
    }
}

impl Layer for CarefulResume {
    fn inner(&self) -> &dyn Controller {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        &mut *self.inner
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        let state = self.inner.on_sent(now, sent);
        self.next_packet = self.next_packet.max(sent.packet_number.saturating_add(1));
        let in_flight = sent.in_flight_before.saturating_add(sent.bytes);
        let is_full = |window: u64| in_flight.saturating_add(self.mtu) > window;
        match &self.phase {
            Phase::Reconnaissance { acked } => {
                if sent.has_data
                    && now <= self.confirmed_until
                    && *acked >= self.initial_window
                    && is_full(self.inner.cwnd())
                    && let Some((latest, min)) = self.rtt
                {
                    self.try_jump(now, in_flight, latest, min);
                }
            }
            Phase::Unvalidated { jump, pipe }
                if jump.is_over(now) || is_full(Layer::cwnd(self)) =>
            {
                self.end_jump(now, *pipe, in_flight);
            }
            _ => {}
        }
        state
    }

    fn on_event(&mut self, event: &Event<'_>) {
        self.inner.on_event(event);
        if let Some(min) = event.rtt.min {
            self.rtt = Some((event.rtt.latest, min));
        }
        if !event.acked.is_empty() {
            self.confirmed_until = event.now + event.rtt.latest + event.rtt.max_ack_delay;
        }
        let newest = event.acked.last().map_or(0, |packet| packet.packet_number);
        self.next_packet = self.next_packet.max(newest.saturating_add(1));
        let congested = event.ecn.ce > 0 || event.lost.iter().any(|lost| lost.bytes > 0);
        self.on_acked(event, congested);
    }

    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        self.inner.on_app_limited(now, in_flight);
        self.observer.on_app_limited();
        self.save_rest();
        // Until the application has more, the capacity is free for the client's other connections.
        if let Phase::Normal = self.phase {
            self.release();
        }
        if let Phase::Unvalidated { jump, pipe } = &self.phase
            && jump.is_over(now)
        {
            self.end_jump(now, *pipe, in_flight);
        }
    }

    /// Ends careful resume (RFC 9959 §3.6), with the threshold of a retreat if packets of a try are on their way.
    fn on_persistent_congestion(&mut self, now: Time) {
        match self.phase {
            Phase::Unvalidated { pipe, .. } | Phase::Validating { pipe, .. } => {
                self.retreat(now, pipe);
            }
            Phase::SafeRetreat { pipe, .. } => self.adopt_retreat(now, pipe),
            Phase::Reconnaissance { .. } | Phase::Normal => {}
        }
        self.inner.on_persistent_congestion(now);
        self.finish();
    }

    fn on_path_changed(&mut self, now: Time, change: PathChange) {
        self.inner.on_path_changed(now, change);
        if change == PathChange::Address {
            self.rtt = None;
            self.detach();
        }
    }

    fn on_mtu(&mut self, mtu: u64) {
        self.inner.on_mtu(mtu);
        self.mtu = mtu.clamp(1, MAX_MTU);
        if let Phase::Reconnaissance { acked: 0 } = self.phase {
            self.initial_window = self.inner.cwnd();
        }
    }

    fn adopt(&mut self, now: Time, window: AdoptedWindow) {
        self.inner.adopt(now, window);
        self.note_undecided();
        self.finish();
    }

    fn cwnd(&self) -> u64 {
        let own = self.inner.cwnd();
        match &self.phase {
            Phase::Unvalidated { jump, .. } => own.max(jump.window),
            Phase::SafeRetreat { window, .. } => own.min(*window).max(self.floor()),
            _ => own,
        }
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.jump_rate().or_else(|| self.inner.pacing_rate())
    }

    fn send_quantum(&self) -> u64 {
        match self.jump_rate() {
            Some(rate) => pacing::quantum(Some(rate), pacing::BURST, self.mtu),
            None => self.inner.send_quantum(),
        }
    }

    fn state(&self) -> State {
        match &self.phase {
            Phase::Unvalidated { .. } => State::Unvalidated,
            Phase::Validating { .. } => State::Validating,
            Phase::SafeRetreat { .. } => State::SafeRetreat,
            Phase::Reconnaissance { .. } | Phase::Normal => self.inner.state(),
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cwnd: Layer::cwnd(self),
            pacing_rate: Layer::pacing_rate(self),
            state: Layer::state(self),
            ..self.inner.snapshot()
        }
    }
}

/// Saves what was observed last, and leaves the saved capacity to other connections.
impl Drop for CarefulResume {
    fn drop(&mut self) {
        self.save_rest();
        self.leave_path();
    }
}
