//! One connection's requests, from their events to the last byte of their replies.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use quiche::Shutdown;
use quiche::h3::{Error, Event, Header, WireErrorCode};

use super::Counters;
use super::request::{self, Refusal, Request};
use super::response::{BLOCK, Progress, Response};
use crate::exchange::Reply;
use crate::route::Site;

/// Given-up requests that a connection may have beyond half of its requests.
const GIVEN_UP_ALLOWANCE: u64 = 100;

thread_local! {
    /// Where a body's next block lies while it is handed to a stream; nothing in it outlives a call.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; BLOCK].into_boxed_slice());
}

/// The HTTP/3 side of one connection.
///
/// It holds state for open requests only, of which there are at most as many as streams that the transport allows.
/// Requests are answered when they have arrived in full; their bodies are read and discarded.
pub struct Session {
    h3: quiche::h3::Connection,
    site: Arc<Site>,
    open: HashMap<u64, Exchange>,
    /// Streams with something to write, in the order of their turns.
    pending: VecDeque<u64>,
    /// Streams given up in this turn whose end is still to be reported.
    given_up: Vec<u64>,
    /// One past the highest request stream seen, as GOAWAY tells it.
    next_stream: u64,
    /// Requests from this stream on are refused.
    refused_from: Option<u64>,
    goaway_sent: bool,
    requests: u64,
    /// Requests that came to nothing: malformed, or reset by the client.
    wasted: u64,
    /// Resets of streams that were not open, most of which answer a STOP_SENDING of ours.
    strays: u64,
}

/// An open request.
#[derive(Debug)]
enum Exchange {
    /// Its body arrives.
    Receiving { request: Request, received: u64 },
    /// Its reply is being written.
    Replying { response: Response, ended: bool },
    /// All was written; the client has not ended the request.
    Replied,
}

impl Session {
    /// Opens the control streams on a connection that can send.
    ///
    /// # Errors
    /// The client allows no streams for it; the connection is then being closed.
    pub fn new(
        conn: &mut quiche::Connection,
        site: Arc<Site>,
        h3: &quiche::h3::Config,
    ) -> Result<Session, Error> {
        Ok(Session {
            h3: quiche::h3::Connection::with_transport(conn, h3)?,
            site,
            open: HashMap::new(),
            pending: VecDeque::new(),
            given_up: Vec::new(),
            next_stream: 0,
            refused_from: None,
            goaway_sent: false,
            requests: 0,
            wasted: 0,
            strays: 0,
        })
    }

    /// Takes all events of the connection and writes what it takes; called after datagrams came in or went out.
    ///
    /// A client that breaks the protocol has its stream reset or its connection closed, with the code of RFC 9114 §8.1.
    pub fn turn(&mut self, conn: &mut quiche::Connection, counters: &mut Counters) {
        loop {
            match self.h3.poll(conn) {
                Ok((stream, event)) => self.on_event(conn, stream, event, counters),
                Err(Error::Done) => break,
                Err(error) => return self.fail(conn, code(error), counters),
            }
        }
        self.given_up.clear();
        if conn.local_error().is_some() {
            // Closed while a body was read: nothing more can be written.
            self.open.clear();
            self.pending.clear();
            return;
        }
        let strays = self
            .strays
            .saturating_sub(conn.stats().stopped_stream_count_local);
        if self.wasted + strays > GIVEN_UP_ALLOWANCE + self.requests / 2 {
            return self.fail(conn, WireErrorCode::ExcessiveLoad, counters);
        }
        self.send_goaway(conn);
        self.write(conn, counters);
    }

    /// Takes no more requests: tells the client by GOAWAY, refuses later ones with H3_REQUEST_REJECTED, and lets those
    /// accepted finish.
    pub fn drain(&mut self, conn: &mut quiche::Connection) {
        self.refused_from.get_or_insert(self.next_stream);
        self.send_goaway(conn);
    }

    /// Whether no request is open; the connection may still have bytes of earlier ones to send.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Tried again each turn: it waits for room like everything else.
    fn send_goaway(&mut self, conn: &mut quiche::Connection) {
        if let Some(stream) = self.refused_from
            && !self.goaway_sent
        {
            self.goaway_sent = self.h3.send_goaway(conn, stream).is_ok();
        }
    }

