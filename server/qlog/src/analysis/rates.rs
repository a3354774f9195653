//! Second by second: losses that go on, and a rate far below what the connection once delivered.

use super::span::Spans;
use crate::text::{bytes, duration};
use crate::verdict::{Finding, Severity, Verdict};

/// Length of an interval, ms.
const INTERVAL: f64 = 1000.0;
/// Packets and share of a second that count as lossy.
const MIN_LOST: u64 = 3;
const LOSSY: f64 = 0.05;
/// Least duration of a finding, ms.
const MIN_MS: f64 = 3000.0;
/// Packets lost from which the share of the whole trace counts.
const MIN_LOST_IN_ALL: u64 = 30;
/// Share of lost packets from which losses explain a trickle.
const EXPLAINED: f64 = 0.02;
/// Share of the best rate below which the rate is a trickle.
const TRICKLE: f64 = 0.05;

/// Rate of the recent past: each byte counts for about a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    bytes_per_ms: f64,
    at: f64,
}

impl Rate {
    /// Returns the rate at a time, bytes per second.
    pub(super) fn at(&self, at: f64, rtt: Option<f64>) -> f64 {
        1e3 * self.bytes_per_ms * (-(at - self.at) / memory(rtt)).exp()
    }

    pub(super) fn add(&mut self, bytes: f64, at: f64, rtt: Option<f64>) {
        self.bytes_per_ms = self.at(at, rtt) / 1e3 + bytes / memory(rtt);
        self.at = at;
    }
}

fn memory(rtt: Option<f64>) -> f64 {
    rtt.unwrap_or(100.0).max(5.0)
}

/// What happened in an interval.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    sent: u64,
    lost: u64,
    delivered: u64,
    waiting: f64,
    queued: f64,
}

impl Interval {
    fn hold(&mut self, ms: f64, is_waiting: bool, is_queued: bool) {
        if is_waiting {
            self.waiting += ms;
        }
        if is_queued {
            self.queued += ms;
        }
    }
}

/// Watches intervals.
#[derive(Debug, Default)]
pub(super) struct RateWatch {
    begin: f64,
    current: Interval,
    sent: u64,
    lost: u64,
    lossy: Spans,
    lossy_packets: (u64, u64),
    best: u64,
    trickle: Spans,
    trickle_bytes: u64,
    trickle_queued: f64,
    /// Packets lost and sent in seconds of a trickle and in those before one.
    trickle_packets: (u64, u64),
    /// Packets lost and sent in the second before.
    before: (u64, u64),
}

impl RateWatch {
    /// Notes whether data waited from one event to the next, and whether a queue stood on the path.
    pub(super) fn advance(&mut self, from: f64, to: f64, is_waiting: bool, is_queued: bool) {
        let mut from = from;
        while to >= self.begin + INTERVAL {
            let end = self.begin + INTERVAL;
            self.current.hold((end - from).max(0.0), is_waiting, is_queued);
            self.close(end);
            from = end;
            // A pause of days is no reason to count its seconds.
            if to > end + 2.0 * INTERVAL {
                self.lossy.hold(false, end, to);
                self.trickle.hold(false, end, to);
                self.begin = to;
                return;
            }
        }
        self.current.hold(to - from, is_waiting, is_queued);
    }

    fn close(&mut self, end: f64) {
        let Interval { sent, lost, delivered, waiting, queued } = std::mem::take(&mut self.current);
        let is_lossy = lost >= MIN_LOST && lost as f64 >= LOSSY * sent as f64;
        self.lossy.hold(is_lossy, self.begin, end);
        if is_lossy {
            self.lossy_packets.0 = self.lossy_packets.0.saturating_add(lost);
            self.lossy_packets.1 = self.lossy_packets.1.saturating_add(sent);
        }
        let is_trickle = delivered > 0
            && (delivered as f64) < TRICKLE * self.best as f64
            && waiting >= 0.5 * INTERVAL;
        self.trickle.hold(is_trickle, self.begin, end);
        if is_trickle {
            self.trickle_bytes = self.trickle_bytes.saturating_add(delivered);
            self.trickle_queued += queued;
            for (lost, sent) in [(lost, sent), std::mem::take(&mut self.before)] {
                self.trickle_packets.0 = self.trickle_packets.0.saturating_add(lost);
                self.trickle_packets.1 = self.trickle_packets.1.saturating_add(sent);
            }
        } else {
            self.before = (lost, sent);
        }
        self.best = self.best.max(delivered);
        self.begin = end;
    }

    pub(super) fn on_sent(&mut self, packets: u64) {
        self.current.sent = self.current.sent.saturating_add(packets);
        self.sent = self.sent.saturating_add(packets);
    }

    pub(super) fn on_lost(&mut self, packets: u64) {
        self.current.lost = self.current.lost.saturating_add(packets);
        self.lost = self.lost.saturating_add(packets);
    }

    pub(super) fn on_acked(&mut self, bytes: u64) {
        self.current.delivered = self.current.delivered.saturating_add(bytes);
    }

    pub(super) fn loss(&self, end: f64) -> Option<Verdict> {
        let verdict = |from, to, evidence| Verdict {
            finding: Finding::PersistentLoss,
            severity: Severity::Warning,
            from_ms: from,
            to_ms: to,
            evidence,
        };
        let heavy = |from, to, evidence| Verdict {
            finding: Finding::HeavyLoss,
            ..verdict(from, to, evidence)
        };
        let share = |lost: u64, sent: u64| 100.0 * lost as f64 / sent.max(1) as f64;
        if self.lossy.longest.duration() >= MIN_MS {
            let span = self.lossy.longest;
            let (lost, sent) = self.lossy_packets;
            let evidence = format!(
                "{:.1} % lost ({lost} of {sent} packets) in {} seconds; {} in a row",
                share(lost, sent),
                self.lossy.total / INTERVAL,
                span.duration() / INTERVAL
            );
            return Some(verdict(span.from, span.to, evidence));
        }
        let is_much = self.lost >= MIN_LOST_IN_ALL && share(self.lost, self.sent) >= 100.0 * LOSSY;
        is_much.then(|| {
            let (lost, sent) = (self.lost, self.sent);
            heavy(0.0, end, format!("{:.1} % lost ({lost} of {sent} packets)", share(lost, sent)))
        })
    }

    pub(super) fn trickle(&self) -> Option<Verdict> {
        let span = self.trickle.longest;
        let rate = self.trickle_bytes as f64 / (self.trickle.total / 1e3).max(f64::MIN_POSITIVE);
        let best = self.best as f64;
        // A queue in front of a slow link explains it; without one, the sender could send more.
        let is_queued = self.trickle_queued > 0.5 * self.trickle.total;
        let path = if is_queued { "; packets queue on the path, so it is slow itself" } else { "" };
        // Losses of other times do not explain it.
        let (lost, sent) = self.trickle_packets;
        let is_lossy = lost as f64 > EXPLAINED * sent as f64;
        let losses =
            if is_lossy { format!("; {lost} of {sent} packets lost") } else { String::new() };
        (span.duration() >= MIN_MS).then(|| Verdict {
            finding: Finding::Trickle,
            severity: if is_queued || is_lossy { Severity::Warning } else { Severity::Critical },
            from_ms: span.from,
            to_ms: span.to,
            evidence: format!(
                "delivers {}/s for {}, {:.1} % of the {}/s that it once reached, while data waits{path}{losses}",
                bytes(rate),
                duration(span.duration()),
                100.0 * rate / best.max(1.0),
                bytes(best)
            ),
        })
    }
}
