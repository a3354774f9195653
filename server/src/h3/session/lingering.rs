//! Bodies that the response does not need, which their clients may finish for a while.

use sluicegate_http::exchange::stall::{LINGERING, LINGERING_BYTES};

use super::{Exchange, Http3Session, Lingering};
use crate::h3::session_context::SessionContext;

impl Http3Session {
    /// Leaves the rest of a request whose response does not need it: the client may finish it for a while. RFC 9114 §4.1 lets a server
    /// stop it at once, but a page in Chromium whose upload is stopped never gets the response.
    pub(super) fn leave_body(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        context: &mut SessionContext,
    ) {
        let Some(exchange) = self.open.get_mut(&stream) else {
            return self.stop_reading(conn, stream);
        };
        let may_linger =
            exchange.front.leave_body() && !exchange.is_connect && self.refused_from.is_none();
        if may_linger && !conn.stream_finished(stream) {
            let until = context.now + LINGERING;
            exchange.lingering = Some(Lingering { left: LINGERING_BYTES as u64, until });
            self.stall_checks.plan_at(context.now, until);
            // What has arrived is announced no second time.
            self.drop_arrived(conn, stream, context);
        } else {
            self.stop_reading(conn, stream);
        }
    }

    /// Reads and drops what has arrived of such a body.
    pub(super) fn drop_arrived(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        context: &mut SessionContext,
    ) {
        let count = match self.read_and_drop(conn, stream) {
            Ok(count) => count,
            Err(error) => return self.on_read_error(conn, stream, error, context),
        };
        self.count_read(count, context);
        if let Some(Exchange { lingering: Some(lingering), .. }) = self.open.get_mut(&stream) {
            lingering.left = lingering.left.saturating_sub(count);
            if lingering.left == 0 {
                self.stop_lingering(conn, stream, context);
            }
        }
    }

    /// Stops the clients that have had their time to finish such bodies.
    pub(super) fn end_lingering(
        &mut self,
        conn: &mut quiche::Connection,
        context: &mut SessionContext,
    ) {
        let late = self.open.iter().filter(|(_, exchange)| {
            exchange.lingering.is_some_and(|lingering| lingering.until <= context.now)
        });
        let mut late: Vec<u64> = late.map(|(stream, _)| *stream).collect();
        late.sort_unstable();
        for stream in late {
            self.stop_lingering(conn, stream, context);
        }
        let left = self.open.values().filter_map(|exchange| Some(exchange.lingering?.until));
        if let Some(until) = left.min() {
            self.stall_checks.plan_at(context.now, until);
        }
    }

    /// Returns the memory of an exchange of which only the rest of the request's body may still come.
    pub(super) fn return_memory(&mut self, stream: u64, context: &mut SessionContext) {
        if let Some(exchange) = self.open.get_mut(&stream)
            && exchange.routed.is_none()
            && exchange.front.is_taken()
            && let Some(number) = exchange.number.take()
            && let Some(origin_ring) = context.origin_ring.as_mut()
        {
            origin_ring.forget(number);
        }
    }
}
