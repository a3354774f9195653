//! Events of a connection in little space.

use std::time::Duration;

use quiche::Figures;
use sluicegate_base::observe::account::Wait;

use super::RestSample;

/// Slow start threshold that is infinite.
pub(crate) const INFINITE: u32 = u32::MAX;

/// What happened. Times are microseconds, and what does not fit is the largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occurrence {
    /// Packets since the last such event, and the window after them.
    Packets {
        /// Packets sent.
        sent: u32,
        /// Bytes of packets sent.
        sent_bytes: u32,
        /// Bytes of packets acknowledged.
        acked_bytes: u32,
        /// Packets declared lost.
        lost: u32,
        /// Congestion window, bytes.
        window: u32,
        /// Bytes in flight.
        in_flight: u32,
    },
    /// Another slow start threshold, bytes.
    Threshold(u32),
    /// Another state of the congestion controller, by its number.
    State(u8),
    /// Another wait.
    Wait(Wait),
    /// A sample of the round-trip time.
    Rtt(Rtt),
    /// Another number of probe timeouts in a row.
    ProbeTimeouts(u32),
    /// Streams since the last such event.
    Streams {
        /// Streams that began.
        begun: u32,
        /// Streams that ended.
        ended: u32,
    },
}

/// Round-trip times, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rtt {
    /// The latest one.
    pub(crate) latest: u32,
    /// The smoothed one.
    pub(crate) smoothed: u32,
    /// The least one.
    pub(crate) min: u32,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// Time since the event before, µs.
    pub(super) after: u32,
    pub(super) what: Occurrence,
}

/// State of a connection, which events change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Congestion window, bytes.
    pub(crate) window: u32,
    /// Bytes in flight.
    pub(crate) in_flight: u32,
    /// Slow start threshold, bytes.
    pub(crate) threshold: u32,
    /// Number of the congestion controller's state.
    pub(crate) state: u8,
    /// What the connection waits for.
    pub(crate) wait: Wait,
    /// Round-trip times.
    pub(crate) rtt: Rtt,
    /// Probe timeouts in a row.
    pub(crate) probe_timeouts: u32,
}

impl Condition {
    /// Returns the state at a look; the controller's has the number 0.
    pub(crate) fn of(look: &RestSample) -> Condition {
        let RestSample { figures, wait, .. } = look;
        Condition {
            window: number(figures.window),
            in_flight: number(figures.in_flight),
            threshold: figures.ssthresh.map_or(INFINITE, number),
            state: 0,
            wait: *wait,
            rtt: Rtt::new(figures),
            probe_timeouts: figures.probe_timeouts,
        }
    }

    pub(super) fn apply(&mut self, what: Occurrence) {
        match what {
            Occurrence::Packets { window, in_flight, .. } => {
                self.window = window;
                self.in_flight = in_flight;
            }
            Occurrence::Threshold(threshold) => self.threshold = threshold,
            Occurrence::State(state) => self.state = state,
            Occurrence::Wait(wait) => self.wait = wait,
            Occurrence::Rtt(rtt) => self.rtt = rtt,
            Occurrence::ProbeTimeouts(count) => self.probe_timeouts = count,
            Occurrence::Streams { .. } => {}
        }
    }
}

impl Rtt {
    pub(super) fn new(figures: &Figures) -> Rtt {
        let micros = |time: Duration| number(time.as_micros());
        Rtt {
            latest: micros(figures.latest_rtt),
            smoothed: micros(figures.rtt),
            min: figures.min_rtt.map_or(0, micros),
        }
    }
}

/// Returns a number in 32 bits, or the largest one.
pub(super) fn number(number: impl TryInto<u32>) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}
