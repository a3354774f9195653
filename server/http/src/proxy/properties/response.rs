//! Properties of every response that an upstream may send over HTTP/1.1: hyper's client reads the same in it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Request, Version};
use http_body::{Body as _, Frame};
use http_body_util::Empty;
use hyper::client::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::RUNTIME;
use crate::exchange::Fields;
use crate::proxy::failure::Failure;
use crate::proxy::interim::{Interims, MAX_INTERIM};
use crate::proxy::metered_stream::Open;
use crate::proxy::protocol::Http1Connection;
use crate::proxy::response::{lines, pass};
use crate::proxy::upload::{Upload, UploadBody};
use crate::proxy::upstream_head::UpstreamHead;

/// Largest head and largest trailer section, bytes.
const LIMIT: u64 = 1 << 10;
/// Smallest buffer that hyper takes, bytes.
const HYPER_BUFFER: usize = 64 << 10;
/// Rounds without progress after which hyper's client has done what it can.
const SILENT: usize = 4;
/// Start of the lengths that do not fit. hyper calls a head with one too large.
const TOO_LONG: &[u8] = b"1844674407370955161";

/// Most zeros and white space around the size of a chunk, bytes.
const PADDING: usize = 64;

/// What a client makes of the bytes of an upstream.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    /// Informational responses but 100, without the fields of the connection.
    interims: Vec<(u16, Fields)>,
    /// Status, version and fields; `None` while bytes are missing.
    head: Option<Result<(u16, Version, HeaderMap), Failure>>,
    body: Vec<u8>,
    /// Trailers behind the body, or that it has broken off; `None` while bytes are missing.
    end: Option<Result<HeaderMap, ()>>,
    /// Whether the connection can serve another request.
    is_reusable: bool,
}

impl Outcome {
    /// Takes the result of a poll for the body. Returns whether there may be more.
    fn take<E>(&mut self, polled: Poll<Option<Result<Frame<Bytes>, E>>>) -> bool {
        match polled {
            Poll::Pending => return false,
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => self.body.extend_from_slice(&data),
                Err(frame) => self.end = frame.into_trailers().ok().map(Ok),
            },
            Poll::Ready(Some(Err(_))) => self.end = Some(Err(())),
            Poll::Ready(None) => self.end = Some(Ok(HeaderMap::new())),
        }
        self.end.is_none()
    }
}

/// Upstream that sends these bytes, piece by piece, once it has read something.
#[derive(Debug)]
struct Canned {
    pieces: VecDeque<Vec<u8>>,
    /// Whether it closes the connection behind them.
    closes: bool,
    is_asked: bool,
    reads: Rc<Cell<usize>>,
}

impl Canned {
    /// Sends `bytes` in pieces of `size`.
    fn new(bytes: &[u8], size: usize, closes: bool) -> Canned {
        let pieces = bytes.chunks(size.max(1)).map(<[u8]>::to_vec).collect();
        Canned { pieces, closes, is_asked: false, reads: Rc::default() }
    }
}

