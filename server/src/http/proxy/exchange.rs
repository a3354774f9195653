//! A request's walk: which upstream, which connection, what is tried again, what the client gets.

use std::rc::Rc;

use tokio::time::{Instant, timeout};

use super::attempt::Attempt;
use super::connection::UpstreamConnection;
use super::failure::Failure;
use super::relay::Relay;
use super::request::{Framing, is_idempotent, rarely_has_body, rewrite};
use super::response;
use super::rules::RequestRules;
use super::stop::Stop;
use super::unsendable::Unsendable;
use super::upload::Upload;
use super::upstream::{Turn, Upstream, Upstreams};
use crate::http::exchange::handler::{Cancelled, RequestBody, Responder};
use crate::http::exchange::message::{Head, Request};
use crate::http::exchange::{Body, Reply};
use sluicegate_config::Proxy;

/// The head of a response, and where its body will come from.
struct Answer {
    turn: Turn,
    connection: UpstreamConnection,
    head: Head,
    body: hyper::body::Incoming,
    /// The response leaves the connection fit for another request.
    reusable: bool,
}

/// An attempt without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Missed {
    stop: Stop,
    /// The request may be sent once more.
    again: bool,
    /// The connection had served another request, and was closed before a byte of this response: that says nothing about
    /// the upstream.
    stale: bool,
}

impl Missed {
    fn last(stop: Stop) -> Missed {
        Missed {
            stop,
            again: false,
            stale: false,
        }
    }
}

