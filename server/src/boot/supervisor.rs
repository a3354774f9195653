//! Checks that the threads reply, and notifies a service manager, if there is one, of the state of the process (sd_notify(3)).

use std::sync::Arc;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use sluicegate_base::observe::lifecycle::Lifecycle;

use super::control_socket::{ControlVerdict, Reply, send_verdict};
use super::limits::STOP_LIMIT;
use super::liveness::LivenessCheck;
use crate::worker::WorkerHandle;

/// Checks in the watchdog's time. A thread that misses one but not all of them does no harm.
const LOOKS: u32 = 4;
/// Time between two checks where no service manager asks for a watchdog.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two checks of the threads that take a configuration up.
const ADOPTION_STEP: Duration = Duration::from_millis(10);

/// Notifies the service manager. The main thread calls it at the times that it returns.
pub(super) struct Supervisor {
    workers: Vec<WorkerHandle>,
    watchdog: Watchdog,
    adoption: Option<Adoption>,
    failing: bool,
}

/// The watchdog: whether every worker and every origin thread replies.
struct Watchdog {
    every: Duration,
    /// Whether the service manager asks to be notified while they do.
    is_asked_for: bool,
    at: Instant,
    call: LivenessCheck,
    complained: bool,
    lifecycle: Arc<Lifecycle>,
}

/// A configuration that the workers are taking up.
struct Adoption {
    at: Instant,
    call: LivenessCheck,
    status: String,
    /// Those who wait for it.
    replies: Vec<Reply>,
}

