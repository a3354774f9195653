//! The front in memory, for tests: shows a request to the gate, sends its messages to a handler and collects the response's.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use sluicegate_base::clock;
use sluicegate_base::keys::{ConnectionKey, ExchangeKey};
use sluicegate_base::observe::account::Wait;

use super::accounts::Accounts;
use super::front::{FrontAction, FrontExchange, Next};
use super::handler::{ExchangeHandle, FrontQueue, Incoming};
use super::message::{HandlerReport, Head, Request, ToFront, ToHandler};
use super::ring::{OriginRing, rings};
use super::{Fields, Opaque, Reply, RequestHead};
use crate::gate::{Decision, Gate, RequestArrival, replies};
use crate::path::CanonicalPath;
use crate::peer::{Peer, PeerConnection};
use crate::properties::request_head;

/// The front's half of an exchange.
pub struct TestFront {
    exchange: RefCell<FrontExchange>,
    handle: ExchangeHandle,
    front_queue: Rc<FrontQueue>,
    /// Last report of the handler.
    report: RefCell<HandlerReport>,
    /// What the handler has said that it waits for.
    waits: RefCell<Vec<Wait>>,
}

/// A response as the front received it.
#[derive(Debug, Default)]
pub struct ReceivedResponse {
    /// Statuses before the final one.
    pub interim: Vec<u16>,
    /// Head of the final response.
    pub head: Option<Head>,
    /// Body, as far as it came.
    pub body: Vec<u8>,
    /// Trailers.
    pub trailers: Option<Fields>,
    /// The handler completed the response.
    pub complete: bool,
    /// Last report of the handler.
    pub report: HandlerReport,
}

/// Key of a test's exchange.
pub const KEY: ExchangeKey =
    ExchangeKey { connection: ConnectionKey { slot: 3, generation: 7 }, stream: 4 };

/// Opens an exchange as a front does: with a permit.
pub fn open(origin_ring: &mut OriginRing, request: Box<Request>) -> Option<u64> {
    let permit = origin_ring.admit(request.peer.address)?;
    origin_ring.open(KEY, request, permit)
}

