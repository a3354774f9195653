//! The application of tests: HTTP/3 whose `/bytes/N` has N bytes. Requests for other paths wait for what the test sends.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use quiche::h3::{Error, Event, Header, NameValue as _};
use sluicegate_base::address::{ClientPath, ValidatedAddress};
use sluicegate_base::clients::relief::{FrontRelief, Holdings};
use sluicegate_base::keys::{ConnectionKey, ExchangeKey};
use sluicegate_base::observe::account::Account;
use sluicegate_base::observe::connections::RequestSnapshot;
use sluicegate_base::observe::memory_budget::MemoryBudget;

use crate::application::{Application, Introduction, Output, ReadTotals, Shared};

/// H3_REQUEST_REJECTED (RFC 9114 §8.1).
const REQUEST_REJECTED: u64 = 0x10b;
/// Largest ID of a client's bidirectional stream.
const LAST_STREAM: u64 = (1 << 62) - 4;
/// Memory charged for a waiting request, bytes.
const HELD: u64 = 64 << 10;
/// Largest block of a body.
const BLOCK: usize = 16 << 10;

/// What the sessions of a worker share: requests that wait, and what the test sends to them.
pub struct Pages {
    /// Counters of all sessions.
    pub counters: PageCounters,
    /// Requests that wait for replies, in the order in which they came.
    pub requests: VecDeque<Request>,
    /// Replies that have not reached their requests.
    pub replies: VecDeque<(ExchangeKey, Reply)>,
    /// Unsent bytes at which the responses of a connection stop.
    pub send_buffer: usize,
    /// Requests after which a session asks its client to leave; 0 for no limit.
    pub most_requests: u64,
    /// Memory budget of the process.
    pub memory: Arc<MemoryBudget>,
    /// Part of the worker's connections in the relief of all fronts.
    pub relief: FrontRelief,
}

/// Counters of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounters {
    /// Requests, rejected ones included.
    pub requests: u64,
    /// Requests that were rejected.
    pub rejected: u64,
    /// Responses whose last byte its stream has taken.
    pub served: u64,
}

/// A request that waits for replies.
#[derive(Clone, Debug)]
pub struct Request {
    /// Names the request.
    pub key: ExchangeKey,
    /// Path.
    pub path: String,
    /// Address of the client when the request came.
    pub client: ValidatedAddress,
}

/// Part of a response.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Status.
    Head(u16),
    /// Bytes of the body.
    Data(Vec<u8>),
    /// The response is complete.
    End,
}

impl Default for Pages {
    fn default() -> Self {
        Pages {
            counters: PageCounters::default(),
            requests: VecDeque::new(),
            replies: VecDeque::new(),
            send_buffer: 256 << 10,
            most_requests: 0,
            memory: Arc::default(),
            relief: Arc::<Holdings>::default().add_front(),
        }
    }
}

impl Shared for Pages {
    type Message = Reply;

    fn set_now(&mut self, _: Instant) {}

    fn look_at(&mut self, _: &Account) {}

    fn begin_service(&mut self) {}

    fn next_message(&mut self) -> Option<(ExchangeKey, Reply)> {
        self.replies.pop_front()
    }

    fn next_revoked(&mut self) -> Option<ExchangeKey> {
        None
    }

    fn has_room(&self) -> bool {
        true
    }

    fn flush(&mut self) {}

    fn flush_log(&mut self) {}

    fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    fn relief(&self) -> &FrontRelief {
        &self.relief
    }
}

/// The pages of one connection.
pub struct PageSession {
    h3: quiche::h3::Connection,
    key: ConnectionKey,
    path: ClientPath,
    open: BTreeMap<u64, Page>,
    /// Stream behind the highest request stream seen.
    next_stream: u64,
    /// Requests from this stream on are rejected.
    refused_from: Option<u64>,
    leaving: bool,
    goaway: Option<u64>,
    resume_below: Option<usize>,
    taken: u64,
    sections: u64,
    body_bytes: u64,
}

/// A request and its response.
#[derive(Default)]
struct Page {
    /// The client may go on for as long as it likes.
    asks_for_tunnel: bool,
    is_tunnel: bool,
    waits: bool,
    /// The whole request has arrived.
    has_arrived: bool,
    status: Option<u16>,
    has_head: bool,
    /// Bytes from the test that the stream has not taken, and as many zeros behind them.
    bytes: Vec<u8>,
    zeros: usize,
    ends: bool,
    is_sent: bool,
}

impl Application for PageSession {
    type Shared = Pages;
    /// Proxies that the listener trusts.
    type Listener = Vec<IpAddr>;
    type Peer = ();

