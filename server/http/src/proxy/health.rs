//! Passive health of an upstream: whether it takes part in the rotation.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

use super::failure::Failure;

/// Shortest time between two warnings about failures of one upstream.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Share of its weight that an upstream gets when it returns with a slow start, percent.
const LEAST_SHARE: u64 = 10;

/// Health of an upstream, from the results of its requests.
///
/// After `max_fails` failures in a row it leaves the rotation for `fail_timeout`. Then one request is a trial: a success
/// brings the upstream back, a failure keeps it out. If there is no result within `fail_timeout`, as with a slow upload,
/// another request is a trial beside it.
#[derive(Debug)]
pub(super) struct Health {
    max_fails: u64,
    fail_timeout: Duration,
    failures: Cell<u64>,
    /// Failures since the last success.
    in_a_row: Cell<u64>,
    /// End of the time out of rotation; `None` while the upstream is in rotation.
    out_until: Cell<Option<Instant>>,
    /// Time of the last return to the rotation.
    returned_at: Cell<Option<Instant>>,
    /// Time until which a trial has the upstream for itself; `None` if none runs.
    trial_until: Cell<Option<Instant>>,
    /// Time of the last warning about a failure.
    warned_at: Cell<Option<Instant>>,
}

impl Health {
    pub(super) fn new(max_fails: u64, fail_timeout: Duration) -> Health {
        Health {
            max_fails,
            fail_timeout,
            failures: Cell::new(0),
            in_a_row: Cell::new(0),
            out_until: Cell::new(None),
            returned_at: Cell::new(None),
            trial_until: Cell::new(None),
            warned_at: Cell::new(None),
        }
    }

    /// Returns the number of failures so far.
    pub(super) fn failures(&self) -> u64 {
        self.failures.get()
    }

    /// Returns whether the time out of rotation still runs.
    pub(super) fn is_out(&self, now: Instant) -> bool {
        self.out_until.get().is_some_and(|until| now < until)
    }

    /// Returns whether a request may go to the upstream, as a trial or otherwise.
    pub(super) fn is_in_rotation(&self, now: Instant) -> bool {
        let runs = |until: Option<Instant>| until.is_some_and(|until| now < until);
        let may_try = !runs(self.out_until.get()) && !runs(self.trial_until.get());
        self.out_until.get().is_none() || may_try
    }

    /// Begins a trial if one is due. Returns the time until which it has the upstream for itself.
    pub(super) fn begin_trial(&self, now: Instant) -> Option<Instant> {
        if self.out_until.get().is_none() || !self.is_in_rotation(now) {
            return None;
        }
        let until = now.checked_add(self.fail_timeout);
        self.trial_until.set(until);
        until
    }

    /// Ends the trial that had the upstream until then, whatever its result. A later one goes on.
    pub(super) fn end_trial(&self, until: Instant) {
        if self.trial_until.get() == Some(until) {
            self.trial_until.set(None);
        }
    }

    /// Returns the upstream to the rotation if it was out.
    pub(super) fn on_success(&self) {
        if self.out_until.get().is_some() {
            self.on_return(Instant::now());
        }
        self.in_a_row.set(0);
    }

    /// Returns the upstream to the rotation, whatever requests have told: health checks succeed.
    pub(super) fn on_return(&self, now: Instant) {
        self.in_a_row.set(0);
        self.out_until.set(None);
        self.returned_at.set(Some(now));
    }

    /// Returns the share of its weight that the upstream gets, percent: 100, or less within `slow_start` after its return.
    pub(super) fn share(&self, slow_start: Duration, now: Instant) -> u64 {
        let Some(returned) = self.returned_at.get() else {
            return 100;
        };
        let passed = now.saturating_duration_since(returned).as_millis();
        let percent = (passed * 100).checked_div(slow_start.as_millis());
        let percent = percent.and_then(|percent| u64::try_from(percent).ok());
        percent.unwrap_or(100).clamp(LEAST_SHARE, 100)
    }

    /// Counts a failure of the upstream, logs its cause, and takes the upstream out of rotation if it was a trial or the
    /// last of too many.
    pub(super) fn on_failure(&self, failure: Failure, is_trial: bool, pool: &str, upstream: &str) {
        let (now, cause) = (Instant::now(), failure.text());
        let recent = |at: Instant| now.duration_since(at) < WARNING_INTERVAL;
        if self.warned_at.get().is_some_and(recent) {
            tracing::debug!(pool, upstream, "an upstream failed: {cause}");
        } else {
            self.warned_at.set(Some(now));
            tracing::warn!(pool, upstream, "an upstream failed: {cause}");
        }
        self.failures.set(self.failures.get() + 1);
        let in_a_row = self.in_a_row.get().saturating_add(1);
        self.in_a_row.set(in_a_row);
        let is_out = self.out_until.get().is_some();
        if self.max_fails > 0 && (is_trial && is_out || in_a_row >= self.max_fails) {
            if !is_out {
                let failures = in_a_row;
                tracing::warn!(pool, upstream, failures, "an upstream is out of rotation: {cause}");
            }
            self.out_until.set(now.checked_add(self.fail_timeout));
        }
    }
}
