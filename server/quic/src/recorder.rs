//! The flight recorder: the latest events of each active connection in memory, which a trigger has written into a file.
//!
//! A connection lends a `Recorder` from its worker's `RecorderPool` while data moves, and has none while it is idle. At each rest it
//! records what has changed since the rest before, as sums, and watches for what no error tells: see [`Trigger`].

mod event;
mod pool;
mod ring;
mod watch;

use std::time::{Duration, Instant};

use quiche::Figures;
use sluicegate_base::observe::account::Wait;
use sluicegate_base::observe::metrics::labels;

pub(crate) use event::{Condition, INFINITE, Occurrence, Rtt};
pub(crate) use pool::RecorderPool;
pub(crate) use ring::Ring;
use watch::Watch;

labels! {
    /// Cause for which the recorded events of a connection are written into a file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Trigger {
        /// The window stays at its floor although data waits and the client responds.
        WindowFloor = "window_floor",
        /// The controller stays in recovery although nothing is lost and data waits.
        Recovery = "recovery_without_loss",
        /// Probe timeouts in a row.
        ProbeTimeouts = "probe_timeouts",
        /// The client acknowledges nothing for long although data waits.
        NoProgress = "no_progress",
        /// The handshake of a client with a proved address failed.
        Handshake = "handshake_failure",
        /// An operator's command.
        Operator = "operator",
    }
}

impl Trigger {
    /// Returns what is so while it lasts.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::WindowFloor => {
                "the window stays at its floor although data waits and the client responds"
            }
            Self::Recovery => {
                "the controller stays in recovery although nothing is lost and data waits"
            }
            Self::ProbeTimeouts => "probe timeouts in a row: nothing comes from the client",
            Self::NoProgress => "the client acknowledges nothing although data waits",
            Self::Handshake => "the handshake failed",
            Self::Operator => "an operator asked for a file",
        }
    }
}

labels! {
    /// Reason for which a trigger has no file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Suppression {
        /// The connection had a file by this trigger a few minutes ago.
        Connection = "connection",
        /// There were as many files in this minute as there may be.
        Rate = "rate",
        /// As many traces are open as there may be.
        OpenTraces = "max_open_traces",
        /// The file could not be written.
        Disk = "disk",
    }
}

/// Connection at a rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestSample {
    /// Present time.
    pub(crate) now: Instant,
    /// What the connection waits for now.
    pub(crate) wait: Wait,
    /// State of the congestion controller.
    pub(crate) state: &'static str,
    /// Figures of the connection.
    pub(crate) figures: Figures,
    /// Largest window that counts as the floor, bytes.
    pub(crate) floor: usize,
    /// Packets that the client has received with Congestion Experienced.
    pub(crate) marked: u64,
}

/// Time without an event after which a connection that waits for others gives its recorder back.
const QUIET: Duration = Duration::from_secs(10);

/// Events of a connection, and the watch for triggers.
#[derive(Debug)]
pub(crate) struct Recorder {
    ring: Ring,
    watch: Watch,
    /// Time at which the connection is to be looked at again though nothing happens.
    due: Option<Instant>,
}

impl Recorder {
    /// Memory of a recorder, bytes.
    pub(crate) const BYTES: usize = size_of::<Recorder>() + Ring::BYTES;

    /// Returns a recorder of a connection that begins to be active.
    fn new(look: &RestSample) -> Recorder {
        Recorder { ring: Ring::new(look), watch: Watch::new(look), due: None }
    }

    /// Begins again, for another connection.
    fn restart(&mut self, look: &RestSample) {
        self.ring.restart(look);
        self.watch = Watch::new(look);
        self.due = None;
    }

    /// Records what has changed since the look before. Returns the trigger that fires now, if one does. `stall` is the time without
    /// progress that fires one.
    pub(crate) fn look(&mut self, look: &RestSample, stall: Duration) -> Option<Trigger> {
        self.ring.record(look);
        let trigger = self.watch.look(look, stall);
        self.due = self.quiet_at(look.wait).or_else(|| self.watch.deadline(stall));
        trigger
    }

    /// Returns when a connection that waits for others has been quiet for so long that another one may have the recorder; `None` for
    /// other waits.
    fn quiet_at(&self, wait: Wait) -> Option<Instant> {
        matches!(wait, Wait::Application | Wait::StreamFlow | Wait::ConnectionFlow)
            .then(|| self.ring.newest() + QUIET)
    }

    /// Records the beginning of a wait.
    pub(crate) fn wait(&mut self, wait: Wait, from: Instant) {
        self.ring.wait(wait, from);
    }

    /// Returns whether a connection that waits for this has been quiet for so long that another one may have the recorder.
    pub(crate) fn is_quiet(&self, wait: Wait, now: Instant) -> bool {
        self.quiet_at(wait).is_some_and(|at| now >= at)
    }

    /// Returns the time at which the connection is to be looked at again.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes that time if it has come. Returns whether it has.
    pub(crate) fn take_due(&mut self, now: Instant) -> bool {
        self.due.take_if(|at| *at <= now).is_some()
    }

    /// Returns what is wrong with the connection by its triggers, and since when.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = (Trigger, Instant)> {
        self.watch.troubles()
    }

    /// Returns the events.
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }
}

#[cfg(test)]
mod tests;