    const PROTOCOLS: &[&[u8]] = quiche::h3::APPLICATION_PROTOCOL;
    const UNI_STREAMS: u64 = 8;
    const NO_ERROR: u64 = 0x100;
    const EXCESSIVE_LOAD: u64 = 0x107;

    fn is_proxy(proxies: &Vec<IpAddr>, address: IpAddr) -> bool {
        proxies.contains(&address)
    }

    fn describe(_: &Vec<IpAddr>, _: Introduction) {}

    fn begin(
        conn: &mut quiche::Connection,
        key: ConnectionKey,
        (): (),
        path: ClientPath,
        _: &mut Pages,
    ) -> Option<PageSession> {
        let mut config = quiche::h3::Config::new().ok()?;
        config.enable_extended_connect(true);
        Some(PageSession {
            h3: quiche::h3::Connection::with_transport(conn, &config).ok()?,
            key,
            path,
            open: BTreeMap::new(),
            next_stream: 0,
            refused_from: None,
            leaving: false,
            goaway: None,
            resume_below: None,
            taken: 0,
            sections: 0,
            body_bytes: 0,
        })
    }

    fn turn(&mut self, conn: &mut quiche::Connection, pages: &mut Pages) {
        loop {
            match self.h3.poll(conn) {
                Ok((stream, Event::Headers { list, .. })) => {
                    self.on_head(conn, stream, &list, pages);
                }
                Ok((stream, Event::Data)) => self.discard(conn, stream),
                Ok((stream, Event::Finished)) => match self.open.get_mut(&stream) {
                    Some(page) => page.has_arrived = true,
                    None => shut_down(conn, stream),
                },
                Ok((stream, Event::Reset(_))) => {
                    self.open.remove(&stream);
                    shut_down(conn, stream);
                }
                Ok(_) => {}
                Err(Error::Done) => break,
                Err(_) => {
                    self.open.clear();
                    return;
                }
            }
        }
        self.send_goaway(conn);
        self.write(conn, pages);
    }

    fn on_message(&mut self, _: &mut quiche::Connection, stream: u64, reply: Reply, _: &mut Pages) {
        let Some(page) = self.open.get_mut(&stream) else {
            return;
        };
        match reply {
            Reply::Head(status) => {
                page.status = Some(status);
                page.is_tunnel = page.asks_for_tunnel && status == 200;
            }
            Reply::Data(bytes) => page.bytes.extend(bytes),
            Reply::End => page.ends = true,
        }
    }

    fn revoke(&mut self, _: &mut quiche::Connection, _: u64, _: &mut Pages) {}

    fn move_to(&mut self, path: ClientPath) {
        self.path = path;
    }

