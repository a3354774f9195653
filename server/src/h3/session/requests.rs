//! Requests as they arrive, up to the decision how to answer them.

use quiche::Shutdown;
use quiche::h3::{Error, Event, Header, WireErrorCode};

use super::{Exchange, SCRATCH, Session, code};
use crate::exchange::Reply;
use crate::h3::Counters;
use crate::h3::request::{self, Refusal, Request};
use crate::h3::response::Response;

impl Session {
    pub(super) fn on_event(
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
        if request::trailers(list, limit).is_err() {
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
    pub(super) fn give_up(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        code: WireErrorCode,
    ) {
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
}
