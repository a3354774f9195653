//! Takes messages of handlers on the origin thread.

use std::time::Instant;

use quiche::h3::WireErrorCode;
use sluicegate_http::exchange::message::ToFront;
use sluicegate_http::gate::replies;

use super::{Exchange, Inbound, Outbound, Session};
use crate::h3::priority::Parameters;
use crate::h3::session_context::SessionContext;

impl Session {
    /// Takes a handler's message about a stream; [`Session::turn`] writes the result.
    pub(super) fn relay(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        message: ToFront,
        context: &mut SessionContext,
    ) {
        if matches!(message, ToFront::Closed) {
            self.running = self.running.saturating_sub(1);
            return self.on_closed(conn, stream, context);
        }
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        if exchange.handler.is_none() {
            // The session has replied in its place.
            return;
        }
        match message {
            ToFront::Credit(amount) => {
                if let Some(handler) = &mut exchange.handler {
                    handler.credit += amount;
                    if handler.readable {
                        self.pass_on_later(stream);
                    }
                }
            }
            ToFront::StopBody => {
                if matches!(exchange.inbound, Inbound::Passing) {
                    self.leave_body(conn, stream, context);
                }
            }
            ToFront::Abort(status) => self.on_abort(conn, stream, status, context),
            ToFront::Report(report) => {
                if let Some(record) = &mut exchange.record {
                    record.report(*report);
                }
            }
            ToFront::Head(mut head) => {
                if let Some(handler) = &mut exchange.handler {
                    handler.handling.edit_response(&mut head);
                    // Any other response of the same handler is one without a tunnel.
                    let opens = handler.handling.is_tunnel() && (200..300).contains(&head.status);
                    if opens && !std::mem::replace(&mut exchange.is_tunnel, true) {
                        self.tunnels += 1;
                    }
                }
                if let Some(id) = &exchange.returned_id {
                    id.add(&mut head.fields);
                }
                if let Some(parameters) = Parameters::of(&head.fields) {
                    self.merge_priority(conn, stream, parameters);
                }
                self.respond(conn, stream, ToFront::Head(head), context.now);
            }
            other => self.respond(conn, stream, other, context.now),
        }
    }

    /// Adds to a response, and queues its stream for writing.
    fn respond(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        message: ToFront,
        now: Instant,
    ) {
        let Some(Exchange { schedule, outbound: Outbound::Replying(response), .. }) =
            self.open.get_mut(&stream)
        else {
            return;
        };
        let is_head = matches!(message, ToFront::Head(_));
        response.take(message);
        if schedule.resume(now, response.sent, self.pending.sharing.written()) {
            schedule.place().apply(conn, stream);
        }
        let before = schedule.place();
        if is_head && let Some(length) = response.length() {
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

    /// Ends a response whose handler failed: with a status, or with a reset if the response has begun.
    fn on_abort(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        status: u16,
        context: &mut SessionContext,
    ) {
        let mut reply = replies::handler_failed(status);
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        if let Some(id) = &exchange.returned_id {
            id.add(reply.headers.edit());
        }
        if let Some(record) = &mut exchange.record {
            record.on_abort(status);
        }
        if let Some(handler) = &exchange.handler {
            handler.handling.refuse(&mut reply);
        }
        let Outbound::Replying(response) = &mut exchange.outbound else {
            return;
        };
        if response.replace(reply, exchange.is_head) {
            self.pending.insert(exchange.schedule.place(), stream);
            if matches!(exchange.inbound, Inbound::Passing) {
                self.leave_body(conn, stream, context);
            }
        } else {
            context.counters.broken += 1;
            self.reset_stream(conn, stream, WireErrorCode::InternalError, context);
        }
    }

    /// Ends an exchange that its handler has closed.
    fn on_closed(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        context: &mut SessionContext,
    ) {
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        exchange.handler = None;
        // It has ended, though the client may not have taken its last bytes.
        self.tunnels -= u64::from(std::mem::take(&mut exchange.is_tunnel));
        if matches!(exchange.inbound, Inbound::Passing) {
            // The handler has responded without the rest of the body.
            self.leave_body(conn, stream, context);
        }
        let over = self.open.get(&stream).is_some_and(Exchange::is_over);
        if over {
            self.forget(stream, context);
        } else {
            self.return_memory(stream, context);
        }
    }
}
