//! Forwards one request: chooses the upstream and the connection, retries, and responds to the client.

mod prepare;
mod respond;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::observe::access::UpstreamTimes;
use sluicegate_base::observe::account::Wait;
use tokio::time::Instant;

use super::attempt::Attempt;
use super::definition::{PoolDefinition, RouteProxy};
use super::exchange_error::ExchangeError;
use super::failure::Failure;
use super::hash_key::hash_key;
use super::pool::{Pool, Pools};
use super::protocol::UpstreamStream;
use super::response::{self, ReceivedHead};
use super::retry::{Circumstances, FailedAttempt, Retry};
use super::rules::RequestRules;
use super::upload::Upload;
use super::upstream::{ActiveRequest, Upstream};
use super::upstream_head::Framing;
use super::websocket::Handshake;
use crate::exchange::Reply;
use crate::exchange::handler::{Reporter, RequestBody, Responder, Waiting};
use crate::exchange::message::{HandlerReport, Head, Request};
use sluicegate_config::Proxy;

/// Response of an upstream whose head has been received.
struct UpstreamResponse {
    stream: Box<dyn UpstreamStream>,
    head: Head,
    /// Whether the upstream has opened the tunnel that the client asked for.
    is_tunnel: bool,
}

/// Exchange with an upstream: a request, and the state of its attempts.
pub(super) struct Exchange<'a> {
    pools: &'a Pools,
    pool: &'a Arc<PoolDefinition>,
    proxy: &'a Proxy,
    rules: &'a dyn RequestRules,
    request: Box<Request>,
    pub(super) upload: Rc<Upload>,
    /// Handshake for a client that asks for a WebSocket, or for another protocol.
    handshake: Option<Handshake>,
    is_head: bool,
    reporter: Reporter,
    begun: Instant,
    attempts: Cell<u64>,
    /// Upstream that was tried last.
    last: RefCell<Option<Rc<Upstream>>>,
    times: Cell<UpstreamTimes>,
    reported: Cell<bool>,
}

impl Drop for Exchange<'_> {
    /// Names the upstream of an exchange that takes too long for its route.
    fn drop(&mut self) {
        if !self.reported.get() {
            self.report(None);
        }
    }
}

