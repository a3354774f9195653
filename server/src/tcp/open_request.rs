//! A request from its head to the last byte of its response.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::time::{Duration, Instant};

use sluicegate_base::observe::access::PathState;
use sluicegate_base::observe::account::{RequestWait, Wait, WaitTimes};
use sluicegate_base::observe::connections::RequestSnapshot;
use sluicegate_http::exchange::Fields;
use sluicegate_http::exchange::front::{FrontExchange, Instead, Received};
use sluicegate_http::exchange::stall::StallTimer;
use sluicegate_http::gate::{HttpVersion, RequestRecord};
use sluicegate_http::identification::ReturnedId;
use tokio::sync::Notify;

use super::link_account::LinkState;
use super::metered::Meter;
use super::progress::Progress;
use super::stream_task::StreamTask;

/// Facts of an open request, which its parts share: its body, its handler and its response.
#[derive(Debug)]
pub(super) struct OpenRequest {
    /// Record for the access log, until its line is written.
    pub(super) record: RefCell<Option<Box<RequestRecord>>>,
    /// Line of the response that identifies the request.
    pub(super) returned_id: Option<Box<ReturnedId>>,
    /// Status of the final response, once its head is made.
    pub(super) status: Cell<Option<u16>>,
    /// Bytes of the response's body that its protocol has taken.
    pub(super) sent: Cell<u64>,
    /// Rules of the exchange, and the handler's response as far as it was not taken.
    exchange: RefCell<FrontExchange>,
    /// The client may still send a part of the request's body. A connection of HTTP/1.1 whose response begins meanwhile is closed behind it.
    pub(super) unread: Cell<bool>,
    /// The client speaks HTTP/1.0.
    pub(super) is_http10: Cell<bool>,
    /// The client waits for a status before it sends the body.
    pub(super) awaits_status: Cell<bool>,
    /// Somebody reads the request's body, and has read all that arrived.
    awaits_body: Cell<bool>,
    /// A part of the response waits to be taken.
    has_output: Cell<bool>,
    /// The block that was taken last waits until the client's window of HTTP/2 has room.
    is_held: Cell<bool>,
    pub(super) stall: RefCell<StallTimer>,
    /// Credit of its connection.
    progress: Rc<Progress>,
    meter: Rc<Meter>,
    /// The connection's account counts the response as one that waits to be sent.
    counts: Cell<bool>,
    /// It has left its connection.
    has_left: Cell<bool>,
    stalled: Cell<bool>,
    cut: Cell<bool>,
    stop: Notify,
    /// Task of the HTTP/2 stream.
    stream: Option<StreamTask>,
}

impl OpenRequest {
    /// Returns a request that has just come, on a stream of HTTP/2 if it has a task.
    pub(super) fn new(
        is_head: bool,
        record: Option<Box<RequestRecord>>,
        returned_id: Option<Box<ReturnedId>>,
        now: Instant,
        progress: &Rc<Progress>,
        meter: &Rc<Meter>,
        stream: Option<StreamTask>,
    ) -> Rc<OpenRequest> {
        Rc::new(OpenRequest {
            record: RefCell::new(record),
            returned_id,
            status: Cell::new(None),
            sent: Cell::new(0),
            exchange: RefCell::new(FrontExchange::new(is_head, now)),
            unread: Cell::new(false),
            is_http10: Cell::new(false),
            awaits_status: Cell::new(false),
            awaits_body: Cell::new(false),
            has_output: Cell::new(false),
            is_held: Cell::new(false),
            stall: RefCell::default(),
            progress: Rc::clone(progress),
            meter: Rc::clone(meter),
            counts: Cell::new(false),
            has_left: Cell::new(false),
            stalled: Cell::new(false),
            cut: Cell::new(false),
            stop: Notify::new(),
            stream,
        })
    }

    /// Returns the protocol that it came by.
    pub(super) fn protocol(&self) -> HttpVersion {
        if self.meter.is_http2() { HttpVersion::Http2 } else { HttpVersion::Http1 }
    }

    /// Counts a block of the response's body that was taken.
    pub(super) fn on_sent(&self, count: u64) {
        self.sent.set(self.sent.get() + count);
        self.progress.on_sent(count);
        self.meter.account().on_data();
    }

    /// Counts a block of the request's body. Returns what follows from it.
    pub(super) fn on_received(&self, count: u64) -> Received {
        self.progress.on_received(count);
        self.meter.account().on_data();
        self.exchange().on_data(count)
    }