impl Supervisor {
    /// Creates the supervisor of these workers. Whoever reads `lifecycle` learns of threads that hang.
    pub(super) fn new(
        workers: Vec<WorkerHandle>,
        lifecycle: Arc<Lifecycle>,
        now: Instant,
    ) -> Supervisor {
        let limit = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero());
        let watchdog = Watchdog {
            every: limit.map_or(CHECK_INTERVAL, |limit| limit / LOOKS),
            is_asked_for: limit.is_some(),
            at: now,
            call: LivenessCheck::of(&workers),
            complained: false,
            lifecycle,
        };
        Supervisor { workers, watchdog, adoption: None, failing: false }
    }

    /// Reports that all workers serve.
    pub(super) fn ready(&mut self, status: &str) {
        self.notify(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// Reports that another process serves from now on.
    pub(super) fn replaced(&mut self, process: u32) {
        self.notify(&[NotifyState::MainPid(process)]);
    }

    /// Reports that a reload begins.
    pub(super) fn reloading(&mut self) {
        // Managers of the kind notify-reload take no RELOADING=1 without the time.
        match NotifyState::monotonic_usec_now() {
            Ok(since) => self.notify(&[NotifyState::Reloading, since]),
            Err(error) => {
                tracing::warn!(%error, "the service manager is not notified of the reload")
            }
        }
    }

    /// Waits for the workers to take up what they were sent; once they have, the service is reported ready again, and `reply` gets
    /// the status.
    pub(super) fn reloaded(&mut self, status: String, reply: Option<Reply>, now: Instant) {
        // Commands are read in order: a thread that replies has read what came before.
        let before = self.adoption.take().map(|before| before.replies);
        let replies = before.unwrap_or_default().into_iter().chain(reply);
        let replies = replies.collect();
        let mut call = LivenessCheck::of(&self.workers);
        call.send();
        self.adoption = Some(Adoption { at: now, call, status, replies });
    }

    /// Reports that the server stops within `limit`, and how.
    pub(super) fn stopping(&mut self, how: &str, limit: Duration) {
        self.adoption = None;
        let status = format!("{how}, for up to {limit:?}");
        // Workers close their connections then, and the logs and the traces are written to their ends.
        let whole = limit + 5 * STOP_LIMIT;
        let micros = whole.as_micros().try_into().unwrap_or(u32::MAX);
        self.notify(&[
            NotifyState::Stopping,
            NotifyState::Status(&status),
            NotifyState::ExtendTimeoutUsec(micros),
        ]);
    }

    /// Returns the time of the next check.
    pub(super) fn next(&self) -> Instant {
        let adoption = self.adoption.as_ref().map(|adoption| adoption.at);
        adoption.map_or(self.watchdog.at, |at| at.min(self.watchdog.at))
    }

    /// Checks the workers if it is time to.
    pub(super) fn on_time(&mut self, now: Instant) {
        if self.watchdog.is_fed(now) && self.watchdog.is_asked_for {
            self.notify(&[NotifyState::Watchdog]);
        }
        if let Some(adoption) = &mut self.adoption
            && adoption.at <= now
        {
            adoption.at = now + ADOPTION_STEP;
            if adoption.call.missing().is_empty() {
                let status = std::mem::take(&mut adoption.status);
                let replies = std::mem::take(&mut adoption.replies);
                self.adoption = None;
                self.ready(&status);
                send_verdict(replies, &ControlVerdict::Taken(status));
            }
        }
    }

    /// Notifies the manager. A failure does not end the service, and is logged once.
    fn notify(&mut self, state: &[NotifyState<'_>]) {
        let failed = sd_notify::notify(state).err();
        let was_failing = std::mem::replace(&mut self.failing, failed.is_some());
        if let (Some(error), false) = (failed, was_failing) {
            tracing::warn!(%error, "the service manager cannot be notified, see NOTIFY_SOCKET");
        }
    }
}

impl Watchdog {
    /// Returns whether it is time to notify, and every thread has replied to the previous request. Records which have not.
    fn is_fed(&mut self, now: Instant) -> bool {
        if now < self.at {
            return false;
        }
        self.at = now + self.every;
        let missing = self.call.missing();
        if !missing.is_empty() {
            self.lifecycle.set_silent(&missing);
            if !std::mem::replace(&mut self.complained, true) {
                tracing::error!(
                    threads = ?missing,
                    "no reply; the server is not ready, and the watchdog not notified, until there is one"
                );
            }
            return false;
        }
        if std::mem::take(&mut self.complained) {
            self.lifecycle.set_silent(&[]);
            tracing::warn!("every thread replies again");
        }
        self.call.send();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::liveness::tests::{answer, report, watched};
    use sluicegate_base::clock;

    #[test]
    fn a_watchdog_is_fed_while_every_thread_answers() {
        const STEP: Duration = Duration::from_secs(1);
        let (first, first_mail, mut first_orders) = watched(0);
        let (second, second_mail, mut second_orders) = watched(1);
        let start = clock::now();
        let lifecycle = Arc::new(Lifecycle::default());
        let mut watchdog = Watchdog {
            every: STEP,
            is_asked_for: true,
            at: start,
            call: LivenessCheck::of(&[first, second]),
            complained: false,
            lifecycle: Arc::clone(&lifecycle),
        };
        let silent = || lifecycle.silent().to_vec();
        let mut all = || {
            [&first_mail, &second_mail].into_iter().for_each(answer);
            report(&mut first_orders);
            report(&mut second_orders);
        };
        assert!(watchdog.is_fed(start));
        assert!(!watchdog.is_fed(start), "before its time");
        all();
        assert!(watchdog.is_fed(start + STEP));
        all();
        assert!(watchdog.is_fed(start + 2 * STEP));
        answer(&first_mail);
        report(&mut first_orders);
        report(&mut second_orders);
        assert!(!watchdog.is_fed(start + 3 * STEP), "a worker is missing");
        assert!(!watchdog.is_fed(start + 4 * STEP), "still");
        assert_eq!(silent(), ["a-1"]);
        answer(&second_mail);
        assert!(watchdog.is_fed(start + 5 * STEP), "late");
        assert_eq!(silent(), [""; 0]);
        answer(&first_mail);
        answer(&second_mail);
        report(&mut first_orders);
        assert!(!watchdog.is_fed(start + 6 * STEP), "an origin is missing");
        assert_eq!(silent(), ["a-1-origin"]);
    }
}