impl<'a> Exchange<'a> {
    pub(super) fn new(
        pools: &'a Pools,
        proxy: &'a RouteProxy,
        rules: &'a dyn RequestRules,
        request: Box<Request>,
        body: RequestBody,
        reporter: Reporter,
    ) -> Exchange<'a> {
        let announced = request.content_length.filter(|_| request.has_body);
        let (upload, handshake) = if request.head.is_websocket() || request.head.is_upgrade() {
            (Upload::none(), Handshake::new(&request, body))
        } else {
            (Upload::new(body, announced, rules.replaced()), None)
        };
        Exchange {
            pools,
            pool: &proxy.pool,
            proxy: &proxy.settings,
            rules,
            upload,
            handshake,
            is_head: request.head.method == "HEAD",
            request,
            reporter,
            begun: Instant::now(),
            attempts: Cell::new(0),
            last: RefCell::default(),
            times: Cell::default(),
            reported: Cell::new(false),
        }
    }

    /// Forwards the request and the response, or responds in the upstream's stead.
    ///
    /// # Errors
    /// The client does not get an upstream's whole response.
    pub(super) async fn run(self, mut reply: Responder) -> Result<(), ExchangeError> {
        let error = match self.request(&mut reply).await {
            Ok((active, response)) if response.is_tunnel => {
                return Box::pin(self.tunnel(&active, response, reply)).await;
            }
            Ok((active, response)) => return self.respond(&active, response, reply).await,
            Err(error) => error,
        };
        self.upload.stop();
        self.report(Some(error));
        let mut response = match error {
            ExchangeError::Failed(failure) => failure.reply(),
            ExchangeError::Request(error) => {
                let (status, text) = error.status();
                Reply::plain(status, text)
            }
            ExchangeError::ClientStalled => {
                Reply::plain(408, "408 the request's body stood still\n")
            }
            ExchangeError::Cancelled => return Err(ExchangeError::Cancelled),
        };
        self.rules.error_pages().apply(&mut response);
        // Whether the client receives it or not, the exchange has failed for the reason above.
        let _ = Box::pin(reply.reply(response, self.is_head)).await;
        Err(error)
    }

    /// Tries upstreams until one responds, or until another attempt could do the request's work twice.
    async fn request(
        &self,
        reply: &mut Responder,
    ) -> Result<(ActiveRequest, UpstreamResponse), ExchangeError> {
        let framing = self.framing().await?;
        let pool = self.pools.pool(self.pool);
        pool.retry_budget().on_request();
        let key = hash_key(pool.policy(), &self.request);
        let client = self.request.peer.address.into();
        let mut tried: Vec<Rc<Upstream>> = Vec::new();
        let mut reconnect: Option<ActiveRequest> = None;
        let mut retries = self.proxy.retries;
        loop {
            let fresh = reconnect.is_some() || !tried.is_empty();
            let active = match reconnect.take() {
                Some(same) => same,
                None => {
                    let assigned = pool.assign(client, &tried, key);
                    let assigned =
                        self.reporter.during(Wait::Queue, Wait::UpstreamResponse, assigned);
                    assigned.await.map_err(ExchangeError::Failed)?
                }
            };
            *self.last.borrow_mut() = Some(Rc::clone(active.upstream()));
            self.attempts.set(self.attempts.get() + 1);
            let attempt = self.attempt(active.upstream(), framing, fresh, reply);
            let failed = match attempt.await {
                Ok(response) => {
                    active.on_success();
                    return Ok((active, response));
                }
                Err(failed) => failed,
            };
            let ExchangeError::Failed(failure) = failed.error else {
                return Err(failed.error);
            };
            if failed.retry == Retry::Reconnect {
                reconnect = Some(active);
            } else {
                active.on_failure(failure, !failed.stale);
                tried.push(Rc::clone(active.upstream()));
                let has_place = match failed.retry {
                    Retry::Any => true,
                    Retry::Other => pool.has_untried(&tried),
                    Retry::Never | Retry::Reconnect => false,
                };
                if !has_place || retries == 0 || !self.takes_budget(&pool) {
                    return Err(failed.error);
                }
                retries -= 1;
            }
            self.pools.tally().count(|c| c.retries += 1);
        }
    }

    /// Returns whether the pool's budget allows one more retry, and takes it.
    fn takes_budget(&self, pool: &Pool) -> bool {
        let allowed = pool.retry_budget().take(Instant::now());
        if !allowed {
            self.pools.tally().count(|c| c.retries_refused += 1);
        }
        allowed
    }

    /// Reports facts for the access log.
    fn report(&self, error: Option<ExchangeError>) {
        self.reported.set(true);
        let last = self.last.borrow();
        self.reporter.report(|| HandlerReport {
            upstream: last.as_ref().map(|upstream| Arc::clone(upstream.label())),
            attempts: self.attempts.get(),
            upstream_times: self.times.get(),
            cause: error.and_then(ExchangeError::cause),
        });
    }

    /// Notes a time for the access log, if there is any.
    fn note_time(&self, note: impl FnOnce(UpstreamTimes, Duration) -> UpstreamTimes) {
        if self.reporter.wants_report() {
            self.times.set(note(self.times.get(), self.begun.elapsed()));
        }
    }

    /// Says that the exchange waits for a connection while it does.
    fn while_connecting<F: Future>(&self, opening: F) -> Waiting<'_, F> {
        self.reporter.during(Wait::UpstreamConnect, Wait::UpstreamResponse, opening)
    }

    /// Makes one attempt, on a fresh connection if `fresh`.
    async fn attempt(
        &self,
        upstream: &Upstream,
        framing: Framing,
        fresh: bool,
        reply: &mut Responder,
    ) -> Result<UpstreamResponse, FailedAttempt> {
        let head = self
            .rewritten(framing, upstream.host())
            .map_err(|error| FailedAttempt::last(error.into()))?;
        let limit = self.proxy.connect_timeout;
        let asked = self.reporter.wants_report().then(Instant::now);
        let opened = if self.handshake.is_some() {
            let takes_http2 = self.request.head.is_websocket();
            let opened = upstream.stream_for_tunnel(&self.request.peer, takes_http2, limit);
            self.while_connecting(Box::pin(opened)).await
        } else {
            self.while_connecting(upstream.stream(&self.request.peer, fresh, limit)).await
        };
        self.times.set(UpstreamTimes {
            begun: Some(self.begun.into_std()),
            connect: asked.filter(|_| opened.is_ok()).map(|asked| asked.elapsed()),
            ..UpstreamTimes::default()
        });
        let mut stream = opened.map_err(|failure| FailedAttempt {
            retry: match failure {
                // Another upstream needs the same descriptors.
                Failure::Exhausted => Retry::Never,
                _ => Retry::Any,
            },
            ..FailedAttempt::last(ExchangeError::Failed(failure))
        })?;
        let attempt = Attempt { stream: &mut *stream, upload: &self.upload, proxy: self.proxy };
        let response = attempt.run(&head, reply).await;
        let response = response.map_err(|error| {
            let is_http1_required = error == ExchangeError::Failed(Failure::Http1Required);
            let request = Circumstances {
                method: self.request.head.method_of_route(),
                framing,
                taken: self.upload.taken(),
                fresh,
                falls_back: is_http1_required && upstream.require_http1(),
            };
            FailedAttempt::on(&*stream, error, request)
        })?;
        let opened = self.opened(&response);
        let is_tunnel = matches!(opened, Ok(Some(_)));
        let head = match opened {
            Ok(Some(head)) => Ok(head),
            Ok(None) => response::head(response, stream.body_size(), self.is_head),
            Err(failure) => Err(failure),
        };
        let head = head.map_err(|failure| FailedAttempt::last(ExchangeError::Failed(failure)))?;
        Ok(UpstreamResponse { stream, head, is_tunnel })
    }

    /// Returns the head for the client if the response opens the tunnel that it asked for.
    fn opened(&self, response: &ReceivedHead) -> Result<Option<Head>, Failure> {
        match &self.handshake {
            Some(handshake) => handshake.opened(response),
            None => Ok(None),
        }
    }
}
