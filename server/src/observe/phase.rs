//! What the process is doing, for those who ask whether it takes requests.

use std::sync::atomic::{AtomicU8, Ordering};

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
pub struct Lifecycle(AtomicU8);

impl Lifecycle {
    /// From now on.
    pub fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Release);
    }

    /// By now.
    pub fn phase(&self) -> Phase {
        let stored = usize::from(self.0.load(Ordering::Acquire));
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
