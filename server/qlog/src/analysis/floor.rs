//! Notices a window that stays at its minimum although data waits, which raises no error anywhere.

use super::span::Span;
use crate::text::{bytes, duration};
use crate::verdict::{Finding, Severity, Verdict};

/// Least time at the floor, ms, and least number of round trips: a window is there for a while after each real loss.
const MIN_MS: f64 = 500.0;
const MIN_ROUND_TRIPS: f64 = 20.0;
/// Least share of that time in which data waits.
const MIN_WAITING: f64 = 0.5;
/// Share of lost packets from which the losses explain the floor.
const EXPLAINED: f64 = 0.02;

/// A stay at the floor.
#[derive(Clone, Copy, Debug, Default)]
struct Stay {
    span: Span,
    round_trips: f64,
    waiting: f64,
    sent: u64,
    lost: u64,
    acked_bytes: u64,
    min_window: u64,
    max_window: u64,
}

impl Stay {
    fn waiting_share(&self) -> f64 {
        self.waiting / self.span.duration().max(f64::MIN_POSITIVE)
    }
}

/// Watches the window.
#[derive(Debug, Default)]
pub(super) struct FloorWatch {
    current: Option<Stay>,
    longest: Option<Stay>,
}

/// What holds from one event to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) round_trips: f64,
    /// Congestion window, if it is at the floor.
    pub(super) window_at_floor: Option<u64>,
    /// Whether data waits for the window.
    pub(super) is_waiting: bool,
    /// Whether the peer is silent: its silence explains everything.
    pub(super) is_silent: bool,
}

impl FloorWatch {
    pub(super) fn advance(&mut self, held: Held) {
        let Some(window) = held.window_at_floor.filter(|_| !held.is_silent) else {
            self.end();
            return;
        };
        let stay = self.current.get_or_insert(Stay {
            span: Span { from: held.from, to: held.from },
            min_window: window,
            ..Stay::default()
        });
        stay.span.to = held.to;
        stay.round_trips += held.round_trips;
        stay.min_window = stay.min_window.min(window);
        stay.max_window = stay.max_window.max(window);
        if held.is_waiting {
            stay.waiting += held.to - held.from;
        }
    }

    fn end(&mut self) {
        let Some(stay) = self.current.take() else {
            return;
        };
        if stay.waiting_share() >= MIN_WAITING
            && self.longest.is_none_or(|longest| longest.span.duration() < stay.span.duration())
        {
            self.longest = Some(stay);
        }
    }

    pub(super) fn on_sent(&mut self, packets: u64) {
        if let Some(stay) = &mut self.current {
            stay.sent = stay.sent.saturating_add(packets);
        }
    }

    pub(super) fn on_lost(&mut self, packets: u64) {
        if let Some(stay) = &mut self.current {
            stay.lost = stay.lost.saturating_add(packets);
        }
    }

    pub(super) fn on_acked(&mut self, bytes: u64) {
        if let Some(stay) = &mut self.current {
            stay.acked_bytes = stay.acked_bytes.saturating_add(bytes);
        }
    }

    pub(super) fn verdict(&mut self, packet: u64) -> Option<Verdict> {
        self.end();
        let stay = self.longest?;
        let time = stay.span.duration();
        let round_trips = stay.round_trips;
        if time < MIN_MS || round_trips < MIN_ROUND_TRIPS || stay.sent == 0 {
            return None;
        }
        let lost = stay.lost as f64 / stay.sent as f64;
        let is_explained = lost > EXPLAINED;
        let packets = |window: u64| window as f64 / packet.max(1) as f64;
        let window = if stay.min_window == stay.max_window {
            format!("{} ({:.1} packets)", bytes(stay.min_window as f64), packets(stay.min_window))
        } else {
            let (min, max) = (stay.min_window, stay.max_window);
            let (least, most) = (packets(min), packets(max));
            format!(
                "{} to {} ({least:.1} to {most:.1} packets)",
                bytes(min as f64),
                bytes(max as f64)
            )
        };
        let rate = stay.acked_bytes as f64 / (time / 1e3);
        let rate =
            if rate > 0.0 { format!("; delivered {}/s", bytes(rate)) } else { String::new() };
        Some(Verdict {
            finding: Finding::PinnedAtFloor,
            severity: if is_explained { Severity::Warning } else { Severity::Critical },
            from_ms: stay.span.from,
            to_ms: stay.span.to,
            evidence: format!(
                "window {window} for {}, {round_trips:.0} round trips, data waiting {:.0} % of that; {} of {} packets lost meanwhile{}{rate}",
                duration(time),
                100.0 * stay.waiting_share(),
                stay.lost,
                stay.sent,
                if is_explained { ", which explains it" } else { "" },
            ),
        })
    }
}
