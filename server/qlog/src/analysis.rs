//! Follows the events of a trace and judges the connection. It is a pure state machine of bounded size: time is in the events.

mod algorithms;
mod closing;
mod floor;
pub(crate) mod packets;
mod rates;
mod recovery;
mod silence;
mod span;
mod spread;
mod waits;

use crate::event::{Kind, PacketSums, RecoveryMetrics, TraceEvent, TracedPacket, Word};
use crate::follow::{Follower, Oddities};
use crate::reader::TraceHeader;
use crate::summary::{Firing, Origin, Summary, Traffic};
use crate::text::{bytes, duration};
use crate::verdict::{self, Finding, Severity, Verdict};
use crate::wait::SenderWait;

use algorithms::Algorithms;
use closing::Closing;
use floor::{FloorWatch, Held};
use packets::{InFlight, Streams};
use rates::{Rate, RateWatch};
use recovery::StateWatch;
use silence::PeerWatch;
use spread::Series;
use waits::{Inputs, Waits};

/// Triggers that are told.
const MAX_TRIGGERS: usize = 16;
/// Size of a full packet until the trace shows one, bytes.
const USUAL_PACKET: u64 = 1200;
/// Largest size of a packet that is believed, bytes. With segmentation offload some count batches.
const MAX_PACKET: u64 = 9000;
/// Share of the pacing rate from which it is the pacer that holds packets back.
const PACED: f64 = 0.7;

/// Judges each trace of a file, and passes the summary on.
#[derive(Debug)]
pub struct Summaries<F> {
    current: Option<Analysis>,
    each: F,
}

impl<F: FnMut(Summary)> Summaries<F> {
    /// `each` receives the summary of each trace when the trace ends.
    pub fn new(each: F) -> Summaries<F> {
        Summaries { current: None, each }
    }
}

impl<F: FnMut(Summary)> Follower for Summaries<F> {
    fn on_trace(&mut self, _: &TraceHeader) {
        self.current = Some(Analysis::new());
    }

    fn on_event(&mut self, event: &TraceEvent) {
        if let Some(analysis) = &mut self.current {
            analysis.on_event(event);
        }
    }

    fn on_trace_end(&mut self, header: &TraceHeader, oddities: Oddities) {
        if let Some(analysis) = self.current.take() {
            (self.each)(analysis.finish(header, oddities));
        }
    }
}

/// The state of a trace's analysis.
#[derive(Debug)]
pub struct Analysis {
    now: f64,
    events: u64,
    /// Age of the connection at the first event, if the trace tells.
    begins_at: Option<f64>,
    traffic: Traffic,
    packet: u64,
    cwnd: Option<u64>,
    in_flight: Option<u64>,
    max_in_flight: Option<u64>,
    min_window: Option<u64>,
    app_limited: Option<bool>,
    srtt: Option<f64>,
    min_rtt: Option<f64>,
    /// Whether the trace has samples; if not, the smoothed times stand for them.
    has_samples: bool,
    rtt: Series,
    windows: Series,
    lost_bytes: u64,
    first_losses: Option<u64>,
    first_lost_bytes: Option<u64>,
    last_loss: Option<f64>,
    loss_episodes: u64,
    ce: f64,
    pacing_rate: Option<f64>,
    sending: Rate,
    quic_version: Word,
    flight: InFlight,
    sent_streams: Streams,
    received_streams: Streams,
    waits: Waits,
    floor: FloorWatch,
    states: StateWatch,
    peer: PeerWatch,
    rates: RateWatch,
    closing: Closing,
    algorithms: Algorithms,
    triggers: Vec<Firing>,
}

impl Default for Analysis {
    fn default() -> Self {
        Analysis::new()
    }
}

