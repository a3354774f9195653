//! Writes a response to its stream: heads, then the body from where the stream stopped taking it, then trailers.

mod lent;
mod ranges;
mod waiting;

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes};
use quiche::h3::Error;
use sluicegate_http::exchange::message::{Head, ToFront, cost};
use sluicegate_http::exchange::{Body, Fields, Reply};

use self::ranges::Ranges;
use super::head::{self, Heads};
use super::sink::Sink;

/// Largest part of a body that is offered to quiche at once, bytes.
pub(super) const BLOCK: usize = 64 * 1024;

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

/// Response that its stream has not taken in full.
#[derive(Debug)]
pub(super) struct Response {
    /// Status of the final head; 0 until there is one.
    pub(super) status: u16,
    heads: Heads,
    /// A head was sent.
    begun: bool,
    /// The final head was sent.
    pub(super) headed: bool,
    content: Content,
    /// Bytes of body that the stream has taken.
    pub(super) sent: u64,
    /// Credit to return to the handler, by [`cost`].
    pub(super) credit: u64,
}

#[derive(Debug)]
enum Content {
    /// The whole content is known.
    Whole(Body),
    /// A handler sends the content, block by block.
    Flow(Flow),
}

#[derive(Debug, Default)]
struct Flow {
    /// Blocks that the stream has not taken; of the first perhaps a part.
    blocks: VecDeque<Bytes>,
    /// Bytes that it has taken of the first one.
    taken: usize,
    /// Range that follows the blocks.
    ranges: Ranges,
    promised: Option<u64>,
    trailers: Option<Fields>,
    ended: bool,
}

impl Response {
    /// Frames a reply; for HEAD only the length of its body.
    pub(super) fn whole(reply: Reply, is_head: bool) -> Response {
        let head = head::Head::of_reply(reply.status, reply.headers, reply.body.len());
        Response {
            status: reply.status,
            heads: Heads::of_last(reply.status, head),
            begun: false,
            headed: false,
            content: Content::Whole(if is_head { Body::Empty } else { reply.body }),
            sent: 0,
            credit: 0,
        }
    }

    /// Returns a response that a handler will send.
    pub(super) fn awaited() -> Response {
        Response {
            status: 0,
            heads: Heads::default(),
            begun: false,
            headed: false,
            content: Content::Flow(Flow::default()),
            sent: 0,
            credit: 0,
        }
    }

    /// Replaces a handler's response by a reply; returns `false` if the handler's head has come already.
    pub(super) fn replace(&mut self, reply: Reply, is_head: bool) -> bool {
        if self.status != 0 {
            return false;
        }
        let length = reply.body.len();
        let head = head::Head::of(reply.status, reply.headers.into_own(), Some(length));
        self.heads.set_last(reply.status, head);
        self.status = reply.status;
        self.content = Content::Whole(if is_head { Body::Empty } else { reply.body });
        true
    }

    /// Adds an informational response.
    pub(super) fn interim(&mut self, status: u16, fields: Fields) {
        self.heads.push_interim(status, fields);
    }

    /// Takes a handler's message about the response.
    pub(super) fn take(&mut self, message: ToFront) {
        let Content::Flow(flow) = &mut self.content else {
            return;
        };
        match message {
            ToFront::Interim(status, fields) => {
                self.credit += cost(fields.iter().map(|(n, v)| n.as_str().len() + v.len()).sum());
                self.interim(status, fields);
            }
            ToFront::Head(Head { status, fields, length, end }) => {
                flow.ended = end;
                flow.promised = if end { None } else { length };
                self.status = status;
                self.heads.set_last(status, head::Head::of(status, fields, length));
            }
            ToFront::Data(block) => flow.blocks.push_back(block),
            ToFront::Range(range) => flow.ranges.take(range),
            ToFront::End(trailers) => {
                flow.trailers = trailers.filter(|fields| !fields.is_empty());
                flow.ended = true;
            }
            ToFront::Abort(_)
            | ToFront::Credit(_)
            | ToFront::StopBody
            | ToFront::Report(_)
            | ToFront::Closed => {}
        }
    }