    fn set_algorithm(&mut self, _: &'static str) {}

    fn leave(&mut self, conn: &mut quiche::Connection) {
        self.leaving = true;
        self.send_goaway(conn);
    }

    fn drain(&mut self, conn: &mut quiche::Connection) {
        self.refused_from.get_or_insert(self.next_stream);
        self.send_goaway(conn);
    }

    fn clear(&mut self, _: &quiche::Connection, _: &mut Pages) {
        self.open.clear();
    }

    fn release_memory(&mut self) {
        self.h3.release_memory();
    }

    fn is_leaving(&self) -> bool {
        self.leaving
    }

    fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    fn open_requests(&self, _: &Account, _: bool, _: Instant) -> Vec<RequestSnapshot> {
        Vec::new()
    }

    fn has_tunnel(&self) -> bool {
        self.open.values().any(|page| page.is_tunnel && !page.ends)
    }

    fn output(&self) -> Output {
        let waits = self.open.values().any(Page::has_output);
        if waits { Output::Waiting } else { Output::Nothing }
    }

    fn awaits_room(&self) -> bool {
        false
    }

    fn has_room_again(&self, conn: &quiche::Connection) -> bool {
        self.resume_below.is_some_and(|most| conn.unsent() <= most)
    }

    fn taken(&self) -> u64 {
        self.taken
    }

    fn read_totals(&self) -> ReadTotals {
        let frames = self.h3.received_frames().saturating_sub(self.sections);
        ReadTotals { frames, payload: self.body_bytes }
    }

    fn held(&self, _: &quiche::Connection, _: &Pages) -> u64 {
        self.open.values().filter(|page| page.waits).count() as u64 * HELD
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// Ends both directions of a stream that is served no further.
fn shut_down(conn: &mut quiche::Connection, stream: u64) {
    for direction in [quiche::Shutdown::Read, quiche::Shutdown::Write] {
        // One that has ended already is left alone.
        let _ = conn.stream_shutdown(stream, direction, REQUEST_REJECTED);
    }
}

impl PageSession {
    fn on_head(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        head: &[Header],
        pages: &mut Pages,
    ) {
        self.sections += 1;
        if self.open.contains_key(&stream) {
            // Trailers.
            return;
        }
        pages.counters.requests += 1;
        self.next_stream = self.next_stream.max(stream + 4);
        if self.refused_from.is_some_and(|first| stream >= first) {
            pages.counters.rejected += 1;
            return shut_down(conn, stream);
        }
        self.taken += 1;
        self.leaving |= self.taken == pages.most_requests;
        let field = |name: &[u8]| {
            let field = head.iter().find(|field| field.name() == name);
            field.map_or(String::new(), |field| String::from_utf8_lossy(field.value()).into())
        };
        let path = field(b":path");
        let length = path.strip_prefix("/bytes/").and_then(|length| length.parse().ok());
        let page = Page {
            asks_for_tunnel: field(b":method") == "CONNECT",
            waits: length.is_none(),
            status: length.map(|_| 200),
            zeros: length.unwrap_or_default(),
            ends: length.is_some(),
            ..Page::default()
        };
        if page.waits {
            let key = ExchangeKey { connection: self.key, stream };
            pages.requests.push_back(Request { key, path, client: self.path.client });
        }
        self.open.insert(stream, page);
    }

    fn discard(&mut self, conn: &mut quiche::Connection, stream: u64) {
        let mut buffer = [0; 4096];
        while let Ok(count) = self.h3.recv_body(conn, stream, &mut buffer) {
            self.body_bytes += count as u64;
        }
    }

    fn send_goaway(&mut self, conn: &mut quiche::Connection) {
        let due = self.refused_from.or(self.leaving.then_some(LAST_STREAM));
        if let Some(stream) = due
            && due != self.goaway
            && self.h3.send_goaway(conn, stream).is_ok()
        {
            self.goaway = due;
        }
    }

    /// Writes as much of the responses as the streams and the send buffer take.
    fn write(&mut self, conn: &mut quiche::Connection, pages: &mut Pages) {
        self.resume_below = None;
        let PageSession { h3, open, resume_below, .. } = self;
        open.retain(|stream, page| {
            if !page.is_sent && page.has_arrived | page.waits {
                let room = pages.send_buffer.saturating_sub(conn.unsent());
                match page.write(h3, conn, *stream, room) {
                    // Every other reason to wait ends with a datagram from the client.
                    Err(Error::Done | Error::StreamBlocked) => {
                        let is_full = conn.unsent() >= pages.send_buffer;
                        *resume_below = is_full.then_some(pages.send_buffer / 2);
                    }
                    Ok(()) => {}
                    // The client stopped the response.
                    Err(_) => return false,
                }
                pages.counters.served += u64::from(page.is_sent);
            }
            !(page.is_sent && page.has_arrived)
        });
    }
}

impl Page {
    /// Writes what there is of the response, up to `room` bytes.
    ///
    /// # Errors
    /// [`Error::Done`] or [`Error::StreamBlocked`] where stream or room take no more, others if the stream is gone.
    fn write(
        &mut self,
        h3: &mut quiche::h3::Connection,
        conn: &mut quiche::Connection,
        stream: u64,
        mut room: usize,
    ) -> Result<(), Error> {
        let Some(status) = self.status else {
            return Ok(());
        };
        if !self.has_head {
            let head = [Header::new(b":status", status.to_string().as_bytes())];
            h3.send_response(conn, stream, &head, self.ends && self.left() == 0)?;
            self.has_head = true;
            self.is_sent = self.ends && self.left() == 0;
        }
        while self.left() > 0 {
            let zeros = [0; BLOCK];
            let block = if self.bytes.is_empty() { &zeros[..] } else { &self.bytes };
            let block = &block[..block.len().min(self.left()).min(room)];
            if block.is_empty() {
                return Err(Error::Done);
            }
            let is_last = self.ends && block.len() == self.left();
            let sent = h3.send_body(conn, stream, block, is_last)?;
            room -= sent;
            let of_bytes = sent.min(self.bytes.len());
            self.bytes.drain(..of_bytes);
            self.zeros -= sent - of_bytes;
            self.is_sent = self.ends && self.left() == 0;
        }
        if self.ends && !self.is_sent {
            h3.send_body(conn, stream, b"", true)?;
            self.is_sent = true;
        }
        Ok(())
    }

    fn has_output(&self) -> bool {
        self.status.is_some() && !self.is_sent && (!self.has_head || self.ends || self.left() > 0)
    }

    fn left(&self) -> usize {
        self.bytes.len() + self.zeros
    }
}
