//! A client that loads pages, or bodies at given times.
//!
//! As a browser it acknowledges every second packet, or after the acknowledgement delay, and at once where packets are missing or
//! marked, as RFC 9000 §13.2.1 and §13.2.2 recommend; quiche alone acknowledges each.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quiche::h3;
use sluicegate_quic_client::{
    BodySent, Event, Http3Client, Limits, NameValue as _, ServerName, Trust, config,
};
use sluicegate_sim::ReceiveWindow;

use super::SimulationError;
use super::clock::earliest;
use super::reader::Reader;
use super::tls::{WINDOW, set_transport};

/// Largest windows of the connection and of a stream that a bare connection grows to: quiche's defaults, bytes.
const BARE_WINDOWS: (u64, u64) = (24 << 20, 16 << 20);

/// Contents of a request's body, as far as they are passed to HTTP/3 at once.
const BLOCK: [u8; 16 * 1024] = [b'x'; 16 * 1024];

/// Largest datagram that the client takes, bytes.
const MAX_DATAGRAM: usize = 65_527;

/// Longest time for which an acknowledgement is held back: max_ack_delay's default.
const ACK_DELAY: Duration = Duration::from_millis(25);

/// Packets that a browser acknowledges together.
const ACK_EVERY: u32 = 2;

/// The manner in which a client receives.
#[derive(Clone, Copy, Debug)]
pub(super) enum Receiver {
    /// Acknowledges as browsers do. Without a window flow control never limits, and bodies are read at once.
    Browser(Option<ReceiveWindow>),
    /// Has the transport parameters of a bare connection, and acknowledges each packet.
    Bare,
}

/// The bodies that a client requests.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// The same page several times. All bodies of one are requested at once, and the next page some time after they are there.
    Pages {
        /// Bodies of the page, bytes.
        page: Vec<u64>,
        /// Number of times for which it is still to be requested.
        times: u64,
        /// Time between the end of a page and the request for the next.
        think: Duration,
        /// Time of the next request, if no page is open.
        next: Duration,
    },
    /// Bodies of so many bytes, each at its time since the start of the run, ascending.
    Timed(VecDeque<(Duration, u64)>),
    /// One request with a body of so many bytes; 0 once it has begun.
    Upload(u64),
}

impl Plan {
    /// Returns the plan to request a page so many times.
    pub(super) const fn pages(page: Vec<u64>, times: u64, think: Duration) -> Self {
        Self::Pages { page, times, think, next: Duration::ZERO }
    }

    /// Returns the sizes of the bodies to request now, while `open` responses are not finished.
    fn due(&mut self, elapsed: Duration, open: usize) -> Vec<u64> {
        match self {
            Self::Pages { page, times, next, .. }
                if open == 0 && *times > 0 && *next <= elapsed =>
            {
                *times -= 1;
                page.clone()
            }
            Self::Pages { .. } | Self::Upload(_) => Vec::new(),
            Self::Timed(bodies) => {
                let due = bodies.iter().take_while(|(at, _)| *at <= elapsed).count();
                bodies.drain(..due).map(|(_, size)| size).collect()
            }
        }
    }

    /// A page has arrived.
    fn on_page(&mut self, elapsed: Duration) {
        if let Self::Pages { think, next, .. } = self {
            *next = elapsed + *think;
        }
    }

    /// Returns when the next bodies are requested, if none are open and it is known.
    fn next(&self) -> Option<Duration> {
        match self {
            Self::Pages { times, next, .. } => (*times > 0).then_some(*next),
            Self::Timed(bodies) => bodies.front().map(|(at, _)| *at),
            Self::Upload(_) => None,
        }
    }

    /// Returns whether nothing is left to request.
    fn is_empty(&self) -> bool {
        match self {
            Self::Pages { times, .. } => *times == 0,
            Self::Timed(bodies) => bodies.is_empty(),
            Self::Upload(bytes) => *bytes == 0,
        }
    }

