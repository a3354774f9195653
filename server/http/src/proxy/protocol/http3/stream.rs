//! An exchange on an HTTP/3 connection to an upstream.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::uri::Scheme;
use http_body::{Body as _, Frame};
use tokio::time::Instant;

use super::fields::{self, RequestHead};
use super::inbox::{Inbox, StreamEnd};
use super::session::Unopened;
use super::shared_session::SharedSession;
use super::upload::Http3Upload;
use crate::proxy::deadline::Deadline;
use crate::proxy::failure::Failure;
use crate::proxy::interim::Interims;
use crate::proxy::metered_stream::Meter;
use crate::proxy::protocol::usage::Place;
use crate::proxy::protocol::{BrokenBody, Progress, UpstreamStream};
use crate::proxy::request_error::RequestError;
use crate::proxy::response::{BodySize, ReceivedHead};
use crate::proxy::tunnel::TunnelStream;
use crate::proxy::upload::UploadBody;
use crate::proxy::upstream_head::UpstreamHead;

/// State of an exchange.
enum Stage {
    /// There is no request yet.
    Idle,
    /// The request waits for a stream.
    Waiting(Box<Waiting>),
    /// The request is on its stream.
    Open(Open),
    /// There is no stream for the request.
    Refused,
}

/// A request that waits for a stream.
struct Waiting {
    head: RequestHead,
    body: UploadBody,
    inbox: Rc<Inbox>,
}

/// A request on its stream.
struct Open {
    stream: u64,
    inbox: Rc<Inbox>,
    upload: Option<Http3Upload>,
    /// Bytes that are missing from the announced length of the response.
    left: Option<u64>,
    /// Whether the response's body has ended.
    has_ended: bool,
}

/// Stream of one exchange. The connection has a task of its own; the exchange writes to the stream and reads from it.
pub(super) struct Http3Stream {
    stage: Stage,
    scheme: Scheme,
    /// The upstream says that it has not processed the request.
    is_unprocessed: bool,
    deadline: Deadline,
    /// Blocks of the request's body, not the bytes of its head.
    meter: Rc<Meter>,
    shared: Rc<SharedSession>,
    place: Place,
}

impl Http3Stream {
    /// Returns the stream in a place of a connection, for a request of this scheme.
    pub(super) fn new(shared: &Rc<SharedSession>, place: Place, scheme: Scheme) -> Http3Stream {
        Http3Stream {
            stage: Stage::Idle,
            scheme,
            is_unprocessed: false,
            deadline: Deadline::default(),
            meter: Rc::new(Meter::new(Instant::now())),
            shared: Rc::clone(shared),
            place,
        }
    }

    /// Opens the stream of a request that waits for it.
    fn open(&mut self, cx: &Context<'_>) {
        let Stage::Waiting(waiting) = &self.stage else {
            return;
        };
        let is_whole = waiting.body.is_end_stream();
        let mut session = self.shared.session();
        let opened = session.request(&waiting.head, is_whole, &waiting.inbox);
        if opened == Err(Unopened::NoRoom) {
            session.wait_for_room(cx);
            return;
        }
        drop(session);
        let stage = std::mem::replace(&mut self.stage, Stage::Refused);
        let (Stage::Waiting(waiting), Ok(stream)) = (stage, opened) else {
            return;
        };
        self.shared.wake();
        self.meter.on_written(1);
        let Waiting { body, inbox, .. } = *waiting;
        let upload = (!is_whole).then(|| Http3Upload::new(stream, body));
        self.stage = Stage::Open(Open { stream, inbox, upload, left: None, has_ended: false });
    }

    /// Returns the final response, once it has come.
    fn take_response(&mut self) -> Poll<Result<ReceivedHead, Failure>> {
        let open = match &mut self.stage {
            Stage::Idle | Stage::Waiting(_) => return Poll::Pending,
            Stage::Refused => return Poll::Ready(Err(Failure::Closed)),
            Stage::Open(open) => open,
        };
        if let Some(head) = open.inbox.take_head() {
            open.left = fields::announced(&head.fields);
            return Poll::Ready(Ok(head));
        }
        let failure = match open.inbox.end() {
            // Without a response.
            Some(StreamEnd::Whole) => Some(Failure::Malformed),
            Some(StreamEnd::Failed(failure)) => Some(failure),
            Some(StreamEnd::Unprocessed(failure)) => {
                self.is_unprocessed = true;
                Some(failure)
            }
            None => self.shared.session().end(),
        };
        failure.map_or(Poll::Pending, |failure| Poll::Ready(Err(failure)))
    }
}

