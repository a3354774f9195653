//! An exchange on an HTTP/2 connection to an upstream.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, SEC_WEBSOCKET_KEY, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::uri::{Authority, Scheme, Uri};
use http::{HeaderMap, Method, Version};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::http2::StreamSlot;
use super::http2_tunnel::Http2Tunnel;
use super::interim::Interims;
use super::metered_stream::Meter;
use super::tunnel::TunnelStream;
use super::unsendable::Unsendable;
use super::upload::UploadBody;

/// Stream of one exchange. Dropping it and the response cancels the exchange.
pub(super) struct Http2Stream {
    upload: Option<Upload>,
    /// Direction to the upstream of the tunnel that the request has asked for.
    tunnel: Option<SendStream<Bytes>>,
    scheme: Scheme,
    meter: Rc<Meter>,
    slot: StreamSlot,
}

impl Http2Stream {
    /// Returns the stream in a slot, for a request of this scheme.
    pub(super) fn new(slot: StreamSlot, scheme: Scheme) -> Http2Stream {
        Http2Stream {
            upload: None,
            tunnel: None,
            scheme,
            meter: Rc::new(Meter::new(Instant::now())),
            slot,
        }
    }

    /// Sends the head of a request as HTTP/1.1 has it; [`Http2Stream::poll`] sends the body. Returns the response to come, whose
    /// informational ones go to `interims`.
    ///
    /// # Errors
    /// The value of `host` is no authority.
    pub(super) fn send(
        &mut self,
        request: http::Request<UploadBody>,
        interims: Arc<Interims>,
    ) -> Result<
        impl Future<Output = Result<http::Response<Http2Body>, h2::Error>> + use<>,
        Unsendable,
    > {
        let (parts, body) = request.into_parts();
        let is_tunnel = parts.headers.contains_key(UPGRADE);
        let head = head(parts, self.scheme.clone())?;
        let end = !is_tunnel && body.is_end_stream();
        self.meter.restart(Instant::now());
        let mut response = match self.slot.sender().send_request(head, end) {
            Ok((response, stream)) => {
                self.meter.on_written(1);
                if is_tunnel {
                    self.tunnel = Some(stream);
                } else if !end {
                    self.upload = Some(Upload::new(stream, body));
                }
                Ok(response)
            }
            Err(error) => Err(Some(error)),
        };
        Ok(std::future::poll_fn(move |cx| {
            let response = match &mut response {
                Ok(response) => response,
                Err(error) => {
                    let closed = || Reason::INTERNAL_ERROR.into();
                    return Poll::Ready(Err(error.take().unwrap_or_else(closed)));
                }
            };
            while let Poll::Ready(Some(interim)) = response.poll_informational(cx) {
                let interim = interim?;
                interims.add(interim.status(), interim.headers());
            }
            let response = ready!(Pin::new(response).poll(cx))?;
            Poll::Ready(Ok(with_body(response)))
        }))
    }

    /// Returns whether the upstream takes requests for tunnels.
    pub(super) fn takes_tunnels(&self) -> bool {
        self.slot.takes_tunnels()
    }

    /// Returns the byte stream of the tunnel that the response with this body has opened.
    pub(super) fn into_tunnel(self, body: Http2Body) -> Option<TunnelStream> {
        let meter = self.meter;
        let tunnel = Http2Tunnel::new(self.tunnel?, body.stream, &meter, self.slot);
        Some(TunnelStream { stream: Box::new(tunnel), meter, early: Bytes::new() })
    }

    /// Sends what can be sent of the request's body now.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(upload) = &mut self.upload
            && upload.poll(cx, &self.meter).is_ready()
        {
            self.upload = None;
        }
    }

    /// Returns whether the connection has taken the whole request.
    pub(super) fn is_sent(&self) -> bool {
        self.upload.is_none()
    }

    /// Returns the meter of the exchange. It counts blocks of the request's body, not the bytes of its head.
    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns whether another exchange has used the connection before.
    pub(super) fn is_reused(&self) -> bool {
        !self.slot.is_first()
    }
}

/// Returns whether the upstream has not processed the request, so that another may get it: its stream was refused, or is above
/// those that GOAWAY announces to be served (RFC 9113 §8.7).
pub(super) fn is_unprocessed(error: &h2::Error) -> bool {
    let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    error.is_remote() && (refused || error.is_go_away())
}

/// Returns the head of a request in HTTP/2 (RFC 9113 §8.3.1). An upgrade, which only the proxy itself asks for, becomes an extended
/// CONNECT (RFC 8441 §5).
fn head(mut parts: Parts, scheme: Scheme) -> Result<http::Request<()>, Unsendable> {
    let host = parts.headers.remove(HOST);
    let authority = host.as_ref().and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let mut uri = parts.uri.into_parts();
    uri.scheme = Some(scheme);
    uri.authority = Some(authority.ok_or(Unsendable::Authority)?);
    let uri = Uri::from_parts(uri).map_err(|_| Unsendable::Path)?;
    parts.headers.remove(CONNECTION);
    parts.headers.remove(TRANSFER_ENCODING);
    let mut head = http::Request::new(());
    *head.method_mut() = parts.method;
    if parts.headers.remove(UPGRADE).is_some() {
        parts.headers.remove(SEC_WEBSOCKET_KEY);
        *head.method_mut() = Method::CONNECT;
        head.extensions_mut().insert(Protocol::from_static("websocket"));
    }
    *head.version_mut() = Version::HTTP_2;
    *head.uri_mut() = uri;
    *head.headers_mut() = parts.headers;
    Ok(head)
}

fn with_body(response: http::Response<RecvStream>) -> http::Response<Http2Body> {
    // The connection has checked the first line, and that the body has this length.
    let length = response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let left = length.and_then(|length| length.parse().ok());
    response.map(|stream| Http2Body { stream, left, unreleased: 0, trailers_next: false })
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

/// Body of a response. It ends where the upstream says so, and fails if the stream ends in any other way, whatever the reason.
pub(super) struct Http2Body {
    stream: RecvStream,
    /// Bytes that are missing from the announced length.
    left: Option<u64>,
    /// Bytes of the last frame. The upstream may send as many more once the client has room for them.
    unreleased: usize,
    /// Whether the data has ended.
    trailers_next: bool,
}

impl Body for Http2Body {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let unreleased = std::mem::take(&mut self.unreleased);
        if unreleased > 0 {
            // It fails only if the stream is closed, which the next read finds out.
            let _ = self.stream.flow_control().release_capacity(unreleased);
        }
        if !self.trailers_next {
            if let Some(data) = ready!(self.stream.poll_data(cx)) {
                return Poll::Ready(Some(data.map(|data| {
                    self.unreleased = data.len();
                    self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                    Frame::data(data)
                })));
            }
            self.trailers_next = true;
        }
        let trailers = ready!(self.stream.poll_trailers(cx)).transpose();
        Poll::Ready(trailers.map(|trailers| trailers.map(Frame::trailers)))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