impl AsyncRead for Canned {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Canned { pieces, closes, is_asked, reads } = &mut *self;
        let Some(piece) = pieces.front_mut().filter(|_| *is_asked) else {
            return if *closes && *is_asked { Poll::Ready(Ok(())) } else { Poll::Pending };
        };
        let length = piece.len().min(buf.remaining());
        buf.put_slice(&piece[..length]);
        piece.drain(..length);
        if piece.is_empty() {
            pieces.pop_front();
        }
        reads.set(reads.get() + 1);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Canned {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_asked = true;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Reads bytes, behind a byte that says how they arrive, as responses to GET or HEAD, and compares what the proxy and what hyper make of
/// them. Returns whether there is a whole head.
pub fn response(bytes: &[u8]) -> bool {
    let Some((how, bytes)) = bytes.split_first() else {
        return false;
    };
    let (is_head, closes) = (how & 1 == 1, how & 2 == 2);
    let size = match how >> 2 {
        0 => bytes.len(),
        size => size.into(),
    };
    let method = if is_head { "HEAD" } else { "GET" };
    compare(method, || Canned::new(bytes, size, closes))
}

/// Compares what the proxy and what hyper make of an upstream's response. Returns whether there is a whole head.
fn compare(method: &str, upstream: impl Fn() -> Canned) -> bool {
    let ours = ours(method, upstream());
    let mut theirs = RUNTIME.with(|runtime| runtime.block_on(theirs(method, upstream())));
    if ours.head == Some(Err(Failure::TooManyInterim)) {
        // hyper leaves the count to its user.
        return false;
    }
    let sent: Vec<u8> = upstream().pieces.into_iter().flatten().collect();
    let mut paddings = sent.split(|byte| !b"0 \t".contains(byte));
    if ours.end == Some(Err(())) && paddings.any(|padding| padding.len() > PADDING) {
        // hyper has no bound for it.
        return false;
    }
    if let Some(Ok((204, _, fields))) = &ours.head
        && (fields.contains_key(CONTENT_LENGTH) || fields.contains_key(TRANSFER_ENCODING))
    {
        // hyper expects nothing of the body that the response has announced.
        theirs.is_reusable = ours.is_reusable;
    }
    let is_too_long = sent.windows(TOO_LONG.len()).any(|part| part == TOO_LONG);
    if is_too_long && theirs.head == Some(Err(Failure::HeadTooLarge)) {
        theirs.head = Some(Err(Failure::Malformed));
    }
    assert_eq!(ours, theirs, "{method}: {:?}", upstream());
    matches!(ours.head, Some(Ok(_)))
}

/// Returns what the proxy makes of an upstream's response.
fn ours(method: &str, upstream: Canned) -> Outcome {
    let mut cx = Context::from_waker(Waker::noop());
    let open = Open::new(&Rc::default());
    let mut connection = Http1Connection::new(Box::new(upstream), open, LIMIT);
    let interims = Interims::default();
    let mut outcome = Outcome::default();
    let head = UpstreamHead::new(method, 0, |target| target.push(b'/')).expect("a valid head");
    connection.send(&head, UploadBody(Upload::none()));
    let head = connection.poll_head(&mut cx, &interims);
    outcome.interims.extend(std::iter::from_fn(|| interims.next()));
    let Poll::Ready(head) = head else {
        return outcome;
    };
    let whole = head.is_ok();
    outcome.head = Some(head.map(|response| {
        (response.status.as_u16(), response.version, response.fields.into_iter().collect())
    }));
    let is_switched = matches!(outcome.head, Some(Ok((101, ..))));
    if whole && !is_switched {
        while outcome.take(connection.poll_body(&mut cx)) {}
        if matches!(outcome.end, Some(Ok(_))) {
            connection.rest();
            outcome.is_reusable = connection.is_ready();
        }
    }
    outcome
}

/// Returns what hyper makes of an upstream's response.
async fn theirs(method: &str, upstream: Canned) -> Outcome {
    let reads = Rc::clone(&upstream.reads);
    let mut builder = Builder::new();
    let limit = usize::try_from(LIMIT).unwrap_or(usize::MAX);
    builder.max_buf_size(HYPER_BUFFER).max_header_size(limit);
    let opened = builder.handshake(TokioIo::new(upstream)).await;
    let (mut sender, connection) = opened.expect("hyper takes any stream");
    let mut connection = pin!(connection);
    let request = Request::builder().method(method).header("host", "example.org");
    let request = request.body(Empty::<Bytes>::new());
    let mut request = request.expect("a valid request");
    let interims = Arc::<Mutex<Vec<(u16, HeaderMap)>>>::default();
    let collected = Arc::clone(&interims);
    hyper::ext::on_informational(&mut request, move |response| {
        let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
        collected.push((response.status().as_u16(), response.headers().clone()));
    });
    let mut response = pin!(sender.send_request(request));
    let (mut outcome, mut body, mut is_open) = (Outcome::default(), None, true);
    std::future::poll_fn(|cx| {
        let mut silent = 0;
        while silent < SILENT {
            let before = (reads.get(), outcome.body.len(), outcome.head.is_some());
            is_open = is_open && connection.as_mut().poll(cx).is_pending();
            if outcome.head.is_none()
                && let Poll::Ready(response) = response.as_mut().poll(cx)
            {
                let response = response.map(http::Response::into_parts);
                outcome.head = Some(match response {
                    Ok((head, incoming)) => {
                        body = Some(incoming).filter(|_| head.status != 101);
                        Ok((head.status.as_u16(), head.version, head.headers))
                    }
                    Err(error) => Err(failure(&error)),
                });
            }
            while let Some(incoming) = &mut body
                && outcome.end.is_none()
                && outcome.take(Pin::new(incoming).poll_frame(cx))
            {}
            let after = (reads.get(), outcome.body.len(), outcome.head.is_some());
            silent = if before == after { silent + 1 } else { 0 };
        }
        Poll::Ready(())
    })
    .await;
    let collected = interims.lock().unwrap_or_else(PoisonError::into_inner);
    let own = collected.iter().filter(|(status, _)| *status != 100);
    let own = own.map(|(status, headers)| (*status, pass(lines(headers.clone()))));
    outcome.interims = own.take(MAX_INTERIM as usize).collect();
    let is_http11 = matches!(outcome.head, Some(Ok((_, Version::HTTP_11, _))));
    let is_whole = matches!(outcome.end, Some(Ok(_)));
    outcome.is_reusable = is_open && is_http11 && is_whole && sender.is_ready();
    outcome
}

fn failure(error: &hyper::Error) -> Failure {
    if error.is_parse_too_large() {
        Failure::HeadTooLarge
    } else if error.is_parse() {
        Failure::Malformed
    } else {
        Failure::Closed
    }
}

#[cfg(test)]
mod tests;
