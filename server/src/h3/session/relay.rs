//! Takes messages of handlers on the origin thread.

use std::time::Instant;

use quiche::h3::WireErrorCode;
use sluicegate_http::exchange::front::{FrontAction, Instead};
use sluicegate_http::exchange::message::{Head, ToFront};
use sluicegate_http::gate::replies;

use super::{Exchange, Http3Session};
use crate::h3::priority::Parameters;
use crate::h3::session_context::SessionContext;

impl Http3Session {
    /// Takes a handler's message about a stream; [`Http3Session::turn`] writes the result.
    pub(super) fn relay(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        message: ToFront,
        context: &mut SessionContext,
    ) {
        let is_closed = matches!(message, ToFront::Closed);
        if is_closed {
            self.running = self.running.saturating_sub(1);
        }
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        let changes_wait = !matches!(message, ToFront::Report(_) | ToFront::Closed);
        if changes_wait && !std::mem::replace(&mut exchange.has_changed, true) {
            self.changed.push(stream);
        }
        let action = exchange.front.on_message(message);
        // A tunnel has ended with its handler, though the client may not have taken its last bytes.
        let has_tunnel = exchange.front.has_tunnel();
        self.tunnels += u64::from(has_tunnel);
        self.tunnels -= u64::from(std::mem::replace(&mut exchange.has_tunnel, has_tunnel));
        match action {
            FrontAction::Nothing => {}
            FrontAction::ReadOn => {
                if exchange.readable {
                    self.pass_on_later(stream);
                }
            }
            FrontAction::LeaveBody => self.leave_body(conn, stream, context),
            FrontAction::Fail(status, instead) => {
                self.on_failure(conn, stream, status, instead, context);
            }
            FrontAction::Report(report) => {
                if let Some(record) = &mut exchange.record {
                    record.report(*report);
                }
            }
            FrontAction::Inform(status, fields) => {
                if let Some(response) = &mut exchange.response {
                    response.interim(status, fields);
                }
                self.resume(conn, stream, context.now);
            }
            FrontAction::Begin(head) => self.on_response(conn, stream, head, context.now),
            FrontAction::GoOn => self.resume(conn, stream, context.now),
            FrontAction::Cancel => {
                exchange.routed = None;
                if let (Some(origin_ring), Some(number)) =
                    (context.origin_ring.as_mut(), exchange.number)
                {
                    origin_ring.cancel(number);
                }
            }
        }
        if is_closed {
            self.on_closed(stream, context);
        }
    }

    /// Begins the response of a handler.
    fn on_response(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        mut head: Head,
        now: Instant,
    ) {
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        if let Some(routed) = &mut exchange.routed {
            routed.edit_response(&mut head);
        }
        if let Some(id) = &exchange.returned_id {
            id.add(&mut head.fields);
        }
        if let Some(parameters) = Parameters::of(&head.fields) {
            self.merge_priority(conn, stream, parameters);
        }
        if let Some(Exchange { response: Some(response), .. }) = self.open.get_mut(&stream) {
            response.begin(head);
        }
        self.resume(conn, stream, now);
    }

    /// Queues the stream of a response to which a message has added.
    fn resume(&mut self, conn: &mut quiche::Connection, stream: u64, now: Instant) {
        let Some(Exchange { schedule, front, response: Some(response), .. }) =
            self.open.get_mut(&stream)
        else {
            return;
        };
        if schedule.resume(now, front.sent(), self.pending.sharing.written()) {
            schedule.place().apply(conn, stream);
        }
        let before = schedule.place();
        if !response.headed
            && let Some(length) = front.length()
        {
            schedule.set_length(length);
        }
        let place = schedule.place();
        if place != before {
            // An informational response may wait in the queue, or have been sent.
            self.pending.remove(before, stream);
            if response.has_begun() {
                place.apply(conn, stream);
            }
        }
        self.pending.insert(place, stream);
    }

    /// Ends a response whose handler failed.
    fn on_failure(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        status: u16,
        instead: Instead,
        context: &mut SessionContext,
    ) {
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        if let Some(record) = &mut exchange.record {
            record.on_abort(status);
        }
        if instead == Instead::Reset {
            context.counters.broken += 1;
            return self.reset_stream(conn, stream, WireErrorCode::InternalError, context);
        }
        let mut reply = replies::handler_failed(status);
        if let Some(routed) = &exchange.routed {
            routed.refuse(&mut reply);
        }
        let reads = exchange.front.reads();
        self.begin(stream, reply, context.now);
        if reads {
            self.leave_body(conn, stream, context);
        }
    }

    /// Ends an exchange that its handler has closed.
    fn on_closed(&mut self, stream: u64, context: &mut SessionContext) {
        if let Some(exchange) = self.open.get_mut(&stream) {
            exchange.routed = None;
        }
        self.forget_if_over(stream, context);
        self.return_memory(stream, context);
    }
}