impl Analysis {
    /// Begins the analysis of a trace.
    pub fn new() -> Analysis {
        Analysis {
            now: 0.0,
            events: 0,
            begins_at: None,
            traffic: Traffic::default(),
            packet: USUAL_PACKET,
            cwnd: None,
            in_flight: None,
            max_in_flight: None,
            min_window: None,
            app_limited: None,
            srtt: None,
            min_rtt: None,
            has_samples: false,
            rtt: Series::new(1e3),
            windows: Series::new(1.0),
            lost_bytes: 0,
            first_losses: None,
            first_lost_bytes: None,
            last_loss: None,
            loss_episodes: 0,
            ce: 0.0,
            pacing_rate: None,
            sending: Rate::default(),
            quic_version: Word::default(),
            flight: InFlight::default(),
            sent_streams: Streams::default(),
            received_streams: Streams::default(),
            waits: Waits::new(),
            floor: FloorWatch::default(),
            states: StateWatch::default(),
            peer: PeerWatch::default(),
            rates: RateWatch::default(),
            closing: Closing::default(),
            algorithms: Algorithms::default(),
            triggers: Vec::new(),
        }
    }

    /// Takes an event. Its time is not before that of the last one.
    pub fn on_event(&mut self, event: &TraceEvent) {
        self.advance(event.at);
        self.events += 1;
        match &event.kind {
            Kind::Sent(packet) => self.on_sent(packet),
            Kind::Received(packet) => self.on_received(packet),
            Kind::Lost { space, number } => {
                let size = self.flight.on_lost(*space, *number);
                // quiche tells its losses by totals alone; a trace that has both is believed once.
                if self.first_losses.is_none() {
                    self.on_lost(1, size);
                }
            }
            Kind::ManyLost { packets, bytes } => self.on_lost(*packets, *bytes),
            Kind::Sums(sums) => self.on_sums(*sums),
            Kind::Trigger { name, at, age } => {
                self.on_trigger(*name, *at);
                if let Some(age) = age {
                    self.on_age(*age, at.unwrap_or(self.now));
                }
            }
            Kind::Age(age) => self.on_age(*age, self.now),
            Kind::Metrics(metrics) => self.on_metrics(metrics),
            Kind::CongestionState(name) => self.states.on_state(*name, self.now),
            Kind::Switched { old, new } => self.algorithms.on_switch(*old, *new, self.now),
            Kind::ConnectionState(name) => {
                if matches!(
                    name.as_str(),
                    "handshake_complete" | "handshake_completed" | "handshake_confirmed"
                ) {
                    self.peer.on_established(self.now);
                }
            }
            Kind::Closed { close, trigger, by_peer } => {
                self.closing.on_event(*close, *trigger, *by_peer, self.now);
            }
            Kind::Blocked(blocked) => self.waits.on_blocked(*blocked),
            Kind::ProbeTimeout => self.peer.on_timeout(),
            Kind::Parameters { min_window, max_datagram } => {
                self.min_window = min_window.or(self.min_window);
                self.packet = max_datagram.map_or(self.packet, |size| size.clamp(1, MAX_PACKET));
            }
            Kind::Version(version) => self.quic_version = *version,
            Kind::Other => {}
        }
        self.waits.estimate(Inputs {
            is_established: self.peer.is_established(),
            cwnd: self.cwnd,
            in_flight: self.in_flight,
            packet: self.packet,
            app_limited: self.app_limited,
            is_paced: self.is_paced(),
        });
    }

    /// Returns whether the sender has of late used most of what its pacer allows.
    fn is_paced(&self) -> bool {
        let rate = 8.0 * self.sending.at(self.now, self.srtt);
        self.pacing_rate.is_some_and(|pacing| pacing > 0.0 && rate >= PACED * pacing)
    }

    /// Returns what the sender waits for after the latest event.
    pub fn wait(&self) -> SenderWait {
        self.waits.current()
    }

    /// Returns the number of probe timeouts so far.
    pub fn timeouts(&self) -> u64 {
        self.peer.total_timeouts()
    }

    /// Adds the time since the last event to what held in it.
    fn advance(&mut self, at: f64) {
        let from = std::mem::replace(&mut self.now, at);
        if at <= from {
            return;
        }
        let is_waiting = self.waits.current().is_congestion();
        self.waits.advance(from, at);
        let round_trips = (at - from) / self.srtt.unwrap_or(100.0).max(0.01);
        self.states.advance(from, at, round_trips, is_waiting);
        let is_queued =
            self.srtt.zip(self.min_rtt).is_some_and(|(srtt, min)| srtt > 2.0 * min + 5.0);
        self.rates.advance(from, at, is_waiting, is_queued);
        self.floor.advance(Held {
            from,
            to: at,
            round_trips,
            window_at_floor: self.cwnd.filter(|cwnd| self.is_at_floor(*cwnd)),
            is_waiting,
            is_silent: self.peer.is_silent(),
        });
        if let Some(cwnd) = self.cwnd {
            self.windows.add(cwnd as f64, crate::number::whole((at - from) * 1e3));
        }
    }