/// Returns the head of a request to `example.org`; what follows a `?` in `target` is its query.
pub fn head(method: &str, target: &str, lines: &[(&'static str, &str)]) -> RequestHead {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.into())),
        None => (target, None),
    };
    let line = |(name, value): &(&'static str, &str)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_str(value).expect("as the test writes it"))
    };
    let path = match path {
        "*" => CanonicalPath::asterisk(),
        "" => CanonicalPath::empty(),
        path => CanonicalPath::parse(path).expect("as the test writes it"),
    };
    RequestHead {
        query,
        headers: lines.iter().map(line).collect(),
        ..request_head(method.to_owned(), path)
    }
}

/// Returns the head of a request for a tunnel to `example.org`, with a protocol for `/chat` there.
pub fn tunnel(protocol: Option<&str>) -> RequestHead {
    RequestHead {
        protocol: protocol.map(str::to_owned),
        scheme: protocol.map(|_| "https".to_owned()),
        ..head("CONNECT", protocol.map_or("", |_| "/chat"), &[])
    }
}

/// Returns the client at 192.0.2.7.
pub fn peer(early_data: bool) -> Peer {
    Peer {
        address: "192.0.2.7:50000".parse().expect("as the test writes it"),
        proxy: None,
        local: None,
        early_data,
        connection: Arc::new(PeerConnection::http3(Arc::from("main"), Box::new([0xab]), "cubic")),
    }
}

/// Returns a request of 192.0.2.7 for a handler that the test plays.
pub fn request(head: RequestHead, content_length: Option<u64>, has_body: bool) -> Request {
    Request {
        head,
        peer: peer(false),
        handler: Opaque::new(Arc::new(())),
        timeout: None,
        content_length,
        has_body,
        wants_report: true,
        reads_ranges: false,
    }
}

/// Returns both halves of an exchange with `credit` for its response.
pub fn pair(request: Request, credit: u64) -> (Incoming, TestFront) {
    let front_queue = Rc::new(FrontQueue::default());
    let mut exchange = FrontExchange::new(request.head.method == "HEAD", clock::now());
    exchange.prepare(&request, u64::MAX, u64::MAX);
    exchange.hand_over(request.has_body, Wait::Application);
    let (incoming, handle) = Incoming::new(1, Box::new(request), credit, Rc::clone(&front_queue));
    let exchange = RefCell::new(exchange);
    let (report, waits) = (RefCell::default(), RefCell::default());
    (incoming, TestFront { exchange, handle, front_queue, report, waits })
}

/// Does what the gate decides about a request, whose body has `sent` bytes: returns the response to it, or opens an exchange
/// within `accounts`.
pub fn ask(
    gate: &mut Gate<'_>,
    arrival: &RequestArrival<'_>,
    sent: u64,
    accounts: Arc<Accounts>,
) -> Result<(Incoming, TestFront), Reply> {
    let mut routed = match gate.decide(arrival) {
        Decision::Refuse(refusal) => return Err(refusal.reply),
        Decision::Discard(_, limit) if sent > limit => return Err(replies::body_too_large()),
        Decision::Discard(reply, _) => return Err(reply),
        Decision::Handle(routed) => routed,
    };
    let (head, peer) = (arrival.head.clone(), arrival.peer.clone());
    let request = routed.request(head, peer, arrival.content_length, arrival.has_body);
    let (mut origin_ring, mut worker_ring) = rings(1, accounts);
    let opened = gate.counters.open(Some(&mut origin_ring), KEY, request);
    opened.map_err(|refusal| refusal.reply)?;
    match worker_ring.take().map(|envelope| envelope.message) {
        Some(ToHandler::Open { request, credit }) => Ok(pair(*request, credit)),
        other => panic!("an exchange that begins with {other:?}"),
    }
}

impl TestFront {
    /// Sends a block of the request's body, of whatever length the test wants.
    pub fn data(&self, block: &'static [u8]) {
        self.handle.deliver(ToHandler::Data(Bytes::from_static(block)));
    }

    /// Ends the request.
    pub fn end(&self, trailers: Option<Fields>) {
        self.handle.deliver(ToHandler::End(trailers));
    }

    /// Cancels the request, as its client does.
    pub fn cancel(&self) {
        self.handle.deliver(ToHandler::Cancel);
    }

    /// Gives the handler credit for more of the response.
    pub fn credit(&self, amount: u64) {
        self.handle.deliver(ToHandler::Credit(amount));
    }

    /// Returns a lent range, of which so many bytes were read.
    pub fn range_read(&self, count: u64) {
        self.exchange.borrow_mut().on_taken(count);
        self.handle.deliver(ToHandler::RangeRead(count));
    }

    /// Returns what the handler has said so far that it waits for.
    pub fn waits(&self) -> Vec<Wait> {
        self.waits.borrow().clone()
    }

    /// Returns the next message, if there is one, but keeps reports and waits. What it carries of the response counts as taken.
    pub fn try_next(&self) -> Option<ToFront> {
        let mut message = loop {
            match self.front_queue.pop()?.message {
                ToFront::Report(report) => *self.report.borrow_mut() = *report,
                ToFront::Waits(wait) => self.waits.borrow_mut().push(wait),
                message => break message,
            }
        };
        let mut exchange = self.exchange.borrow_mut();
        match &mut message {
            ToFront::Head(head) => exchange.begin(head),
            ToFront::Data(block) => exchange.on_taken(block.len() as u64),
            _ => {}
        }
        Some(message)
    }

    /// Waits for the next message.
    pub async fn next(&self) -> ToFront {
        loop {
            self.front_queue.filled().await;
            if let Some(message) = self.try_next() {
                return message;
            }
        }
    }

    /// Receives the response to its end, and returns the credit for each block.
    pub async fn response(&self) -> ReceivedResponse {
        let received = self.received().await;
        ReceivedResponse { report: self.report.take(), ..received }
    }

    async fn received(&self) -> ReceivedResponse {
        let mut received = ReceivedResponse::default();
        loop {
            self.front_queue.filled().await;
            let Some(envelope) = self.front_queue.pop() else {
                continue;
            };
            let is_last = matches!(envelope.message, ToFront::Closed);
            if let ToFront::Waits(wait) = envelope.message {
                self.waits.borrow_mut().push(wait);
            }
            let action = self.exchange.borrow_mut().on_message(envelope.message);
            match action {
                FrontAction::Report(report) => *self.report.borrow_mut() = *report,
                FrontAction::Inform(status, _) => received.interim.push(status),
                FrontAction::Begin(head) => {
                    received.complete = head.end;
                    received.head = Some(head);
                }
                FrontAction::Fail(..) | FrontAction::Cancel => return received,
                FrontAction::GoOn
                | FrontAction::Nothing
                | FrontAction::ReadOn
                | FrontAction::LeaveBody => {}
            }
            self.take_body(&mut received);
            if received.complete || is_last || self.exchange.borrow().is_cut() {
                return received;
            }
        }
    }

    /// Takes what has come of the body, and returns the credit for it.
    fn take_body(&self, received: &mut ReceivedResponse) {
        let mut exchange = self.exchange.borrow_mut();
        loop {
            match exchange.next_part() {
                Next::Block(block, is_last) => {
                    let count = block.len() as u64;
                    received.body.extend_from_slice(&std::mem::take(block));
                    received.complete |= is_last;
                    exchange.on_taken(count);
                }
                Next::End(trailers) => {
                    received.trailers = trailers.cloned();
                    received.complete = true;
                    break;
                }
                Next::Wait | Next::WrongLength | Next::Cut => break,
            }
        }
        if let Some(count) = exchange.take_range_read() {
            self.handle.deliver(ToHandler::RangeRead(count));
        }
        if let Some(amount) = exchange.take_credit(0) {
            self.handle.deliver(ToHandler::Credit(amount));
        }
    }
}
