//! Has a script respond to one request.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use bytes::Bytes;
use sluicegate_base::observe::access::UpstreamTimes;
use tokio::time::Instant;

use super::definition::{Admitted, RouteFastCgi, ThreadState};
use super::error_log::ErrorLog;
use super::exchange_error::ExchangeError;
use super::head::{HeadReader, remove_commands};
use super::params::Facts;
use super::records::Status;
use super::relay::Relay;
use super::script::Script;
use super::session::{Event, Session};
use super::upload::Upload;
use crate::exchange::handler::{Reporter, RequestBody, Responder};
use crate::exchange::message::{HandlerReport, Head, Request};
use crate::proxy::{BodySize, Deadline, Failure, response_head};

/// Exchange with a FastCGI server.
pub(super) struct Exchange<'a> {
    thread: ThreadState<'a>,
    route: &'a RouteFastCgi,
    admitted: Admitted<'a>,
    request: &'a Request,
    reporter: Reporter,
    begun: Instant,
    upstream: RefCell<Option<Arc<str>>>,
    times: Cell<UpstreamTimes>,
}

/// Response whose head has been received.
struct Response<'a> {
    session: Session<'a>,
    errors: ErrorLog,
    head: Head,
    /// Beginning of the body.
    first: Bytes,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(
        thread: ThreadState<'a>,
        route: &'a RouteFastCgi,
        admitted: Admitted<'a>,
        request: &'a Request,
        reporter: Reporter,
    ) -> Exchange<'a> {
        Exchange {
            thread,
            route,
            admitted,
            request,
            reporter,
            begun: Instant::now(),
            upstream: RefCell::default(),
            times: Cell::default(),
        }
    }

    /// Passes the request to a server, and the response to the client, or responds in the script's stead. The script is below `prefix`.
    pub(super) async fn run(
        &self,
        prefix: &str,
        script: &Script,
        body: RequestBody,
        reply: Responder,
    ) {
        let pools = self.thread.pools;
        pools.count(|c| c.requests += 1);
        let ended = match self.begin(prefix, script, body).await {
            Ok(response) => self.respond(response, reply).await,
            Err(error) => {
                self.report(Some(error));
                if let Some(mut response) = error.reply() {
                    self.admitted.rules.error_pages().apply(&mut response);
                    // Whether the client receives it or not, the exchange has failed.
                    let _ = reply.reply(response, self.request.head.method == "HEAD").await;
                }
                Err(error)
            }
        };
        match ended {
            Ok(()) => pools.count(|c| c.answered += 1),
            Err(ExchangeError::Cancelled | ExchangeError::ClientStalled) => {
                pools.count(|c| c.cancelled += 1)
            }
            Err(ExchangeError::LengthRequired | ExchangeError::NoRoom) => {
                pools.count(|c| c.refused += 1)
            }
            // Failures are counted already.
            Err(ExchangeError::Failed(_)) => {}
        }
    }

    /// Sends the request, and receives the head of the response.
    async fn begin(
        &self,
        prefix: &str,
        script: &Script,
        body: RequestBody,
    ) -> Result<Response<'a>, ExchangeError> {
        let settings = &*self.route.settings;
        let upload = Upload::begin(self.request, body, settings, self.thread.buffers);
        let (upload, length) = upload.await?;
        let asked = Instant::now();
        let (client, limit) = (self.request.peer.address, settings.connect_timeout);
        let pools = self.thread.pools;
        let opened = pools.open(&self.route.pool, client.into(), limit, &self.reporter);
        let stream = opened.await.map_err(|(failure, upstream)| {
            self.upstream.replace(upstream);
            ExchangeError::Failed(failure)
        })?;
        let mut errors = ErrorLog::new(stream.label(), &script.file);
        self.upstream.replace(Some(Arc::clone(stream.label())));
        self.times.set(UpstreamTimes {
            begun: Some(self.begun.into_std()),
            connect: Some(asked.elapsed()),
            ..UpstreamTimes::default()
        });
        // Also for an exchange that takes too long for its route.
        self.report(None);
        let facts = Facts {
            request: self.request,
            settings,
            rules: self.admitted.rules,
            user: self.admitted.user,
            prefix,
            script,
            length,
        };
        let mut session = Session::new(stream, &facts.pairs(), upload);
        match self.head(&mut session, &mut errors).await {
            Ok((head, first)) => {
                session.stream().on_success();
                Ok(Response { session, errors, head, first })
            }
            Err(error) => {
                if let ExchangeError::Failed(failure) = error {
                    session.stream().on_failure(failure);
                }
                Err(error)
            }
        }
    }

    /// Waits for the head of the response; returns it with the beginning of the body.
    async fn head(
        &self,
        session: &mut Session<'_>,
        errors: &mut ErrorLog,
    ) -> Result<(Head, Bytes), ExchangeError> {
        let settings = &*self.route.settings;
        let mut reader = HeadReader::new(settings.header_bytes);
        let mut timer = Deadline::default();
        let failed = |failure| Err(ExchangeError::Failed(failure));
        loop {
            let event = std::future::poll_fn(|cx| {
                session.poll_send(cx)?;
                match session.late(cx, settings, &mut timer) {
                    Some(error) => std::task::Poll::Ready(Err(error)),
                    None => session.poll_event(cx).map_err(ExchangeError::Failed),
                }
            });
            match event.await? {
                Event::Output(mut piece) => {
                    let response = reader.push(&mut piece).map_err(ExchangeError::Failed)?;
                    if let Some(mut response) = response {
                        if remove_commands(response.headers_mut()) {
                            self.warn_of_commands();
                        }
                        let is_head = self.request.head.method == "HEAD";
                        let size = BodySize::announced(response.headers());
                        let head = response_head(response.into(), size, is_head);
                        let head = head.map_err(ExchangeError::Failed)?;
                        return Ok((head, piece));
                    }
                }
                Event::Error(text) => errors.push(&text),
                // The status says why there is none.
                Event::OutputEnd => {}
                Event::End(Status::Refused) => return failed(Failure::RequestRefused),
                Event::End(Status::Complete) => return failed(Failure::Malformed),
                Event::Closed => return failed(Failure::Closed),
            }
        }
    }

    fn warn_of_commands(&self) {
        let path = &*self.request.head.path;
        tracing::warn!(
            path,
            "a script asks for a file by X-Accel-Redirect or X-Sendfile, which are not supported: have it send the file itself"
        );
    }

    /// Forwards the response.
    async fn respond(&self, response: Response<'_>, reply: Responder) -> Result<(), ExchangeError> {
        let Response { mut session, mut errors, head, first } = response;
        let (length, end) = (head.length, head.end);
        let times = self.times.get().with_head(self.begun.elapsed(), end);
        self.times.set(times);
        self.report(None);
        let mut writer = reply.head(head).await?;
        let idle_timeout = self.route.settings.idle_timeout;
        let mut relay = Relay::new(&mut session, &mut errors, idle_timeout, length);
        if end {
            relay.discard().await;
            return Ok(());
        }
        match relay.run(first, &mut writer).await {
            Ok(()) => {
                let times = self.times.get().with_end(self.begun.elapsed());
                self.times.set(times);
                // Before the end, with which the front writes the line.
                self.report(None);
                writer.end(None).await?;
                relay.discard().await;
                Ok(())
            }
            Err(error) => {
                if let ExchangeError::Failed(failure) = error {
                    session.stream().on_failure(failure);
                }
                // Before the writer is dropped, which resets the stream.
                self.report(Some(error));
                Err(error)
            }
        }
    }

    /// Reports facts for the access log.
    fn report(&self, error: Option<ExchangeError>) {
        let upstream = self.upstream.borrow().clone();
        self.reporter.report(|| HandlerReport {
            attempts: u64::from(upstream.is_some()),
            upstream,
            upstream_times: self.times.get(),
            cause: error.and_then(ExchangeError::cause),
        });
    }
}
