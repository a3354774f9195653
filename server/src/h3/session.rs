//! One connection's requests, from their events to the last byte of their replies.

mod output;
mod requests;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use quiche::h3::{Error, WireErrorCode};

use super::Counters;
use super::request::Request;
use super::response::{BLOCK, Response};
use crate::route::Site;

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
        let allowed = self.site.limits().given_up_requests + self.requests / 2;
        if self.wasted + strays > allowed {
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
