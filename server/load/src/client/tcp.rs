//! A connection of HTTP/2 or HTTP/1.1 over TCP, with TLS or without, by hyper and without a runtime.

pub(super) mod connector;
mod exchange;
mod frames;
mod handshake;
mod http;
mod requests;
mod resumption;
mod stream;
mod tasks;
#[cfg(test)]
mod tests;

use std::os::fd::{AsFd as _, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{self, Waker};
use std::time::Instant;

use hyper::rt::Executor as _;

use super::exchanges::Exchanges;
use super::transport::Transport;
use crate::context::Context;
use crate::end::{self, End};
use crate::poller::Watch;
use crate::request::OpenRequest;
use crate::tally::Tally;
use exchange::{Event, Events};
use frames::{First, Frames};
use handshake::{Handshake, Step};
use http::Http;
use requests::Requests;
use stream::{Account, Socket};
use tasks::{Alert, Tasks};

/// State of a connection.
enum State {
    Opening(Handshake),
    Open(Http),
    /// It never was open, or its end is known.
    Over,
}

/// A connection over TCP with its socket.
pub(crate) struct Tcp {
    socket: Socket,
    state: State,
    tasks: Tasks,
    alert: Arc<Alert>,
    waker: Waker,
    account: Rc<Account>,
    events: Events,
    requests: Rc<Requests>,
    /// Streams so far.
    streams: u64,
    /// HTTP/2 begins without TLS, and so before the server has said that it speaks it (RFC 9113 §3.3).
    is_h2c: bool,
    /// Bytes that were received and sent when they were last counted, and those of responses.
    counted: (u64, u64, u64),
    /// Bytes that were received before the last request of HTTP/1.1.
    received_before: u64,
    /// Why it has ended, if that is known.
    end: Option<End>,
    /// It serves no request any more.
    is_broken: bool,
    /// Time of the next turn, if there is something to read.
    next_turn: Option<Instant>,
}

impl Tcp {
    /// Wraps a socket on its way to the server.
    fn new(socket: Socket, handshake: Handshake, requests: Rc<Requests>, is_h2c: bool) -> Tcp {
        let alert = Arc::new(Alert::default());
        Tcp {
            waker: Waker::from(Arc::clone(&alert)),
            alert,
            account: handshake.account(),
            socket,
            state: State::Opening(handshake),
            tasks: Tasks::default(),
            events: Events::default(),
            requests,
            streams: 0,
            is_h2c,
            counted: (0, 0, 0),
            received_before: 0,
            end: None,
            is_broken: false,
            next_turn: None,
        }
    }

    /// Goes on with the handshake as far as possible.
    fn open(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) {
        while matches!(self.state, State::Opening(_))
            && let State::Opening(handshake) = std::mem::replace(&mut self.state, State::Over)
        {
            let mut poll = task::Context::from_waker(&self.waker);
            let spawner = &self.tasks.spawner;
            match handshake.go_on(&mut poll, spawner, exchanges, cx) {
                Step::Next(next) => self.state = State::Opening(next),
                Step::Wait(same) => {
                    self.state = State::Opening(same);
                    return;
                }
                Step::Open(http) => {
                    self.state = State::Open(http);
                    self.alert.set();
                    return;
                }
                Step::Failed(end) => self.end = Some(end),
            }
        }
    }

    fn take_events(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) {
        loop {
            let next = self.events.borrow_mut().pop_front();
            let Some((stream, event)) = next else {
                return;
            };
            match event {
                Event::Head(mut head) => {
                    if let Some(frames) = self.account.frames.borrow_mut().as_mut() {
                        head.encoded = frames.take_head_bytes();
                        head.plain += head.pseudo();
                    }
                    exchanges.on_head(stream, &head, cx);
                }
                Event::Body(bytes) => exchanges.on_body(stream, bytes, cx),
                Event::End => exchanges.on_end(stream, true, cx),
                Event::Reset => exchanges.on_end(stream, false, cx),
                Event::Rejected if exchanges.has_no_head(stream) => exchanges.on_rejected(stream),
                Event::Rejected => exchanges.on_end(stream, false, cx),
                Event::Unsent(_) if exchanges.first_byte => exchanges.on_rejected(stream),
                Event::Failed(_) if self.is_unprocessed(stream, exchanges, cx) => {
                    exchanges.on_rejected(stream);
                }
                Event::Unsent(error) | Event::Failed(error) => {
                    self.on_failed(stream, &error, exchanges);
                }
            }
        }
    }

    /// Returns whether a server of HTTP/1.1 has closed the connection instead of reading a request on it, which may be repeated
    /// then (RFC 9110 §9.2.2).
    fn is_unprocessed(&self, stream: u64, exchanges: &Exchanges, cx: &Context<'_>) -> bool {
        self.account.frames.borrow().is_none()
            && exchanges.first_byte
            && exchanges.has_no_head(stream)
            && self.account.received.get() == self.received_before
            && cx.plan.is_idempotent
    }

    /// Takes the failure of the connection, unless its request is no longer waited for.
    fn on_failed(&mut self, stream: u64, error: &hyper::Error, exchanges: &Exchanges) {
        if exchanges.open.contains_key(&stream) {
            self.is_broken = true;
            let end = || end::of_stream(exchanges.peer, Some(error));
            self.end.get_or_insert_with(end);
        }
    }

    /// Lets hyper and the exchanges do what they can.
    fn run(&mut self, exchanges: &Exchanges) {
        let mut cx = task::Context::from_waker(&self.waker);
        while let State::Open(http) = &mut self.state
            && self.alert.take()
        {
            if let Some(Err(error)) = http.poll(&mut cx)
                && !end::is_close(&error)
            {
                let end = || end::of_stream(exchanges.peer, Some(&error));
                self.end.get_or_insert_with(end);
            }
            self.tasks.run(&mut cx);
        }
    }

    /// Counts the bytes since the last time.
    fn count_bytes(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) {
        let now = (self.account.received.get(), self.account.sent.get(), self.account.content());
        let (received, sent, content) = std::mem::replace(&mut self.counted, now);
        if now.0 > received {
            exchanges.heard = true;
            if cx.counts() {
                cx.tally.bytes_total += now.0 - received;
            }
        }
        let uploads = cx.plan.body.is_some() && now.1 > sent;
        if now.2 > content || uploads {
            exchanges.heard_at = cx.now;
        }
    }
}

impl Transport for Tcp {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.0.as_fd()
    }

    fn watch(&self) -> Watch {
        Watch::Changes
    }

    fn receive(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) -> Result<(), End> {
        self.account.begin_turn();
        if !exchanges.established {
            exchanges.heard_at = cx.now;
        }
        Ok(())
    }

    fn process(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) {
        self.open(exchanges, cx);
        let mut frames = self.account.frames.borrow_mut();
        let goaway = frames.as_mut().and_then(Frames::take_goaway);
        drop(frames);
        if let Some(last) = goaway {
            exchanges.on_goaway(u64::from(last) + 1);
        }
        self.take_events(exchanges, cx);
    }

    fn has_room(&self, open: usize) -> bool {
        match &self.state {
            State::Open(http) => !self.is_broken && http.has_room(open),
            _ => false,
        }
    }

    fn send(&mut self, request: &OpenRequest, cx: &Context<'_>) -> Option<u64> {
        let State::Open(http) = &mut self.state else {
            return None;
        };
        // Those of HTTP/2 are the odd numbers (RFC 9113 §5.1.1), which hyper gives in the order of the requests.
        let stream = 2 * self.streams + 1;
        let body = cx.plan.body.clone().unwrap_or_default();
        let request = self.requests.of(http.version(), request.head, body);
        let exchange = http.exchange(stream, request, &self.events)?;
        self.tasks.spawner.execute(exchange);
        self.alert.set();
        self.streams += 1;
        self.received_before = self.account.received.get();
        Some(stream)
    }

    fn flush(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) -> Result<(), End> {
        self.run(exchanges);
        self.count_bytes(exchanges, cx);
        self.next_turn = self.account.is_starved.get().then_some(cx.now);
        Ok(())
    }

    fn is_awake(&self) -> bool {
        let may_run = matches!(self.state, State::Open(_)) && self.alert.is_set();
        may_run || !self.events.borrow().is_empty()
    }

    fn end(&mut self, exchanges: &Exchanges) -> Option<End> {
        let is_open = matches!(self.state, State::Open(_)) && !self.account.is_over.get();
        let opens = matches!(self.state, State::Opening(_));
        if (is_open || opens) && !self.is_broken || !self.events.borrow().is_empty() {
            return None;
        }
        let known = self.end.take();
        if known.is_none() && exchanges.open.is_empty() && exchanges.first_byte {
            return Some(End::GoneAway);
        }
        let end = known.unwrap_or_else(|| end::of_stream(exchanges.peer, None));
        let frames = self.account.frames.borrow();
        let first = frames.as_ref().and_then(|frames| frames.first);
        if !self.is_h2c || first == Some(First::Settings) {
            return Some(end);
        }
        let is_http1 = first == Some(First::StatusLine);
        Some(end::without_h2c(exchanges.peer, end, is_http1))
    }

    fn deadline(&self) -> Option<Instant> {
        self.next_turn
    }

    fn on_timer(&mut self, now: Instant) {
        if self.next_turn.take_if(|at| *at <= now).is_some() {
            self.account.begin_turn();
        }
    }

    fn close(&mut self) {
        if let State::Open(http) = &mut self.state {
            http.close();
            self.alert.set();
        }
    }

    fn missing_handshake(&self, exchanges: &Exchanges) -> String {
        end::of_tcp_handshake(exchanges.peer, self.is_connected())
    }

    fn count(&self, _tally: &mut Tally) {}
}

impl Tcp {
    fn is_connected(&self) -> bool {
        match &self.state {
            State::Opening(handshake) => handshake.is_connected(),
            _ => true,
        }
    }
}