/// A request on its way.
pub(super) struct Exchange<'a> {
    upstreams: &'a Upstreams,
    proxy: &'a Proxy,
    rules: &'a dyn RequestRules,
    request: Request,
    upload: Rc<Upload>,
    is_head: bool,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(
        upstreams: &'a Upstreams,
        (proxy, rules): (&'a Proxy, &'a dyn RequestRules),
        request: Request,
        body: RequestBody,
    ) -> Exchange<'a> {
        let promised = request.content_length.filter(|_| request.has_body);
        Exchange {
            upstreams,
            proxy,
            rules,
            upload: Upload::new(body, promised),
            is_head: request.head.method == "HEAD",
            request,
        }
    }

    /// Passes the request on and the response back, or responds in the upstream's stead.
    ///
    /// # Errors
    /// The client does not get an upstream's whole response.
    pub(super) async fn run(self, mut reply: Responder) -> Result<(), Stop> {
        let stop = match self.ask(&mut reply).await {
            Ok(answer) => return self.pass_back(answer, reply).await,
            Err(stop) => stop,
        };
        self.upload.stop();
        let substitute = match stop {
            Stop::Failed(failure) => failure.reply(),
            Stop::Unsendable(unsendable) => {
                let (status, text) = unsendable.status();
                Reply::plain(status, text)
            }
            Stop::ClientStalled => Reply::plain(408, "408 the request's body stood still\n"),
            Stop::Cancelled => return Err(Stop::Cancelled),
        };
        // Whether the client takes it does not change what has gone wrong.
        let _ = self.substitute(substitute, reply).await;
        Err(stop)
    }

    /// Tries upstreams until one answers, or until another attempt could do the request's work twice.
    async fn ask(&self, reply: &mut Responder) -> Result<Answer, Stop> {
        let framing = self.framing().await?;
        let group = self.upstreams.group(self.proxy);
        let mut tried: Vec<Rc<Upstream>> = Vec::new();
        let mut stale = false;
        let mut retries = self.proxy.retries;
        loop {
            let now = Instant::now();
            let turn = match tried.last().filter(|_| stale) {
                Some(same) => Turn::new(same, now),
                // The configuration names at least one.
                None => group
                    .next(&tried, now)
                    .ok_or(Stop::Failed(Failure::Resolve))?,
            };
            let fresh = !tried.is_empty();
            let missed = match self.attempt(&turn, framing, fresh, reply).await {
                Ok((connection, head, body, reusable)) => {
                    turn.on_success();
                    return Ok(Answer {
                        turn,
                        connection,
                        head,
                        body,
                        reusable,
                    });
                }
                Err(missed) => missed,
            };
            let Stop::Failed(failure) = missed.stop else {
                return Err(missed.stop);
            };
            let last = !missed.again || retries == 0;
            if last || !missed.stale {
                turn.on_failure(failure, !missed.stale);
            }
            if last {
                return Err(missed.stop);
            }
            retries -= 1;
            self.upstreams.tally().count(|c| c.retries += 1);
            tried.push(Rc::clone(turn.upstream()));
            stale = missed.stale;
        }
    }

    /// One attempt, on a fresh connection if so asked.
    async fn attempt(
        &self,
        turn: &Turn,
        framing: Framing,
        fresh: bool,
        reply: &mut Responder,
    ) -> Result<(UpstreamConnection, Head, hyper::body::Incoming, bool), Missed> {
        let upstream = turn.upstream();
        let path = &self.request.head.path;
        let path = if self.proxy.strip_prefix {
            self.rules.rest(path)
        } else if self.proxy.raw_path {
            path.raw()
        } else {
            path.forward(0)
        };
        let request = rewrite(
            &self.request,
            (self.proxy, self.rules),
            path,
            framing,
            upstream.host(),
        );
        let request = request.map_err(|unsendable| Missed::last(unsendable.into()))?;
        let opened = upstream.connection(fresh, self.proxy.connect_timeout).await;
        let mut connection = opened.map_err(|failure| Missed {
            again: failure != Failure::Exhausted,
            ..Missed::last(Stop::Failed(failure))
        })?;
        let reused = connection.used();
        let attempt = Attempt {
            connection: &mut connection,
            upload: &self.upload,
            proxy: self.proxy,
        };
        let response = attempt.run(request, reply).await;
        let response = response.map_err(|stop| self.missed(stop, &connection, framing, reused))?;
        // An older upstream would have its later requests rewritten to its own version, without their bodies.
        let reusable = response.version() == http::Version::HTTP_11;
        let (head, body) = response::split(response, self.is_head)
            .map_err(|failure| Missed::last(Stop::Failed(failure)))?;
        Ok((connection, head, body, reusable))
    }

    /// Whether the request may be sent once more (RFC 9110 §9.2.2): where nothing of it has been sent, or where a
    /// connection that had waited turns out to be closed and the request may be repeated.
    fn missed(
        &self,
        stop: Stop,
        connection: &UpstreamConnection,
        framing: Framing,
        reused: bool,
    ) -> Missed {
        let closed = stop == Stop::Failed(Failure::Closed);
        let stale = closed && reused && connection.meter().read() == 0;
        let unsent = closed && connection.meter().written() == 0;
        let repeatable = framing == Framing::None && is_idempotent(&self.request.head.method);
        Missed {
            stop,
            again: !self.upload.taken() && (unsent || (stale && repeatable)),
            stale,
        }
    }

    /// How the body will be framed. A client may say only after its head that there is no body: that is waited for where
    /// a body would be unusual, since such a request must not become a chunked one.
    async fn framing(&self) -> Result<Framing, Stop> {
        let Request {
            head,
            content_length,
            has_body,
            ..
        } = &self.request;
        if head.method == "CONNECT" {
            return Err(Unsendable::Tunnel.into());
        }
        match (*content_length, *has_body) {
            (Some(0), _) => return Ok(Framing::Length(0)),
            (Some(length), true) => return Ok(Framing::Length(length)),
            (Some(_), false) => return Err(Unsendable::Length.into()),
            (None, false) => return Ok(Framing::None),
            (None, true) => {}
        }
        if rarely_has_body(&head.method) {
            let empty = timeout(self.proxy.idle_timeout, self.upload.is_empty()).await;
            if empty.map_err(|_| Stop::ClientStalled)? {
                return Ok(Framing::None);
            }
            if self.upload.broken() {
                return Err(Stop::Cancelled);
            }
        }
        Ok(Framing::Chunked)
    }

    /// Passes the response back, and keeps the connection if it is fit for another request.
    async fn pass_back(&self, answer: Answer, reply: Responder) -> Result<(), Stop> {
        let Answer {
            turn,
            mut connection,
            head,
            body,
            reusable,
        } = answer;
        let (length, end) = (head.length, head.end);
        let writer = reply.head(head).await?;
        if !end {
            let relay = Relay {
                connection: &mut connection,
                upload: &self.upload,
                body,
                idle_timeout: self.proxy.idle_timeout,
            };
            let relayed = relay.run(writer, length).await;
            if let Err(Stop::Failed(failure)) = relayed {
                turn.on_failure(failure, true);
            }
            relayed?;
        }
        if !self.upload.finished() {
            self.upload.stop();
            self.upstreams.tally().count(|c| c.early_answers += 1);
        } else if reusable {
            turn.upstream().idle().keep(connection).await;
        }
        Ok(())
    }

    /// Answers in an upstream's stead.
    async fn substitute(&self, answer: Reply, reply: Responder) -> Result<(), Cancelled> {
        let length = answer.body.len();
        let end = self.is_head || length == 0;
        let head = Head {
            status: answer.status,
            fields: answer.headers,
            length: Some(length),
            end,
        };
        let mut writer = reply.head(head).await?;
        if let (false, Body::Bytes(text)) = (end, answer.body) {
            writer.data(text).await?;
            writer.end(None);
        }
        Ok(())
    }
}