    /// Returns the least window, bytes: what the trace says, or two packets (RFC 9002 §7.2).
    pub fn floor(&self) -> u64 {
        self.min_window.unwrap_or(2 * self.packet)
    }

    /// Returns whether a window is at the minimum, or grows by next to nothing from there.
    fn is_at_floor(&self, cwnd: u64) -> bool {
        // BBR's minimum is four packets, and it is there on purpose while it probes for the round-trip time.
        let is_bbr = self.states.name().is_some_and(|state| {
            let state = state.as_str().to_ascii_lowercase();
            state.contains("probe") || state.contains("startup") || state.contains("drain")
        });
        let packets = if is_bbr { 4 } else { 3 };
        cwnd <= (packets * self.packet).max(self.min_window.unwrap_or(0))
    }

    fn on_sent(&mut self, packet: &TracedPacket) {
        self.traffic.packets_sent += 1;
        self.traffic.bytes_sent = self.traffic.bytes_sent.saturating_add(packet.size);
        if packet.is_1rtt && packet.size > self.packet {
            self.packet = packet.size.min(MAX_PACKET);
        }
        self.sending.add(packet.size as f64, self.now, self.srtt);
        if let (Some(number), true) = (packet.number, packet.frames.is_ack_eliciting) {
            self.flight.on_sent(packet.space, number, packet.size);
        }
        for piece in &packet.frames.pieces {
            self.sent_streams.add(*piece);
        }
        self.peer.on_sent(packet, self.now);
        self.waits.on_sent(&packet.frames);
        self.floor.on_sent(1);
        self.rates.on_sent(1);
        if let Some(close) = packet.frames.close {
            self.closing.on_frame(close, false, self.now);
        }
    }

    fn on_sums(&mut self, sums: PacketSums) {
        let PacketSums { sent, sent_bytes, acked_bytes, lost } = sums;
        let traffic = &mut self.traffic;
        traffic.packets_sent = traffic.packets_sent.saturating_add(sent);
        traffic.bytes_sent = traffic.bytes_sent.saturating_add(sent_bytes);
        traffic.bytes_acknowledged = traffic.bytes_acknowledged.saturating_add(acked_bytes);
        self.sending.add(sent_bytes as f64, self.now, self.srtt);
        self.floor.on_sent(sent);
        self.rates.on_sent(sent);
        if acked_bytes > 0 {
            self.peer.on_acked(self.now);
            self.floor.on_acked(acked_bytes);
            self.rates.on_acked(acked_bytes);
        }
        self.on_lost(lost, 0);
    }

    fn on_trigger(&mut self, name: Word, at: Option<f64>) {
        if self.triggers.len() < MAX_TRIGGERS {
            let name = name.as_str().to_owned();
            self.triggers.push(Firing { trigger: name, at_ms: at.unwrap_or(self.now) });
        }
    }

    /// Takes the age of the connection at a time.
    fn on_age(&mut self, age: f64, at: f64) {
        self.begins_at.get_or_insert((age - at).max(0.0));
    }

    fn on_received(&mut self, packet: &TracedPacket) {
        self.traffic.packets_received += 1;
        self.traffic.bytes_received = self.traffic.bytes_received.saturating_add(packet.size);
        for piece in &packet.frames.pieces {
            self.received_streams.add(*piece);
        }
        self.peer.on_received(packet, self.now);
        self.waits.on_received(&packet.frames);
        let acked = self.flight.on_acked(packet.space, &packet.frames.acked);
        self.traffic.bytes_acknowledged = self.traffic.bytes_acknowledged.saturating_add(acked);
        self.floor.on_acked(acked);
        self.rates.on_acked(acked);
        if let Some(ce) = packet.frames.ce.filter(|ce| *ce > self.ce) {
            self.ce = ce;
            self.states.on_signal(1);
        }
        if let Some(close) = packet.frames.close {
            self.closing.on_frame(close, true, self.now);
        }
    }

