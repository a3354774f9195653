//! Ends requests that have waited too long for their client.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quiche::h3::WireErrorCode;
use sluicegate_base::observe::access::Outcome;
use sluicegate_base::observe::account::{RequestWait, Wait};
use sluicegate_http::exchange::front::FrontExchange;
use sluicegate_http::exchange::stall::{LinkProgress, StallRule, WaitsFor};
use sluicegate_http::gate::replies;

use super::{Exchange, Http3Session};
use crate::h3::session_context::SessionContext;

impl Http3Session {
    /// Plans the first check, at the first request.
    pub(super) fn plan_stall_check(&mut self, conn: &quiche::Connection, context: &SessionContext) {
        if self.stall_checks.planned.is_none()
            && let Some(rule) = StallRule::of(context.site.limits())
        {
            let checks = &mut self.stall_checks;
            checks.planned = Some((context.now, context.now + rule.interval()));
            (checks.acknowledged, checks.unacked) = (conn.acknowledged_bytes(), false);
        }
    }

    /// Plans the first check if a stream has begun whose head may never be complete. Called after each turn's events.
    pub(super) fn plan_head_check(&mut self, conn: &quiche::Connection, context: &SessionContext) {
        if conn.streams_begun() != self.stall_checks.begun {
            self.plan_stall_check(conn, context);
        }
    }

    /// Ends the requests that have stalled, if a check is due. It looks at all open requests, but only a few times within
    /// `limits.client_timeout`.
    pub(super) fn check_stalls(
        &mut self,
        conn: &mut quiche::Connection,
        context: &mut SessionContext,
    ) {
        let Some((last, next)) = self.stall_checks.planned else {
            return;
        };
        if context.now < next {
            return;
        }
        self.stall_checks.planned = None;
        self.end_lingering(conn, context);
        let Some(rule) = StallRule::of(context.site.limits()) else {
            return;
        };
        let elapsed = rule.accountable(context.now.saturating_duration_since(last));
        self.reject_headless(conn, &rule, elapsed, context);
        if self.open.is_empty() && self.stall_checks.headless.is_empty() {
            self.stall_checks.begun = conn.streams_begun();
            return;
        }
        let checks = &mut self.stall_checks;
        let acknowledged = conn.acknowledged_bytes();
        let more = acknowledged.saturating_sub(checks.acknowledged);
        let unacked = conn.has_unacked();
        // Unless nothing was missing at one of the two checks.
        let waits = checks.unacked && unacked;
        let link = LinkProgress::new(&rule, waits.then_some(more), elapsed);
        let lingering = checks.planned.map(|(_, until)| until);
        let next = context.now + rule.interval();
        let next = lingering.map_or(next, |until| until.min(next));
        checks.planned = Some((context.now, next));
        (checks.acknowledged, checks.unacked) = (acknowledged, unacked);
        let streams: Vec<u64> = self.open.keys().copied().collect();
        let waiting: Vec<(u64, WaitsFor)> = { streams.into_iter() }
            .filter_map(|stream| Some((stream, self.party(conn, stream, context)?)))
            .collect();
        let in_line =
            waiting.iter().filter(|(_, waits_for)| *waits_for == WaitsFor::Server).count();
        let stalled = waiting.into_iter().filter_map(|(stream, waits_for)| {
            let exchange = self.open.get_mut(&stream)?;
            let waits_for = match waits_for {
                WaitsFor::Server => link.blames(in_line),
                other => other,
            };
            let moved = exchange.moved();
            let stalled = exchange.stall.check(&rule, waits_for, moved, elapsed);
            stalled.then_some(stream)
        });
        let mut stalled: Vec<u64> = stalled.collect();
        stalled.sort_unstable();
        for stream in stalled {
            self.end_stalled(conn, stream, context);
        }
    }

    /// Returns the party that a request waits for, whatever the client acknowledges.
    fn party(
        &mut self,
        conn: &quiche::Connection,
        stream: u64,
        context: &SessionContext,
    ) -> Option<WaitsFor> {
        self.note_wait(conn, stream, context);
        let exchange = self.open.get(&stream)?;
        Some(match exchange.front.account().wait() {
            _ if exchange.awaits_body() && conn.is_window_shut(stream) => WaitsFor::Window,
            _ if exchange.awaits_body() => WaitsFor::Client,
            RequestWait::Own(Wait::StreamFlow | Wait::ConnectionFlow) => WaitsFor::Client,
            RequestWait::Own(_) => WaitsFor::Handler,
            RequestWait::Connection => WaitsFor::Server,
        })
    }

    /// Resets streams whose head has not been complete for too long. Nothing was processed, so the code is
    /// H3_REQUEST_REJECTED (RFC 9114 §4.1.1).
    fn reject_headless(
        &mut self,
        conn: &mut quiche::Connection,
        rule: &StallRule,
        elapsed: Duration,
        context: &mut SessionContext,
    ) {
        let before = std::mem::take(&mut self.stall_checks.headless);
        let headless = self.h3.streams_without_head(conn).map(|stream| {
            let waited = before.get(&stream).map_or(Duration::ZERO, |waited| {
                let counted = !conn.is_window_shut(stream);
                *waited + if counted { elapsed } else { Duration::ZERO }
            });
            (stream, waited)
        });
        let (late, waiting) = headless.partition(|(_, waited)| rule.is_over(*waited));
        self.stall_checks.headless = waiting;
        let late: BTreeMap<u64, Duration> = late;
        for stream in late.into_keys() {
            context.counters.stalled_heads += 1;
            self.wasted += 1;
            self.reset_stream(conn, stream, WireErrorCode::RequestRejected, context);
        }
    }

    /// Ends a request: with 408 if its body is missing and there is no response, otherwise with a reset. A server that abandons
    /// a response sends H3_REQUEST_CANCELLED (RFC 9114 §4.1.1).
    fn end_stalled(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        context: &mut SessionContext,
    ) {
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        let has_head = exchange.front.has_head();
        if exchange.awaits_body() {
            context.counters.stalled_bodies += 1;
            if !has_head {
                let refusal = replies::request_timeout().into();
                return self.end_early(conn, stream, refusal, FrontExchange::stall, context);
            }
        } else {
            context.counters.stalled_responses += 1;
        }
        exchange.front.cut(Outcome::Stalled);
        self.reset_stream(conn, stream, WireErrorCode::RequestCancelled, context);
    }
}

impl Exchange {
    /// Returns the bytes of both bodies that have moved so far.
    fn moved(&self) -> u64 {
        self.front.sent() + self.front.received()
    }
}

/// Checks of a session's requests, all at the same times; there are none while no request has begun.
#[derive(Debug, Default)]
pub(super) struct StallChecks {
    /// Times of the last check and of the next one.
    pub(super) planned: Option<(Instant, Instant)>,
    /// Bytes of packets that the client had acknowledged at the last check.
    pub(super) acknowledged: u64,
    /// Something was unacknowledged at the last check.
    pub(super) unacked: bool,
    /// Streams whose request has begun without a whole head, and the time that they have waited for it.
    pub(super) headless: BTreeMap<u64, Duration>,
    /// Number of streams that had begun when the last plan ended.
    pub(super) begun: u64,
}

impl StallChecks {
    /// Plans a check for `at`, unless one is planned before.
    pub(super) fn plan_at(&mut self, now: Instant, at: Instant) {
        let (last, next) = self.planned.unwrap_or((now, at));
        self.planned = Some((last, next.min(at)));
    }
}