    /// Lends the rules of the exchange.
    pub(super) fn exchange(&self) -> RefMut<'_, FrontExchange> {
        self.exchange.borrow_mut()
    }

    /// Returns the bytes of both bodies that have moved so far.
    pub(super) fn moved(&self) -> u64 {
        self.sent.get() + self.exchange().received()
    }

    /// Ends the request because it has waited too long for its client. Returns what that gets.
    pub(super) fn on_stall(&self) -> Instead {
        self.stalled.set(true);
        self.stop.notify_waiters();
        self.exchange().stall()
    }

    /// Waits until the request has stalled.
    pub(super) async fn stalled(&self) {
        while !self.stalled.get() {
            self.stop.notified().await;
        }
    }

    pub(super) fn has_stalled(&self) -> bool {
        self.stalled.get()
    }

    /// Notes whether somebody reads the request's body, and has read all that arrived.
    pub(super) fn set_awaits_body(&self, awaits_body: bool) {
        self.awaits_body.set(awaits_body);
        self.note_wait();
    }

    /// Notes whether a part of the response waits to be taken.
    pub(super) fn set_output(&self, has_output: bool) {
        self.has_output.set(has_output);
    }

    /// Notes whether the block that was taken last waits until the client's window of HTTP/2 has room.
    pub(super) fn set_held(&self, is_held: bool) {
        self.is_held.set(is_held);
    }

    /// Notes what the request waits for from now on. hyper's HTTP/1.1 does not say why it asks for nothing more of a body; every other
    /// wait calls this once there is one.
    pub(super) fn note_wait(&self) {
        let is_stopped = self.is_held.get() || self.stream.is_none() && self.sent.get() > 0;
        let output = self.has_unsent().then_some(match is_stopped {
            true => RequestWait::Connection,
            false => RequestWait::Own(Wait::Scheduling),
        });
        let awaits_body = self.awaits_body.get();
        self.exchange().note_wait(awaits_body, output, || {
            let counts = output == Some(RequestWait::Connection) && !self.has_left.get();
            if self.counts.replace(counts) == counts {
                self.meter.moment()
            } else {
                self.meter.on_held(counts)
            }
        });
    }

    /// Notes that it leaves its connection, which waits for nothing of it any more.
    pub(super) fn leave_connection(&self) {
        self.has_left.set(true);
        if self.counts.take() {
            self.meter.on_held(false);
        }
    }

    /// Returns what it is now, on a connection in this state, with its target if `is_named`.
    pub(super) fn snapshot(
        &self,
        number: u64,
        connection: &LinkState,
        is_named: bool,
    ) -> RequestSnapshot {
        let exchange = self.exchange();
        let (account, now) = (exchange.account(), connection.now);
        let record = self.record.borrow();
        let target = record.as_ref().filter(|_| is_named).map(|record| record.target());
        let (wait, waiting) = account.current(now, (connection.wait, connection.waiting));
        RequestSnapshot {
            stream: number,
            target: target.map(|(method, path)| (method.to_owned(), path.to_owned())),
            age: now.saturating_duration_since(account.begun()),
            wait,
            waiting,
            spent: account.spent(now, &connection.mark),
            sent: self.sent.get(),
            received: exchange.received(),
        }
    }

    /// Returns how long the request has taken, and what for.
    pub(super) fn spent(&self) -> (Duration, WaitTimes) {
        let (now, connection) = self.meter.moment();
        let exchange = self.exchange();
        let account = exchange.account();
        (now.saturating_duration_since(account.begun()), account.spent(now, &connection))
    }

    /// Returns the state of the path, if the response had to wait for it.
    pub(super) fn path_state(&self, waits: &WaitTimes) -> Option<PathState> {
        let of_path = [Wait::Acknowledgement, Wait::ConnectionFlow];
        let waited = waits.iter().any(|(wait, _)| of_path.contains(&wait));
        if waited { Some(self.meter.info()?.path_state()) } else { None }
    }

    /// Returns whether the request's body is read, and all that arrived of it was.
    pub(super) fn awaits_body(&self) -> bool {
        self.awaits_body.get()
    }

    /// Returns whether a part of the response waits for the client.
    fn has_unsent(&self) -> bool {
        self.has_output.get() || self.is_held.get()
    }

    /// Sends an informational response over HTTP/2, unless the final one has begun. hyper's HTTP/1.1 takes none.
    pub(super) fn inform(&self, status: u16, fields: Fields) {
        if let Some(stream) = &self.stream
            && self.status.get().is_none()
        {
            stream.inform(status, fields);
        }
    }

    /// Has a client of HTTP/2 that waits for a status send the body, of which nothing has arrived; hyper does so itself for HTTP/1.1.
    pub(super) fn ask_for_body(&self) {
        if self.stream.is_some() && self.awaits_status.take() && self.exchange().received() == 0 {
            self.inform(100, Fields::new());
        }
    }

    /// Ends the request without its response, or in the middle of it. Returns `false` if it has no stream that could be reset.
    pub(super) fn cut(&self) -> bool {
        self.cut.set(true);
        if let Some(stream) = &self.stream {
            stream.cancel();
        }
        self.stream.is_some()
    }

    /// Returns whether the request was ended without its whole response.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.get()
    }

    /// Takes the cause for which the server itself responds with a 5xx status or 429.
    pub(super) fn set_cause(&self, cause: &'static str) {
        self.note(|record| record.set_cause(cause));
    }

    /// Changes the record, if there is one.
    pub(super) fn note(&self, change: impl FnOnce(&mut RequestRecord)) {
        if let Some(record) = self.record.borrow_mut().as_mut() {
            change(record);
        }
    }
}
