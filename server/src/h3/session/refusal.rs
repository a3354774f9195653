//! Responds before a request has ended.

use std::time::Instant;

use quiche::h3::WireErrorCode;
use sluicegate_http::exchange::Reply;
use sluicegate_http::gate::Refusal;

use super::{Outbound, Session};
use crate::h3::priority::Parameters;
use crate::h3::response::Response;
use crate::h3::session_context::SessionContext;

impl Session {
    /// Responds before the request has ended, and cancels its handler. If the handler's response has begun, the stream is
    /// reset.
    pub(super) fn refuse(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        refusal: impl Into<Refusal>,
        context: &mut SessionContext,
    ) {
        let Refusal { mut reply, cause } = refusal.into();
        let status = reply.status;
        self.leave_body(conn, stream, context);
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        if let (Some(record), Some(cause)) = (&mut exchange.record, cause) {
            record.set_cause(cause);
        }
        if let Some(handler) = exchange.handler.take() {
            handler.handling.refuse(&mut reply);
            if let Some(origin_ring) = context.origin_ring.as_mut() {
                origin_ring.cancel(handler.exchange);
            }
        }
        match &mut exchange.outbound {
            Outbound::Replying(response) => {
                if let Some(id) = &exchange.returned_id {
                    id.add(reply.headers.edit());
                }
                if !response.replace(reply, exchange.is_head) {
                    if let Some(record) = &mut exchange.record {
                        record.on_cut(status);
                    }
                    return self.reset_stream(conn, stream, WireErrorCode::ExcessiveLoad, context);
                }
                self.pending.insert(exchange.schedule.place(), stream);
            }
            Outbound::Silent => self.begin(stream, reply, context.now),
            Outbound::Over => self.stop_lingering(conn, stream, context),
        }
    }

    pub(super) fn begin(&mut self, stream: u64, mut reply: Reply, now: Instant) {
        if let Some(exchange) = self.open.get_mut(&stream) {
            if let Some(id) = &exchange.returned_id {
                id.add(reply.headers.edit());
            }
            let schedule = &mut exchange.schedule;
            if let Some(parameters) = Parameters::of(&reply.headers) {
                schedule.reply(parameters);
            }
            let response = Response::whole(reply, exchange.is_head);
            if let Some(length) = response.length() {
                schedule.set_length(length);
            }
            schedule.resume(now, 0, self.pending.sharing.written());
            self.pending.insert(schedule.place(), stream);
            exchange.outbound = Outbound::Replying(response);
        }
    }
}
