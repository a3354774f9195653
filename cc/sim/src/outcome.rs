//! Results of a run.

use std::time::Duration;

use sluicegate_cc::{Snapshot, State};

/// Result of one flow. Times count from the start of the simulation unless said otherwise.
#[derive(Clone, Debug, Default)]
pub struct FlowOutcome {
    /// Time from the flow's start until all its data arrived; `None` if some did not.
    pub completed: Option<Duration>,
    /// Bytes that arrived, each counted once.
    pub delivered: u64,
    /// Packets that left.
    pub sent_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Packets declared lost that were acknowledged later.
    pub spurious_losses: u64,
    /// Most bytes in flight.
    pub max_in_flight: u64,
    /// Smallest window, bytes.
    pub min_cwnd: u64,
    /// Largest window, bytes.
    pub max_cwnd: u64,
    /// Number of times that persistent congestion was established.
    pub persistent_congestions: u64,
    /// Number of times that recovery began in an event without a loss or CE mark.
    pub unexplained_recoveries: u64,
    /// Times that the pages took their receiver, from the request, half a round trip before the sender has it, to the last byte.
    pub pages: Vec<Duration>,
    /// Every change of state.
    pub transitions: Vec<Transition>,
    /// Samples of the flow at regular times.
    pub samples: Vec<Sample>,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Time of the change.
    pub at: Duration,
    /// State before.
    pub from: State,
    /// State after.
    pub to: State,
}

/// State of a flow at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time of the sample.
    pub at: Duration,
    /// State of the controller.
    pub snapshot: Snapshot,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Bytes that arrived so far, each counted once.
    pub delivered: u64,
    /// Packets that left so far.
    pub sent_packets: u64,
    /// Packets declared lost so far.
    pub lost_packets: u64,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Most bytes that left at one instant since the sample before, probes of the PTO not included.
    pub burst: u64,
    /// Largest burst that the controller allowed since the sample before.
    pub quantum: u64,
}

impl FlowOutcome {
    /// Returns the bits per second that arrived between two times, by the samples nearest to them.
    pub fn throughput(&self, from: Duration, until: Duration) -> f64 {
        let at_or_after = |time| self.samples.iter().find(|s| s.at >= time);
        let (Some(first), Some(last)) =
            (at_or_after(from), at_or_after(until).or(self.samples.last()))
        else {
            return 0.0;
        };
        let seconds = last.at.saturating_sub(first.at).as_secs_f64();
        if seconds == 0.0 {
            return 0.0;
        }
        (last.delivered - first.delivered) as f64 * 8.0 / seconds
    }

    /// Returns how often a state was entered.
    pub fn entered(&self, state: State) -> usize {
        self.transitions.iter().filter(|t| t.to == state).count()
    }

    /// Returns the mean window over the samples between two times, bytes.
    pub fn mean_cwnd(&self, from: Duration, until: Duration) -> f64 {
        let within = self.samples.iter().filter(|s| from <= s.at && s.at < until);
        let (sum, count) =
            within.fold((0.0, 0u32), |(sum, count), s| (sum + s.snapshot.cwnd as f64, count + 1));
        sum / f64::from(count.max(1))
    }
}
