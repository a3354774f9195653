//! The task of an exchange: runs the handler, and carries messages between it and the front.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use sluicegate_base::observe::access::Outcome;
use sluicegate_http::exchange::Reply;
use sluicegate_http::exchange::accounts::Direction;
use sluicegate_http::exchange::front::{FrontAction, FrontExchange, Instead, Received};
use sluicegate_http::exchange::handler::{ExchangeHandle, FrontQueue};
use sluicegate_http::exchange::local::Revocation;
use sluicegate_http::exchange::message::{ToFront, ToHandler};
use sluicegate_http::gate::{RequestRefusal, RoutedRequest, replies};
use tokio::time::sleep;

use super::flow::Flow;
use crate::tcp::connection::Connection;
use crate::tcp::open_request::OpenRequest;
use crate::tcp::request_body::Part;
use crate::tcp::unread_body;
use crate::tcp::upload::Upload;

/// Task that runs a handler, with everything that it needs.
pub(super) struct HandlerTask {
    pub(super) connection: Rc<Connection>,
    pub(super) request: Rc<OpenRequest>,
    pub(super) flow: Rc<RefCell<Flow>>,
    pub(super) handle: Rc<ExchangeHandle>,
    pub(super) revocation: Rc<Revocation>,
    pub(super) queue: Rc<FrontQueue>,
    pub(super) routed: RoutedRequest,
    pub(super) upload: Upload,
    /// Until the handler has stopped.
    pub(super) running: Option<Running>,
}

