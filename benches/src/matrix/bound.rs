//! Bounds: a figure, the algorithms it binds, and the values that it may have.

use std::fmt;
use std::time::Duration;

use super::slow_starts::STANDARD;
use crate::virtual_net::Control;

/// Control that [`Measure::DoneOverReno`] compares with.
const RENO: Control = Control::of("reno");

/// A figure of a run, or of all runs of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// Seconds until everything arrived, the longest of all runs; infinite where one did not end.
    Done,
    /// Seconds until everything of every flow arrived; infinite where one did not end.
    AllDone,
    /// Mean time until everything arrived, as a multiple of Reno's.
    DoneOverReno,
    /// Share of the runs that did not end in time.
    NotDone,
    /// Time that the slowest of the pages took from its request on, as a multiple of a round trip and its bytes at the link's rate;
    /// infinite where one is missing.
    SlowestPage,
    /// Seconds until the link was full for the first time: until a second in which at least 95 % of what it carries arrived.
    Filled,
    /// Packets lost.
    LostPackets,
    /// Mean number of packets lost, as a multiple of that of CUBIC with standard slow start.
    LostOverStandard,
    /// Times that recovery began without loss or mark.
    UnexplainedRecoveries,
    /// Share of the link that arrived between two times.
    Share {
        /// Start of the interval.
        from: Duration,
        /// End of the interval; the run may end earlier.
        until: Duration,
    },
    /// Share of the link that arrived after this time, of all flows together.
    Utilization {
        /// Start of the interval, which lasts until the end of the run.
        from: Duration,
    },
    /// Share of the link in the worst of all stretches of this length, the first left out where `skip_first`.
    WorstStretch {
        /// Length of each stretch.
        length: Duration,
        /// Whether start-up counts.
        skip_first: bool,
    },
    /// Share of the packets sent after this time that was lost.
    Loss {
        /// Start of the interval, which lasts until the end of the run.
        from: Duration,
    },
    /// Mean smoothed round-trip time after this time, in round trips of the empty path.
    Delay {
        /// Start of the interval, which lasts until the end of the run.
        from: Duration,
    },
    /// Mean window after this time, datagrams.
    MeanWindow {
        /// Start of the interval, which lasts until the end of the run.
        from: Duration,
    },
    /// Largest window over the most bytes in flight.
    WindowOverInFlight,
    /// Difference between the pause that ended at this time and the shift of the growth curve, round trips.
    EpochError {
        /// Time at which the application had data again.
        restart: Duration,
    },
    /// Largest burst over what was allowed, from this time on.
    Burst {
        /// Start of the interval, which lasts until the end of the run.
        from: Duration,
    },
    /// Seconds from this time until the queue was this small, bytes, and stayed so for a second.
    Drained {
        /// Start of the interval, which lasts until the end of the run.
        at: Duration,
        /// Size of the queue, bytes.
        below: u64,
    },
    /// Jain's index of the flows' rates after this time.
    Jain {
        /// Start of the interval, which lasts until the end of the run.
        from: Duration,
    },
    /// The smallest flow's rate after this time, as a multiple of its fair share.
    SmallestShare {
        /// Start of the interval, which lasts until the end of the run.
        from: Duration,
    },
}

/// Unit in which a figure is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Seconds,
    Percent,
    Times,
    Count,
    Datagrams,
    RoundTrips,
    Index,
}

impl Measure {
    /// Returns the name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::AllDone => "all done",
            Self::DoneOverReno => "mean time against Reno's",
            Self::NotDone => "not done",
            Self::SlowestPage => "slowest page",
            Self::Filled => "link filled",
            Self::LostPackets => "packets lost",
            Self::LostOverStandard => "packets lost against standard slow start's",
            Self::UnexplainedRecoveries => "recoveries without loss",
            Self::Share { .. } => "of the link",
            Self::Utilization { .. } => "of the link, all flows",
            Self::WorstStretch { .. } => "of the link in the worst stretch",
            Self::Loss { .. } => "lost",
            Self::Delay { .. } => "mean srtt against the empty path",
            Self::MeanWindow { .. } => "mean window",
            Self::WindowOverInFlight => "window against bytes in flight",
            Self::EpochError { .. } => "error of the epoch",
            Self::Burst { .. } => "burst against the quantum",
            Self::Drained { .. } => "queue drained",
            Self::Jain { .. } => "Jain's index",
            Self::SmallestShare { .. } => "smallest of fair share",
        }
    }

    const fn form(self) -> Form {
        match self {
            Self::Done | Self::AllDone | Self::Filled | Self::Drained { .. } => Form::Seconds,
            Self::NotDone
            | Self::Share { .. }
            | Self::Utilization { .. }
            | Self::WorstStretch { .. }
            | Self::Loss { .. } => Form::Percent,
            Self::DoneOverReno
            | Self::SlowestPage
            | Self::LostOverStandard
            | Self::Delay { .. }
            | Self::WindowOverInFlight
            | Self::Burst { .. }
            | Self::SmallestShare { .. } => Form::Times,
            Self::UnexplainedRecoveries | Self::LostPackets => Form::Count,
            Self::MeanWindow { .. } => Form::Datagrams,
            Self::EpochError { .. } => Form::RoundTrips,
            Self::Jain { .. } => Form::Index,
        }
    }

    /// Returns the control that it compares with, if it does.
    pub fn reference(self) -> Option<Control> {
        match self {
            Self::DoneOverReno => Some(RENO),
            Self::LostOverStandard => Some(STANDARD),
            _ => None,
        }
    }

    /// Returns a figure of this measure, with its unit.
    pub fn show(self, value: f64) -> String {
        if value.is_infinite() {
            return "never".to_owned();
        }
        match self.form() {
            Form::Seconds => format!("{value:.2} s"),
            Form::Percent => format!("{:.1} %", 100.0 * value),
            Form::Times => format!("{value:.2} ×"),
            Form::Count => format!("{value:.0}"),
            Form::Datagrams => format!("{value:.1}"),
            Form::RoundTrips => format!("{value:.2} RTT"),
            Form::Index => format!("{value:.3}"),
        }
    }
}

/// Bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// The worst run has at least this.
    AtLeast(f64),
    /// The worst run has at most this.
    AtMost(f64),
    /// The mean over all runs is within 25 % of this.
    Near(f64),
    /// The mean over all runs is reported, and judges nobody.
    ReportOnly,
}

/// Room around [`Limit::Near`].
const NEAR: f64 = 0.25;

impl Limit {
    /// Returns whether a figure keeps the bound; NaN does not.
    pub fn admits(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Near(target) => (value - target).abs() <= NEAR * target,
            Self::ReportOnly => true,
        }
    }

    /// Returns by how much a figure fails the bound; infinity for NaN.
    pub fn excess(self, value: f64) -> f64 {
        let excess = match self {
            Self::AtLeast(least) => least - value,
            Self::AtMost(most) => value - most,
            Self::Near(target) => (value - target).abs(),
            Self::ReportOnly => 0.0,
        };
        if excess.is_nan() { f64::INFINITY } else { excess }
    }

    /// Returns the figure of a cell from those of its runs.
    pub fn fold(self, values: &[f64]) -> f64 {
        match self {
            Self::AtLeast(_) => values.iter().copied().fold(f64::INFINITY, f64::min),
            Self::AtMost(_) => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Self::Near(_) | Self::ReportOnly => values.iter().sum::<f64>() / values.len() as f64,
        }
    }
}

/// The algorithms that a bound judges, those with options by name and options; the figure of the others is only shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Every algorithm.
    All,
    /// These algorithms.
    Only(&'static [&'static str]),
    /// Every algorithm but these.
    Except(&'static [&'static str]),
}

impl Who {
    /// Returns whether the algorithm of that name is judged.
    pub fn binds(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(&name),
            Self::Except(names) => !names.contains(&name),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => Ok(()),
            Self::Only(names) => write!(f, "{}: ", names.join(", ")),
            Self::Except(names) => write!(f, "all but {}: ", names.join(", ")),
        }
    }
}

/// A requirement of a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Algorithms that it judges.
    pub who: Who,
    /// Figure that is judged.
    pub measure: Measure,
    /// Limit of the figure.
    pub limit: Limit,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, measure, limit } = self;
        let (sign, value) = match *limit {
            Limit::AtLeast(value) => (" ≥ ", measure.show(value)),
            Limit::AtMost(value) => (" ≤ ", measure.show(value)),
            Limit::Near(value) => (" ≈ ", measure.show(value)),
            Limit::ReportOnly => return write!(f, "({})", measure.name()),
        };
        write!(f, "{who}{}{sign}{value}", measure.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_run_decides() {
        assert_eq!(Limit::AtLeast(0.9).fold(&[0.95, 0.8, 1.0]), 0.8);
        assert_eq!(Limit::AtMost(10.0).fold(&[3.0, f64::INFINITY]), f64::INFINITY);
        assert_eq!(Limit::Near(3.0).fold(&[2.0, 4.0]), 3.0);
    }

    #[test]
    fn figures_outside_are_refused() {
        for (limit, good, bad) in [
            (Limit::AtLeast(0.9), 0.9, 0.899),
            (Limit::AtMost(10.0), 10.0, f64::INFINITY),
            (Limit::Near(100.0), 75.0, 74.9),
            (Limit::Near(100.0), 125.0, 125.1),
            (Limit::AtMost(1.0), 0.0, f64::NAN),
        ] {
            assert!(limit.admits(good), "{limit:?}, {good}");
            assert!(!limit.admits(bad), "{limit:?}, {bad}");
        }
    }

    #[test]
    fn bounds_read_as_sentences() {
        let bound = Bound {
            who: Who::Only(&["bbr3"]),
            measure: Measure::Loss { from: Duration::ZERO },
            limit: Limit::AtMost(0.1),
        };
        assert_eq!(bound.to_string(), "bbr3: lost ≤ 10.0 %");
        assert!(bound.who.binds("bbr3") && !bound.who.binds("reno"));
        let shown = Bound { limit: Limit::ReportOnly, ..bound };
        assert_eq!(shown.to_string(), "(lost)");
    }
}
