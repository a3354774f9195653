//! Work of the main thread that is due from time to time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock;
use crate::observe::lifecycle::Lifecycle;
use crate::quic::config_snapshot::ConfigSnapshot;

/// Time between two warnings about a certificate.
const DAY: Duration = Duration::from_secs(86_400);

/// Warns of certificates that expire, and shows all in the metrics.
pub(super) struct Upkeep {
    lifecycle: Arc<Lifecycle>,
    /// Time of the next warning.
    warning_at: Instant,
}

impl Upkeep {
    /// Begins with the certificates of a snapshot.
    pub(super) fn new(lifecycle: &Arc<Lifecycle>, snapshot: &ConfigSnapshot) -> Upkeep {
        let mut upkeep = Upkeep {
            lifecycle: Arc::clone(lifecycle),
            warning_at: clock::now(),
        };
        upkeep.adopt(snapshot);
        upkeep
    }

    /// Takes the certificates of another snapshot, and warns of those that expire soon.
    pub(super) fn adopt(&mut self, snapshot: &ConfigSnapshot) {
        self.lifecycle.certificates().set(snapshot.certificates());
        self.warning_at = clock::now();
        self.on_time(clock::now());
    }

    /// Does what is due. The main thread calls it at least once in a minute.
    pub(super) fn on_time(&mut self, now: Instant) {
        if now >= self.warning_at {
            self.warning_at = now + DAY;
            self.lifecycle.certificates().warn(clock::unix());
        }
    }
}
