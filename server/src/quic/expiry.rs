//! Expiry of a connection: once it is old or has had its number of requests, it drains by itself.

use std::time::{Duration, Instant};

use sluicegate_config::Limits;

use super::counters::ExpiryReason;

/// Deadline of a connection, and the time that its requests get to finish then.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    /// Time at which it is too old; `None` before the handshake, without a limit, and once it has expired.
    at: Option<Instant>,
    /// Time at which it began to drain.
    since: Option<Instant>,
    /// Time that its requests get to finish; zero sets no limit.
    drain_timeout: Duration,
}

impl Expiry {
    /// Starts the lifetime of a connection whose handshake is complete.
    pub(super) fn start(&mut self, limits: &Limits, now: Instant) {
        let lifetime = limits.connection_lifetime;
        self.at = (!lifetime.is_zero()).then(|| now + lifetime);
        self.drain_timeout = limits.connection_drain_timeout;
    }

    /// Returns the time at which the connection is too old.
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Returns the time at which its requests must have finished, if it has expired.
    pub(super) fn end(&self) -> Option<Instant> {
        let limit = (!self.drain_timeout.is_zero()).then_some(self.drain_timeout);
        Some(self.since? + limit?)
    }

    /// Returns the time at which the connection expired, if it has.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Returns why the connection expires at `now`, once; `used_up` says whether it has had all its requests.
    pub(super) fn expire(&mut self, used_up: bool, now: Instant) -> Option<ExpiryReason> {
        if self.since.is_some() {
            return None;
        }
        let reason = if self.at.is_some_and(|at| at <= now) {
            ExpiryReason::Lifetime
        } else if used_up {
            ExpiryReason::Requests
        } else {
            return None;
        };
        self.at = None;
        self.since = Some(now);
        Some(reason)
    }
}
