//! The ways from one phase to another.

use std::time::Duration;

use super::observer::bytes;
use super::phase::{self, Jump, Phase, Pipe};
use super::{CarefulResume, ResumeEvent};
use crate::{AdoptedWindow, Event, State, Time};

impl CarefulResume {
    /// Returns the window to try, and the round trip it was saved with, if the path is confirmed (RFC 9959 §3.2).
    fn confirmed(&mut self, min_rtt: Duration) -> Option<(u64, Duration)> {
        // A rise in delay makes slow start conservative: the path may be full already (RFC 9959 §4.2.1).
        if self.inner.state() != State::SlowStart {
            return None;
        }
        let saved = self.memory.as_ref()?.claim()?;
        self.has_claim = true;
        let window = (saved.cwnd / 2).min(self.max_jump);
        if window <= self.inner.cwnd() {
            return None;
        }
        if phase::is_other_path(min_rtt, saved.min_rtt) {
            self.note(ResumeEvent::RttDiffers);
            return None;
        }
        Some((window, saved.min_rtt))
    }

    /// Enters the Unvalidated Phase if the path is confirmed, and stops resuming otherwise. `in_flight` fills the window.
    pub(super) fn try_jump(&mut self, now: Time, in_flight: u64, latest: Duration, min: Duration) {
        let Some((window, saved_rtt)) = self.confirmed(min) else {
            self.release();
            self.finish();
            return;
        };
        self.note(ResumeEvent::Jumped);
        self.phase = Phase::Unvalidated {
            jump: Jump { window, began: now, rtt: latest, saved_rtt },
            pipe: Pipe { first: self.next_packet, size: in_flight },
        };
    }

    /// Leaves the Unvalidated Phase without congestion (RFC 9959 §3.3, "Check flight_size").
    pub(super) fn end_jump(&mut self, now: Time, pipe: Pipe, in_flight: u64) {
        // The window that the algorithm has grown to by its own rules needs no validation.
        let own = self.inner.cwnd();
        let used = in_flight >= self.initial_window && in_flight > pipe.size;
        let window = if used { in_flight } else { pipe.size };
        let cwnd = window.max(self.initial_window).max(own);
        self.inner.adopt(now, AdoptedWindow { cwnd, ssthresh: None });
        if used {
            self.phase = Phase::Validating { pipe, last: self.next_packet.saturating_sub(1) };
        } else {
            self.note(ResumeEvent::RateLimited);
            self.release();
            self.finish();
        }
    }

    /// Enters the Safe Retreat Phase (RFC 9959 §3.5).
    pub(super) fn retreat(&mut self, now: Time, pipe: Pipe) {
        if let Some(memory) = &self.memory {
            memory.discard();
        }
        self.has_claim = false;
        self.note(ResumeEvent::Retreated);
        self.phase = Phase::SafeRetreat {
            window: pipe.size / 2,
            pipe,
            last: self.next_packet.saturating_sub(1),
        };
        self.adopt_retreat(now, pipe);
    }

    /// Has the algorithm go on with the window of the Safe Retreat Phase and a threshold of half the pipe (RFC 9959 §3.5).
    pub(super) fn adopt_retreat(&mut self, now: Time, pipe: Pipe) {
        let window = AdoptedWindow {
            cwnd: match self.phase {
                Phase::SafeRetreat { window, .. } => window.max(self.floor()),
                _ => self.inner.cwnd(),
            },
            ssthresh: Some(pipe.threshold()),
        };
        self.inner.adopt(now, window);
    }

    /// Has the algorithm go on after the Safe Retreat Phase. What it has cut since for its own reasons stays.
    fn end_retreat(&mut self, now: Time, pipe: Pipe, window: u64) {
        let own = self.inner.cwnd();
        if own >= window {
            self.adopt_retreat(now, pipe);
        } else {
            let window = AdoptedWindow { cwnd: own, ssthresh: self.inner.ssthresh() };
            self.inner.adopt(now, window);
        }
    }

    /// Takes an event, in which something was lost or marked if `congested`, as the phase demands.
    pub(super) fn on_acked(&mut self, event: &Event<'_>, congested: bool) {
        let newest = event.acked.last().map(|packet| packet.packet_number);
        let reaches = |number| newest.is_some_and(|newest| newest >= number);
        match &mut self.phase {
            Phase::Normal => self.observe(event),
            Phase::Reconnaissance { .. } if congested => self.finish(),
            Phase::Reconnaissance { acked } => *acked = acked.saturating_add(bytes(event.acked)),
            Phase::Unvalidated { jump, pipe } => {
                pipe.on_acked(event.acked);
                let (jump, pipe) = (*jump, *pipe);
                let is_shorter = self.rtt.is_some_and(|(_, min)| jump.is_shorter(min));
                if congested || is_shorter {
                    self.retreat(event.now, pipe);
                } else if reaches(pipe.first) || jump.is_over(event.now) {
                    self.end_jump(event.now, pipe, event.in_flight);
                }
            }
            Phase::Validating { pipe, last } => {
                pipe.on_acked(event.acked);
                let (pipe, last) = (*pipe, *last);
                if congested {
                    self.retreat(event.now, pipe);
                } else if reaches(last) {
                    self.note(ResumeEvent::Validated);
                    self.finish();
                }
            }
            Phase::SafeRetreat { pipe, last, window } => {
                pipe.on_acked(event.acked);
                let (pipe, last, window) = (*pipe, *last, *window);
                if reaches(last) {
                    self.end_retreat(event.now, pipe, window);
                    self.finish();
                }
            }
        }
    }
}
