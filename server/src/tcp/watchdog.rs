//! Finds connections that are idle or too old, and clients that make no progress.

use std::rc::Rc;
use std::time::{Duration, Instant};

use sluicegate_base::observe::account::{RequestWait, Wait};
use sluicegate_http::exchange::front::Instead;
use sluicegate_http::exchange::stall::{LinkProgress, StallRule, StallTimer, WaitsFor};
use tokio::time::{Sleep, sleep};

use super::connection::Connection;
use super::open_request::OpenRequest;

/// Checks within the idle timeout.
const CHECKS: u32 = 4;
/// Shortest time between two checks.
const SHORTEST: Duration = Duration::from_millis(100);

/// Result of a check of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Fine,
    /// The server asks the client to open another one.
    Leave,
    /// It is closed, because its client made no progress.
    Stalled,
    /// It is closed, because it had its time to finish.
    Over,
}

/// Timer of a connection.
pub(super) struct Watchdog {
    begun: Instant,
    last: Instant,
    /// Time since which no request is open.
    idle_since: Option<Instant>,
    /// Number of the request accepted last, at the last check.
    taken: u64,
    /// Time at which the client was asked to open another connection.
    left_at: Option<Instant>,
    link: StallTimer,
    /// Bytes that had left at the last check.
    moved: u64,
    /// Bytes that the client had acknowledged at the last look, if some were left.
    acknowledged: Option<u64>,
    /// The connection was blocked at the last check; its account tells only for how long in all.
    blocked: bool,
    /// A request has stalled.
    has_stalled: bool,
    sleep: std::pin::Pin<Box<Sleep>>,
}

impl Watchdog {
    pub(super) fn new(connection: &Connection) -> Watchdog {
        let now = connection.front.now();
        Watchdog {
            begun: now,
            last: now,
            idle_since: Some(now),
            taken: 0,
            left_at: None,
            link: StallTimer::default(),
            moved: 0,
            acknowledged: None,
            blocked: false,
            has_stalled: false,
            sleep: Box::pin(sleep(interval(connection))),
        }
    }

    /// Waits until the next check is due.
    pub(super) async fn tick(&mut self) {
        self.sleep.as_mut().await;
    }

    /// Checks the connection and its requests. It looks at all of them, but only a few times within each limit.
    pub(super) fn check(&mut self, connection: &Connection) -> Verdict {
        let step = interval(connection);
        self.sleep.set(sleep(step));
        let now = connection.front.now();
        let elapsed = now.saturating_duration_since(std::mem::replace(&mut self.last, now));
        let config = connection.front.config();
        if let Some(rule) = StallRule::of(config.site.limits())
            && self.is_stalled(connection, &rule, rule.accountable(elapsed.min(step * 2)))
        {
            return Verdict::Stalled;
        }
        self.check_age(connection, now)
    }

    fn check_age(&mut self, connection: &Connection, now: Instant) -> Verdict {
        let config = connection.front.config();
        let limits = config.site.limits();
        let since = |start: Instant| now.saturating_duration_since(start);
        let taken = connection.taken();
        let is_idle = connection.with_open(|open| open.is_empty());
        if std::mem::replace(&mut self.taken, taken) != taken || !is_idle {
            self.idle_since = None;
        }
        if is_idle {
            self.idle_since.get_or_insert(now);
        }
        let idle = self.idle_since.is_some_and(|start| since(start) >= config.idle_timeout);
        let lifetime = limits.connection_lifetime;
        let old = !lifetime.is_zero() && since(self.begun) >= lifetime;
        if let Some(left_at) = self.left_at {
            // Without requests, only the rest of a response may still be on its way.
            let limit = limits.connection_drain_timeout;
            let late = !limit.is_zero() && since(left_at) >= limit && !has_tunnel(connection);
            let silent = idle
                && since(left_at) >= config.idle_timeout
                && !connection.meter.is_blocked()
                && !self.is_taking(connection);
            return if late || silent { Verdict::Over } else { Verdict::Fine };
        }
        if idle || old || connection.is_leaving() {
            self.left_at = Some(now);
            return Verdict::Leave;
        }
        Verdict::Fine
    }

