//! Writes a response to its stream: heads, then the body from where the stream stopped taking it, then trailers.

use bytes::{Buf as _, Bytes};
use quiche::h3::Error;
use sluicegate_base::clock;
use sluicegate_http::exchange::front::{FrontExchange, Next};
use sluicegate_http::exchange::message::Head;
use sluicegate_http::exchange::{Body, Fields, Reply};
use sluicegate_http::gate::HttpVersion;

use super::head::{self, Heads};
use super::write_context::WriteContext;

/// Largest part of a body that is offered to quiche at once, bytes.
pub(super) const BLOCK: usize = 64 * 1024;

/// Length of a DATA frame's header and a byte of its content, at most, bytes.
const FRAME: u64 = 10;

/// Outcome of an attempt to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The stream took a part, and more is left.
    Some,
    /// The stream took nothing: it or the connection is blocked, or enough waits to be sent.
    Blocked,
    /// The stream took all that the handler has sent, and the handler will send more.
    Waiting,
    /// The stream took the whole response.
    Complete,
    /// The handler's body has another length than its head says, so the response must not look whole.
    Broken,
}

/// Response that its stream has not taken in full. The body of a handler's response is in the exchange.
#[derive(Debug)]
pub(super) struct Response {
    /// Status of the final head; 0 until there is one.
    pub(super) status: u16,
    heads: Heads,
    /// A head was sent.
    begun: bool,
    /// The final head was sent.
    pub(super) headed: bool,
    /// Content of a reply.
    content: Body,
}

impl Response {
    /// Frames a reply; for HEAD only the length of its body.
    pub(super) fn whole(reply: Reply, exchange: &FrontExchange) -> Response {
        let head = head::Head::of_reply(reply.status, reply.headers, reply.body.len());
        Response {
            status: reply.status,
            heads: Heads::of_last(reply.status, head),
            begun: false,
            headed: false,
            content: if exchange.has_content(reply.status) { reply.body } else { Body::Empty },
        }
    }

    /// Returns a response that a handler will send.
    pub(super) fn awaited() -> Response {
        Response {
            status: 0,
            heads: Heads::default(),
            begun: false,
            headed: false,
            content: Body::Empty,
        }
    }

    /// Sends a reply in place of a handler's response that has no final head.
    pub(super) fn replace(&mut self, reply: Reply, exchange: &FrontExchange) {
        let length = reply.body.len();
        let head = head::Head::of(reply.status, reply.headers.into_own(), Some(length));
        self.heads.set_last(reply.status, head);
        self.status = reply.status;
        self.content = if exchange.has_content(reply.status) { reply.body } else { Body::Empty };
    }

    /// Adds an informational response.
    pub(super) fn interim(&mut self, status: u16, fields: Fields) {
        self.heads.push_interim(status, fields);
    }

    /// Adds the final head of a handler.
    pub(super) fn begin(&mut self, Head { status, fields, length, .. }: Head) {
        self.status = status;
        self.heads.set_last(status, head::Head::of(status, fields, length));
    }

    /// Writes what the stream takes: heads, then a block of up to `room` bytes.
    ///
    /// # Errors
    /// The stream is gone, or the client wants no more of it.
    pub(super) fn write(
        &mut self,
        exchange: &mut FrontExchange,
        to: &mut WriteContext<'_>,
    ) -> Result<Progress, Error> {
        while let Some((status, head)) = self.heads.first() {
            if to.room == 0 {
                return Ok(Progress::Blocked);
            }
            let last = status >= 200 && self.is_bare(exchange);
            match head.send(to, !self.begun, last) {
                Ok(()) => {}
                Err(Error::StreamBlocked) => return Ok(Progress::Blocked),
                Err(error) => return Err(error),
            }
            if status >= 200 {
                let after = clock::between(exchange.account().begun(), to.now);
                to.counters.on_head(status, HttpVersion::Http3, after);
                self.headed = true;
            }
            self.begun = true;
            self.heads.remove_first();
            if last {
                return Ok(Progress::Complete);
            }
        }
        if !self.headed {
            return Ok(Progress::Waiting);
        }
        if !exchange.is_own() {
            return write_part(exchange, to);
        }
        let (taken, whole) = write_whole(&mut self.content, exchange.sent(), to)?;
        exchange.on_taken(taken as u64);
        to.counters.bytes_out += taken as u64;
        Ok(match taken {
            _ if whole => Progress::Complete,
            0 => Progress::Blocked,
            _ => Progress::Some,
        })
    }

    /// Returns the length of the body, if it is known; asked before the first byte.
    pub(super) fn length(&self, exchange: &FrontExchange) -> Option<u64> {
        if exchange.is_own() { Some(self.content.len()) } else { exchange.length() }
    }

