//! Responds before a request has ended.

use std::time::Instant;

use quiche::h3::WireErrorCode;
use sluicegate_http::exchange::Reply;
use sluicegate_http::exchange::front::{FrontExchange, Instead};
use sluicegate_http::gate::RequestRefusal;

use super::Http3Session;
use crate::h3::priority::Parameters;
use crate::h3::response::Response;
use crate::h3::session_context::SessionContext;

impl Http3Session {
    /// Responds before the request has ended, and cancels its handler. If the handler's response has begun, the stream is
    /// reset.
    pub(super) fn refuse(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        refusal: impl Into<RequestRefusal>,
        context: &mut SessionContext,
    ) {
        self.end_early(conn, stream, refusal.into(), FrontExchange::refuse, context);
    }

    /// Does the same, with what the client gets by `end`.
    pub(super) fn end_early(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        RequestRefusal { mut reply, cause }: RequestRefusal,
        end: impl FnOnce(&mut FrontExchange) -> Instead,
        context: &mut SessionContext,
    ) {
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        let (status, reads) = (reply.status, exchange.front.reads());
        let instead = end(&mut exchange.front);
        if let Some(routed) = exchange.routed.take() {
            routed.refuse(&mut reply);
            if let (Some(origin_ring), Some(number)) =
                (context.origin_ring.as_mut(), exchange.number)
            {
                origin_ring.cancel(number);
            }
        }
        if instead != Instead::Nothing
            && let (Some(record), Some(cause)) = (&mut exchange.record, cause)
        {
            record.set_cause(cause);
        }
        // What is left of a body behind a reply that goes on may linger.
        if reads || instead != Instead::Nothing {
            self.leave_body(conn, stream, context);
        }
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        match instead {
            Instead::Reply => self.begin(stream, reply, context.now),
            Instead::Reset => {
                if let Some(record) = &mut exchange.record {
                    record.on_cut(status);
                }
                self.reset_stream(conn, stream, WireErrorCode::ExcessiveLoad, context);
            }
            Instead::Nothing if exchange.front.is_taken() => {
                self.stop_lingering(conn, stream, context);
            }
            Instead::Nothing => {}
        }
    }

    /// Begins a reply, perhaps in place of a handler's response.
    pub(super) fn begin(&mut self, stream: u64, mut reply: Reply, now: Instant) {
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        if let Some(id) = &exchange.returned_id {
            id.add(reply.headers.edit());
        }
        let (front, schedule) = (&exchange.front, &mut exchange.schedule);
        if let Some(response) = &mut exchange.response {
            response.replace(reply, front);
        } else {
            if let Some(parameters) = Parameters::of(&reply.headers) {
                schedule.reply(parameters);
            }
            let response = Response::whole(reply, front);
            if let Some(length) = response.length(front) {
                schedule.set_length(length);
            }
            schedule.resume(now, 0, self.pending.sharing.written());
            exchange.response = Some(response);
        }
        self.pending.insert(schedule.place(), stream);
        if !std::mem::replace(&mut exchange.has_changed, true) {
            self.changed.push(stream);
        }
    }
}
