//! Ends requests early: resets, stops, malformed requests.

use quiche::Shutdown;
use quiche::h3::WireErrorCode;
use sluicegate_base::observe::access::Outcome;
use sluicegate_http::gate::BODY_MALFORMED;

use super::{Exchange, Http3Session};
use crate::h3::session_context::SessionContext;

impl Http3Session {
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
        if let Some(exchange) = self.open.get_mut(&stream) {
            exchange.front.cut(outcome);
            exchange.record(conn, context);
        }
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
        self.tunnels -= u64::from(exchange.has_tunnel);
        if let Some(number) = exchange.number
            && let Some(origin_ring) = context.origin_ring.as_mut()
        {
            if exchange.routed.is_some() && exchange.front.needs_cancel() {
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
        let unfinished = self.open.iter().filter(|(_, exchange)| !exchange.front.is_taken());
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
            exchange.stop_reading();
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

    pub(super) fn on_reset(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        context: &mut SessionContext,
    ) {
        match self.open.get(&stream) {
            Some(exchange) if exchange.front.is_taken() => self.forget(stream, context),
            Some(_) => {
                context.counters.cancelled += 1;
                self.wasted += 1;
                self.reset_stream(conn, stream, WireErrorCode::RequestCancelled, context);
            }
            None => {
                self.late_resets += 1;
                // The head was never seen, so only this ends the stream and lets the client open another.
                if !conn.has_written(stream) {
                    let code = WireErrorCode::RequestCancelled as u64;
                    let _ = conn.stream_shutdown(stream, Shutdown::Write, code);
                }
            }
        }
    }

    /// Stops the client, and forgets a request whose response has ended.
    pub(super) fn stop_lingering(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        context: &mut SessionContext,
    ) {
        self.stop_reading(conn, stream);
        self.forget_if_over(stream, context);
    }

    /// Forgets a request if it is over.
    pub(super) fn forget_if_over(&mut self, stream: u64, context: &mut SessionContext) {
        if self.open.get(&stream).is_some_and(|exchange| exchange.front.is_over()) {
            self.forget(stream, context);
        }
    }
}

impl Exchange {
    /// Reads no more of the request.
    pub(super) fn stop_reading(&mut self) {
        self.front.stop_reading();
        self.lingering = None;
    }
}
