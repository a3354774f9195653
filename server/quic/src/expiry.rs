//! Expiry of a connection: once it is old or has had its number of requests, it drains by itself.
//!
//! The client first learns that it is to open another connection, and its requests are still served (RFC 9114 §5.2). Only those
//! that come after [`GRACE`] are refused. A connection with an open tunnel lives on until that has ended, as over TCP: no client
//! can continue a tunnel on another connection. The timeout of the tunnel bounds its silence.

use std::time::{Duration, Instant};

use sluicegate_config::Limits;

use super::counters::ExpiryReason;

/// Time from the first GOAWAY to the final one, for requests that the client sent before it received the first.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// Time that requests get where none is configured, as zero would set no limit.
const LEAST_DRAIN: Duration = Duration::from_millis(1);

/// Time from the end of the last tunnel to the end of a connection that has lived on for it: its last bytes are to be acknowledged.
const LAST_BYTES: Duration = Duration::from_secs(5);

/// Deadline of a connection, and the time that its requests get to finish then.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    /// Time of the next step; `None` before the handshake, without a limit, and after the last step.
    at: Option<Instant>,
    /// Whether the client was told to open another connection.
    announced: bool,
    /// Time at which it began to drain.
    since: Option<Instant>,
    /// Time that its requests get to finish; zero sets no limit.
    drain_timeout: Duration,
    /// Whether it ends because its listener was removed.
    removed: bool,
    /// Time at which it ends with its tunnels, if its listener was removed.
    closes: Option<Instant>,
    /// Whether it stays open for a tunnel although its time is over.
    extended_for_tunnel: bool,
    /// Time at which the last tunnel for which it has lived on has ended.
    tunnels_ended: Option<Instant>,
}

/// Next step of an expired connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It tells the client to open another connection.
    Announce(ExpiryReason),
    /// It drains: further requests are refused.
    Drain,
}

impl Expiry {
    /// Starts the lifetime of a connection whose handshake is complete. `draw` is random and shortens it by up to a tenth, so that
    /// connections that began together end at different times.
    pub(super) fn start(&mut self, limits: &Limits, draw: u16, now: Instant) {
        let lifetime = limits.connection_lifetime;
        let shorter = lifetime / 10 * u32::from(draw) / u32::from(u16::MAX);
        self.at = (!lifetime.is_zero()).then(|| now + lifetime - shorter);
        self.drain_timeout = limits.connection_drain_timeout;
    }

    /// Begins the end of a connection whose listener was removed; its requests and tunnels get `limit` at most.
    pub(super) fn retire(&mut self, limit: Duration, now: Instant) {
        let limit = limit.max(LEAST_DRAIN);
        self.closes.get_or_insert(now + GRACE + limit);
        let configured = (!self.drain_timeout.is_zero()).then_some(self.drain_timeout);
        self.drain_timeout = configured.map_or(limit, |configured| configured.min(limit));
        // One that ends already goes on.
        if !self.announced {
            self.removed = true;
            self.at = Some(now);
        }
    }

    /// Drops the steps that are left: the connection drains for another reason.
    pub(super) fn cancel(&mut self) {
        self.at = None;
        self.announced = true;
    }

    /// Returns the time of the next step.
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Returns the time at which it ends if it drains, whatever is open; `None` without a limit, and while it lives on for a tunnel.
    pub(super) fn end(&mut self, has_tunnel: bool, now: Instant) -> Option<Instant> {
        let limit = (!self.drain_timeout.is_zero()).then_some(self.drain_timeout);
        let end = self.since? + limit?;
        if has_tunnel && end <= now {
            self.extended_for_tunnel = true;
            return self.closes;
        }
        if std::mem::replace(&mut self.extended_for_tunnel, false) {
            self.tunnels_ended = Some(now);
        }
        let acknowledged = self.tunnels_ended.map(|at| at + LAST_BYTES);
        Some(acknowledged.map_or(end, |until| until.max(end)))
    }

    /// Returns the time at which the connection began to drain, if it has.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Returns the step that is due at `now`, each once; `used_up` says whether it has had all its requests.
    pub(super) fn step(&mut self, used_up: bool, now: Instant) -> Option<Step> {
        let due = self.at.is_some_and(|at| at <= now);
        if self.announced {
            if !due {
                return None;
            }
            self.at = None;
            self.since = Some(now);
            return Some(Step::Drain);
        }
        let reason = if due && self.removed {
            ExpiryReason::Listener
        } else if due {
            ExpiryReason::Lifetime
        } else if used_up {
            ExpiryReason::Requests
        } else {
            return None;
        };
        self.announced = true;
        self.at = Some(now + GRACE);
        Some(Step::Announce(reason))
    }
}