impl UpstreamStream for Http3Stream {
    fn send(&mut self, head: &UpstreamHead<'_>, body: UploadBody) -> Result<(), RequestError> {
        let head = fields::request(head, body.is_end_stream(), &self.scheme)?;
        self.meter.restart(Instant::now());
        let inbox = Inbox::new();
        self.stage = Stage::Waiting(Box::new(Waiting { head, body, inbox }));
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        self.open(cx);
        if let Stage::Open(open) = &mut self.stage {
            open.poll_upload(cx, &self.shared, &self.meter);
            open.inbox.wait(cx);
        }
    }

    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        interims: &Interims,
    ) -> Poll<Result<ReceivedHead, Failure>> {
        let mut response = self.take_response();
        if response.is_pending() {
            self.poll(cx);
            response = self.take_response();
        }
        if let Stage::Open(open) = &self.stage {
            open.inbox.move_interims(interims);
        }
        response
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let Stage::Open(open) = &mut self.stage else {
            return Poll::Ready(None);
        };
        open.poll_upload(cx, &self.shared, &self.meter);
        let frame = open.poll_frame(&self.shared);
        if frame.is_pending() {
            open.inbox.wait(cx);
        }
        frame
    }

    fn body_size(&self) -> BodySize {
        match &self.stage {
            Stage::Open(open) => BodySize { length: open.left, is_end: open.is_end_of_response() },
            _ => BodySize { length: None, is_end: true },
        }
    }

    fn progress(&self) -> Progress {
        if self.is_unprocessed || self.meter.written() == 0 {
            Progress::Unprocessed
        } else {
            Progress::Unanswered
        }
    }

    fn is_over(&mut self, cx: &mut Context<'_>, deadline: Instant) -> bool {
        self.deadline.is_over(cx, deadline)
    }

    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn is_reused(&self) -> bool {
        !self.place.is_first()
    }

    fn is_sent(&self) -> bool {
        match &self.stage {
            Stage::Open(open) => open.upload.is_none(),
            Stage::Idle | Stage::Waiting(_) => false,
            Stage::Refused => true,
        }
    }

    fn takes_tunnels(&self) -> bool {
        false
    }

    fn into_tunnel(self: Box<Self>) -> Pin<Box<dyn Future<Output = Option<TunnelStream>>>> {
        Box::pin(std::future::ready(None))
    }

    fn release(self: Box<Self>) {}
}

impl Drop for Http3Stream {
    fn drop(&mut self) {
        if let Stage::Open(open) = &self.stage {
            self.shared.session().forget(open.stream, open.upload.is_none());
            self.shared.wake();
        }
    }
}

impl Open {
    /// Sends what can be sent of the request's body now.
    fn poll_upload(&mut self, cx: &mut Context<'_>, shared: &SharedSession, meter: &Meter) {
        if let Some(upload) = &mut self.upload
            && upload.poll(cx, shared, &self.inbox, meter).is_ready()
        {
            self.upload = None;
        }
    }

    /// Whether the response has come to its end with its head.
    fn is_end_of_response(&self) -> bool {
        // The end of a stream is reported behind its last byte.
        let is_whole = self.inbox.end() == Some(StreamEnd::Whole);
        is_whole && self.left.unwrap_or_default() == 0 && !self.inbox.has_trailers()
    }

    /// Returns the next frame of the response's body. It ends where the upstream says so, and breaks off if the stream ends in any
    /// other way, or has another length than announced.
    fn poll_frame(
        &mut self,
        shared: &SharedSession,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        match shared.read_body(self.stream) {
            Ok(Some(data)) => return Poll::Ready(Some(self.on_data(data))),
            Ok(None) => {}
            Err(BrokenBody) => return Poll::Ready(Some(Err(BrokenBody))),
        }
        let Some(end) = self.inbox.end() else {
            let is_closed = shared.session().end().is_some();
            return if is_closed { Poll::Ready(Some(Err(BrokenBody))) } else { Poll::Pending };
        };
        if end != StreamEnd::Whole || self.left.is_some_and(|left| left > 0) {
            return Poll::Ready(Some(Err(BrokenBody)));
        }
        if let Some(trailers) = self.inbox.take_trailers() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        self.has_ended = true;
        Poll::Ready(None)
    }

    fn on_data(&mut self, data: Bytes) -> Result<Frame<Bytes>, BrokenBody> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(data.len() as u64).ok_or(BrokenBody)?;
        }
        Ok(Frame::data(data))
    }
}
