//! State of a connection, which its requests share.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderValue, Version};
use sluicegate_http::peer::Peer;
use tokio::sync::Notify;

use super::config::TcpListenerConfig;
use super::front::Front;
use super::heads::Heads;
use super::metered::Meter;
use super::open_connections::ConnectionHandle;
use super::open_request::OpenRequest;
use super::progress::Progress;
use super::send_buffer::StreamBuffer;

/// Facts of a connection, which its requests share.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) front: Rc<Front>,
    /// Client as of every request, before a trusted proxy names another one.
    pub(super) peer: Peer,
    /// Value of `alt-svc` in its responses.
    pub(super) alt_svc: Option<HeaderValue>,
    /// Port of https to which its requests are redirected; `None` to serve them.
    pub(super) redirect: Option<u16>,
    /// The client speaks HTTP without TLS to a port for TLS.
    pub(super) lacks_tls: bool,
    pub(super) meter: Rc<Meter>,
    /// Heads of HTTP/2, with those that the service does not receive.
    pub(super) heads: Rc<Heads>,
    pub(super) progress: Rc<Progress>,
    handle: Rc<ConnectionHandle>,
    cancelled: Cell<u64>,
    /// Handlers that have not finished, those of cancelled requests included.
    pub(super) running: Cell<u64>,
    /// The client is to open another connection.
    leaving: Cell<bool>,
    /// The connection is to be closed at once.
    broken: Cell<bool>,
    news: Notify,
}

impl Connection {
    /// Returns a connection without requests.
    pub(super) fn new(
        front: &Rc<Front>,
        peer: Peer,
        settings: &TcpListenerConfig,
        handle: &Rc<ConnectionHandle>,
    ) -> Rc<Connection> {
        handle.meter.account().on_open(peer.connection.version == Version::HTTP_2);
        let lacks_tls = settings.tls.is_some() && peer.connection.tls.is_none();
        Rc::new(Connection {
            front: Rc::clone(front),
            peer,
            alt_svc: settings.alt_svc.clone().filter(|_| !lacks_tls),
            redirect: settings.redirect,
            lacks_tls,
            meter: Rc::clone(&handle.meter),
            heads: Rc::default(),
            progress: Rc::default(),
            handle: Rc::clone(handle),
            cancelled: Cell::new(0),
            running: Cell::new(0),
            leaving: Cell::new(false),
            broken: Cell::new(false),
            news: Notify::new(),
        })
    }

    /// Lends its place among the open connections.
    pub(super) fn handle(&self) -> &Rc<ConnectionHandle> {
        &self.handle
    }

    /// Returns a stream's part of what HTTP/2 may hold for the client; `None` for HTTP/1.1, whose buffer hyper bounds.
    pub(super) fn stream_buffer(&self) -> Option<Arc<StreamBuffer>> {
        self.is_http2().then(|| self.handle.send_buffer.stream())
    }

    /// Waits until the connection is to be left or closed.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    /// Returns whether the connection is to be closed at once.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// Adds a request and returns its number.
    pub(super) fn add(&self, request: Rc<OpenRequest>) -> u64 {
        let begun = request.exchange().account().begun();
        let (number, is_first) = self.handle.requests.add(request);
        if is_first {
            self.meter.account().on_busy(begun);
        }
        self.handle.on_request();
        self.progress.on_request();
        let most = self.front.config().site.limits().requests_per_connection;
        if most > 0 && number >= most {
            self.leave();
        }
        number
    }

    /// Removes a request that has ended.
    pub(super) fn remove(&self, number: u64) {
        if self.handle.requests.remove(number) {
            if self.is_http2() && self.is_leaving() {
                // The connection ends, and the client goes on to open its windows while it reads the response.
                self.meter.leave_unread();
            }
            let now = self.front.now();
            self.meter.account().on_idle(now);
            self.handle.on_idle(now);
        }
    }

    /// Lends the open requests.
    pub(super) fn with_open<T>(
        &self,
        using: impl FnOnce(&BTreeMap<u64, Rc<OpenRequest>>) -> T,
    ) -> T {
        self.handle.requests.with_open(using)
    }

    /// Counts a request that its client has cancelled. A client that cancels most of them keeps the server busy in vain.
    pub(super) fn on_cancel(&self) {
        let cancelled = self.cancelled.get() + 1;
        self.cancelled.set(cancelled);
        let allowed = self.front.config().site.limits().cancelled_requests + self.taken() / 2;
        if cancelled > allowed && !self.broken.get() {
            self.front.count(|counters| counters.connections.closed_abuse += 1);
            self.break_off();
        }
    }

    /// Runs a turn of the connection.
    pub(super) fn turn<T>(&self, poll: impl FnOnce() -> T) -> T {
        let start = self.front.now();
        self.progress.begin_turn(start);
        let achieves = self.progress.is_in_credit();
        let polled = poll();
        if !achieves && !self.progress.is_in_credit() {
            self.front.on_turn_in_vain(start);
        }
        polled
    }

    /// Closes the connection of a client that has long sent much and achieved nothing by it.
    pub(super) fn on_no_progress(&self) {
        if !self.broken.get() {
            self.front.count(|counters| counters.connections.closed_no_progress += 1);
            self.break_off();
        }
    }

    /// Asks the client to open another connection, and serves the requests that are open.
    pub(super) fn leave(&self) {
        if !self.leaving.replace(true) {
            self.news.notify_one();
        }
    }

    /// Closes the connection at once.
    pub(super) fn break_off(&self) {
        self.broken.set(true);
        self.news.notify_one();
    }

    /// Ends a request without its response, or in the middle of it, and asks the client to open another connection. HTTP/1.1 has no
    /// way to end a response, so its connection is closed.
    pub(super) fn cut(&self, request: &OpenRequest) {
        if request.cut() {
            self.leave();
        } else {
            self.break_off();
        }
    }

    /// Returns the number of the request accepted last.
    pub(super) fn taken(&self) -> u64 {
        self.handle.requests.taken()
    }

    /// Returns whether the client is to open another connection.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.get()
    }

    /// Returns whether the protocol is HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.peer.connection.version == Version::HTTP_2
    }
}