    fn on_lost(&mut self, packets: u64, bytes: u64) {
        self.traffic.packets_lost = self.traffic.packets_lost.saturating_add(packets);
        self.lost_bytes = self.lost_bytes.saturating_add(bytes);
        self.states.on_signal(packets);
        if packets == 0 {
            return;
        }
        self.floor.on_lost(packets);
        self.rates.on_lost(packets);
        let round_trip = self.srtt.unwrap_or(100.0);
        if self.last_loss.is_none_or(|last| self.now - last > round_trip) {
            self.loss_episodes += 1;
        }
        self.last_loss = Some(self.now);
    }

    fn on_metrics(&mut self, metrics: &RecoveryMetrics) {
        self.cwnd = metrics.cwnd.or(self.cwnd);
        if let Some(cwnd) = metrics.cwnd {
            self.windows.add(cwnd as f64, 0);
        }
        self.in_flight = metrics.in_flight.or(self.in_flight);
        self.max_in_flight = self.max_in_flight.max(metrics.in_flight);
        self.app_limited = metrics.app_limited.or(self.app_limited);
        self.srtt = metrics.smoothed_rtt.or(self.srtt);
        self.pacing_rate = metrics.pacing_rate.or(self.pacing_rate);
        match (metrics.latest_rtt, metrics.smoothed_rtt) {
            (Some(sample), _) if sample > 0.0 => {
                if !std::mem::replace(&mut self.has_samples, true) {
                    // What came before was the assumption of a connection without a sample.
                    self.rtt = Series::new(1e3);
                }
                self.rtt.add(sample, 1);
                self.min_rtt = Some(self.min_rtt.map_or(sample, |min| min.min(sample)));
            }
            (_, Some(smoothed)) if !self.has_samples && smoothed > 0.0 => self.rtt.add(smoothed, 1),
            _ => {}
        }
        if let Some(count) = metrics.pto_count {
            self.peer.on_pto_count(count);
        }
        if let Some(state) = metrics.state {
            self.states.on_state(state, self.now);
        }
        self.on_loss_totals(metrics);
    }

    fn on_loss_totals(&mut self, metrics: &RecoveryMetrics) {
        let mut more_bytes = 0;
        if let Some(total) = metrics.lost_bytes {
            let first = *self.first_lost_bytes.get_or_insert(total);
            more_bytes = total.saturating_sub(first).saturating_sub(self.lost_bytes);
        }
        if let Some(total) = metrics.lost_packets {
            self.states.on_loss_count();
            let first = *self.first_losses.get_or_insert(total);
            let more = total.saturating_sub(first).saturating_sub(self.traffic.packets_lost);
            self.on_lost(more, more_bytes);
        } else if more_bytes > 0 {
            self.lost_bytes = self.lost_bytes.saturating_add(more_bytes);
        }
    }

    /// Returns the summary.
    pub fn finish(mut self, header: &TraceHeader, oddities: Oddities) -> Summary {
        let origin = Origin::new(header);
        let verdicts = self.verdicts();
        let (handshake, handshake_ms) = self.peer.handshake();
        let tells_waits = self.waits.is_told || self.cwnd.is_some();
        self.traffic.bytes_retransmitted = self.sent_streams.repeated;
        self.traffic.stream_bytes_sent = self.sent_streams.bytes;
        // quiche counts lost packets, and not always their bytes.
        let tells_bytes = self.lost_bytes > 0 || self.traffic.packets_lost == 0;
        self.traffic.bytes_lost = tells_bytes.then_some(self.lost_bytes);
        self.traffic.stream_bytes_received = self.received_streams.bytes;
        let version = self.quic_version.as_str();
        Summary {
            file: String::new(),
            verdicts,
            title: origin.title,
            writer: origin.writer,
            qlog: origin.qlog,
            vantage_point: origin.vantage_point,
            congestion_control: self
                .algorithms
                .words(origin.congestion_control, self.begins_at.unwrap_or(0.0)),
            quic_version: (!version.is_empty()).then(|| version.to_owned()),
            began: origin.began,
            begins_at_ms: self.begins_at,
            duration_ms: self.now,
            events: self.events,
            traffic: self.traffic,
            handshake,
            handshake_ms,
            rtt_ms: self.rtt.spread(),
            cwnd_bytes: self.windows.spread(),
            max_in_flight_bytes: self.max_in_flight,
            states: self.states.shares(),
            waits: if tells_waits { self.waits.shares() } else { Vec::new() },
            waits_are_estimates: !self.waits.is_told,
            probe_timeouts: self.peer.total_timeouts(),
            loss_episodes: self.loss_episodes,
            triggers: self.triggers,
            notes: notes(oddities),
        }
    }

