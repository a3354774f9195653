//! Makes one attempt at a request: sends it, and waits for the head of the final response.

use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::exchange_error::ExchangeError;
use super::failure::Failure;
use super::interim::Interims;
use super::protocol::UpstreamStream;
use super::response::ReceivedHead;
use super::upload::{Upload, UploadBody};
use super::upstream_head::UpstreamHead;
use crate::exchange::handler::Responder;
use sluicegate_config::Proxy;

/// Events while an attempt waits for the response's head.
enum Event {
    Head(Received),
    Interim,
}

/// Head of the final response, or the reason for which there is none.
type Received = Result<ReceivedHead, Failure>;

/// Attempt to get a response on a stream.
pub(super) struct Attempt<'a> {
    pub(super) stream: &'a mut dyn UpstreamStream,
    pub(super) upload: &'a Rc<Upload>,
    pub(super) proxy: &'a Proxy,
}

impl Attempt<'_> {
    /// Sends the request and waits for the final response. Informational responses go to the client at once.
    ///
    /// # Errors
    /// Why no final response has arrived.
    pub(super) async fn run(
        self,
        head: &UpstreamHead<'_>,
        reply: &mut Responder,
    ) -> Result<ReceivedHead, ExchangeError> {
        let body = UploadBody(Rc::clone(self.upload));
        let interims = Interims::default();
        self.stream.send(head, body)?;
        let mut received = None;
        loop {
            let event = std::future::poll_fn(|cx| {
                receive(cx, self.stream, &mut received, &interims)?;
                // Informational responses that came before the head go to the client before it.
                if interims.waiting_any() {
                    return Poll::Ready(Ok(Event::Interim));
                }
                match received.take() {
                    Some(head) => Poll::Ready(Ok(Event::Head(head))),
                    None => check_timeouts(cx, self.stream, self.upload, self.proxy).map(Err),
                }
            })
            .await?;
            match event {
                Event::Head(Ok(response)) => return Ok(response),
                Event::Head(Err(failure)) => return Err(self.error(failure)),
                Event::Interim => {}
            }
            while let Some((status, fields)) = interims.next() {
                let mut sent = pin!(reply.interim(status, fields));
                // The client may be slow. Meanwhile the upstream may send no more than it may in all.
                std::future::poll_fn(|cx| {
                    receive(cx, self.stream, &mut received, &interims)?;
                    sent.as_mut().poll(cx).map_err(ExchangeError::from)
                })
                .await?;
            }
        }
    }

    /// Returns the reason for which there is no response.
    fn error(&self, failure: Failure) -> ExchangeError {
        if self.upload.broken() { ExchangeError::Cancelled } else { ExchangeError::Failed(failure) }
    }
}

/// Moves the stream, and takes the response once it has come.
///
/// # Errors
/// The upstream has sent too many informational responses.
fn receive(
    cx: &mut Context<'_>,
    stream: &mut dyn UpstreamStream,
    head: &mut Option<Received>,
    interims: &Interims,
) -> Result<(), ExchangeError> {
    if head.is_some() {
        stream.poll(cx);
    } else if let Poll::Ready(received) = stream.poll_response(cx, interims) {
        *head = Some(received);
    }
    if interims.too_many() {
        return Err(ExchangeError::Failed(Failure::TooManyInterim));
    }
    Ok(())
}

/// Ends the attempt at a timeout. `idle_timeout` bounds each pause of the request's body; once the body is sent,
/// `head_timeout` runs, whatever else arrives.
fn check_timeouts(
    cx: &mut Context<'_>,
    stream: &mut dyn UpstreamStream,
    upload: &Upload,
    proxy: &Proxy,
) -> Poll<ExchangeError> {
    let written = stream.meter().written_at();
    let (deadline, error) = if stream.is_sent() {
        let deadline = written + proxy.head_timeout;
        (deadline, ExchangeError::Failed(Failure::HeadTimeout))
    } else {
        let deadline = written.max(upload.moved_at()) + proxy.idle_timeout;
        let error = if upload.client_stalled() {
            ExchangeError::ClientStalled
        } else {
            ExchangeError::Failed(Failure::WriteTimeout)
        };
        (deadline, error)
    };
    if stream.is_over(cx, deadline) { Poll::Ready(error) } else { Poll::Pending }
}
