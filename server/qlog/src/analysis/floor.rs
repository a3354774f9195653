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

/// Round trips after a loss from which the loss no longer explains the floor: it is repaired in one, and any window grows in a few more.
const SETTLE_ROUND_TRIPS: f64 = 3.0;

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
    fn begin(at: f64, window: u64) -> Stay {
        let span = Span { from: at, to: at };
        Stay { span, min_window: window, ..Stay::default() }
    }

    fn waiting_share(&self) -> f64 {
        self.waiting / self.span.duration().max(f64::MIN_POSITIVE)
    }

    fn hold(&mut self, held: &Held, window: u64) {
        self.span.to = held.to;
        self.round_trips += held.round_trips;
        self.min_window = self.min_window.min(window);
        self.max_window = self.max_window.max(window);
        if held.is_waiting {
            self.waiting += held.to - held.from;
        }
    }

    /// Returns whether it lasted longer than is usual, with data that waited.
    fn is_long(&self) -> bool {
        self.span.duration() >= MIN_MS
            && self.round_trips >= MIN_ROUND_TRIPS
            && self.sent > 0
            && self.waiting_share() >= MIN_WAITING
    }

    fn is_explained(&self) -> bool {
        self.lost as f64 > EXPLAINED * self.sent as f64
    }

    /// Takes the place of `longest` if it is longer.
    fn compete(self, longest: &mut Option<Stay>) {
        if longest.is_none_or(|longest| longest.span.duration() < self.span.duration()) {
            *longest = Some(self);
        }
    }
}

/// Watches the window.
#[derive(Debug, Default)]
pub(super) struct FloorWatch {
    current: Option<Stay>,
    /// Part of the current stay that no loss explains: losses do so only as far as they go on.
    calm: Option<Stay>,
    /// Round trips in the current stay since its latest loss, or since its beginning.
    since_loss: f64,
    /// The longest stay that losses explain, and the longest one, or part of one, that they do not.
    explained: Option<Stay>,
    unexplained: Option<Stay>,
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
        self.current.get_or_insert(Stay::begin(held.from, window)).hold(&held, window);
        if self.since_loss >= SETTLE_ROUND_TRIPS {
            self.calm.get_or_insert(Stay::begin(held.from, window)).hold(&held, window);
        }
        self.since_loss += held.round_trips;
    }

    fn end(&mut self) {
        self.end_calm();
        let Some(stay) = self.current.take().filter(Stay::is_long) else {
            return;
        };
        let longest = if stay.is_explained() { &mut self.explained } else { &mut self.unexplained };
        stay.compete(longest);
    }

    fn end_calm(&mut self) {
        self.since_loss = 0.0;
        if let Some(calm) = self.calm.take().filter(Stay::is_long) {
            calm.compete(&mut self.unexplained);
        }
    }

    fn stays(&mut self) -> impl Iterator<Item = &mut Stay> {
        self.current.iter_mut().chain(&mut self.calm)
    }

    pub(super) fn on_sent(&mut self, packets: u64) {
        self.stays().for_each(|stay| stay.sent = stay.sent.saturating_add(packets));
    }

    pub(super) fn on_lost(&mut self, packets: u64) {
        self.end_calm();
        self.stays().for_each(|stay| stay.lost = stay.lost.saturating_add(packets));
    }

    pub(super) fn on_acked(&mut self, bytes: u64) {
        self.stays().for_each(|stay| stay.acked_bytes = stay.acked_bytes.saturating_add(bytes));
    }

    pub(super) fn verdict(&mut self, packet: u64) -> Option<Verdict> {
        self.end();
        let stay = self.unexplained.or(self.explained)?;
        let time = stay.span.duration();
        let round_trips = stay.round_trips;
        let is_explained = stay.is_explained();
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
