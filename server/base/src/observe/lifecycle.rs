//! The phase of the process: whether it takes requests.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::acme::AcmeStatus;
use super::certificates::Certificates;
use super::metrics::{Label, Page, Show, labels, metrics};

labels! {
    /// A phase of the process.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Phase {
        /// Not every worker serves yet.
        Starting = "starting",
        /// All workers serve.
        Serving = "serving",
        /// All workers serve until `server.shutdown_delay` has passed.
        Leaving = "leaving",
        /// Accepted requests may finish; no new connections are accepted.
        Draining = "draining",
    }
}

/// The phase and the configuration of the process, set by the main thread and read by any other.
#[derive(Debug, Default)]
pub struct Lifecycle {
    phase: AtomicU8,
    /// Number of the configuration in effect, if it was read again.
    snapshot: AtomicU64,
    reloads: Reloads,
    /// Names of the threads that owe a reply to the last check.
    silent: Mutex<Arc<[String]>>,
    certificates: Certificates,
    acme: Arc<AcmeStatus>,
}

metrics! {
    /// Reloads since the start.
    #[derive(Debug, Default)]
    struct Reloads {
        /// Reloads whose configuration took effect.
        taken: AtomicU64 = counter(
            "sluicegate_config_reloads_total", result = "taken";
            "Reloads of the configuration, by result."
        ),
        /// Reloads that changed nothing.
        refused: AtomicU64 = also(result = "refused"),
    }
}

impl Lifecycle {
    /// Sets the phase.
    pub fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Counts a reload: `snapshot` is the number of the new configuration, or `None` if it was refused.
    pub fn reloaded(&self, snapshot: Option<u64>) {
        match snapshot {
            Some(snapshot) => {
                self.snapshot.store(snapshot, Ordering::Relaxed);
                self.reloads.taken.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                self.reloads.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Sets the names of the threads that did not reply to the last check.
    pub fn set_silent(&self, names: &[&str]) {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        *self.silent.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// Returns the names of the threads that did not reply to the last check; none if all work.
    pub fn silent(&self) -> Arc<[String]> {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&silent)
    }

    /// Returns the certificates in use.
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Returns the counts of certificates by ACME.
    pub fn acme(&self) -> &Arc<AcmeStatus> {
        &self.acme
    }

    /// Returns the phase.
    pub fn phase(&self) -> Phase {
        let stored = usize::from(self.phase.load(Ordering::Acquire));
        Phase::ALL.get(stored).copied().unwrap_or(Phase::Draining)
    }
}

impl Show for Lifecycle {
    fn show(&self, page: &mut Page) {
        let now = self.phase();
        page.family(
            "gauge",
            "sluicegate_phase",
            "1 for the phase that the process is in, 0 for the others.",
        );
        for phase in Phase::ALL {
            let labels = [("phase", phase.name())];
            page.sample(&labels, u8::from(*phase == now));
        }
        let snapshot = self.snapshot.load(Ordering::Relaxed);
        page.family(
            "gauge",
            "sluicegate_config_generation",
            "Generation of the configuration in effect; 1 at the start.",
        );
        page.sample(&[], snapshot.max(1));
        page.family(
            "gauge",
            "sluicegate_threads_silent",
            "Workers and origin threads that did not reply to the last check, which /readyz names.",
        );
        page.sample(&[], self.silent().len());
        self.reloads.show(page);
        self.certificates.show(page);
        self.acme.show(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_read() {
        let lifecycle = Lifecycle::default();
        assert_eq!(lifecycle.phase(), Phase::Starting);
        for phase in Phase::ALL.iter().copied() {
            lifecycle.set(phase);
            assert_eq!(lifecycle.phase(), phase);
        }
    }
}
