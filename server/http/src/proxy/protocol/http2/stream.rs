//! An exchange on an HTTP/2 connection to an upstream.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, SEC_WEBSOCKET_KEY, UPGRADE};
use http::uri::{self, Authority, PathAndQuery, Scheme, Uri};
use http::{HeaderMap, HeaderValue, Method, Version};
use http_body::{Body as _, Frame};
use tokio::time::Instant;

use super::slot::StreamSlot;
use super::tunnel::Http2Tunnel;
use crate::proxy::deadline::Deadline;
use crate::proxy::failure::Failure;
use crate::proxy::interim::Interims;
use crate::proxy::metered_stream::Meter;
use crate::proxy::protocol::{BrokenBody, Progress, UpstreamStream};
use crate::proxy::request_error::RequestError;
use crate::proxy::response::{BodySize, ReceivedHead, lines};
use crate::proxy::tunnel::TunnelStream;
use crate::proxy::upload::UploadBody;
use crate::proxy::upstream_head::UpstreamHead;

/// Stream of one exchange. The connection has a task of its own; the exchange only sends its body.
pub(super) struct Http2Stream {
    upload: Option<Upload>,
    /// Direction to the upstream of the tunnel that the request has asked for.
    tunnel: Option<SendStream<Bytes>>,
    response: Option<Response>,
    body: Option<ResponseBody>,
    /// The upstream says that it has not processed the request.
    is_unprocessed: bool,
    scheme: Scheme,
    deadline: Deadline,
    /// Blocks of the request's body, not the bytes of its head.
    meter: Rc<Meter>,
    slot: StreamSlot,
}

/// Response that is awaited.
struct Response(Result<ResponseFuture, Option<h2::Error>>);

impl Response {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        interims: &Interims,
    ) -> Poll<Result<http::Response<RecvStream>, h2::Error>> {
        let future = match &mut self.0 {
            Ok(future) => future,
            Err(error) => {
                let closed = || Reason::INTERNAL_ERROR.into();
                return Poll::Ready(Err(error.take().unwrap_or_else(closed)));
            }
        };
        while let Poll::Ready(Some(interim)) = future.poll_informational(cx) {
            let (parts, ()) = interim?.into_parts();
            interims.add(parts.status, lines(parts.headers));
        }
        Pin::new(future).poll(cx)
    }
}

impl Http2Stream {
    /// The stream in a slot, for a request of this scheme.
    pub(super) fn new(slot: StreamSlot, scheme: Scheme) -> Http2Stream {
        Http2Stream {
            upload: None,
            tunnel: None,
            response: None,
            body: None,
            is_unprocessed: false,
            scheme,
            deadline: Deadline::default(),
            meter: Rc::new(Meter::new(Instant::now())),
            slot,
        }
    }

    fn take_response(
        &mut self,
        cx: &mut Context<'_>,
        interims: &Interims,
    ) -> Poll<Result<ReceivedHead, Failure>> {
        let Some(response) = &mut self.response else {
            return Poll::Pending;
        };
        let response = ready!(response.poll(cx, interims));
        self.response = None;
        Poll::Ready(match response {
            Ok(response) => {
                let (parts, stream) = response.into_parts();
                self.body = Some(ResponseBody::new(stream, &parts.headers));
                Ok(http::Response::from_parts(parts, ()).into())
            }
            Err(error) => {
                self.is_unprocessed = is_unprocessed(&error);
                Err(failure(&error))
            }
        })
    }
}

