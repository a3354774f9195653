//! A scenario: a bottleneck, the flows over it, their duration, and the bounds to keep.

use std::time::Duration;

use sluicegate_cc::PathChange;
use sluicegate_sim::{Bottleneck, Cellular, ReceiveWindow, Source};

use super::bound::Bound;
use crate::virtual_net::{Control, PageLoad};

/// Place where a scenario is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// The simulator of the congestion control crate.
    Simulator,
    /// Real connections in virtual time: with our algorithms those of the server's own endpoint, with quiche's a bare one.
    EndToEnd,
}

impl Place {
    /// Both places.
    pub const ALL: [Self; 2] = [Self::Simulator, Self::EndToEnd];

    /// Returns the name that the command line has for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simulator => "simulator",
            Self::EndToEnd => "end-to-end",
        }
    }
}

/// The flows of a scenario: the one that is judged, and the traffic beside it.
#[derive(Clone, Debug)]
pub enum CrossTraffic {
    /// The judged flow alone, with this data.
    Alone(Source),
    /// Flows of the same algorithm that never end.
    SameAlgorithm {
        /// Number of flows.
        flows: u64,
        /// Time between their starts.
        apart: Duration,
    },
    /// Flows of the same algorithm with this many bytes each, all at once.
    Incast {
        /// Number of flows.
        flows: u64,
        /// Bytes of each.
        bytes: u64,
    },
    /// A flow of CUBIC beside the judged flow, both without end.
    Cubic,
    /// Two flows of the same algorithm that come and go beside a judged flow without end.
    ComingAndGoing,
}

/// Seeds and duration of the runs in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Seeds, from 0.
    pub seeds: u64,
    /// Virtual time at which a run ends at the latest.
    pub limit: Duration,
}

/// The efforts of a scenario in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Efforts {
    /// Effort in the whole matrix.
    pub whole: Effort,
    /// Effort in its core; `None` if the scenario is no part of it.
    pub core: Option<Effort>,
}

/// The controls that a scenario tries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum For {
    /// Every algorithm of the registry, and beside them quiche's CUBIC and BBR where there is a single connection.
    Everyone,
    /// The same, but of quiche's only this one.
    EveryoneAnd(Control),
    /// Every algorithm of the registry but this one.
    EveryoneBut(&'static str),
    /// These controls alone.
    Only(&'static [Control]),
}

/// One row of the matrix.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// Parameters in words, for the report.
    pub parameters: &'static str,
    /// The path.
    pub bottleneck: Bottleneck,
    /// Link whose rates over time replace the path's, others with each seed.
    pub cellular: Option<Cellular>,
    /// The flows.
    pub cross_traffic: CrossTraffic,
    /// Changes of the clients' addresses, in order of time. The path stays the same.
    pub path_changes: Vec<(Duration, PathChange)>,
    /// Flow control of the judged flow's receiver.
    pub receive_window: Option<ReceiveWindow>,
    /// Pages in which the judged flow's data is requested.
    pub pages: Option<PageLoad>,
    /// The controls that it tries.
    pub tried: For,
    /// Whether algorithms with a scalable response to CE marks take part. Without marks they are CUBIC in all but pacing, so most
    /// scenarios would say the same of both.
    pub scalable: bool,
    /// Runs in the simulator; `None` for none.
    pub simulator: Option<Efforts>,
    /// Runs through real connections; `None` for none.
    pub end_to_end: Option<Efforts>,
    /// Bounds to keep, in the order of the report.
    pub bounds: Vec<Bound>,
    /// Where the bounds are from: the RFC or draft with its section, or the peer's test.
    pub source: &'static str,
}

impl Scenario {
    /// Returns the effort in that place; `core` picks the short version.
    pub fn effort(&self, place: Place, core: bool) -> Option<Effort> {
        let efforts = match place {
            Place::Simulator => self.simulator,
            Place::EndToEnd => self.end_to_end,
        }?;
        if core { efforts.core } else { Some(efforts.whole) }
    }

    /// Returns whether it tries algorithms with other than their default options.
    pub fn tries_options(&self) -> bool {
        let has_options = |control: &Control| matches!(control, Control::Ours(configured) if !configured.options.is_empty());
        matches!(self.tried, For::Only(controls) if controls.iter().any(has_options))
    }

    /// Returns the scenario of one seed: with the rates that its link has then, if these are random.
    #[must_use]
    pub fn drawn(&self, seed: u64, limit: Duration) -> Self {
        let mut drawn = self.clone();
        if let Some(kind) = self.cellular {
            drawn.bottleneck.rate = kind.rates(seed, limit);
        }
        drawn
    }

    /// Returns the bits per second that the path forwards at a time: its rate, or that of its policer.
    pub fn capacity(&self, at: Duration) -> f64 {
        if let Some(policer) = self.bottleneck.policer {
            return policer.bits_per_second as f64;
        }
        let rates = self.bottleneck.rate.iter().take_while(|(from, _)| *from <= at);
        rates.last().map_or(0.0, |&(_, rate)| rate as f64)
    }

    /// Returns the mean capacity between two times.
    pub fn mean_capacity(&self, from: Duration, until: Duration) -> f64 {
        let within = self.bottleneck.rate.iter().map(|&(at, _)| at);
        let within = within.filter(|&at| from < at && at < until);
        let starts: Vec<_> = [from].into_iter().chain(within).collect();
        let ends = starts.iter().skip(1).chain([&until]);
        let bits = starts
            .iter()
            .zip(ends)
            .map(|(&start, &end)| self.capacity(start) * end.saturating_sub(start).as_secs_f64());
        bits.sum::<f64>() / until.saturating_sub(from).as_secs_f64()
    }

    /// Returns the smallest capacity between two times.
    pub fn least_capacity(&self, from: Duration, until: Duration) -> f64 {
        let within = self.bottleneck.rate.iter().map(|&(at, _)| at);
        let within = within.filter(|&at| from < at && at < until);
        within.map(|at| self.capacity(at)).fold(self.capacity(from), f64::min)
    }

    /// Returns the round-trip time of the empty path.
    pub fn round_trip(&self) -> Duration {
        self.bottleneck.delay * 2
    }
}
