//! The account of what the sender waits for: as the trace names it, or estimated from window and flight.

use std::collections::BTreeMap;

use super::span::Spans;
use crate::event::{Blocked, Frames};
use crate::summary::TimeShare;
use crate::wait::SenderWait;

/// Streams whose waits are remembered.
const MAX_STREAMS: usize = 1024;

/// State from which a wait is estimated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inputs {
    pub(super) is_established: bool,
    pub(super) cwnd: Option<u64>,
    pub(super) in_flight: Option<u64>,
    /// Size of a full packet, bytes.
    pub(super) packet: u64,
    pub(super) app_limited: Option<bool>,
    /// Whether the sender uses up its pacing rate.
    pub(super) is_paced: bool,
}

/// The account. The times of each of its two rows add up to the duration.
#[derive(Debug)]
pub(super) struct Waits {
    /// Whether the trace names waits.
    pub(super) is_told: bool,
    connection: Option<SenderWait>,
    /// Whether it names those of the connection as a whole.
    tells_connection: bool,
    streams: BTreeMap<u64, SenderWait>,
    estimate: SenderWait,
    told: [f64; SenderWait::ALL.len()],
    estimated: [f64; SenderWait::ALL.len()],
    begun: [u64; SenderWait::ALL.len()],
    is_connection_blocked: bool,
    is_stream_blocked: bool,
    /// Time in which the peer's windows hold data back.
    pub(super) flow_control: Spans,
}

impl Waits {
    pub(super) fn new() -> Waits {
        Waits {
            is_told: false,
            connection: None,
            tells_connection: false,
            streams: BTreeMap::new(),
            estimate: SenderWait::Nothing,
            told: [0.0; SenderWait::ALL.len()],
            estimated: [0.0; SenderWait::ALL.len()],
            begun: [0; SenderWait::ALL.len()],
            is_connection_blocked: false,
            is_stream_blocked: false,
            flow_control: Spans::default(),
        }
    }

    /// Returns the wait of this moment.
    pub(super) fn current(&self) -> SenderWait {
        if !self.is_told {
            return self.estimate;
        }
        // One stream may wait while another sends; a writer that tells of the connection knows.
        let of_streams =
            || self.streams.values().next().copied().filter(|_| !self.tells_connection);
        self.connection.or_else(of_streams).unwrap_or(SenderWait::Nothing)
    }

    /// Adds the time since the event before to the waits of that time.
    pub(super) fn advance(&mut self, from: f64, to: f64) {
        let current = self.current();
        self.told[current as usize] += to - from;
        self.estimated[self.estimate as usize] += to - from;
        self.flow_control.hold(current.is_flow_control(), from, to);
    }

    pub(super) fn on_blocked(&mut self, blocked: Blocked) {
        let before = self.current();
        self.is_told = true;
        match (blocked.stream, blocked.wait) {
            (None, wait) => {
                self.tells_connection = true;
                self.connection = wait;
            }
            (Some(stream), None) => drop(self.streams.remove(&stream)),
            (Some(stream), Some(wait)) => {
                if self.streams.len() < MAX_STREAMS || self.streams.contains_key(&stream) {
                    self.streams.insert(stream, wait);
                }
            }
        }
        self.count(before);
    }

    /// Takes what frames say of windows: this end complains that one is full, and the peer moves it.
    pub(super) fn on_sent(&mut self, frames: &Frames) {
        self.is_connection_blocked |= frames.data_blocked;
        self.is_stream_blocked |= frames.stream_data_blocked;
    }

    pub(super) fn on_received(&mut self, frames: &Frames) {
        self.is_connection_blocked &= !frames.max_data;
        self.is_stream_blocked &= !frames.max_stream_data;
    }

    pub(super) fn estimate(&mut self, inputs: Inputs) {
        let before = self.current();
        self.estimate = self.estimated_from(inputs);
        if !self.is_told {
            self.count(before);
        }
    }

    fn estimated_from(&self, inputs: Inputs) -> SenderWait {
        if !inputs.is_established {
            return SenderWait::Handshake;
        }
        let (Some(cwnd), Some(in_flight)) = (inputs.cwnd, inputs.in_flight) else {
            return SenderWait::Nothing;
        };
        if in_flight.saturating_add(inputs.packet) > cwnd {
            return SenderWait::Congestion;
        }
        if self.is_connection_blocked {
            return SenderWait::ConnectionFlow;
        }
        if self.is_stream_blocked {
            return SenderWait::StreamFlow;
        }
        if in_flight > 0 && (inputs.is_paced || inputs.app_limited == Some(false)) {
            return SenderWait::Pacing;
        }
        // That quiche calls a sender limited by the application proves nothing: it does so whenever the flight is below the window. A
        // sender is taken to have more while half of the window is in use, because ACKs of several packets keep flights below it.
        if in_flight > 0 && in_flight >= cwnd / 2 {
            SenderWait::Congestion
        } else {
            SenderWait::Application
        }
    }

    fn count(&mut self, before: SenderWait) {
        let now = self.current();
        if now != before {
            self.begun[now as usize] += 1;
        }
    }

    /// Returns the time in a wait, ms.
    pub(super) fn time(&self, is_one: impl Fn(SenderWait) -> bool) -> f64 {
        let times = if self.is_told { &self.told } else { &self.estimated };
        SenderWait::ALL.iter().zip(times).filter(|(wait, _)| is_one(**wait)).map(|(_, ms)| ms).sum()
    }

    /// Returns the waits, the longest first.
    pub(super) fn shares(&self) -> Vec<TimeShare> {
        let times = if self.is_told { &self.told } else { &self.estimated };
        let rows = SenderWait::ALL.iter().zip(times).zip(self.begun);
        let mut shares: Vec<TimeShare> = rows
            .filter(|((_, ms), _)| **ms > 0.0)
            .map(|((wait, ms), times)| TimeShare { name: wait.name().to_owned(), ms: *ms, times })
            .collect();
        shares.sort_by(|one, other| other.ms.total_cmp(&one.ms));
        shares
    }
}
