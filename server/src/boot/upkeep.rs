//! Work of the main thread that is due from time to time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_base::clock;
use sluicegate_base::observe::lifecycle::Lifecycle;
use sluicegate_base::secrets::Secrets;

use crate::snapshot::ConfigSnapshot;

/// Time between two warnings about a certificate.
const DAY: Duration = Duration::from_secs(86_400);

/// Time between two writes of the ticket keys.
const HOUR: Duration = Duration::from_secs(3600);

/// Warns of certificates that expire, shows all in the metrics, and lets the state directory forget old ticket keys.
pub(super) struct Upkeep {
    lifecycle: Arc<Lifecycle>,
    /// Time of the next write of the ticket keys.
    keeping_at: Instant,
    /// Time of the next warning.
    warning_at: Instant,
}

impl Upkeep {
    /// Begins with the certificates of a snapshot.
    pub(super) fn new(lifecycle: &Arc<Lifecycle>, snapshot: &ConfigSnapshot) -> Upkeep {
        let mut upkeep = Upkeep {
            lifecycle: Arc::clone(lifecycle),
            keeping_at: clock::now() + HOUR,
            warning_at: clock::now(),
        };
        upkeep.adopt(snapshot);
        upkeep
    }

    /// Takes the certificates of another snapshot, and warns of those that expire soon.
    pub(super) fn adopt(&mut self, snapshot: &ConfigSnapshot) {
        self.lifecycle.certificates().set(snapshot.certificates());
        self.warning_at = clock::now();
        self.on_time(&snapshot.secrets, clock::now());
    }

    /// Does what is due; the ticket keys are those of `secrets`. The main thread calls it at least once in a minute.
    pub(super) fn on_time(&mut self, secrets: &Secrets, now: Instant) {
        if now >= self.warning_at {
            self.warning_at = now + DAY;
            self.lifecycle.certificates().warn(clock::unix());
        }
        if now >= self.keeping_at {
            self.keeping_at = now + HOUR;
            secrets.keep_ticket_keys();
        }
    }
}