    /// Returns whether the client has acknowledged more of what is left since the last check.
    fn is_taking(&mut self, connection: &Connection) -> bool {
        let acknowledged = connection.meter.acknowledged_of_more();
        let before = std::mem::replace(&mut self.acknowledged, acknowledged);
        acknowledged.is_some() && acknowledged != before
    }

    /// Ends the requests that have stalled. Returns whether the connection itself has.
    fn is_stalled(&mut self, connection: &Connection, rule: &StallRule, elapsed: Duration) -> bool {
        let meter = &connection.meter;
        let taken = meter.taken();
        let more = taken.saturating_sub(std::mem::replace(&mut self.moved, taken));
        let blocked = meter.awaits_client();
        let waits = std::mem::replace(&mut self.blocked, blocked) && blocked;
        let of_link = if blocked { WaitsFor::Client } else { WaitsFor::Handler };
        if self.link.check(rule, of_link, taken, elapsed) {
            connection.front.count(|counters| counters.requests.stalled_responses += 1);
            return true;
        }
        let link = LinkProgress::new(rule, waits.then_some(more), elapsed);
        let open: Vec<Rc<OpenRequest>> =
            connection.with_open(|open| open.values().cloned().collect());
        open.iter().for_each(|request| request.note_wait());
        let in_line = open.iter().filter(|request| awaits_connection(request)).count();
        let mut stalled = false;
        for request in open.iter().filter(|request| !request.is_cut()) {
            // The account tells it only before the response.
            let waits_for = if request.awaits_body() {
                WaitsFor::Client
            } else if !awaits_connection(request) {
                WaitsFor::Handler
            } else if blocked {
                link.blames(in_line)
            } else {
                // The system has room, so the client's window of HTTP/2 has none.
                WaitsFor::Client
            };
            let mut timer = request.stall.borrow_mut();
            if timer.check(rule, waits_for, request.moved(), elapsed) {
                // The reply in place of the response has as much time.
                *timer = StallTimer::default();
                drop(timer);
                self.has_stalled = true;
                stalled |= end(connection, request);
            }
        }
        // HTTP/2 may hold a little for the streams that were reset.
        stalled || self.has_stalled && connection.is_http2() && open.is_empty()
    }
}

/// Returns whether a part of the response is ready, by the account of its request.
fn awaits_connection(request: &OpenRequest) -> bool {
    let wait = request.exchange().account().wait();
    matches!(wait, RequestWait::Connection | RequestWait::Own(Wait::Scheduling))
}

/// Ends a request that has stalled. Returns whether its connection must end for it: HTTP/1.1 has no other way to end a response.
fn end(connection: &Connection, request: &OpenRequest) -> bool {
    let awaits_body = request.awaits_body();
    if !request.has_stalled() {
        connection.front.count(|counters| {
            if awaits_body {
                counters.requests.stalled_bodies += 1;
            } else {
                counters.requests.stalled_responses += 1;
            }
        });
    }
    let instead = request.on_stall();
    // The connection takes no further requests.
    connection.leave();
    instead == Instead::Reset && !request.cut()
}

/// Returns whether a request has opened a tunnel, which has a timeout of its own.
fn has_tunnel(connection: &Connection) -> bool {
    connection.with_open(|open| open.values().any(|request| request.exchange().is_tunnel()))
}

/// Returns the time between two checks.
fn interval(connection: &Connection) -> Duration {
    let config = connection.front.config();
    let idle = config.idle_timeout / CHECKS;
    let stalls = StallRule::of(config.site.limits());
    stalls.map_or(idle, |rule| rule.interval().min(idle)).max(SHORTEST)
}
