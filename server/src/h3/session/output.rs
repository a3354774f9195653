//! Writes responses to streams.

use quiche::h3::WireErrorCode;
use sluicegate_base::clock;
use sluicegate_http::gate::HttpVersion;

use super::{Exchange, Http3Session, SCRATCH};
use crate::h3::priority::LOWEST;
use crate::h3::response::{BLOCK, Progress};
use crate::h3::session_context::SessionContext;
use crate::h3::sharing::QUANTUM;
use crate::h3::write_context::WriteContext;

/// Outcome of one write of a response.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Bytes of the body that were written.
    bytes: usize,
    /// More may follow at once.
    more: bool,
}

impl Http3Session {
    /// Lets responses write until none can or `limits.connection_send_buffer` bytes wait to be sent: in the order of their priorities,
    /// and by turns where some share.
    pub(super) fn write(&mut self, conn: &mut quiche::Connection, context: &mut SessionContext) {
        self.resume_below = None;
        if self.pending.is_empty() {
            return;
        }
        let written = self.pending.sharing.written();
        let was_full = self.unacked.was_full();
        if self.unacked.is_full(conn, written, || context.most_unacked()) {
            if !was_full {
                self.note_waits_of_pending(conn, context);
            }
            // Each acknowledgement is a datagram, after which the session has its turn.
            return;
        }
        if !self.pending.has_shared() {
            self.write_in_order(conn, usize::MAX, context);
        }
        if self.pending.has_shared() {
            self.write_by_turns(conn, context);
        }
        if self.pending.sharing.is_look_due() {
            self.relieve(conn);
        }
    }

    /// Lets responses write in the order of their priorities, up to so many bytes. Returns how many.
    fn write_in_order(
        &mut self,
        conn: &mut quiche::Connection,
        most: usize,
        context: &mut SessionContext,
    ) -> usize {
        let mut written = 0;
        let mut level = self.pending.level(None);
        while let Some(priority) = level {
            let mut progressed = true;
            while progressed {
                progressed = false;
                for stream in self.pending.streams(priority) {
                    // A response that is not incremental writes all it can; the others write a block each in turn.
                    loop {
                        let block = self.write_block(conn, stream, most - written, context);
                        written += block.bytes;
                        progressed |= block.more;
                        if priority.incremental && block.more {
                            self.pending.served(stream);
                        }
                        if written >= most {
                            return written;
                        }
                        if priority.incremental || !block.more {
                            break;
                        }
                    }
                }
            }
            level = self.pending.level(Some(priority));
        }
        written
    }

    /// Lets the responses that share and those in the order write by turns.
    fn write_by_turns(&mut self, conn: &mut quiche::Connection, context: &mut SessionContext) {
        if self.pending.level(None).is_some() {
            let shared = self.pending.shared().into_iter();
            let urgencies = shared.filter_map(|stream| {
                let exchange = self.open.get(&stream)?;
                let waits = exchange.waits_for_server(conn, stream);
                waits.then(|| exchange.schedule.urgency())
            });
            let urgency = urgencies.min().unwrap_or(LOWEST);
            self.pending.sharing.set_urgency(urgency);
        }
        loop {
            self.return_overdue(conn);
            let due = self.pending.sharing.due();
            let paid = self.write_shared(conn, due, context);
            let ordered = self.write_in_order(conn, QUANTUM, context);
            if ordered > 0 {
                continue;
            }
            if self.pending.level(None).is_none() {
                self.pending.sharing.forgive();
            }
            if paid + self.write_shared(conn, BLOCK, context) == 0 {
                return;
            }
        }
    }

    /// Lets responses that share write in turn, up to so many bytes. Returns how many.
    fn write_shared(
        &mut self,
        conn: &mut quiche::Connection,
        most: usize,
        context: &mut SessionContext,
    ) -> usize {
        let mut written = 0;
        let streams = if most > 0 { self.pending.shared() } else { Vec::new() };
        let is_alone = streams.len() == 1;
        for stream in streams {
            let Some(exchange) = self.open.get(&stream) else {
                continue;
            };
            let turn = self.pending.sharing.turn(stream, exchange.schedule.urgency());
            let mut left = if is_alone { most } else { turn };
            let before = written;
            while left > 0 && written < most {
                let block = self.write_block(conn, stream, left.min(most - written), context);
                written += block.bytes;
                left = left.saturating_sub(block.bytes);
                if !block.more {
                    break;
                }
            }
            // One that is blocked by its own window passes its turn on, and so does one that the connection blocks: to none.
            if written > before {
                self.pending.sharing.on_turn(stream, left);
            }
            if written >= most {
                break;
            }
        }
        written
    }

