//! Ends requests early: resets, refusals, malformed requests.

use std::time::Instant;

use quiche::Shutdown;
use quiche::h3::WireErrorCode;

use super::{Inbound, Outbound, Session};
use crate::h3::priority::Parameters;
use crate::h3::response::Response;
use crate::h3::session_context::SessionContext;
use crate::http::exchange::Reply;
use crate::http::gate::{BODY_MALFORMED, Refusal};
use crate::observe::access::Outcome;

impl Session {
    /// Resets both directions of a stream and forgets it.
    pub(super) fn reset_stream(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        code: WireErrorCode,
        context: &mut SessionContext,
    ) {
        let outcome = match code {
            WireErrorCode::RequestCancelled => Outcome::Cancelled,
            _ => Outcome::Reset,
        };
        self.record(stream, outcome, context);
        self.forget(stream, context);
        // Either direction may have ended already.
        let _ = conn.stream_shutdown(stream, Shutdown::Write, code as u64);
        self.stop(conn, stream, code);
    }

    /// Drops the state of a request, and cancels its handler unless request and response are complete.
    pub(super) fn forget(&mut self, stream: u64, context: &mut SessionContext) {
        let Some(exchange) = self.open.remove(&stream) else {
            return;
        };
        self.pending.remove(exchange.schedule.place(), stream);
        self.tunnels -= u64::from(exchange.is_tunnel);
        if let Some(number) = exchange.number
            && let Some(origin_ring) = context.origin_ring.as_mut()
        {
            if exchange.handler.is_some() && !exchange.is_over() {
                origin_ring.cancel(number);
            }
            origin_ring.forget(number);
        }
    }

    /// Cancels requests whose responses the client has stopped. A response that waits for its handler would notice nothing.
    pub(super) fn notice_stops(
        &mut self,
        conn: &mut quiche::Connection,
        context: &mut SessionContext,
    ) {
        let stops = conn.streams_stopped_by_peer();
        if std::mem::replace(&mut self.stops, stops) == stops {
            return;
        }
        let unfinished = { self.open.iter() }
            .filter(|(_, exchange)| !matches!(exchange.outbound, Outbound::Over));
        let mut stopped: Vec<u64> = unfinished.map(|(stream, _)| *stream).collect();
        stopped.retain(|stream| {
            let capacity = conn.stream_capacity(*stream);
            matches!(capacity, Err(quiche::Error::StreamStopped(_)))
        });
        for stream in stopped {
            self.on_reset(conn, stream, context);
        }
    }

    /// Resets a malformed request. Its body is at fault, unless another cause is noted.
    pub(super) fn malformed(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        context: &mut SessionContext,
    ) {
        context.counters.malformed += 1;
        self.wasted += 1;
        self.set_cause(stream, BODY_MALFORMED);
        self.reset_stream(conn, stream, WireErrorCode::MessageError, context);
    }

    /// Asks the client to send no more of a request.
    pub(super) fn stop_reading(&mut self, conn: &mut quiche::Connection, stream: u64) {
        if let Some(exchange) = self.open.get_mut(&stream) {
            exchange.inbound = Inbound::Over;
        }
        self.stop(conn, stream, WireErrorCode::NoError);
    }

    /// Reads no more of a stream. The client may respond with a reset, unless it has sent all already.
    fn stop(&mut self, conn: &mut quiche::Connection, stream: u64, code: WireErrorCode) {
        let over = conn.stream_finished(stream);
        let stopped = conn.stream_shutdown(stream, Shutdown::Read, code as u64);
        if over {
            self.cancelled.push(stream);
        } else if stopped.is_ok() {
            self.stopped += 1;
        }
    }

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
