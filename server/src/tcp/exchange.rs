//! An exchange with a handler, from the front's side: what its client is sent of the response.

mod flow;
mod task;

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::task::{AbortHandle, spawn_local};

use flow::Flow;
use sluicegate_http::exchange::accounts::Direction;
use sluicegate_http::exchange::front;
use sluicegate_http::exchange::handler::{ExchangeHandle, FrontQueue, Incoming};
use sluicegate_http::exchange::local::LocalExchange;
use sluicegate_http::exchange::message::{Head, Request, ToHandler};
use sluicegate_http::exchange::{Fields, Reply};
use sluicegate_http::gate::RoutedRequest;
use task::{HandlerTask, Running};

use super::connection::Connection;
use super::open_request::OpenRequest;
use super::upload::{Source, Upload};

/// Next part of a handler's response.
#[derive(Debug)]
pub(super) enum Next {
    /// A block of the body.
    Data(Bytes),
    /// The end, perhaps with trailers.
    End(Option<Fields>),
    /// The handler failed after the head.
    Broken,
}

/// Front's side of an exchange. Dropping it before the response has ended cancels the handler.
#[derive(Debug)]
pub(super) struct Exchange {
    connection: Rc<Connection>,
    request: Rc<OpenRequest>,
    flow: Rc<RefCell<Flow>>,
    handle: Rc<ExchangeHandle>,
    task: AbortHandle,
    over: bool,
}

impl Exchange {
    /// Starts a handler.
    pub(super) fn start(
        connection: &Rc<Connection>,
        open: &Rc<OpenRequest>,
        request: Box<Request>,
        routed: RoutedRequest,
        permit: LocalExchange,
        source: Option<Source>,
    ) -> Exchange {
        let revocation = permit.revocation();
        let flow = Flow::new(permit, connection.handle());
        let flow = Rc::new(RefCell::new(flow));
        let queue = Rc::<FrontQueue>::default();
        let credit = connection.front.exchanges.first_credit();
        let limit = request.timeout;
        open.exchange().prepare(&request, routed.max_body(), credit);
        open.exchange().hand_over(request.has_body, routed.wait());
        let (incoming, handle) = Incoming::new(0, request, credit, Rc::clone(&queue));
        let handle = Rc::new(handle);
        let task = HandlerTask {
            connection: Rc::clone(connection),
            request: Rc::clone(open),
            flow: Rc::clone(&flow),
            handle: Rc::clone(&handle),
            revocation,
            queue,
            upload: Upload(source),
            routed,
            running: Some(Running::on(connection)),
        };
        let handler = connection.front.handlers.run(incoming);
        let task = spawn_local(task.run(handler, limit));
        Exchange {
            connection: Rc::clone(connection),
            request: Rc::clone(open),
            flow,
            handle,
            task: task.abort_handle(),
            over: false,
        }
    }

    /// Waits for the head of the response, or for the reply in its place.
    pub(super) async fn head(&mut self) -> Result<Head, Reply> {
        let head = poll_fn(|cx| {
            let mut flow = self.flow.borrow_mut();
            match flow.head.take() {
                Some(head) => Poll::Ready(head),
                None => {
                    flow.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
        self.over = match &head {
            Ok(head) => head.end,
            Err(_) => true,
        };
        head
    }

    /// Returns the next part of the response, of at most `most` bytes, and the credit for it to the handler.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Next> {
        let mut exchange = self.request.exchange();
        let block = match exchange.next_part() {
            front::Next::Block(block, _) => block.split_to(most.min(block.len())),
            front::Next::End(trailers) => {
                self.over = true;
                return Poll::Ready(Next::End(trailers.cloned()));
            }
            front::Next::Wait => {
                self.flow.borrow_mut().waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            front::Next::WrongLength => {
                self.connection.front.count(|counters| counters.requests.broken += 1);
                self.request.set_cause("wrong_length");
                return Poll::Ready(Next::Broken);
            }
            front::Next::Cut => return Poll::Ready(Next::Broken),
        };
        exchange.on_taken(block.len() as u64);
        exchange.add_credit(self.flow.borrow().grow(Direction::Response));
        if let Some(amount) = exchange.take_credit(0) {
            drop(exchange);
            self.handle.deliver(ToHandler::Credit(amount));
        }
        Poll::Ready(Next::Data(block))
    }

    /// Lets the handler end by itself: its whole response was taken.
    pub(super) fn finish(&mut self) {
        self.over = true;
        self.request.exchange().complete();
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.over {
            self.flow.borrow_mut().leave();
        } else {
            self.task.abort();
        }
    }
}