    /// Lets a response write a block, of so many bytes at most.
    fn write_block(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        most: usize,
        context: &mut SessionContext,
    ) -> Block {
        let Some(exchange) = self.open.get_mut(&stream) else {
            return Block::default();
        };
        let Exchange { schedule, front, response: Some(response), .. } = &mut *exchange else {
            return Block::default();
        };
        let priority = schedule.place();
        let limit =
            usize::try_from(context.site.limits().connection_send_buffer).unwrap_or(usize::MAX);
        let room = limit.saturating_sub(conn.unsent());
        let h3 = &mut self.h3;
        let (counters, now) = (&mut context.counters, context.now);
        let before = front.sent();
        let written = SCRATCH.with_borrow_mut(|scratch| {
            let mut context = WriteContext {
                h3,
                conn,
                stream,
                priority,
                scratch,
                room: room.min(most),
                counters,
                now,
            };
            response.write(front, &mut context)
        });
        let (sent, length) = (front.sent(), response.length(front));
        let bytes = sent - before;
        self.pending.on_written(priority, bytes);
        let is_long = bytes > 0
            && schedule.on_written(sent, self.pending.sharing.written(), length.is_some());
        let mut block = Block { bytes: usize::try_from(bytes).unwrap_or(usize::MAX), more: false };
        match written {
            Ok(Progress::Some) => {
                exchange.return_credit(context);
                if is_long {
                    self.share(conn, stream);
                }
                block.more = !is_long;
            }
            // Every other reason to wait ends with a datagram from the client.
            Ok(Progress::Blocked) => {
                if room == 0 {
                    self.resume_below = Some(limit / 2);
                }
                exchange.note_wait(conn, stream, context);
            }
            Ok(Progress::Waiting) => {
                schedule.pause(context.now);
                self.pending.remove(priority, stream);
                exchange.return_credit(context);
                exchange.note_wait(conn, stream, context);
            }
            Ok(Progress::Complete) => self.complete(conn, stream, context),
            Ok(Progress::Broken) => {
                context.counters.broken += 1;
                self.set_cause(stream, "wrong_length");
                self.reset_stream(conn, stream, WireErrorCode::InternalError, context);
            }
            Err(_) => {
                // The client stopped the response, or the stream is gone.
                context.counters.cancelled += 1;
                self.wasted += 1;
                self.reset_stream(conn, stream, WireErrorCode::RequestCancelled, context);
            }
        }
        block
    }

    /// Ends a response that its stream has taken as a whole.
    fn complete(&mut self, conn: &quiche::Connection, stream: u64, context: &mut SessionContext) {
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        exchange.return_credit(context);
        exchange.front.complete();
        if !exchange.front.is_tunnel() {
            let duration = clock::between(exchange.front.account().begun(), context.now);
            let bytes = exchange.front.sent();
            context.counters.on_complete(HttpVersion::Http3, bytes, duration);
        }
        exchange.record(conn, context);
        exchange.response = None;
        if exchange.front.is_over() {
            self.forget(stream, context);
        } else {
            self.pending.remove(exchange.schedule.place(), stream);
            self.return_memory(stream, context);
        }
    }
}

impl Exchange {
    /// Returns to a handler the range that is read, and credit: not for every block, but before it has to wait.
    fn return_credit(&mut self, context: &mut SessionContext) {
        let Self { front, routed: Some(_), number: Some(number), .. } = self else {
            return;
        };
        let Some(origin_ring) = context.origin_ring.as_mut() else {
            return;
        };
        if front.take_range_moved() {
            front.add_credit(origin_ring.on_range_moved(*number));
        }
        if let Some(count) = front.take_range_read() {
            origin_ring.range_read(*number, count);
        }
        if let Some(amount) = front.take_credit(origin_ring.share() / 4) {
            origin_ring.credit(*number, amount);
        }
    }
}

/// Bytes that responses write between two looks at the streams.
const LOOK: u64 = 256 << 10;

/// Last look at what the streams of a connection hold for a client that acknowledges it late, or never. The congestion window
/// bounds what is in flight, not what the client has received behind a byte that it never acknowledges.
#[derive(Debug, Default)]
pub(super) struct UnackedLook {
    /// Bytes that responses had written.
    written: u64,
    /// The streams held too much.
    is_full: bool,
}

impl UnackedLook {
    /// Returns whether responses have to wait for acknowledgements, since the streams hold more than `most` bytes. `written` is what
    /// responses have written so far.
    pub(super) fn is_full(
        &mut self,
        conn: &quiche::Connection,
        written: u64,
        most: impl FnOnce() -> u64,
    ) -> bool {
        if self.is_full || written.saturating_sub(self.written) >= LOOK {
            self.written = written;
            self.is_full = conn.unacked_bytes() > most();
        }
        self.is_full
    }

    /// Returns whether they had to at the last look.
    pub(super) fn was_full(&self) -> bool {
        self.is_full
    }
}
