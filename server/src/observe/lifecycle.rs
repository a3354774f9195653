//! The phase of the process: whether it takes requests.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::metrics::{Page, Show};

/// A time of the process' life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Not every worker serves yet.
    Starting,
    /// All workers serve.
    Serving,
    /// What was accepted may finish; nothing new is.
    Draining,
}

impl Phase {
    /// In the order in which they come.
    pub const ALL: [Phase; 3] = [Phase::Starting, Phase::Serving, Phase::Draining];

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Serving => "serving",
            Phase::Draining => "draining",
        }
    }
}

/// The phase, set by the main thread and read by any other.
#[derive(Debug, Default)]
pub struct Lifecycle {
    phase: AtomicU8,
    /// Of the configuration in effect, where it was read again.
    snapshot: AtomicU64,
    taken: AtomicU64,
    refused: AtomicU64,
}

impl Lifecycle {
    /// From now on.
    pub fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// The configuration was read again: the number of the new snapshot, or nothing where it was not taken.
    pub fn reloaded(&self, snapshot: Option<u64>) {
        match snapshot {
            Some(snapshot) => {
                self.snapshot.store(snapshot, Ordering::Relaxed);
                self.taken.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// By now.
    pub fn phase(&self) -> Phase {
        let stored = usize::from(self.phase.load(Ordering::Acquire));
        Phase::ALL[stored.min(Phase::ALL.len() - 1)]
    }
}

impl Show for Lifecycle {
    fn show(&self, page: &mut Page) {
        let now = self.phase();
        let mut family = page.gauges("sluicegate_phase", "1 for what the process is doing.");
        for phase in Phase::ALL {
            family.sample(&[("phase", phase.name())], u8::from(phase == now));
        }
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        page.gauge(
            "sluicegate_config_edition",
            "Number of the configuration in effect; the one of the start is 1.",
            read(&self.snapshot).max(1),
        );
        let mut family = page.counters(
            "sluicegate_config_reloads_total",
            "Times that the configuration was read again, by what came of it.",
        );
        family.sample(&[("result", "taken")], read(&self.taken));
        family.sample(&[("result", "refused")], read(&self.refused));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_read() {
        let lifecycle = Lifecycle::default();
        assert_eq!(lifecycle.phase(), Phase::Starting);
        for phase in Phase::ALL {
            lifecycle.set(phase);
            assert_eq!(lifecycle.phase(), phase);
        }
    }
}