    /// Returns whether a head was sent.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Returns whether nothing follows the final head.
    fn is_bare(&self, exchange: &FrontExchange) -> bool {
        if exchange.is_own() { self.content.len() == 0 } else { exchange.is_bare() }
    }

    /// Returns the number of bytes without which the stream takes nothing of what waits to be written; `None` if nothing does.
    pub(super) fn next_write(&self, exchange: &FrontExchange) -> Option<u64> {
        match self.heads.first() {
            Some((_, head)) => Some(head.longest() as u64),
            None => (exchange.is_own() || self.headed && exchange.has_output()).then_some(FRAME),
        }
    }
}

/// Writes a block of a handler's body, or the end.
fn write_part(exchange: &mut FrontExchange, to: &mut WriteContext<'_>) -> Result<Progress, Error> {
    if to.room == 0 && !exchange.is_drained() {
        return Ok(Progress::Blocked);
    }
    match exchange.next_part() {
        Next::Block(rest, last) => {
            let taken = send_shared(to, rest, BLOCK, last)?;
            let whole = rest.is_empty();
            exchange.on_taken(taken as u64);
            to.counters.bytes_out += taken as u64;
            Ok(match taken {
                0 => Progress::Blocked,
                _ if whole && last => Progress::Complete,
                _ => Progress::Some,
            })
        }
        Next::End(trailers) => write_end(trailers, to),
        Next::Wait => Ok(Progress::Waiting),
        Next::WrongLength | Next::Cut => Ok(Progress::Broken),
    }
}

fn write_end(trailers: Option<&Fields>, to: &mut WriteContext<'_>) -> Result<Progress, Error> {
    let written = match trailers {
        Some(fields) => {
            let lines: Vec<_> = head::fields(fields.clone()).collect();
            to.h3.send_additional_headers(to.conn, to.stream, &lines, true, true)
        }
        None => to.h3.send_body(to.conn, to.stream, &[], true).map(drop),
    };
    match written {
        Ok(()) => Ok(Progress::Complete),
        Err(Error::Done | Error::StreamBlocked) => Ok(Progress::Blocked),
        Err(error) => Err(error),
    }
}

/// Writes a part of a known content, of which bytes in memory leave `body`. Returns the length of the part, and whether the
/// stream has the whole.
fn write_whole(
    body: &mut Body,
    sent: u64,
    to: &mut WriteContext<'_>,
) -> Result<(usize, bool), Error> {
    let room = to.room.min(to.scratch.len());
    if room == 0 {
        return Ok((0, false));
    }
    match body {
        Body::Empty => send_body(to, &[], true).map(|taken| (taken, true)),
        Body::Bytes(rest) => {
            let taken = send_shared(to, rest, room, true)?;
            Ok((taken, rest.is_empty()))
        }
        Body::Generated(generator) => {
            // No more is generated than the stream takes, but one byte at least, so that a full stream registers that it
            // has more to send.
            let capacity = room.min(to.conn.stream_capacity(to.stream).unwrap_or(0));
            let scratch = std::mem::take(&mut to.scratch);
            let count = generator.read(sent, &mut scratch[..capacity.max(1)]);
            let last = sent + count as u64 == body.len();
            let written = send_body(to, &scratch[..count], last);
            to.scratch = scratch;
            written.map(|taken| (taken, last && taken == count))
        }
    }
}

/// Sends bytes of the front of `rest`, at most `most` and what there is room for, and removes them there; the stream ends with the
/// last of them if `ends`. Returns how many. quiche copies nothing: it keeps their memory until the client has acknowledged them.
fn send_shared(
    to: &mut WriteContext<'_>,
    rest: &mut Bytes,
    most: usize,
    ends: bool,
) -> Result<usize, Error> {
    let most = most.min(to.room);
    let last = rest.len() <= most;
    // Without a second reference to the last piece no count has to change.
    let mut piece = if last { std::mem::take(rest) } else { rest.slice(..most) };
    let (stream, ends) = (to.stream, ends && last);
    let written = to.h3.send_body_zc(to.conn, stream, &mut piece, ends);
    if last {
        // It has lost what the stream took.
        *rest = piece;
    }
    let taken = taken(written)?;
    if !last {
        rest.advance(taken);
    }
    Ok(taken)
}

fn send_body(to: &mut WriteContext<'_>, block: &[u8], last: bool) -> Result<usize, Error> {
    taken(to.h3.send_body(to.conn, to.stream, block, last))
}

/// Reports a stream without room as one that took nothing.
fn taken(written: Result<usize, Error>) -> Result<usize, Error> {
    match written {
        Err(Error::Done | Error::StreamBlocked) => Ok(0),
        other => other,
    }
}