    fn verdicts(&mut self) -> Vec<Verdict> {
        let mut verdicts = self.peer.verdicts(self.now);
        verdicts.extend(self.states.verdict());
        let pinned = self.floor.verdict(self.packet);
        if pinned.is_none() {
            verdicts.extend(self.rates.trickle());
        }
        verdicts.extend(pinned);
        verdicts.extend(self.rates.loss(self.now));
        verdicts.extend(self.closing.verdict(self.now));
        verdicts.extend(self.flow_control());
        if verdicts.is_empty() {
            verdicts.push(self.usual());
        }
        verdict::sort(&mut verdicts);
        verdicts
    }

    fn flow_control(&self) -> Option<Verdict> {
        let spans = self.waits.flow_control;
        let share = spans.total / self.now.max(f64::MIN_POSITIVE);
        (spans.total >= 500.0 && share >= 0.2).then(|| Verdict {
            finding: Finding::FlowControlLimited,
            severity: Severity::Warning,
            from_ms: spans.first.unwrap_or(0.0),
            to_ms: spans.last,
            evidence: format!(
                "the peer's windows hold data back for {} in all ({:.0} %), {} at the longest: it does not read, or its windows are small",
                duration(spans.total),
                100.0 * share,
                duration(spans.longest.duration())
            ),
        })
    }

    /// Returns the verdict on a connection without findings.
    fn usual(&self) -> Verdict {
        let verdict = |finding, evidence| Verdict {
            finding,
            severity: Severity::Fine,
            from_ms: 0.0,
            to_ms: self.now,
            evidence,
        };
        let packets = self.traffic.packets_sent + self.traffic.packets_received;
        if packets == 0 && self.cwnd.is_none() {
            let evidence = "the trace has neither packets nor a congestion window".to_owned();
            return verdict(Finding::NothingToJudge, evidence);
        }
        let (sent, received) = (self.sent_streams.bytes, self.received_streams.bytes);
        if received > 10_000 && received / 10 > sent {
            let evidence = format!(
                "received {} of streams, sent {}",
                bytes(received as f64),
                bytes(sent as f64)
            );
            return verdict(Finding::Receiver, evidence);
        }
        let share = |ms: f64| 100.0 * ms / self.now.max(f64::MIN_POSITIVE);
        let network = share(self.waits.time(SenderWait::is_congestion));
        let application = share(self.waits.time(|wait| matches!(wait, SenderWait::Application)));
        let (finding, part) = if network >= 40.0 && network >= application {
            (
                Finding::NetworkLimited,
                format!("waits for the window or the pacer {network:.0} % of the time"),
            )
        } else if application >= 40.0 {
            (Finding::ApplicationLimited, format!("nothing to send {application:.0} % of the time"))
        } else {
            (Finding::Unremarkable, String::new())
        };
        let rate = self.traffic.bytes_acknowledged as f64 / (self.now / 1e3).max(1e-3);
        let rate = if rate > 0.0 { format!("{}/s delivered", bytes(rate)) } else { String::new() };
        let glue = if rate.is_empty() || part.is_empty() { "" } else { "; " };
        verdict(finding, format!("{part}{glue}{rate}"))
    }
}

fn notes(oddities: Oddities) -> Vec<String> {
    let mut notes = Vec::new();
    if oddities.backward > 0 {
        notes.push(format!("events before their predecessors in time: {}", oddities.backward));
    }
    if oddities.untimed > 0 {
        notes.push(format!("dropped events whose time is none: {}", oddities.untimed));
    }
    if oddities.is_mixed {
        notes.push(
            "events of several connections (group_id) are mixed: the figures are of all together"
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests;
