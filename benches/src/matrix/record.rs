//! Samples of a run, in one form for both networks.

use std::time::Duration;

use sluicegate_cc::Time;
use sluicegate_sim::FlowOutcome;

use crate::conventions::{BODY_PER_DATAGRAM, DATAGRAM};
use crate::virtual_net::Outcome;

/// A flow over a whole run.
#[derive(Clone, Debug)]
pub struct Record {
    /// Time at which everything had arrived; `None` where the run ended first.
    pub completed: Option<Duration>,
    /// Times that the pages took their client; empty where it loads none.
    pub pages: Vec<Duration>,
    /// Most bytes in flight.
    pub max_in_flight: Option<u64>,
    /// Largest window, bytes.
    pub max_cwnd: u64,
    /// Times that recovery began without loss or mark; `None` where the control does not show it.
    pub unexplained_recoveries: Option<u64>,
    /// Longest time with nothing in flight; `None` where the control does not show it.
    pub longest_idle: Option<Duration>,
    /// The flow over time.
    pub points: Vec<Point>,
}

/// A flow at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Time since the start of the run.
    pub at: Duration,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Bytes of datagrams that arrived so far, each counted once.
    pub delivered: u64,
    /// Packets that left so far.
    pub sent: u64,
    /// Packets declared lost so far.
    pub lost: u64,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Bytes per second; `None` is unpaced or unknown.
    pub pacing_rate: Option<u64>,
    /// State of the algorithm; `None` where the control does not show it.
    pub state: Option<&'static str>,
    /// Start of the growth curve, since the start of the flow.
    pub epoch: Option<Duration>,
    /// Most bytes that left at one instant since the point before.
    pub burst: u64,
    /// Largest burst allowed since the point before; `None` where the control does not show it.
    pub quantum: Option<u64>,
}

impl From<FlowOutcome> for Record {
    fn from(flow: FlowOutcome) -> Self {
        let points: Vec<_> = flow
            .samples
            .iter()
            .map(|sample| Point {
                at: sample.at,
                cwnd: sample.snapshot.cwnd,
                in_flight: sample.in_flight,
                delivered: sample.delivered,
                sent: sample.sent_packets,
                lost: sample.lost_packets,
                srtt: sample.srtt,
                pacing_rate: sample.snapshot.pacing_rate,
                state: Some(sample.snapshot.state.name()),
                epoch: sample.snapshot.epoch.map(|at| at.saturating_since(Time::ZERO)),
                burst: sample.burst,
                quantum: Some(sample.quantum),
            })
            .collect();
        Self {
            completed: flow.completed,
            pages: flow.pages,
            max_in_flight: Some(flow.max_in_flight),
            max_cwnd: flow.max_cwnd,
            unexplained_recoveries: Some(flow.unexplained_recoveries),
            longest_idle: Some(longest_empty(&points)),
            points,
        }
    }
}

impl From<Outcome> for Record {
    fn from(outcome: Outcome) -> Self {
        let inside = outcome.inside;
        let traced = outcome.trace.iter().map(|sample| sample.cwnd).max();
        let points = outcome.trace.iter().map(|sample| {
            let view = sample.view;
            Point {
                at: sample.at,
                cwnd: sample.cwnd,
                in_flight: view.map_or(sample.in_flight, |v| v.in_flight),
                delivered: sample.received * DATAGRAM / BODY_PER_DATAGRAM,
                sent: sample.sent_packets,
                lost: sample.lost_packets,
                srtt: sample.srtt,
                pacing_rate: view.and_then(|v| v.pacing_rate),
                state: sample.state,
                epoch: view.and_then(|v| v.epoch),
                burst: sample.burst,
                quantum: view.map(|v| v.quantum),
            }
        });
        Self {
            completed: outcome.completed,
            pages: outcome.pages,
            max_in_flight: inside.map(|i| i.max_in_flight),
            max_cwnd: inside.map(|i| i.max_cwnd).or(traced).unwrap_or(0),
            unexplained_recoveries: inside.map(|i| i.unexplained_recoveries),
            longest_idle: inside.map(|i| i.longest_idle),
            points: points.collect(),
        }
    }
}

/// Returns the longest time over which every point shows nothing in flight.
fn longest_empty(points: &[Point]) -> Duration {
    let stretches = points.chunk_by(|a, b| (a.in_flight == 0) == (b.in_flight == 0));
    let empty = stretches.filter(|stretch| stretch.iter().all(|p| p.in_flight == 0));
    let length = |stretch: &[Point]| match stretch {
        [first, .., last] => last.at.saturating_sub(first.at),
        _ => Duration::ZERO,
    };
    empty.map(length).max().unwrap_or_default()
}

impl Record {
    /// Returns the first point at `time` or later, else the last.
    pub fn at(&self, time: Duration) -> Option<&Point> {
        let next = self.points.partition_point(|point| point.at < time);
        self.points.get(next).or(self.points.last())
    }

    /// Returns the points from `from` on and before `until`.
    pub fn between(&self, from: Duration, until: Duration) -> &[Point] {
        let start = self.points.partition_point(|point| point.at < from);
        let end = self.points.partition_point(|point| point.at < until);
        self.points.get(start..end).unwrap_or_default()
    }

    /// Returns the time in a state, by the points that show it.
    pub fn time_in(&self, state: &str) -> Duration {
        let pairs = self.points.iter().zip(self.points.iter().skip(1));
        let within = pairs.filter(|(point, _)| point.state == Some(state));
        within.map(|(point, next)| next.at - point.at).sum()
    }

    /// Bits per second that arrived between two times, by the points nearest to them.
    pub fn throughput(&self, from: Duration, until: Duration) -> f64 {
        let (Some(first), Some(last)) = (self.at(from), self.at(until)) else {
            return 0.0;
        };
        let seconds = last.at.saturating_sub(first.at).as_secs_f64();
        if seconds == 0.0 {
            return 0.0;
        }
        last.delivered.saturating_sub(first.delivered) as f64 * 8.0 / seconds
    }
}
