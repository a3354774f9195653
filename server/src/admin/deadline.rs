//! Time limit of a connection to the admin address.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Time at which a connection is closed. A page that takes long may move it.
#[derive(Clone, Debug)]
pub(super) struct ConnectionDeadline {
    at: Arc<Mutex<Instant>>,
}

impl ConnectionDeadline {
    /// Returns a deadline so far from now.
    pub(super) fn after(time: Duration) -> ConnectionDeadline {
        ConnectionDeadline { at: Arc::new(Mutex::new(Instant::now() + time)) }
    }

    /// Moves the deadline away by `time`.
    pub(super) fn extend(&self, time: Duration) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }

    /// Waits until the deadline.
    pub(super) async fn passed(&self) {
        loop {
            let at = self.at();
            sleep_until(at).await;
            if self.at() == at {
                return;
            }
        }
    }

    fn at(&self) -> Instant {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_extended_deadline_is_not_early() {
        let start = Instant::now();
        let deadline = ConnectionDeadline::after(Duration::from_secs(10));
        let moved = deadline.clone();
        tokio::spawn(async move {
            sleep_until(start + Duration::from_secs(5)).await;
            moved.extend(Duration::from_secs(20));
        });
        deadline.passed().await;
        assert!(start.elapsed() >= Duration::from_secs(30));
    }
}