    /// Writes what the stream takes: heads, then a block of up to `room` bytes.
    ///
    /// # Errors
    /// The stream is gone, or the client wants no more of it.
    pub(super) fn write(&mut self, to: &mut Sink<'_>) -> Result<Progress, Error> {
        while let Some((status, head)) = self.heads.first() {
            if to.room == 0 {
                return Ok(Progress::Blocked);
            }
            let last = status >= 200 && self.is_bare();
            match head.send(to, !self.begun, last) {
                Ok(()) => {}
                Err(Error::StreamBlocked) => return Ok(Progress::Blocked),
                Err(error) => return Err(error),
            }
            if status >= 200 {
                to.counters.responses.record(status);
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
        match &mut self.content {
            Content::Whole(body) => {
                let (taken, whole) = write_whole(body, self.sent, to)?;
                self.sent += taken as u64;
                to.counters.bytes_out += taken as u64;
                Ok(match taken {
                    _ if whole => Progress::Complete,
                    0 => Progress::Blocked,
                    _ => Progress::Some,
                })
            }
            Content::Flow(flow) => {
                let (taken, progress) = flow.write(self.sent, &mut self.credit, to)?;
                self.sent += taken as u64;
                to.counters.bytes_out += taken as u64;
                Ok(progress)
            }
        }
    }

    /// Returns the length of the body, if it is known; asked before the first byte.
    pub(super) fn length(&self) -> Option<u64> {
        match &self.content {
            Content::Whole(body) => Some(body.len()),
            Content::Flow(flow) => flow.promised,
        }
    }

    /// Returns whether a head was sent.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Returns whether the stream took all blocks that the handler has sent so far.
    pub(super) fn is_drained(&self) -> bool {
        match &self.content {
            Content::Whole(_) => false,
            Content::Flow(flow) => flow.blocks.is_empty() && !flow.ranges.is_reading(),
        }
    }

    /// Returns whether nothing follows the final head.
    fn is_bare(&self) -> bool {
        match &self.content {
            Content::Whole(body) => body.len() == 0,
            Content::Flow(flow) => {
                flow.ended
                    && flow.blocks.is_empty()
                    && !flow.ranges.is_reading()
                    && flow.trailers.is_none()
                    && flow.promised.is_none_or(|length| length == 0)
            }
        }
    }
}

impl Flow {
    /// Writes a block, or the end; returns the number of bytes taken.
    fn write(
        &mut self,
        sent: u64,
        credit: &mut u64,
        to: &mut Sink<'_>,
    ) -> Result<(usize, Progress), Error> {
        if self.blocks.is_empty() && self.ranges.is_reading() {
            if to.room == 0 {
                return Ok((0, Progress::Blocked));
            }
            self.read(sent);
        }
        let blocks = self.blocks.len();
        let Some(rest) = self.blocks.front_mut() else {
            return Ok((0, self.finish(sent, to)?));
        };
        if to.room == 0 {
            return Ok((0, Progress::Blocked));
        }
        let after = sent + rest.len() as u64;
        if self.promised.is_some_and(|length| after > length) {
            return Ok((0, Progress::Broken));
        }
        // The end goes with the last block, if that is known to be the last and the length is right.
        let last = blocks == 1
            && self.ended
            && self.trailers.is_none()
            && self.promised.is_none_or(|length| after == length);
        let taken = send_shared(to, rest, BLOCK, last)?;
        let whole = rest.is_empty();
        let progress = match taken {
            0 => Progress::Blocked,
            _ if whole && last => Progress::Complete,
            _ => Progress::Some,
        };
        self.taken += taken;
        if whole {
            let taken = std::mem::take(&mut self.taken);
            if !self.ranges.on_block_taken() {
                *credit += cost(taken);
            }
            self.blocks.pop_front();
        }
        Ok((taken, progress))
    }

    fn finish(&mut self, sent: u64, to: &mut Sink<'_>) -> Result<Progress, Error> {
        if !self.ended {
            return Ok(Progress::Waiting);
        }
        if self.promised.is_some_and(|length| length != sent) {
            return Ok(Progress::Broken);
        }
        let written = match &self.trailers {
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
}

/// Writes a part of a known content, of which bytes in memory leave `body`. Returns the length of the part, and whether the
/// stream has the whole.
fn write_whole(body: &mut Body, sent: u64, to: &mut Sink<'_>) -> Result<(usize, bool), Error> {
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
    to: &mut Sink<'_>,
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

fn send_body(to: &mut Sink<'_>, block: &[u8], last: bool) -> Result<usize, Error> {
    taken(to.h3.send_body(to.conn, to.stream, block, last))
}

/// Reports a stream without room as one that took nothing.
fn taken(written: Result<usize, Error>) -> Result<usize, Error> {
    match written {
        Err(Error::Done | Error::StreamBlocked) => Ok(0),
        other => other,
    }
}