impl UpstreamStream for Http2Stream {
    fn send(&mut self, head: &UpstreamHead<'_>, body: UploadBody) -> Result<(), RequestError> {
        let is_tunnel = head.contains(&UPGRADE);
        let end = !is_tunnel && body.is_end_stream();
        let head = self::head(head, end, self.scheme.clone())?;
        self.meter.restart(Instant::now());
        let future = match self.slot.sender().send_request(head, end) {
            Ok((future, stream)) => {
                self.meter.on_written(1);
                if is_tunnel {
                    self.tunnel = Some(stream);
                } else if !end {
                    self.upload = Some(Upload::new(stream, body));
                }
                Ok(future)
            }
            Err(error) => Err(Some(error)),
        };
        self.response = Some(Response(future));
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        poll_upload(&mut self.upload, cx, &self.meter);
    }

    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        interims: &Interims,
    ) -> Poll<Result<ReceivedHead, Failure>> {
        if let Poll::Ready(response) = self.take_response(cx, interims) {
            return Poll::Ready(response);
        }
        self.poll(cx);
        self.take_response(cx, interims)
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(frame) = body.poll_frame(cx) {
            return Poll::Ready(frame);
        }
        poll_upload(&mut self.upload, cx, &self.meter);
        body.poll_frame(cx)
    }

    fn body_size(&self) -> BodySize {
        match &self.body {
            Some(body) => BodySize { length: body.left, is_end: body.stream.is_end_stream() },
            None => BodySize { length: None, is_end: true },
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
        !self.slot.is_first()
    }

    fn is_sent(&self) -> bool {
        self.upload.is_none()
    }

    fn takes_tunnels(&self) -> bool {
        self.slot.takes_tunnels()
    }

    fn into_tunnel(self: Box<Self>) -> Pin<Box<dyn Future<Output = Option<TunnelStream>>>> {
        let Http2Stream { tunnel, body, meter, slot, .. } = *self;
        let tunnel = tunnel.zip(body).map(|(send, body)| {
            let stream = Box::new(Http2Tunnel::new(send, body.stream, &meter, slot));
            TunnelStream { stream, meter, early: Bytes::new() }
        });
        Box::pin(std::future::ready(tunnel))
    }

    fn release(self: Box<Self>) {}
}

/// Sends what can be sent of the request's body now.
fn poll_upload(upload: &mut Option<Upload>, cx: &mut Context<'_>, meter: &Meter) {
    if upload.as_mut().is_some_and(|upload| upload.poll(cx, meter).is_ready()) {
        *upload = None;
    }
}

/// Whether the upstream has not processed the request, so that another may get it: its stream was refused, or is above those that
/// GOAWAY announces to be served (RFC 9113 §8.7).
fn is_unprocessed(error: &h2::Error) -> bool {
    let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    error.is_remote() && (refused || error.is_go_away())
}

fn failure(error: &h2::Error) -> Failure {
    match error.reason() {
        Some(Reason::HTTP_1_1_REQUIRED) => Failure::Http1Required,
        // This end has given the whole connection up, for what other streams have made of it.
        Some(Reason::ENHANCE_YOUR_CALM) if error.is_library() => Failure::Closed,
        _ if error.is_library() => Failure::Malformed,
        Some(Reason::REFUSED_STREAM) if error.is_reset() => Failure::StreamRefused,
        _ if error.is_reset() => Failure::StreamReset,
        _ => Failure::Closed,
    }
}

