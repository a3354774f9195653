//! A picture of a trace: one time axis for the window, waits and states, round-trip times, rates and streams.

mod columns;
mod panel;
mod scale;
mod svg;

use crate::analysis::Analysis;
use crate::analysis::packets::{InFlight, Streams};
use crate::event::{Kind, RecoveryMetrics, TraceEvent, TracedPacket};
use crate::follow::{Follower, Oddities};
use crate::reader::TraceHeader;
use crate::summary::Summary;

use columns::{Columns, Flow, Level};

pub use svg::draw;

/// Gathers the picture of one trace of a file, with its summary.
#[derive(Debug)]
pub struct Gather {
    /// Number of traces to skip.
    skip: u64,
    analysis: Option<Analysis>,
    columns: Columns,
    flight: InFlight,
    sent: Streams,
    received: Streams,
    lost: Option<u64>,
    has_sample: bool,
    timeouts: u64,
    summary: Option<Summary>,
    floor: Option<f64>,
}

impl Gather {
    /// Gathers the `number`th trace of a file, from 1.
    pub fn new(number: u64) -> Gather {
        Gather {
            skip: number.saturating_sub(1),
            analysis: None,
            columns: Columns::new(),
            flight: InFlight::default(),
            sent: Streams::default(),
            received: Streams::default(),
            lost: None,
            has_sample: false,
            timeouts: 0,
            summary: None,
            floor: None,
        }
    }

    /// Returns the picture, if there was such a trace.
    pub fn finish(self) -> Option<Picture> {
        Some(Picture { summary: self.summary?, columns: self.columns, floor: self.floor })
    }

    fn on_sent(&mut self, packet: &TracedPacket) {
        self.columns.flow(Flow::Sent, packet.size as f64);
        if let (Some(number), true) = (packet.number, packet.frames.is_ack_eliciting) {
            self.flight.on_sent(packet.space, number, packet.size);
        }
        if !packet.frames.pieces.is_empty() {
            packet.frames.pieces.iter().for_each(|piece| self.sent.add(*piece));
            self.columns.level(Level::StreamsSent, self.sent.bytes as f64);
        }
    }

    fn on_received(&mut self, packet: &TracedPacket) {
        self.columns.flow(Flow::Received, packet.size as f64);
        let acked = self.flight.on_acked(packet.space, &packet.frames.acked);
        self.columns.flow(Flow::Delivered, acked as f64);
        if !packet.frames.pieces.is_empty() {
            packet.frames.pieces.iter().for_each(|piece| self.received.add(*piece));
            self.columns.level(Level::StreamsReceived, self.received.bytes as f64);
        }
    }

    fn on_metrics(&mut self, metrics: &RecoveryMetrics) {
        // Before the first sample the others are assumptions.
        self.has_sample |= metrics.latest_rtt.is_some();
        let measured = |rtt: Option<f64>| rtt.filter(|_| self.has_sample);
        let levels = [
            (Level::Window, metrics.cwnd.map(|bytes| bytes as f64)),
            (Level::InFlight, metrics.in_flight.map(|bytes| bytes as f64)),
            (Level::Threshold, metrics.ssthresh.map(|bytes| bytes as f64)),
            (Level::SmoothedRtt, measured(metrics.smoothed_rtt)),
            (Level::LatestRtt, metrics.latest_rtt),
            (Level::MinRtt, measured(metrics.min_rtt)),
            (Level::Pacing, metrics.pacing_rate.map(|bits| bits / 8.0)),
        ];
        for (level, value) in levels {
            if let Some(value) = value {
                self.columns.level(level, value);
            }
        }
        if let Some(total) = metrics.lost_packets {
            let more = self.lost.map_or(0, |before| total.saturating_sub(before));
            self.lost = Some(total);
            self.columns.lost(more);
        }
        if let Some(state) = metrics.state {
            self.columns.state(state);
        }
    }
}

impl Follower for Gather {
    fn on_trace(&mut self, _: &TraceHeader) {
        if self.skip == 0 && self.summary.is_none() {
            self.analysis = Some(Analysis::new());
        }
    }

    fn on_event(&mut self, event: &TraceEvent) {
        let Some(analysis) = &mut self.analysis else {
            return;
        };
        self.columns.advance(event.at);
        analysis.on_event(event);
        self.columns.wait(analysis.wait());
        let timeouts = analysis.timeouts();
        if timeouts > self.timeouts {
            self.columns.timeout();
            self.timeouts = timeouts;
        }
        match &event.kind {
            Kind::Sent(packet) => self.on_sent(packet),
            Kind::Received(packet) => self.on_received(packet),
            Kind::Lost { space, number } => {
                self.flight.on_lost(*space, *number);
                if self.lost.is_none() {
                    self.columns.lost(1);
                }
            }
            Kind::ManyLost { packets, .. } => self.columns.lost(*packets),
            Kind::Sums(sums) => {
                self.columns.flow(Flow::Sent, sums.sent_bytes as f64);
                self.columns.flow(Flow::Delivered, sums.acked_bytes as f64);
                self.columns.lost(sums.lost);
            }
            Kind::Metrics(metrics) => self.on_metrics(metrics),
            Kind::CongestionState(name) => self.columns.state(*name),
            _ => {}
        }
    }

    fn on_trace_end(&mut self, header: &TraceHeader, oddities: Oddities) {
        if let Some(analysis) = self.analysis.take() {
            self.floor = Some(analysis.floor() as f64);
            self.summary = Some(analysis.finish(header, oddities));
        }
        self.skip = self.skip.saturating_sub(1);
    }

    fn is_done(&self) -> bool {
        self.summary.is_some()
    }
}

/// What a picture shows.
#[derive(Debug)]
pub struct Picture {
    /// Summary of the trace.
    pub summary: Summary,
    columns: Columns,
    /// Least window of the controller, bytes.
    floor: Option<f64>,
}

#[cfg(test)]
mod tests;