impl HandlerTask {
    /// Runs the handler until it has finished, or is ended, and holds its memory until the front has dropped the response.
    pub(super) async fn run(
        mut self,
        mut handler: Pin<Box<dyn Future<Output = ()>>>,
        limit: Option<Duration>,
    ) {
        let limit = async {
            match limit {
                Some(limit) => sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let mut limit = Box::pin(limit);
        let mut is_limit_over = false;
        while self.take_messages(false).await {
            let wanted = self.upload.is_open() && self.request.exchange().room() > 0;
            // Nobody waits for the next bytes of a tunnel.
            self.request.set_awaits_body(wanted && !self.routed.is_tunnel());
            tokio::select! {
                () = handler.as_mut() => break,
                () = self.queue.filled() => {}
                () = self.revocation.revoked() => {
                    self.revoke();
                    break;
                }
                () = self.request.stalled() => break,
                () = limit.as_mut(), if !is_limit_over => {
                    is_limit_over = true;
                    if !self.handle.is_tunnel_open() {
                        self.handle.set_abort_status(504);
                        break;
                    }
                }
                part = next_part(&mut self.upload, &self.request), if wanted => {
                    if !self.take_part(part) {
                        break;
                    }
                }
            }
        }
        self.request.set_awaits_body(false);
        drop(handler);
        self.take_messages(true).await;
        self.take(ToFront::Closed);
        if self.request.has_stalled() && self.request.exchange().is_own() {
            self.reply(replies::request_timeout());
        }
        if self.is_cut() {
            drop(self.upload.stop());
        } else {
            self.leave_body().await;
        }
        drop(self.running.take());
        self.hold().await;
    }

    /// Returns whether the response is not completed, or comes too late for a client that makes no progress.
    fn is_cut(&self) -> bool {
        self.request.has_stalled() || self.request.exchange().is_cut()
    }

    /// Holds what the handler has left until the front has dropped the response, unless the memory is needed before.
    async fn hold(self) {
        if self.is_cut() {
            return self.with_flow(Flow::release);
        }
        tokio::select! {
            () = poll_fn(|cx| self.flow.borrow_mut().poll_left(cx)) => {}
            () = self.revocation.revoked() => self.revoke(),
            () = self.request.stalled() => self.with_flow(Flow::release),
        }
    }

    /// Ends the response because its memory is taken for another client. A block of it may wait for the client.
    fn revoke(&self) {
        self.end(RequestRefusal::no_room(), FrontExchange::revoke);
        self.with_flow(Flow::release);
        if self.request.exchange().is_cut() && self.request.status.get().is_some() {
            self.connection.cut(&self.request);
        }
    }

    /// Passes a part of the body to the handler. Returns whether the handler goes on.
    fn take_part(&mut self, part: Part) -> bool {
        match part {
            Part::Data(block) => match self.request.on_received(block.len() as u64) {
                Received::Accepted => self.handle.deliver(ToHandler::Data(block)),
                Received::Unneeded => {}
                Received::TooLarge => {
                    self.end(replies::body_too_large().into(), FrontExchange::refuse);
                    return false;
                }
                Received::Malformed => return self.on_malformed(),
            },
            Part::End(trailers) => {
                self.request.unread.set(false);
                let end = self.request.exchange().on_end();
                match end {
                    Received::Malformed => return self.on_malformed(),
                    Received::Accepted => self.handle.deliver(ToHandler::End(trailers)),
                    Received::Unneeded | Received::TooLarge => {}
                }
            }
            Part::Malformed => return self.on_malformed(),
            Part::Gone => {
                self.handle.deliver(ToHandler::Cancel);
                // The side that writes a tunnel does not see that the client has gone.
                self.request.exchange().cut(Outcome::Cancelled);
                self.with_flow(|_| {});
                if !self.routed.is_tunnel() && !self.connection.is_http2() {
                    // hyper reads nothing more from the connection, not even its end, and waits for the response.
                    self.connection.break_off();
                }
                return false;
            }
        }
        true
    }

    /// Refuses a malformed body. The handler does not go on.
    fn on_malformed(&self) -> bool {
        self.connection.front.count(|counters| counters.requests.malformed += 1);
        self.end(replies::malformed().into(), FrontExchange::refuse);
        false
    }

    /// Takes what the handler has sent; `is_over` if it has stopped. Before a response begins, it is known whether a body that the
    /// handler does not read has arrived. Returns whether the handler goes on.
    async fn take_messages(&mut self, is_over: bool) -> bool {
        let mut goes_on = true;
        while let Some(envelope) = self.queue.pop() {
            let message = envelope.message;
            let responds = matches!(message, ToFront::Head(_) | ToFront::Abort(_));
            let stops = matches!(message, ToFront::StopBody);
            if stops || responds && (is_over || self.queue.stops_body()) {
                self.leave_body().await;
            } else if responds && self.upload.has_arrived() {
                self.request.unread.set(false);
            }
            goes_on &= self.take(message);
        }
        goes_on && !self.request.exchange().is_cut()
    }

    /// Leaves what the handler has not read of the body.
    async fn leave_body(&mut self) {
        if let Some(body) = self.upload.stop() {
            self.request.exchange().leave_body();
            unread_body::leave(&self.connection, &self.request, body).await;
        }
    }

    /// Takes a message. Returns `false` if the handler has no more to send.
    fn take(&mut self, message: ToFront) -> bool {
        let message = match message {
            ToFront::Credit(amount) => {
                ToFront::Credit(amount + self.flow.borrow().grow(Direction::Request))
            }
            message => message,
        };
        let is_wait = matches!(message, ToFront::Waits(_));
        let action = self.request.exchange().on_message(message);
        if is_wait {
            self.request.note_wait();
        }
        match action {
            FrontAction::Inform(status, fields) => {
                self.request.inform(status, fields);
                let credit = self.request.exchange().take_credit(0);
                if let Some(amount) = credit {
                    self.handle.deliver(ToHandler::Credit(amount));
                }
            }
            FrontAction::Begin(mut head) => {
                self.routed.edit_response(&mut head);
                self.with_flow(|flow| flow.head = Some(Ok(head)));
            }
            FrontAction::GoOn => self.with_flow(|_| {}),
            FrontAction::Fail(status, instead) => self.on_failure(status, instead),
            FrontAction::Report(report) => self.request.note(|record| record.report(*report)),
            FrontAction::Cancel => return false,
            // The body is left already, and is read as far as there is credit.
            FrontAction::LeaveBody | FrontAction::ReadOn | FrontAction::Nothing => {}
        }
        true
    }

    /// Changes the way of the response, and wakes the front's side of it.
    fn with_flow(&self, change: impl FnOnce(&mut Flow)) {
        let mut flow = self.flow.borrow_mut();
        change(&mut flow);
        let has_output = self.request.exchange().has_output();
        self.request.set_output(has_output);
        self.request.note_wait();
        if let Some(waker) = flow.waker.take() {
            waker.wake();
        }
    }

    /// Ends a response whose handler failed.
    fn on_failure(&self, status: u16, instead: Instead) {
        self.request.note(|record| record.on_abort(status));
        if instead == Instead::Reply {
            return self.reply(replies::handler_failed(status));
        }
        self.connection.front.count(|counters| counters.requests.broken += 1);
        self.with_flow(|_| {});
    }

    /// Responds in place of the handler, or breaks its response off, as `end` says.
    fn end(&self, refusal: RequestRefusal, end: impl FnOnce(&mut FrontExchange) -> Instead) {
        let instead = end(&mut self.request.exchange());
        if instead != Instead::Nothing
            && let Some(cause) = refusal.cause
        {
            self.request.set_cause(cause);
        }
        match instead {
            Instead::Reply => self.reply(refusal.reply),
            Instead::Reset => {
                self.request.note(|record| record.on_cut(refusal.reply.status));
                self.with_flow(|_| {});
            }
            Instead::Nothing => {}
        }
    }

    /// Responds in place of the handler.
    fn reply(&self, mut reply: Reply) {
        self.routed.refuse(&mut reply);
        self.with_flow(|flow| flow.head = Some(Err(reply)));
    }
}

/// Waits for the next part of the body. A client that waits for a status before it sends any gets 100 (RFC 9110 §10.1.1).
async fn next_part(upload: &mut Upload, request: &OpenRequest) -> Part {
    let mut next = pin!(upload.next());
    poll_fn(|cx| {
        let part = next.as_mut().poll(cx);
        if part.is_pending() && request.awaits_body() {
            request.ask_for_body();
        }
        part
    })
    .await
}

/// Counts a handler that runs, until it has stopped.
pub(super) struct Running(Rc<Connection>);

impl Running {
    /// Counts the handler from here on: its task may be cancelled before it is polled.
    pub(super) fn on(connection: &Rc<Connection>) -> Running {
        connection.running.set(connection.running.get() + 1);
        Running(Rc::clone(connection))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get().saturating_sub(1));
    }
}
