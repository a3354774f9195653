//! The task of an exchange: runs the handler, and carries messages between it and the front.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use sluicegate_base::observe::access::Outcome;
use sluicegate_http::exchange::Reply;
use sluicegate_http::exchange::accounts::Direction;
use sluicegate_http::exchange::handler::{ExchangeHandle, FrontQueue};
use sluicegate_http::exchange::local::Revocation;
use sluicegate_http::exchange::message::{ToFront, ToHandler, cost};
use sluicegate_http::gate::{Handling, Refusal, replies};
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
    pub(super) handling: Handling,
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
        loop {
            self.take_messages(false).await;
            if self.flow.borrow().broken {
                break;
            }
            let wanted = self.upload.is_wanted();
            // Nobody waits for the next bytes of a tunnel.
            self.request.awaits_body.set(wanted && !self.handling.is_tunnel());
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
        self.request.awaits_body.set(false);
        drop(handler);
        self.take_messages(true).await;
        if self.request.has_stalled() || self.flow.borrow().broken {
            drop(self.upload.stop());
        } else {
            self.leave_body().await;
        }
        drop(self.running.take());
        self.hold().await;
    }

    /// Holds what the handler has left until the front has dropped the response, unless the memory is needed before.
    async fn hold(self) {
        if self.request.has_stalled() || self.flow.borrow().broken {
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
        self.refuse(Refusal::no_room());
        self.with_flow(Flow::release);
        if self.request.status.get().is_some() {
            self.request.outcome.set(Some(Outcome::Reset));
            self.connection.cut(&self.request);
        }
    }

    /// Passes a part of the body to the handler. Returns whether the handler goes on.
    fn take_part(&mut self, part: Part) -> bool {
        match part {
            Part::Data(block) => {
                self.request.on_received(block.len() as u64);
                self.handle.deliver(ToHandler::Data(block));
            }
            Part::End(trailers) => {
                self.request.unread.set(false);
                self.handle.deliver(ToHandler::End(trailers));
            }
            Part::TooLarge => {
                self.refuse(replies::body_too_large().into());
                return false;
            }
            Part::Malformed => {
                self.connection.front.count(|counters| counters.requests.malformed += 1);
                self.refuse(replies::malformed().into());
                return false;
            }
            Part::Gone => {
                self.handle.deliver(ToHandler::Cancel);
                if self.handling.is_tunnel() {
                    // The side that writes does not see that the client has gone.
                    self.with_flow(|flow| flow.broken = true);
                } else if !self.connection.is_http2() {
                    // hyper reads nothing more from the connection, not even its end, and waits for the response.
                    self.connection.break_off();
                }
                return false;
            }
        }
        true
    }

    /// Takes what the handler has sent; `is_over` if it has stopped. Before a response begins, it is known whether a body that the
    /// handler does not read has arrived.
    async fn take_messages(&mut self, is_over: bool) {
        while let Some(envelope) = self.queue.pop() {
            let message = envelope.message;
            let responds = matches!(message, ToFront::Head(_) | ToFront::Abort(_));
            let stops = matches!(message, ToFront::StopBody);
            if stops || responds && (is_over || self.queue.stops_body()) {
                self.leave_body().await;
            } else if responds && self.upload.has_arrived() {
                self.request.unread.set(false);
            }
            self.take(message);
        }
    }

    /// Leaves what the handler has not read of the body.
    async fn leave_body(&mut self) {
        if let Some(body) = self.upload.stop() {
            unread_body::leave(&self.connection, &self.request, body).await;
        }
    }

    fn take(&mut self, message: ToFront) {
        match message {
            ToFront::Interim(status, fields) => {
                let size: usize = fields.iter().map(|(n, v)| n.as_str().len() + v.len()).sum();
                self.handle.deliver(ToHandler::Credit(cost(size)));
                self.request.inform(status, fields);
            }
            ToFront::Head(mut head) => {
                self.handling.edit_response(&mut head);
                self.with_flow(|flow| {
                    flow.ended = head.end;
                    flow.head.get_or_insert(Ok(head));
                });
            }
            ToFront::Data(block) => self.with_flow(|flow| {
                // More than the head promised; nobody would take it.
                flow.broken |= flow.taken;
                flow.blocks.push_back(block);
            }),
            // This front asks for none.
            ToFront::Range(_) => self.handle.deliver(ToHandler::RangeRead(0)),
            ToFront::End(trailers) => self.with_flow(|flow| {
                flow.trailers = trailers;
                flow.ended = true;
            }),
            ToFront::Abort(status) => self.on_abort(status),
            ToFront::Credit(amount) => {
                let more = self.flow.borrow().grow(Direction::Request);
                self.upload.add_credit(amount + more);
            }
            ToFront::Report(report) => {
                if let Some(record) = self.request.record.borrow_mut().as_mut() {
                    record.report(*report);
                }
            }
            // The body is left already.
            ToFront::StopBody | ToFront::Closed => {}
        }
    }

    /// Changes the response, and wakes the front's side of it.
    fn with_flow(&self, change: impl FnOnce(&mut Flow)) {
        let mut flow = self.flow.borrow_mut();
        change(&mut flow);
        self.request.has_output.set(!flow.blocks.is_empty() || flow.ended);
        if let Some(waker) = flow.waker.take() {
            waker.wake();
        }
    }

    /// Ends a response whose handler failed.
    fn on_abort(&self, status: u16) {
        if self.request.has_stalled() {
            return self.end(replies::request_timeout(), false);
        }
        if self.flow.borrow().is_refused() {
            // The handler was dropped for that.
            return;
        }
        if let Some(record) = self.request.record.borrow_mut().as_mut() {
            record.on_abort(status);
        }
        self.end(replies::handler_failed(status), true);
    }

    /// Responds in place of the handler, or breaks its response off.
    fn refuse(&self, refusal: Refusal) {
        if let Some(cause) = refusal.cause {
            self.request.set_cause(cause);
        }
        self.end(refusal.reply, false);
    }

    fn end(&self, mut reply: Reply, failed: bool) {
        self.handling.refuse(&mut reply);
        let status = reply.status;
        let is_new = self.request.status.get().is_none();
        self.with_flow(|flow| {
            if is_new && flow.head.is_none() {
                flow.refused = true;
                flow.head = Some(Err(reply));
            } else if !flow.refused && !flow.ended && !flow.broken {
                flow.broken = true;
                self.note_cut(status, failed);
            }
        });
    }

    /// Notes the end of a response that had begun, with the status of the reply that came too late.
    fn note_cut(&self, status: u16, failed: bool) {
        self.request.outcome.set(Some(Outcome::Reset));
        if let Some(record) = self.request.record.borrow_mut().as_mut() {
            record.on_cut(status);
        }
        if failed {
            let front = &self.connection.front;
            front.count(|counters| counters.requests.broken += 1);
        }
    }
}

/// Waits for the next part of the body. A client that waits for a status before it sends any gets 100 (RFC 9110 §10.1.1).
async fn next_part(upload: &mut Upload, request: &OpenRequest) -> Part {
    let mut next = pin!(upload.next());
    poll_fn(|cx| {
        let part = next.as_mut().poll(cx);
        if part.is_pending() && request.awaits_body.get() {
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