/// Returns the head of a request in HTTP/2 (RFC 9113 §8.3.1), whose body may be over. An upgrade, which only the proxy itself asks for, becomes an extended
/// CONNECT (RFC 8441 §5).
fn head(
    given: &UpstreamHead<'_>,
    is_over: bool,
    scheme: Scheme,
) -> Result<http::Request<()>, RequestError> {
    let mut head = http::Request::new(());
    *head.version_mut() = Version::HTTP_2;
    let is_upgrade = given.contains(&UPGRADE);
    *head.method_mut() = if is_upgrade {
        head.extensions_mut().insert(Protocol::from_static("websocket"));
        Method::CONNECT
    } else {
        Method::from_bytes(given.method().as_bytes()).map_err(|_| RequestError::Method)?
    };
    let authority = given.values(&HOST).next().and_then(|host| Authority::try_from(host).ok());
    let mut uri = uri::Parts::default();
    uri.scheme = Some(scheme);
    uri.authority = Some(authority.ok_or(RequestError::Authority)?);
    let target = PathAndQuery::try_from(given.target()).map_err(|_| RequestError::Path)?;
    uri.path_and_query = Some(target);
    *head.uri_mut() = Uri::from_parts(uri).map_err(|_| RequestError::Path)?;
    for (name, value) in given.lines() {
        let is_key = is_upgrade && name == SEC_WEBSOCKET_KEY;
        if [HOST, CONNECTION, UPGRADE].contains(name) || is_key {
            continue;
        }
        let value = HeaderValue::from_bytes(value).map_err(|_| RequestError::Fields)?;
        let added = head.headers_mut().try_append(name.clone(), value);
        added.map_err(|_| RequestError::Fields)?;
    }
    if let Some(length) = given.content_length(is_over).filter(|_| !is_upgrade) {
        head.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    Ok(head)
}

/// Body of a request while it is sent.
struct Upload {
    stream: SendStream<Bytes>,
    body: UploadBody,
    /// Part for which the upstream had no room yet.
    block: Bytes,
}

impl Upload {
    fn new(stream: SendStream<Bytes>, body: UploadBody) -> Upload {
        Upload { stream, body, block: Bytes::new() }
    }

    /// Sends what can be sent now. It is ready when the body is sent, or when it cannot be: the response says why.
    fn poll(&mut self, cx: &mut Context<'_>, meter: &Meter) -> Poll<()> {
        loop {
            if !self.block.is_empty() {
                let room = ready!(self.room(cx));
                if room == 0 {
                    return Poll::Ready(());
                }
                let part = self.block.split_to(room.min(self.block.len()));
                meter.on_written(part.len() as u64);
                let end = self.block.is_empty() && self.body.is_end_stream();
                if self.stream.send_data(part, end).is_err() || end {
                    return Poll::Ready(());
                }
                continue;
            }
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
                let _ = self.stream.send_data(Bytes::new(), true);
                return Poll::Ready(());
            };
            let Ok(frame) = frame else {
                self.stream.send_reset(Reason::CANCEL);
                return Poll::Ready(());
            };
            match frame.into_data() {
                Ok(block) => {
                    self.stream.reserve_capacity(block.len());
                    self.block = block;
                }
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    let _ = self.send_trailers(trailers);
                    return Poll::Ready(());
                }
            }
        }
    }

    fn send_trailers(&mut self, trailers: HeaderMap) -> Result<(), h2::Error> {
        if trailers.is_empty() {
            self.stream.send_data(Bytes::new(), true)
        } else {
            self.stream.send_trailers(trailers)
        }
    }

    /// Waits for room, and returns its bytes; 0 if the stream is closed.
    fn room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        while self.stream.capacity() == 0 {
            if !matches!(ready!(self.stream.poll_capacity(cx)), Some(Ok(_))) {
                return Poll::Ready(0);
            }
        }
        Poll::Ready(self.stream.capacity())
    }
}

/// Body of a response. It ends where the upstream says so, and breaks off if the stream ends in any other way, whatever the reason.
struct ResponseBody {
    stream: RecvStream,
    /// Bytes that are missing from the announced length.
    left: Option<u64>,
    /// Bytes of the last frame. The upstream may send as many more once the client has room for them.
    unreleased: usize,
    /// Whether the data has ended.
    trailers_next: bool,
}

impl ResponseBody {
    fn new(stream: RecvStream, headers: &HeaderMap) -> ResponseBody {
        // The connection has checked the first line, and that the body has this length.
        let left = BodySize::announced(headers).length;
        ResponseBody { stream, left, unreleased: 0, trailers_next: false }
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let unreleased = std::mem::take(&mut self.unreleased);
        if unreleased > 0 {
            // It fails only if the stream is closed, which the next read finds out.
            let _ = self.stream.flow_control().release_capacity(unreleased);
        }
        if !self.trailers_next {
            if let Some(data) = ready!(self.stream.poll_data(cx)) {
                return Poll::Ready(Some(data.map_err(|_| BrokenBody).map(|data| {
                    self.unreleased = data.len();
                    self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                    Frame::data(data)
                })));
            }
            self.trailers_next = true;
        }
        let trailers = ready!(self.stream.poll_trailers(cx)).transpose();
        Poll::Ready(trailers.map(|trailers| trailers.map(Frame::trailers).map_err(|_| BrokenBody)))
    }
}