    /// Returns the size of the request's body to send, once.
    fn take_upload(&mut self) -> Option<u64> {
        match self {
            Self::Upload(bytes) if *bytes > 0 => Some(std::mem::take(bytes)),
            _ => None,
        }
    }
}

pub(super) struct Client {
    pub(super) http: Http3Client,
    plan: Plan,
    reader: Reader,
    /// Stream of a request whose body is not sent, and the bytes that are left.
    upload: Option<(u64, u64)>,
    /// Time of the request for the page that is open.
    page_since: Option<Duration>,
    /// Times that the pages took, each from its request to its last byte.
    pages: Vec<Duration>,
    /// Bodies to request as soon as the server allows another stream.
    waiting: VecDeque<u64>,
    /// Responses that are not finished.
    open: usize,
    received: u64,
    /// Packets that are acknowledged together.
    ack_every: u32,
    /// Packets that arrived since the last time it sent.
    unacknowledged: u32,
    /// Time at which it sends at the latest.
    send_at: Option<Instant>,
}

impl Client {
    /// Returns a client at `local` that sends its requests once connected to `peer`.
    pub(super) fn connect(
        local: SocketAddr,
        peer: SocketAddr,
        plan: Plan,
        receiver: Receiver,
    ) -> Result<Self, SimulationError> {
        let (window, ack_every) = match receiver {
            Receiver::Browser(window) => (window, ACK_EVERY),
            Receiver::Bare => (None, 1),
        };
        let bytes = window.map_or(WINDOW, |window| window.bytes);
        let limits = Limits {
            connection: bytes,
            stream: bytes,
            unidirectional: WINDOW,
            unidirectional_streams: 3,
        };
        let mut config = config(Trust::Anyone.tls()?, &limits)?;
        config.set_max_recv_udp_payload_size(MAX_DATAGRAM);
        if matches!(receiver, Receiver::Bare) {
            set_transport(&mut config)?;
            config.set_max_connection_window(BARE_WINDOWS.0);
            config.set_max_stream_window(BARE_WINDOWS.1);
        }
        let name = ServerName::Dns("localhost");
        Ok(Self {
            http: Http3Client::new(&mut config, name, &[1; 16], local, peer)?,
            plan,
            reader: Reader::new(window),
            upload: None,
            page_since: None,
            pages: Vec::new(),
            waiting: VecDeque::new(),
            open: 0,
            received: 0,
            ack_every,
            unacknowledged: 0,
            send_at: None,
        })
    }

    /// Takes a datagram with its ECN field; one that quiche refuses is gone. `in_order` tells whether it is the one after the last.
    pub(super) fn receive(
        &mut self,
        datagram: &mut [u8],
        ecn: quiche::Ecn,
        in_order: bool,
        now: Instant,
    ) {
        self.http.receive(datagram, ecn);
        self.unacknowledged += 1;
        self.send_at.get_or_insert(now + ACK_DELAY);
        if !in_order || ecn == quiche::Ecn::CongestionExperienced {
            self.send_at = Some(now);
        }
    }

    /// Runs the timer if it is due; what that sends does not wait.
    pub(super) fn on_timer(&mut self, now: Instant) {
        if self.http.on_timer(now) {
            self.send_at = Some(now);
        }
    }

    pub(super) fn may_send(&mut self, now: Instant) -> bool {
        let due = self.send_at.is_some_and(|at| at <= now);
        let may = due
            || self.unacknowledged == 0
            || self.unacknowledged >= self.ack_every
            || !self.http.quic().is_established();
        if may {
            self.unacknowledged = 0;
            self.send_at = None;
        }
        may
    }

    /// Returns when it wants to send or has a timer.
    pub(super) fn next_event(&self) -> Option<Instant> {
        earliest([self.http.deadline(), self.send_at])
    }

    /// Returns when its application requests or reads next, if that is later than `elapsed`.
    pub(super) fn next_action(&self, elapsed: Duration) -> Option<Duration> {
        let next = [self.plan.next(), self.reader.next()];
        earliest(next.map(|at| at.filter(|at| *at > elapsed)))
    }

