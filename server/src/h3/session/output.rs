//! Writes responses to streams.

use quiche::h3::WireErrorCode;

use super::{Exchange, Inbound, Outbound, SCRATCH, Session};
use crate::h3::response::Progress;
use crate::h3::session_context::SessionContext;
use crate::h3::sink::Sink;
use crate::observe::access::Outcome;

impl Session {
    /// Lets responses write in the order of their priorities, until none can or `limits.connection_send_buffer` bytes wait to be sent.
    pub(super) fn write(&mut self, conn: &mut quiche::Connection, context: &mut SessionContext) {
        self.resume_below = None;
        let mut level = self.pending.level(None);
        while let Some(priority) = level {
            let mut progressed = true;
            while progressed {
                progressed = false;
                for stream in self.pending.streams(priority) {
                    // A response that is not incremental writes all it can; the others write a block each in turn.
                    while self.write_block(conn, stream, context) {
                        progressed = true;
                        if priority.incremental {
                            self.pending.served(stream);
                            break;
                        }
                    }
                }
            }
            level = self.pending.level(Some(priority));
        }
    }

    /// Returns whether a block was written and more may follow.
    fn write_block(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        context: &mut SessionContext,
    ) -> bool {
        let Some(Exchange {
            priority,
            outbound: Outbound::Replying(response),
            ..
        }) = self.open.get_mut(&stream)
        else {
            return false;
        };
        let priority = *priority;
        let limit =
            usize::try_from(context.site.limits().connection_send_buffer).unwrap_or(usize::MAX);
        let room = limit.saturating_sub(conn.unsent());
        let h3 = &mut self.h3;
        let counters = &mut context.counters;
        let written = SCRATCH.with_borrow_mut(|scratch| {
            let mut sink = Sink {
                h3,
                conn,
                stream,
                priority,
                scratch,
                room,
                counters,
            };
            response.write(&mut sink)
        });
        match written {
            Ok(Progress::Some) => {
                self.return_credit(stream, context);
                return true;
            }
            // Every other reason to wait ends with a datagram from the client.
            Ok(Progress::Blocked) if room == 0 => self.resume_below = Some(limit / 2),
            Ok(Progress::Blocked) => {}
            Ok(Progress::Waiting) => {
                self.pending.remove(priority, stream);
                self.return_credit(stream, context);
            }
            Ok(Progress::Complete) => self.complete(stream, context),
            Ok(Progress::Broken) => {
                context.counters.broken += 1;
                if let Some(record) = { self.open.get_mut(&stream) }.and_then(|e| e.record.as_mut())
                {
                    record.set_cause("wrong_length");
                }
                self.reset_stream(conn, stream, WireErrorCode::InternalError, context);
            }
            Err(_) => {
                // The client stopped the response, or the stream is gone.
                context.counters.cancelled += 1;
                self.wasted += 1;
                self.reset_stream(conn, stream, WireErrorCode::RequestCancelled, context);
            }
        }
        false
    }

    /// Ends a response that its stream has taken as a whole.
    fn complete(&mut self, stream: u64, context: &mut SessionContext) {
        self.return_credit(stream, context);
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        self.pending.remove(exchange.priority, stream);
        let is_tunnel = { exchange.handler.as_ref() }.is_some_and(|h| h.handling.is_tunnel());
        if !is_tunnel {
            let duration = context.now.saturating_duration_since(exchange.begun);
            context.counters.latency.record(duration);
        }
        self.record(stream, Outcome::Complete, context);
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        exchange.outbound = Outbound::Over;
        if exchange.handler.is_none() && !matches!(exchange.inbound, Inbound::Discarding(_)) {
            // Nobody reads the rest of the request.
            exchange.limit = u64::MAX;
        }
        if exchange.is_over() {
            self.forget(stream, context);
        }
    }

    /// Returns to a handler the range that is read, and credit: not for every block, but before it has to wait.
    pub(super) fn return_credit(&mut self, stream: u64, context: &mut SessionContext) {
        let Some(Exchange {
            outbound: Outbound::Replying(response),
            handler: Some(handler),
            ..
        }) = self.open.get_mut(&stream)
        else {
            return;
        };
        let Some(origin_ring) = context.origin_ring.as_mut() else {
            return;
        };
        if response.take_range_moved() {
            response.credit += origin_ring.on_range_moved(handler.exchange);
        }
        if let Some(count) = response.take_range_read() {
            origin_ring.range_read(handler.exchange, count);
        }
        if response.credit > 0
            && !response.is_reading_range()
            && (response.credit >= origin_ring.share() / 4 || response.is_drained())
        {
            origin_ring.credit(handler.exchange, std::mem::take(&mut response.credit));
        }
    }
}
