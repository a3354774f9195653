//! A scenario: a link, who sends over it, for how long, and what must hold.

use std::time::Duration;

use sluicegate_cc::sim::{Bottleneck, Source};

use super::bound::Bound;
use crate::virtual_net::Control;

/// Where a scenario is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// In the congestion control crate's simulator.
    Simulator,
    /// Through real connections in virtual time.
    EndToEnd,
}

impl Place {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Simulator, Self::EndToEnd];

    /// As the command line has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simulator => "simulator",
            Self::EndToEnd => "end-to-end",
        }
    }
}

/// Who sends.
#[derive(Clone, Debug)]
pub enum Cast {
    /// One flow.
    Alone(Source),
    /// Flows of the same algorithm that never end.
    Alike {
        /// How many.
        flows: u64,
        /// Between their starts.
        apart: Duration,
    },
    /// One flow, and one of CUBIC, both without end.
    BesideCubic,
    /// One flow that never ends, and two of the same algorithm that come and go.
    Visited,
}

/// How much is run in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Seeds, from 0.
    pub seeds: u64,
    /// Each run ends here at the latest.
    pub limit: Duration,
}

/// The efforts of a scenario in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Efforts {
    /// Of the whole matrix.
    pub whole: Effort,
    /// Of its core; `None` where the scenario is no part of it.
    pub core: Option<Effort>,
}

/// Which controls a scenario is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Every algorithm of the registry, and where there are connections the engine's CUBIC and BBR beside them.
    Everyone,
    /// The same, but of the engine's only this one.
    EveryoneAnd(Control),
    /// Every algorithm of the registry but this one.
    EveryoneBut(&'static str),
    /// This control alone.
    Only(Control),
}

/// One row of the matrix.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// On the command line.
    pub name: &'static str,
    /// In words.
    pub parameters: &'static str,
    /// The path.
    pub bottleneck: Bottleneck,
    /// Who sends.
    pub cast: Cast,
    /// Who is tried.
    pub tried: For,
    /// In the simulator.
    pub simulator: Option<Efforts>,
    /// Through real connections.
    pub end_to_end: Option<Efforts>,
    /// What must hold, in the order of the report.
    pub bounds: Vec<Bound>,
}

impl Scenario {
    /// What is run in that place; `core` is the short version.
    pub fn effort(&self, place: Place, core: bool) -> Option<Effort> {
        let efforts = match place {
            Place::Simulator => self.simulator,
            Place::EndToEnd => self.end_to_end,
        }?;
        if core {
            efforts.core
        } else {
            Some(efforts.whole)
        }
    }

    /// Bits per second that the path lets through at a time: its rate, or that of its policer.
    pub fn capacity(&self, at: Duration) -> f64 {
        if let Some(policer) = self.bottleneck.policer {
            return policer.bits_per_second as f64;
        }
        let rates = self
            .bottleneck
            .rate
            .iter()
            .take_while(|(from, _)| *from <= at);
        rates.last().map_or(0.0, |&(_, rate)| rate as f64)
    }

    /// The smallest capacity between two times.
    pub fn least_capacity(&self, from: Duration, until: Duration) -> f64 {
        let within = self.bottleneck.rate.iter().map(|&(at, _)| at);
        let within = within.filter(|&at| from < at && at < until);
        within
            .map(|at| self.capacity(at))
            .fold(self.capacity(from), f64::min)
    }

    /// Of the empty path.
    pub fn round_trip(&self) -> Duration {
        self.bottleneck.delay * 2
    }
}
