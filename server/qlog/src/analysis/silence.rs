//! The handshake, and times in which the peer does not respond.

use super::span::Span;
use crate::event::{Space, TracedPacket};
use crate::summary::Handshake;
use crate::text::duration;
use crate::verdict::{Finding, Severity, Verdict};

/// Probe timeouts in a row from which the peer is silent.
const MIN_TIMEOUTS: u64 = 3;
/// Without probe timeouts in the trace: packets without a response, and the least time, ms.
const MIN_UNANSWERED: u64 = 5;
const MIN_MS: f64 = 3000.0;

/// Watches what comes from the peer.
#[derive(Debug, Default)]
pub(super) struct PeerWatch {
    first_space: Option<Space>,
    first_is_1rtt: bool,
    first_packet: f64,
    established: Option<f64>,
    /// Whether any packet or state was there to tell.
    tells: bool,
    last_received: f64,
    /// Since the last packet of the peer: timeouts by the metrics, by the timer's events, by probes; packets to acknowledge.
    by_metrics: u64,
    by_timer: u64,
    by_probes: u64,
    unanswered: u64,
    /// Time of the first of these packets.
    asked: Option<f64>,
    pto_count: u64,
    total_by_metrics: u64,
    total_by_timer: u64,
    total_by_probes: u64,
    longest: Option<(Span, u64)>,
    ends_silent: bool,
}

impl PeerWatch {
    /// Returns whether the handshake is over, as far as the trace tells.
    pub(super) fn is_established(&self) -> bool {
        self.established.is_some() || !self.tells
    }

    pub(super) fn on_established(&mut self, at: f64) {
        self.tells = true;
        self.established.get_or_insert(at);
    }

    fn note(&mut self, packet: &TracedPacket, at: f64) {
        self.tells = true;
        if self.first_space.is_none() {
            self.first_space = Some(packet.space);
            self.first_is_1rtt = packet.is_1rtt;
            self.first_packet = at;
            self.last_received = at;
            if packet.is_1rtt {
                self.established = Some(at);
            }
        }
    }

    pub(super) fn on_sent(&mut self, packet: &TracedPacket, at: f64) {
        self.note(packet, at);
        if packet.frames.is_ack_eliciting {
            self.unanswered += 1;
            self.asked.get_or_insert(at);
        }
        if packet.is_probe {
            self.by_probes += 1;
            self.total_by_probes += 1;
        }
        if packet.frames.handshake_done {
            self.on_established(at);
        }
    }

    pub(super) fn on_received(&mut self, packet: &TracedPacket, at: f64) {
        self.note(packet, at);
        self.end_silence(at, false);
        self.last_received = at;
        if packet.is_1rtt || packet.frames.handshake_done {
            self.on_established(at);
        }
    }

    /// Takes acknowledgements, of a trace that has no packets.
    pub(super) fn on_acked(&mut self, at: f64) {
        self.end_silence(at, false);
        self.last_received = at;
    }

    pub(super) fn on_pto_count(&mut self, count: u64) {
        let more = count.saturating_sub(self.pto_count);
        self.by_metrics += more;
        self.total_by_metrics += more;
        self.pto_count = count;
    }

    pub(super) fn on_timeout(&mut self) {
        self.by_timer += 1;
        self.total_by_timer += 1;
    }

    fn timeouts(&self) -> u64 {
        self.by_metrics.max(self.by_timer).max(self.by_probes)
    }

    pub(super) fn total_timeouts(&self) -> u64 {
        self.total_by_metrics.max(self.total_by_timer).max(self.total_by_probes)
    }

    /// Returns whether the peer owes a response for so long that nothing else matters.
    pub(super) fn is_silent(&self) -> bool {
        self.timeouts() >= 2
    }

    fn end_silence(&mut self, at: f64, is_end: bool) {
        let span = Span { from: self.asked.unwrap_or(self.last_received), to: at };
        let timeouts = self.timeouts();
        let knows_timeouts = self.total_timeouts() > 0;
        let is_silence = timeouts >= MIN_TIMEOUTS
            || !knows_timeouts && self.unanswered >= MIN_UNANSWERED && span.duration() >= MIN_MS;
        if is_silence {
            let is_longest = |(longest, _): (Span, u64)| longest.duration() < span.duration();
            if self.longest.is_none_or(is_longest) || is_end {
                self.longest = Some((span, timeouts));
                self.ends_silent = is_end;
            }
        }
        self.by_metrics = 0;
        self.by_timer = 0;
        self.by_probes = 0;
        self.unanswered = 0;
        self.asked = None;
    }

    pub(super) fn handshake(&self) -> (Handshake, Option<f64>) {
        match (self.tells, self.established) {
            (false, _) => (Handshake::Unknown, None),
            (true, _) if self.first_is_1rtt => (Handshake::Earlier, None),
            (true, Some(at)) => (Handshake::Complete, Some(at - self.first_packet)),
            (true, None) => (Handshake::Incomplete, None),
        }
    }

    pub(super) fn verdicts(&mut self, end: f64) -> Vec<Verdict> {
        self.end_silence(end, true);
        let mut verdicts = Vec::new();
        if self.handshake().0 == Handshake::Incomplete {
            let last = if self.last_received > self.first_packet {
                format!("; the last packet came after {}", duration(self.last_received))
            } else {
                String::new()
            };
            verdicts.push(Verdict {
                finding: Finding::HandshakeIncomplete,
                severity: Severity::Severe,
                from_ms: self.first_packet,
                to_ms: end,
                evidence: format!("no packet with the final keys in {}{last}", duration(end)),
            });
        }
        if let Some((span, timeouts)) = self.longest {
            let until = if self.ends_silent { ", to the end of the trace" } else { "" };
            let probes = if timeouts > 0 {
                format!(", {timeouts} probe timeouts in a row")
            } else {
                ", though packets were sent".to_owned()
            };
            verdicts.push(Verdict {
                finding: Finding::PeerSilent,
                severity: if self.ends_silent { Severity::Severe } else { Severity::Warning },
                from_ms: span.from,
                to_ms: span.to,
                evidence: format!("nothing came for {}{probes}{until}", duration(span.duration())),
            });
        }
        verdicts
    }
}
