//! Bodies of requests, as HTTP/1.1 and HTTP/2 bring them.

use std::io;

use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sluicegate_http::exchange::Fields;

use super::request::trailers;

/// Body of a request.
#[derive(Debug)]
pub(super) enum RequestBody {
    /// Nothing: what follows CONNECT of HTTP/2 is no body.
    Empty,
    Http1(Incoming),
    Http2(RecvStream),
}

/// Next part of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A block.
    Data(Bytes),
    /// The end, perhaps with trailers.
    End(Option<Fields>),
    /// The framing or the trailers are malformed.
    Malformed,
    /// The client has gone.
    Gone,
}

impl RequestBody {
    /// Returns whether the whole body was read.
    pub(super) fn is_end_stream(&self) -> bool {
        match self {
            RequestBody::Empty => true,
            RequestBody::Http1(body) => body.is_end_stream(),
            RequestBody::Http2(stream) => stream.is_end_stream(),
        }
    }

    /// Waits for the next part. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Part {
        match self {
            RequestBody::Empty => Part::End(None),
            RequestBody::Http1(body) => next_of_http1(body).await,
            RequestBody::Http2(stream) => next_of_http2(stream).await,
        }
    }
}

async fn next_of_http1(body: &mut Incoming) -> Part {
    match body.frame().await {
        None => Part::End(None),
        Some(Err(error)) if is_of_framing(&error) => Part::Malformed,
        Some(Err(_)) => Part::Gone,
        Some(Ok(frame)) => match frame.into_data() {
            Ok(block) => Part::Data(block),
            Err(frame) => frame.into_trailers().map_or(Part::Malformed, end),
        },
    }
}

/// A stream that ends in any other way than the client's END_STREAM leaves the body cut, whatever the reason of its reset.
async fn next_of_http2(stream: &mut RecvStream) -> Part {
    match stream.data().await {
        Some(Ok(block)) => {
            // It fails only if the stream is closed, which the next read finds out.
            let _ = stream.flow_control().release_capacity(block.len());
            Part::Data(block)
        }
        Some(Err(_)) => Part::Gone,
        None => match stream.trailers().await {
            Ok(map) => map.map_or(Part::End(None), end),
            Err(_) => Part::Gone,
        },
    }
}

/// Ends a body with trailers.
fn end(map: HeaderMap) -> Part {
    trailers(&map).map_or(Part::Malformed, |fields| Part::End(Some(fields)))
}

/// Returns whether hyper could not read the chunks of a body.
fn is_of_framing(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    cause.is_some_and(|cause: &io::Error| {
        matches!(cause.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)
    })
}
