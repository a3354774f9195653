//! A stream of HTTP/2: a request and its response.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Error, Reason, RecvStream, SendStream};
use http::{Method, Request, Response};
use http_body::Body as _;
use http_body_util::Either;
use tokio::task::spawn_local;

use super::head;
use crate::tcp::body::ResponseBody;
use crate::tcp::connection::Connection;
use crate::tcp::request_body::RequestBody;
use crate::tcp::service::{Answer, respond};
use crate::tcp::stream_task::StreamTask;
use crate::tcp::tunnel::TunnelSlot;
use crate::tcp::window;

/// Side of the server. Dropping it before the response has ended resets the stream.
struct Stream {
    connection: Rc<Connection>,
    reply: SendResponse<Bytes>,
    task: StreamTask,
}

/// Serves a request: here if `is_here` and the response is at hand, and otherwise in a task of its own.
pub(super) fn start(
    connection: &Rc<Connection>,
    request: Request<RecvStream>,
    reply: SendResponse<Bytes>,
    is_here: bool,
    cx: &mut Context<'_>,
) {
    let task = StreamTask::default();
    let stream = Stream { connection: Rc::clone(connection), reply, task: task.clone() };
    let mut serving = Box::pin(async move {
        tokio::select! {
            // What the task has not sent when it is cancelled is not to be sent.
            biased;
            () = task.cancelled() => {}
            served = stream.serve(request) => if let Err(error) = served {
                tracing::trace!(%error, "a stream of HTTP/2 ended early");
            },
        }
    });
    // The task polls it again, and is then the one that is woken.
    if !is_here || serving.as_mut().poll(cx).is_pending() {
        spawn_local(serving);
    }
}

impl Stream {
    /// Serves the request.
    ///
    /// # Errors
    /// The client has reset the stream, or the connection has ended.
    async fn serve(mut self, request: Request<RecvStream>) -> Result<(), Error> {
        let (parts, received) = request.into_parts();
        // What follows CONNECT is no body (RFC 9113 §8.5).
        let (body, tunnelled) = if parts.method == Method::CONNECT {
            (RequestBody::Empty, Some(received))
        } else {
            (RequestBody::Http2(received), None)
        };
        let slot = TunnelSlot::default();
        let request = Request::from_parts(parts, body);
        let (parts, body) = self.response(request, &slot).await?.into_parts();
        let head = head::last(parts);
        match (slot.take(), tunnelled, body) {
            (Some(tunnel), Some(received), _) => {
                let sent = self.begin(head, false)?;
                // The tasks of other streams need no room for it.
                Box::pin(tunnel.run_on_stream(received, sent)).await;
            }
            (_, _, Either::Left(body)) if !body.is_end_stream() => {
                let sent = self.begin(head, false)?;
                send_body(body, sent).await?;
            }
            _ => {
                self.begin(head, true)?;
            }
        }
        Ok(())
    }

    /// Waits for the response, and sends informational ones meanwhile.
    async fn response(
        &mut self,
        request: Request<RequestBody>,
        slot: &TunnelSlot,
    ) -> Result<Answer, Error> {
        let task = Some(self.task.clone());
        // Freed before the body is sent.
        let response = respond(&self.connection, request, Rc::clone(slot), task);
        let mut response = Box::pin(response);
        poll_fn(|cx| {
            let polled = response.as_mut().poll(cx);
            if let Poll::Ready(reason) = self.reply.poll_reset(cx)? {
                return Poll::Ready(Err(reason.into()));
            }
            while let Poll::Ready((status, fields)) = self.task.poll_interim(cx) {
                if let Some(head) = head::interim(status, fields) {
                    self.reply.send_informational(head)?;
                }
            }
            polled.map(Ok)
        })
        .await
    }

    /// Begins the final response.
    fn begin(&mut self, head: Response<()>, is_end: bool) -> Result<SendStream<Bytes>, Error> {
        let begun = self.reply.send_response(head, is_end);
        if begun.is_err() {
            self.reply.send_reset(Reason::INTERNAL_ERROR);
        }
        begun
    }
}

/// Sends a body as fast as the client's windows allow.
///
/// # Errors
/// The client has reset the stream, or the connection has ended.
async fn send_body(mut body: ResponseBody, mut stream: SendStream<Bytes>) -> Result<(), Error> {
    loop {
        let next = poll_fn(|cx| {
            // The body may wait for long.
            if let Poll::Ready(reason) = stream.poll_reset(cx)? {
                return Poll::Ready(Err(Error::from(reason)));
            }
            Pin::new(&mut body).poll_frame(cx).map(Ok)
        });
        let Some(frame) = next.await? else {
            return stream.send_data(Bytes::new(), true);
        };
        let Ok(frame) = frame else {
            stream.send_reset(Reason::INTERNAL_ERROR);
            return Ok(());
        };
        match frame.into_data() {
            Ok(block) => {
                let is_end = body.is_end_stream();
                if !block.is_empty() {
                    // A stream that asked for more would take the room of the connection's window from the others, block by block.
                    stream.reserve_capacity(1);
                    if stream.capacity() == 0 {
                        body.on_shut_window();
                    }
                    window::room(&mut stream).await?;
                }
                stream.send_data(block, is_end)?;
                if is_end {
                    return Ok(());
                }
            }
            Err(frame) => {
                // Room of the connection's window that it does not need.
                stream.reserve_capacity(0);
                return stream.send_trailers(frame.into_trailers().unwrap_or_default());
            }
        }
    }
}
