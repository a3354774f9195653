//! Makes one attempt at a request: sends it, and waits for the head of the final response.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::Instant;

use super::connection::{ResponseBody, SendError, UpstreamConnection};
use super::deadline::Deadline;
use super::failure::Failure;
use super::interim::Interims;
use super::stop::Stop;
use super::upload::{Upload, UploadBody};
use crate::http::exchange::handler::Responder;
use sluicegate_config::Proxy;

/// Events while an attempt waits for the response's head.
enum Event {
    Head(Result<http::Response<ResponseBody>, SendError>),
    Interim,
    Over(Stop),
}

/// Attempt to get a response on a connection.
pub(super) struct Attempt<'a> {
    pub(super) connection: &'a mut UpstreamConnection,
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
        request: http::Request<()>,
        reply: &mut Responder,
    ) -> Result<http::Response<ResponseBody>, Stop> {
        let (parts, ()) = request.into_parts();
        let body = UploadBody(Rc::clone(self.upload));
        let request = http::Request::from_parts(parts, body);
        let interims = Arc::<Interims>::default();
        let mut response = pin!(self.connection.send(request, &interims)?);
        let mut deadline = Deadline::until(Instant::now() + self.proxy.head_timeout);
        loop {
            let event = std::future::poll_fn(|cx| {
                let polled = self
                    .connection
                    .poll_with(cx, |cx| response.as_mut().poll(cx));
                // Informational responses that came before the head go to the client before it.
                if interims.too_many() {
                    return Poll::Ready(Event::Over(Stop::Failed(Failure::TooManyInterim)));
                }
                match polled {
                    Poll::Ready(head) => Poll::Ready(Event::Head(head)),
                    Poll::Pending if interims.waiting_any() => Poll::Ready(Event::Interim),
                    Poll::Pending => {
                        check_timeouts(cx, self.connection, self.upload, self.proxy, &mut deadline)
                    }
                }
            })
            .await;
            forward_interims(&interims, self.connection, reply).await?;
            match event {
                Event::Head(Ok(response)) => return Ok(response),
                Event::Head(Err(error)) => return Err(self.blame(&error)),
                Event::Over(stop) => return Err(stop),
                Event::Interim => {}
            }
        }
    }

    /// Returns the reason for which there is no response.
    fn blame(&self, error: &SendError) -> Stop {
        if self.upload.broken() {
            return Stop::Cancelled;
        }
        if error.is_unprocessed() {
            // As if it had not been sent.
            self.connection.meter().restart(Instant::now());
        }
        Stop::Failed(error.failure())
    }
}

/// Sends the informational responses that have arrived to the client.
async fn forward_interims(
    interims: &Arc<Interims>,
    connection: &mut UpstreamConnection,
    reply: &mut Responder,
) -> Result<(), Stop> {
    while let Some((status, fields)) = interims.next() {
        connection.drive(reply.interim(status, fields)).await?;
    }
    Ok(())
}

/// Ends the attempt at a timeout. `idle_timeout` bounds each pause of the request's body; once the body is sent,
/// `head_timeout` runs, whatever else arrives.
fn check_timeouts(
    cx: &mut Context<'_>,
    connection: &UpstreamConnection,
    upload: &Upload,
    proxy: &Proxy,
    timer: &mut Deadline,
) -> Poll<Event> {
    let written = connection.meter().written_at();
    let (deadline, stop) = if connection.is_sent(upload) {
        let deadline = written + proxy.head_timeout;
        (deadline, Stop::Failed(Failure::HeadTimeout))
    } else {
        let deadline = written.max(upload.moved_at()) + proxy.idle_timeout;
        let stop = if upload.client_stalled() {
            Stop::ClientStalled
        } else {
            Stop::Failed(Failure::WriteTimeout)
        };
        (deadline, stop)
    };
    if timer.is_over(cx, deadline) {
        Poll::Ready(Event::Over(stop))
    } else {
        Poll::Pending
    }
}