    fn on_event(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        event: Event,
        counters: &mut Counters,
    ) {
        match event {
            Event::Headers { list, more_frames } => {
                if self.open.contains_key(&stream) {
                    self.on_trailers(conn, stream, &list, counters);
                } else {
                    self.on_head(conn, stream, &list, more_frames, counters);
                }
            }
            Event::Data => self.on_data(conn, stream, counters),
            Event::Finished => self.on_end(conn, stream, counters),
            Event::Reset(_) => self.on_reset(conn, stream, counters),
            Event::PriorityUpdate => {
                // Taken so that quiche forgets it; replies take turns.
                let _ = self.h3.take_last_priority_update(stream);
            }
            // It limits pushes, and there are none.
            Event::GoAway => {}
        }
    }

    fn on_head(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        list: &[Header],
        more_frames: bool,
        counters: &mut Counters,
    ) {
        self.requests += 1;
        counters.requests += 1;
        if self.refused_from.is_some_and(|limit| stream >= limit) {
            counters.rejected += 1;
            return self.give_up(conn, stream, WireErrorCode::RequestRejected);
        }
        self.next_stream = self.next_stream.max(stream + 4);
        let limits = self.site.limits();
        let request = match request::parse(list, limits.header_bytes) {
            Ok(request) => request,
            Err(Refusal::TooLarge) => {
                return self.refuse(conn, stream, 431, "431 header section too large\n");
            }
            Err(Refusal::Malformed) => return self.malformed(conn, stream, counters),
        };
        if !more_frames && request.content_length.is_some_and(|length| length > 0) {
            return self.malformed(conn, stream, counters);
        }
        if request
            .content_length
            .is_some_and(|length| length > limits.request_body)
        {
            return self.refuse(conn, stream, 413, "413 request body too large\n");
        }
        if more_frames && request.expects_status {
            // A final status at once, instead of 100: no handler needs the body.
            self.stop_reading(conn, stream);
            return self.reply(stream, &request, true);
        }
        let exchange = Exchange::Receiving {
            request,
            received: 0,
        };
        self.open.insert(stream, exchange);
    }

    fn on_trailers(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        list: &[Header],
        counters: &mut Counters,
    ) {
        let limit = self.site.limits().header_bytes;
        if request::check_trailers(list, limit).is_err() {
            self.malformed(conn, stream, counters);
        }
    }

    fn on_data(&mut self, conn: &mut quiche::Connection, stream: u64, counters: &mut Counters) {
        let read = SCRATCH.with_borrow_mut(|scratch| {
            let mut total = 0_u64;
            loop {
                match self.h3.recv_body(conn, stream, scratch) {
                    Ok(count) => total += count as u64,
                    Err(Error::Done) => return Ok(total),
                    Err(error) => return Err(error),
                }
            }
        });
        let count = match read {
            Ok(count) => count,
            Err(Error::TransportError(quiche::Error::StreamReset(_))) => {
                return self.on_reset(conn, stream, counters);
            }
            Err(Error::TransportError(_)) => return,
            Err(error) => return self.fail(conn, code(error), counters),
        };
        counters.bytes_in += count;
        let Some(Exchange::Receiving { request, received }) = self.open.get_mut(&stream) else {
            return;
        };
        *received += count;
        if request
            .content_length
            .is_some_and(|length| *received > length)
        {
            self.malformed(conn, stream, counters);
        } else if *received > self.site.limits().request_body {
            self.refuse(conn, stream, 413, "413 request body too large\n");
        }
    }

    /// The client has sent all of a request.
    fn on_end(&mut self, conn: &mut quiche::Connection, stream: u64, counters: &mut Counters) {
        match self.open.remove(&stream) {
            Some(Exchange::Receiving { request, received }) => {
                if request
                    .content_length
                    .is_some_and(|length| length != received)
                {
                    return self.malformed(conn, stream, counters);
                }
                self.reply(stream, &request, true);
            }
            Some(Exchange::Replying { response, .. }) => {
                let ended = true;
                self.open
                    .insert(stream, Exchange::Replying { response, ended });
            }
            Some(Exchange::Replied) => {}
            None if self.given_up.contains(&stream) => {}
            None => {
                counters.malformed += 1;
                self.wasted += 1;
                self.give_up(conn, stream, WireErrorCode::RequestIncomplete);
            }
        }
    }

    fn on_reset(&mut self, conn: &mut quiche::Connection, stream: u64, counters: &mut Counters) {
        match self.open.remove(&stream) {
            Some(Exchange::Replied) => {}
            Some(_) => {
                counters.cancelled += 1;
                self.wasted += 1;
                self.give_up(conn, stream, WireErrorCode::RequestCancelled);
            }
            None => self.strays += 1,
        }
    }

