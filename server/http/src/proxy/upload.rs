//! Forwards the body of a request from the client to an upstream.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::time::Instant;

use super::fields;
use crate::exchange::FieldNames;
use crate::exchange::handler::{Cancelled, RequestBody};

/// Body of a request, for whichever attempt reads it.
#[derive(Debug)]
pub(super) struct Upload {
    /// Body as it arrives; `None` once it is stopped.
    body: RefCell<Option<RequestBody>>,
    /// Fields that are not the client's to send.
    replaced: FieldNames,
    /// First block, if [`Upload::is_empty`] had to wait for it before the request was sent.
    first: RefCell<Option<Frame<Bytes>>>,
    /// Bytes that are missing from the announced length.
    left: Cell<Option<u64>>,
    taken: Cell<bool>,
    ended: Cell<bool>,
    broken: Cell<bool>,
    client_stalled: Cell<bool>,
    moved_at: Cell<Instant>,
}

impl Upload {
    /// Begins with a body of the announced length, if there is one, without trailers of the fields `replaced`.
    pub(super) fn new(
        body: RequestBody,
        announced: Option<u64>,
        replaced: FieldNames,
    ) -> Rc<Upload> {
        Rc::new(Upload {
            body: RefCell::new(Some(body)),
            replaced,
            first: RefCell::default(),
            left: Cell::new(announced),
            taken: Cell::new(false),
            ended: Cell::new(false),
            broken: Cell::new(false),
            client_stalled: Cell::new(false),
            moved_at: Cell::new(Instant::now()),
        })
    }

    /// Returns the body of a request that has none.
    pub(super) fn none() -> Rc<Upload> {
        Rc::new(Upload {
            body: RefCell::default(),
            replaced: FieldNames::default(),
            first: RefCell::default(),
            left: Cell::new(Some(0)),
            taken: Cell::new(false),
            ended: Cell::new(true),
            broken: Cell::new(false),
            client_stalled: Cell::new(false),
            moved_at: Cell::new(Instant::now()),
        })
    }

    /// Waits for the body's first byte or its end, and returns whether the body is empty. Trailers without a body are dropped: HTTP/1.1 can
    /// send them only behind chunks, and no request without content is framed as one with it. Dropping the future loses nothing else.
    pub(super) async fn is_empty(&self) -> bool {
        std::future::poll_fn(|cx| {
            if self.first.borrow().is_some() || self.broken.get() {
                return Poll::Ready(false);
            }
            loop {
                match std::task::ready!(self.poll(cx)) {
                    // HTTP/2 may end a stream by an empty DATA frame.
                    Some(Ok(frame)) if frame.data_ref().is_none_or(Bytes::is_empty) => {}
                    Some(Ok(frame)) => {
                        *self.first.borrow_mut() = Some(frame);
                        return Poll::Ready(false);
                    }
                    Some(Err(Cancelled)) => return Poll::Ready(false),
                    None => return Poll::Ready(true),
                }
            }
        })
        .await
    }

    /// Drops the body, which asks the client to stop sending it.
    pub(super) fn stop(&self) {
        self.body.borrow_mut().take();
        self.first.borrow_mut().take();
    }

    /// Returns whether the whole body has arrived.
    pub(super) fn finished(&self) -> bool {
        if self.broken.get() || self.first.borrow().is_some() {
            return false;
        }
        let body = self.body.borrow();
        self.ended.get()
            || self.left.get() == Some(0)
            || (self.left.get().is_none() && body.as_ref().is_some_and(Body::is_end_stream))
    }

    /// Returns whether an attempt has read a part, so that no other attempt can start from the beginning.
    pub(super) fn taken(&self) -> bool {
        self.taken.get()
    }

    /// Returns whether the client has cancelled the body, or violated its announced length.
    pub(super) fn broken(&self) -> bool {
        self.broken.get()
    }

    /// Returns whether the upload waits for the client.
    pub(super) fn client_stalled(&self) -> bool {
        self.client_stalled.get()
    }

    /// Returns the time at which the client last sent a part.
    pub(super) fn moved_at(&self) -> Instant {
        self.moved_at.get()
    }

    /// Polls for the next frame. The upstream never gets more or fewer bytes than were announced.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cancelled>>> {
        let mut slot = self.body.borrow_mut();
        let Some(body) = slot.as_mut() else {
            return self.fail();
        };
        let polled = Pin::new(body).poll_frame(cx);
        self.client_stalled.set(polled.is_pending());
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(frame))) => {
                self.moved_at.set(Instant::now());
                let size = frame.data_ref().map_or(0, Bytes::len) as u64;
                match self.left.get() {
                    Some(left) if size > left => return self.fail(),
                    Some(left) => self.left.set(Some(left - size)),
                    None => {}
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) if self.left.get().is_none_or(|left| left == 0) => {
                self.ended.set(true);
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(Cancelled)) | None) => self.fail(),
        }
    }

    fn fail(&self) -> Poll<Option<Result<Frame<Bytes>, Cancelled>>> {
        self.broken.set(true);
        Poll::Ready(Some(Err(Cancelled)))
    }
}

/// Body of a request, as an attempt reads it.
#[derive(Debug)]
pub(super) struct UploadBody(pub(super) Rc<Upload>);

impl Body for UploadBody {
    type Data = Bytes;
    type Error = Cancelled;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cancelled>>> {
        let first = self.0.first.borrow_mut().take();
        let frame = match first {
            Some(first) => Poll::Ready(Some(Ok(first))),
            None => self.0.poll(cx),
        };
        if let Poll::Ready(Some(Ok(frame))) = frame {
            self.0.taken.set(true);
            return Poll::Ready(Some(Ok(match frame.into_trailers() {
                Ok(trailers) => {
                    Frame::trailers(fields::request_trailers(trailers, &self.0.replaced))
                }
                Err(data) => data,
            })));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.0.finished()
    }
}
