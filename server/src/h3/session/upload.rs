//! Reads bodies of requests.

use std::cell::RefCell;

use bytes::{BufMut as _, Bytes};
use quiche::h3::{Error, WireErrorCode};
use sluicegate_http::exchange::front::Received;
use sluicegate_http::gate::replies;

use super::{Exchange, Http3Session};
use crate::h3::session_context::SessionContext;

/// Largest block of a request's body that a handler is sent, bytes.
const BLOCK: usize = 16 * 1024;

thread_local! {
    /// Buffer that blocks are read into.
    static READ: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Http3Session {
    pub(super) fn on_data(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        context: &mut SessionContext,
    ) {
        if let Some(exchange) = self.open.get_mut(&stream) {
            if exchange.front.passes() {
                exchange.readable = true;
                return self.pass_on(conn, stream, context);
            }
            if exchange.lingering.is_some() {
                return self.drop_arrived(conn, stream, context);
            }
        }
        match self.read_and_drop(conn, stream) {
            Ok(count) => {
                self.account(conn, stream, count, context);
            }
            Err(error) => self.on_read_error(conn, stream, error, context),
        }
    }

    /// Passes the body to its handler, as far as credit and ring allow. The client's flow-control window grows only by the
    /// bytes that are read, so a handler that reads nothing stops the client.
    pub(super) fn pass_on(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        context: &mut SessionContext,
    ) {
        loop {
            let Some(Exchange { front, number: Some(number), readable, .. }) =
                self.open.get_mut(&stream)
            else {
                return;
            };
            let Some(origin_ring) = context.origin_ring.as_mut() else {
                return;
            };
            let room = usize::try_from(front.room()).unwrap_or(usize::MAX);
            if room == 0 {
                return self.note_wait(conn, stream, context);
            }
            if !origin_ring.has_room() {
                self.pass_on_later(stream);
                return self.note_wait(conn, stream, context);
            }
            let number = *number;
            match read_block(&mut self.h3, conn, stream, room) {
                Ok(block) => {
                    if self.account(conn, stream, block.len() as u64, context)
                        && let Some(origin_ring) = context.origin_ring.as_mut()
                    {
                        origin_ring.data(number, block);
                    }
                }
                Err(Error::Done) => {
                    *readable = false;
                    return self.note_wait(conn, stream, context);
                }
                Err(error) => return self.on_read_error(conn, stream, error, context),
            }
        }
    }

    /// Notes a body that is to go on to its handler in the next turn.
    pub(super) fn pass_on_later(&mut self, stream: u64) {
        if !self.to_pass_on.contains(&stream) {
            self.to_pass_on.push(stream);
        }
    }

    /// Passes bodies on that waited for room in the ring, or for credit.
    pub(super) fn resume_uploads(
        &mut self,
        conn: &mut quiche::Connection,
        context: &mut SessionContext,
    ) {
        for stream in std::mem::take(&mut self.to_pass_on) {
            self.pass_on(conn, stream, context);
        }
    }

    /// Counts bytes that were read; returns `false` if nobody needs them, or if the request is refused for them.
    fn account(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        count: u64,
        context: &mut SessionContext,
    ) -> bool {
        self.count_read(count, context);
        let exchange = self.open.get_mut(&stream);
        match exchange.map_or(Received::Unneeded, |exchange| exchange.front.on_data(count)) {
            Received::Accepted => return true,
            Received::Unneeded => {}
            Received::Malformed => self.malformed(conn, stream, context),
            Received::TooLarge => self.refuse(conn, stream, replies::body_too_large(), context),
        }
        false
    }

    /// Ends a request that the client has sent in full.
    pub(super) fn on_end(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        context: &mut SessionContext,
    ) {
        // RFC 9114 §7.1. A body that nobody reads any more may end anywhere.
        let cut = self.h3.finished_within_frame();
        let Some(exchange) = self.open.get_mut(&stream) else {
            if !self.cancelled.contains(&stream) {
                if cut {
                    return self.fail(conn, WireErrorCode::FrameError, context);
                }
                context.counters.malformed += 1;
                self.wasted += 1;
                self.reset_stream(conn, stream, WireErrorCode::RequestIncomplete, context);
            }
            return;
        };
        if cut && exchange.front.reads() {
            return self.fail(conn, WireErrorCode::FrameError, context);
        }
        exchange.lingering = None;
        match exchange.front.on_end() {
            Received::Malformed => return self.malformed(conn, stream, context),
            Received::Accepted => {
                if let Some(reply) = exchange.reply.take() {
                    self.begin(stream, *reply, context.now);
                } else if let (Some(origin_ring), Some(number)) =
                    (context.origin_ring.as_mut(), exchange.number)
                {
                    origin_ring.end(number, exchange.trailers.take());
                    self.note_wait(conn, stream, context);
                }
            }
            Received::Unneeded | Received::TooLarge => {}
        }
        self.forget_if_over(stream, context);
    }
}

/// Reads up to `room` bytes of a body. A full block is handed over in its buffer. A smaller one is copied out of it, or the handler would
/// hold more memory than it is charged for.
fn read_block(
    h3: &mut quiche::h3::Connection,
    conn: &mut quiche::Connection,
    stream: u64,
    room: usize,
) -> Result<Bytes, Error> {
    READ.with_borrow_mut(|buffer| {
        buffer.clear();
        buffer.reserve_exact(BLOCK);
        let count = h3.recv_body_buf(conn, stream, (&mut *buffer).limit(room.min(BLOCK)))?;
        if count == buffer.capacity() {
            return Ok(Bytes::from(std::mem::take(buffer)));
        }
        Ok(Bytes::copy_from_slice(buffer))
    })
}