    /// Resets both directions of a stream and forgets it.
    fn give_up(&mut self, conn: &mut quiche::Connection, stream: u64, code: WireErrorCode) {
        if conn.stream_finished(stream) {
            self.given_up.push(stream);
        }
        self.open.remove(&stream);
        self.pending.retain(|pending| *pending != stream);
        // Either direction may be over already, which is as good.
        let _ = conn.stream_shutdown(stream, Shutdown::Write, code as u64);
        let _ = conn.stream_shutdown(stream, Shutdown::Read, code as u64);
    }

    fn malformed(&mut self, conn: &mut quiche::Connection, stream: u64, counters: &mut Counters) {
        counters.malformed += 1;
        self.wasted += 1;
        self.give_up(conn, stream, WireErrorCode::MessageError);
    }

    /// Asks the client to send no more of a request that is answered without it (RFC 9114 §4.1).
    fn stop_reading(&mut self, conn: &mut quiche::Connection, stream: u64) {
        if conn.stream_finished(stream) {
            self.given_up.push(stream);
        }
        let _ = conn.stream_shutdown(stream, Shutdown::Read, WireErrorCode::NoError as u64);
    }

    /// Answers before the request has ended.
    fn refuse(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        status: u16,
        text: &'static str,
    ) {
        self.stop_reading(conn, stream);
        let response = Response::new(Reply::plain(status, text), false);
        self.begin(stream, response, true);
    }

    fn reply(&mut self, stream: u64, request: &Request, ended: bool) {
        let reply = self.site.answer(&request.head);
        let response = Response::new(reply, request.head.method == "HEAD");
        self.begin(stream, response, ended);
    }

    fn begin(&mut self, stream: u64, response: Response, ended: bool) {
        self.open
            .insert(stream, Exchange::Replying { response, ended });
        self.pending.push_back(stream);
    }

    /// Lets pending replies write a block each in turn, until none can.
    fn write(&mut self, conn: &mut quiche::Connection, counters: &mut Counters) {
        let share = self.site.limits().send_buffer;
        for stream in &self.pending {
            if let Some(Exchange::Replying { response, .. }) = self.open.get_mut(stream) {
                response.allow(share);
            }
        }
        let mut blocked = 0;
        while blocked < self.pending.len() {
            let Some(stream) = self.pending.pop_front() else {
                return;
            };
            match self.write_block(conn, stream, counters) {
                Progress::Some => {
                    blocked = 0;
                    self.pending.push_back(stream);
                }
                Progress::Blocked => {
                    blocked += 1;
                    self.pending.push_back(stream);
                }
                Progress::Complete => {}
            }
        }
    }

    fn write_block(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        counters: &mut Counters,
    ) -> Progress {
        let Some(Exchange::Replying { response, ended }) = self.open.get_mut(&stream) else {
            return Progress::Complete;
        };
        let h3 = &mut self.h3;
        let written =
            SCRATCH.with_borrow_mut(|scratch| response.write(h3, conn, stream, scratch, counters));
        match written {
            Ok(Progress::Complete) => {
                if *ended {
                    self.open.remove(&stream);
                } else {
                    self.open.insert(stream, Exchange::Replied);
                }
                Progress::Complete
            }
            Ok(progress) => progress,
            Err(_) => {
                // The client stopped it, or the stream is gone.
                counters.cancelled += 1;
                self.wasted += 1;
                self.give_up(conn, stream, WireErrorCode::RequestCancelled);
                Progress::Complete
            }
        }
    }

    fn fail(
        &mut self,
        conn: &mut quiche::Connection,
        code: WireErrorCode,
        counters: &mut Counters,
    ) {
        counters.errors += 1;
        // quiche has closed it for most errors; the first code given stands.
        let _ = conn.close(true, code as u64, b"");
        self.open.clear();
        self.pending.clear();
        self.given_up.clear();
    }
}

/// The code that a connection is closed with for an error that quiche did not close it for itself.
fn code(error: Error) -> WireErrorCode {
    match error {
        Error::ExcessiveLoad => WireErrorCode::ExcessiveLoad,
        Error::IdError => WireErrorCode::IdError,
        Error::StreamCreationError => WireErrorCode::StreamCreationError,
        Error::ClosedCriticalStream => WireErrorCode::ClosedCriticalStream,
        Error::MissingSettings => WireErrorCode::MissingSettings,
        Error::FrameUnexpected => WireErrorCode::FrameUnexpected,
        Error::FrameError => WireErrorCode::FrameError,
        Error::SettingsError => WireErrorCode::SettingsError,
        Error::MessageError => WireErrorCode::MessageError,
        Error::QpackDecompressionFailed => WireErrorCode::GeneralProtocolError,
        _ => WireErrorCode::InternalError,
    }
}
