//! Ends requests that have waited too long for their client.

use std::time::Instant;

use quiche::h3::WireErrorCode;

use super::stall_checks::StallChecks;
use super::{Exchange, Inbound, Outbound, Session};
use crate::h3::session_context::SessionContext;
use crate::http::exchange::message::cost;
use crate::http::exchange::stall::{StallRule, WaitsFor};
use crate::http::gate::replies;
use crate::observe::access::Outcome;

impl Session {
    /// Plans the first check, at the first request.
    pub(super) fn plan_stall_check(&mut self, conn: &quiche::Connection, context: &SessionContext) {
        if self.stall_checks.planned.is_none()
            && let Some(rule) = StallRule::of(context.site.limits())
        {
            self.stall_checks = StallChecks {
                planned: Some((context.now, context.now + rule.interval())),
                acknowledged: conn.acknowledged_bytes(),
                unacked: false,
            };
        }
    }

    /// Returns when the session checks whether its clients make progress.
    pub fn stall_deadline(&self) -> Option<Instant> {
        self.stall_checks.planned.map(|(_, next)| next)
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
        let Some(rule) = StallRule::of(context.site.limits()) else {
            return;
        };
        if self.open.is_empty() {
            return;
        }
        let elapsed = rule.accountable(context.now.saturating_duration_since(last));
        let (before, unacked) = (self.stall_checks.unacked, conn.has_unacked());
        let acknowledged = conn.acknowledged_bytes();
        let more = acknowledged.saturating_sub(self.stall_checks.acknowledged);
        let withheld = before && unacked && rule.worth(more) < elapsed;
        self.stall_checks = StallChecks {
            planned: Some((context.now, context.now + rule.interval())),
            acknowledged,
            unacked,
        };
        let requests = self.open.iter_mut();
        let stalled = requests.filter_map(|(stream, exchange)| {
            let waits_for = exchange.waits_for(conn, *stream, withheld);
            let moved = exchange.moved();
            let stalled = exchange.stall.check(&rule, waits_for, moved, elapsed);
            stalled.then_some(*stream)
        });
        let mut stalled: Vec<u64> = stalled.collect();
        stalled.sort_unstable();
        for stream in stalled {
            self.end_stalled(conn, stream, context);
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
        let Some(exchange) = self.open.get(&stream) else {
            return;
        };
        if exchange.awaits_body() {
            context.counters.stalled_bodies += 1;
            if !exchange.has_head() {
                return self.refuse(conn, stream, replies::request_timeout(), context);
            }
        } else {
            context.counters.stalled_responses += 1;
        }
        self.record(stream, Outcome::Stalled, context);
        self.reset_stream(conn, stream, WireErrorCode::RequestCancelled, context);
    }
}

impl Exchange {
    /// Returns the bytes of both bodies that have moved so far.
    fn moved(&self) -> u64 {
        let sent = match &self.outbound {
            Outbound::Replying(response) => response.sent,
            _ => 0,
        };
        sent + self.received
    }

    /// Returns whether somebody reads the request's body, and has read all that arrived.
    fn awaits_body(&self) -> bool {
        match &self.inbound {
            Inbound::Discarding(_) => true,
            Inbound::Passing => { self.handler.as_ref() }
                .is_some_and(|handler| !handler.readable && handler.credit > cost(0)),
            Inbound::Over => false,
        }
    }

    /// Returns whether a response has a final head, sent or not.
    fn has_head(&self) -> bool {
        match &self.outbound {
            Outbound::Silent => false,
            Outbound::Replying(response) => response.status != 0,
            Outbound::Over => true,
        }
    }

    /// Returns the party that the request waits for. `withheld` says that the client acknowledges next to nothing of what
    /// was sent.
    fn waits_for(&self, conn: &quiche::Connection, stream: u64, withheld: bool) -> WaitsFor {
        if self.awaits_body() {
            return WaitsFor::Client;
        }
        let Outbound::Replying(response) = &self.outbound else {
            return WaitsFor::Handler;
        };
        let Some(least) = response.next_write() else {
            return WaitsFor::Handler;
        };
        let refused = conn
            .peer_allowance(stream)
            .is_some_and(|allowed| allowed < least);
        if refused || withheld {
            WaitsFor::Client
        } else {
            WaitsFor::Server
        }
    }
}
