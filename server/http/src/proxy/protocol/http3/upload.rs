//! Body of a request over HTTP/3 while it is sent.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http::HeaderMap;
use http_body::Body as _;
use sluicegate_quic_client::{BodySent, Http3Client};

use super::fields;
use super::inbox::Inbox;
use super::shared_session::SharedSession;
use crate::proxy::metered_stream::Meter;
use crate::proxy::upload::UploadBody;

/// Part of a body that waits for room.
enum Part {
    Block(Bytes),
    Trailers(HeaderMap),
    End,
}

/// Body of a request while it is sent.
pub(super) struct Http3Upload {
    stream: u64,
    body: UploadBody,
    part: Option<Part>,
}

impl Http3Upload {
    pub(super) fn new(stream: u64, body: UploadBody) -> Http3Upload {
        Http3Upload { stream, body, part: None }
    }

    /// Sends what can be sent now. It is ready when the body is sent, or when it cannot be: the response says why.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        shared: &SharedSession,
        inbox: &Inbox,
        meter: &Meter,
    ) -> Poll<()> {
        inbox.wants_room.set(false);
        loop {
            let part = match self.part.take() {
                Some(part) => part,
                None => match ready!(self.next_part(cx)) {
                    Some(part) => part,
                    None => {
                        shared.session().client.cancel_body(self.stream);
                        shared.wake();
                        return Poll::Ready(());
                    }
                },
            };
            let sent = self.send(&mut shared.session().client, part, meter);
            shared.wake();
            match sent {
                Some(true) => return Poll::Ready(()),
                Some(false) => {}
                None => {
                    inbox.wants_room.set(true);
                    inbox.wait(cx);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Waits for the next part; `None` if the client has cancelled the body.
    fn next_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Part>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            Some(Err(_)) => return Poll::Ready(None),
            None => return Poll::Ready(Some(Part::End)),
        };
        Poll::Ready(Some(match frame.into_data() {
            Ok(block) => Part::Block(block),
            Err(frame) => match frame.into_trailers() {
                Ok(trailers) if !trailers.is_empty() => Part::Trailers(trailers),
                _ => Part::End,
            },
        }))
    }

    /// Sends a part. Returns whether it is the last one, or `None` if there is no room for all of it.
    fn send(&mut self, client: &mut Http3Client, part: Part, meter: &Meter) -> Option<bool> {
        let (sent, part) = match part {
            Part::Block(mut block) => {
                let is_last = self.body.is_end_stream();
                // A frame without content says nothing, unless it ends the stream.
                if block.is_empty() && !is_last {
                    return Some(false);
                }
                let sent = client.send_body(self.stream, &block, is_last);
                if let BodySent::Bytes(count) = sent {
                    meter.on_written(count as u64);
                    block.advance(count);
                    if block.is_empty() {
                        return Some(is_last);
                    }
                }
                (sent, Part::Block(block))
            }
            Part::Trailers(trailers) => {
                let section = fields::trailers(&trailers);
                (client.send_trailers(self.stream, &section), Part::Trailers(trailers))
            }
            Part::End => (client.send_body(self.stream, b"", true), Part::End),
        };
        match (sent, part) {
            // The upstream has its response already, or the connection ends.
            (BodySent::Stopped, _) => Some(true),
            (BodySent::Bytes(_), Part::Trailers(_) | Part::End) => Some(true),
            (BodySent::Bytes(_) | BodySent::Blocked, part) => {
                self.part = Some(part);
                None
            }
        }
    }
}