    /// Sends the requests that are due `elapsed` after the start of the run, once it can, and reads what arrived; `scratch` is
    /// overwritten.
    pub(super) fn on_turn(
        &mut self,
        elapsed: Duration,
        now: Instant,
        scratch: &mut [u8],
    ) -> Result<(), SimulationError> {
        self.http.advance(now);
        if self.http.http_mut().is_none() {
            return Ok(());
        }
        self.read(elapsed, scratch)?;
        if self.reader.take_due_limit() {
            self.unacknowledged = 0;
        }
        let open = self.open + self.waiting.len();
        if open == 0
            && let Some(since) = self.page_since.take()
        {
            self.pages.push(elapsed - since);
            self.plan.on_page(elapsed);
        }
        let due = self.plan.due(elapsed, open);
        if matches!(self.plan, Plan::Pages { .. }) && !due.is_empty() {
            self.page_since = Some(elapsed);
        }
        self.waiting.extend(due);
        self.send_requests()?;
        self.send_upload()
    }

    /// Processes events, and reads bodies until there is nothing more to read.
    fn read(&mut self, elapsed: Duration, scratch: &mut [u8]) -> Result<(), SimulationError> {
        loop {
            match self.http.poll()? {
                Some((stream, Event::Body)) => self.reader.on_data(stream),
                Some((_, Event::Head(fields))) => {
                    let mut fields = fields.iter();
                    if !fields.any(|field| field.name() == b":status" && field.value() == b"200") {
                        return Err(SimulationError::Response);
                    }
                }
                Some((_, Event::End { .. })) => self.open -= 1,
                Some((_, Event::Reset(_))) => return Err(SimulationError::Response),
                Some((_, Event::GoAway)) => {}
                None => {
                    let read = self.reader.read(&mut self.http, elapsed, scratch);
                    if read == 0 {
                        return Ok(());
                    }
                    self.received += read;
                }
            }
        }
    }

    /// Sends requests as far as the server allows streams.
    fn send_requests(&mut self) -> Result<(), SimulationError> {
        while let Some(size) = self.waiting.front() {
            match self.http.request(&head("GET", &format!("/bytes/{size}")), true) {
                Ok(_) => {
                    self.waiting.pop_front();
                    self.open += 1;
                    self.unacknowledged = 0;
                }
                Err(
                    h3::Error::StreamBlocked
                    | h3::Error::TransportError(quiche::Error::StreamLimit),
                ) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Sends as much of a request's body as the connection has room for.
    fn send_upload(&mut self) -> Result<(), SimulationError> {
        if let Some(size) = self.plan.take_upload() {
            self.upload = Some((self.http.request(&head("POST", "/"), false)?, size));
            self.open += 1;
        }
        while let Some((stream, left)) = self.upload {
            let size = usize::try_from(left).map_or(BLOCK.len(), |left| left.min(BLOCK.len()));
            let ends = size as u64 == left;
            match self.http.send_body(stream, &BLOCK[..size], ends) {
                BodySent::Bytes(sent) => {
                    let left = left - sent as u64;
                    self.upload = (left > 0).then_some((stream, left));
                    self.unacknowledged = 0;
                }
                BodySent::Blocked => break,
                BodySent::Stopped => return Err(SimulationError::Response),
            }
        }
        Ok(())
    }

    /// Has it carry out another plan, once the one before is done.
    pub(super) fn load(&mut self, plan: Plan) {
        self.plan = plan;
    }

    /// Returns whether everything arrived.
    pub(super) fn finished(&self) -> bool {
        self.http.is_established()
            && self.plan.is_empty()
            && self.waiting.is_empty()
            && self.open == 0
    }

    /// Returns the bytes of bodies so far.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }

    /// Returns the times that the pages took, each from its request to its last byte.
    pub(super) fn into_pages(self) -> Vec<Duration> {
        self.pages
    }
}

fn head<'a>(method: &'a str, path: &'a str) -> [(&'static str, &'a str); 4] {
    [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
}
