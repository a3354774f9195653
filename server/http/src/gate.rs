//! Policy before a handler, the same for every front: which requests are refused, get a response at once, or go to a handler.
//!
//! A front reads a request's head, calls [`Gate::decide`] and carries out the [`Decision`]. It frames, and decides nothing.

mod log;
pub mod replies;
mod requests;
mod routed;
mod statuses;

metrics! {
    /// Counters of a front's gate; they only rise.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct GateCounters: Sum {
        /// Responses with a file from memory.
        pub from_memory: u64 = counter("sluicegate_file_cache_hits_total"),
        /// Requests refused while draining.
        pub rejected: u64 = counter(
            "sluicegate_http_requests_refused_total", reason = "draining";
            "Requests refused, by reason: the server drains (draining); no room in the origin thread's queue or its memory, of which no client holds more (no_room); memory is short (memory); an unsafe method in early data (early_data); a request for a tunnel (tunnel); a client that `allow` and `deny` of the route do not admit (denied); no credentials for a route with basic_auth (no_credentials); a client that sends more than `rate_limit` of the route allows (rate_limit)."
        ),
        /// Requests refused with 503, because there was no room for another handler: in the origin thread's queue or in its
        /// memory.
        pub overloaded: u64 = also(reason = "no_room"),
        /// Requests refused with 503, because the process has used up its memory budget.
        pub memory: u64 = also(reason = "memory"),
        /// Requests refused with 425: in early data, by an unsafe method or to a route with access rules.
        pub too_early: u64 = also(reason = "early_data"),
        /// Requests for a tunnel that their route does not open, refused with 501: CONNECT, with or without a protocol.
        pub tunnels: u64 = also(reason = "tunnel"),
        /// Requests refused with 403: the client may not use the route.
        pub denied: u64 = also(reason = "denied"),
        /// Requests refused with 401: the route asks for a password, and the request has none.
        pub no_credentials: u64 = also(reason = "no_credentials"),
        /// Requests refused with 429: the client sends more of them than the route's rate limit allows.
        pub rate_limited: u64 = also(reason = "rate_limit"),
    }
}

/// Response of the server itself to a request that it does not, or no longer, leave to a handler.
#[derive(Debug)]
pub struct RequestRefusal {
    /// The response.
    pub reply: Reply,
    /// Cause of a 5xx status or of 429: the `reason` of `sluicegate_http_requests_refused_total`.
    pub cause: Option<&'static str>,
}

impl RequestRefusal {
    /// Returns a refusal by the server's own state, or by what it has counted.
    pub fn because(cause: &'static str, reply: Reply) -> RequestRefusal {
        RequestRefusal { reply, cause: Some(cause) }
    }

    /// Returns the refusal of a request for which there is no room.
    pub fn no_room() -> RequestRefusal {
        RequestRefusal::because("no_room", no_room())
    }
}

impl From<Reply> for RequestRefusal {
    /// Returns a refusal by the request's own fault, or a response that needs no handler.
    fn from(reply: Reply) -> RequestRefusal {
        RequestRefusal { reply, cause: None }
    }
}

#[cfg(test)]
mod tests;

use sluicegate_base::observe::metrics::metrics;
use sluicegate_base::observe::telemetry::SpanStart;

use self::replies::no_room;
use std::sync::Arc;
use std::time::Instant;

use sluicegate_base::keys::ExchangeKey;

pub use self::log::{BODY_MALFORMED, Ending, RequestRecord};
pub use self::requests::{HttpVersion, RequestCounters};
pub use self::routed::RoutedRequest;
pub use self::statuses::Statuses;
use super::auth::{BasicAuth, Credentials};
use super::exchange::message::Request;
use super::exchange::ring::OriginRing;
use super::exchange::{Reply, RequestHead};
use super::files::{Cache, Key, Vacancy};
use super::identification::ReturnedId;
use super::peer::Peer;
use super::representation::reply_from_memory;
use super::route::{Access, OriginHandler, Route, RouteAction, Site, ambiguous_path};

/// Largest number of field lines of a head or trailer section. The crumbs of a cookie in a head count as one line (RFC 9113 §8.2.3,
/// RFC 9114 §4.2.1); the limit of bytes bounds them.
pub const MAX_FIELDS: usize = 128;
/// Bytes that a field line counts beyond its name and value (RFC 9113 §6.5.2, RFC 9114 §4.2.2).
pub const FIELD_OVERHEAD: usize = 32;

/// The state that decisions need beside the request; a front's thread owns it and lends it.
#[derive(Debug)]
pub struct Gate<'a> {
    /// Routes and limits of the configuration in effect.
    pub site: &'a Site,
    /// Files in memory.
    pub cache: &'a mut Cache,
    /// The process has used up its memory budget.
    pub memory_is_short: bool,
    /// Counters of the front's thread.
    pub counters: &'a mut GateCounters,
    /// Time of the decision.
    pub now: Instant,
}

/// Description of a request whose head has arrived, by its front.
#[derive(Clone, Copy, Debug)]
pub struct RequestArrival<'a> {
    /// Head of the request; its path is empty if the raw one was refused.
    pub head: &'a RequestHead,
    /// The path has no canonical spelling.
    pub path_refused: bool,
    /// Client of the connection.
    pub peer: &'a Peer,
    /// Length of the body by `content-length`, bytes.
    pub content_length: Option<u64>,
    /// The client waits for a status before it sends the body (RFC 9110 §10.1.1).
    pub expects_status: bool,
    /// Whether a body follows; it may be empty.
    pub has_body: bool,
    /// Exchanges of the connection that their handlers have not closed.
    pub running: u64,
}

/// What identifies a request beyond its fields.
#[derive(Debug, Default)]
pub struct Identified {
    /// Line for the response to the request, if it gets one.
    pub returned_id: Option<Box<ReturnedId>>,
    /// Beginning of its span, if it becomes one.
    pub span: Option<Box<SpanStart>>,
}

/// A decision about a request, for its front to carry out.
#[derive(Debug)]
pub enum Decision {
    /// The front sends the response at once and reads no more of the request.
    Refuse(RequestRefusal),
    /// The front discards the body, of at most so many bytes, and then sends the response.
    Discard(Reply, u64),
    /// The front hands the request to a handler by [`RoutedRequest`].
    Handle(RoutedRequest),
}

impl Gate<'_> {
    /// Screens the fields by which a request is identified, adds those that are missing if the access log or the response has them,
    /// and begins its span if it becomes one. A front calls it before anything else of the request. `is_trusted` returns whether the
    /// request came from a trusted proxy.
    pub fn identify(
        &self,
        head: &mut RequestHead,
        is_logged: bool,
        is_trusted: impl Fn() -> bool,
    ) -> Identified {
        let identification = self.site.identification();
        identification.screen(&mut head.headers, &is_trusted);
        let span = identification.begin_span(&mut head.headers, &is_trusted);
        if is_logged || self.site.needs_ids() {
            identification.complete(&mut head.headers);
        }
        Identified { returned_id: identification.returned(&head.headers), span }
    }

    /// Decides about a request. The order is part of the policy: a request that is not allowed learns nothing about routes.
    pub fn decide(&mut self, arrival: &RequestArrival<'_>) -> Decision {
        let head = arrival.head;
        let is_safe = matches!(&*head.method, "GET" | "HEAD" | "OPTIONS");
        if arrival.peer.early_data && !is_safe {
            // RFC 8470 §5.2: early data may be a replay, so a request with effects must wait.
            self.counters.too_early += 1;
            return Decision::Refuse(replies::too_early().into());
        }
        if head.has_lower_case_method() {
            return self.discard(arrival, None, replies::lower_case_method());
        }
        if head.is_tunnel() && !head.is_websocket() && !head.is_connect_udp() {
            return self.refuse_tunnel(arrival, None);
        }
        if arrival.path_refused {
            return self.discard(arrival, None, ambiguous_path());
        }
        let site = self.site;
        let preflight = site.find_preflight(head);
        let route = match preflight.map_or_else(|| site.find(head), Ok) {
            Ok(route) => route,
            Err(reply) => return self.discard(arrival, None, reply),
        };
        if let Err(mut refusal) = self.check_access(arrival, route.access()) {
            refusal.reply = route.refuse(refusal.reply, head);
            return Decision::Refuse(refusal);
        }
        let early = preflight.and_then(|route| route.respond_to_preflight(head));
        if let Some(reply) = early.or_else(|| route.redirect(head)) {
            return self.discard(arrival, Some(route), reply);
        }
        if let Some(auth) = route.access().basic_auth() {
            return self.authenticate(arrival, route, auth);
        }
        if let Some(reply) = route.respond(head) {
            return self.discard(arrival, Some(route), reply);
        }
        if head.is_tunnel() && !route.takes_tunnel(head) {
            return self.refuse_tunnel(arrival, Some(route));
        }
        match self.look_in_memory(head, route) {
            Ok(reply) => self.discard(arrival, Some(route), reply),
            Err(vacancy) => {
                let route = Arc::clone(route);
                let is_tunnel = route.takes_tunnel(head);
                self.handle(arrival, RoutedRequest::new(route, vacancy, is_tunnel, site))
            }
        }
    }

    /// Checks that the client may use a route, and counts the request for the route's rate limit.
    ///
    /// # Errors
    /// It may not, or not yet; the error is the response.
    fn check_access(
        &mut self,
        arrival: &RequestArrival<'_>,
        access: &Access,
    ) -> Result<(), RequestRefusal> {
        let rate_limit = access.rate_limit();
        if access.is_open() && rate_limit.is_none() {
            return Ok(());
        }
        if arrival.peer.early_data && !access.is_open() {
            // A token has proved the address, and somebody else may have it by now: the handshake shows who has.
            self.counters.too_early += 1;
            return Err(replies::too_early().into());
        }
        let client = arrival.peer.client(&arrival.head.headers);
        access.check(client).map_err(|_| {
            self.counters.denied += 1;
            RequestRefusal::from(replies::forbidden())
        })?;
        let counted = rate_limit.map_or(Ok(()), |limit| limit.count(client, self.now));
        counted.map_err(|wait| {
            self.counters.rate_limited += 1;
            RequestRefusal::because("rate_limit", replies::too_often(wait))
        })
    }

    /// Refuses a request for a tunnel that its route does not open.
    fn refuse_tunnel(
        &mut self,
        arrival: &RequestArrival<'_>,
        route: Option<&Arc<Route>>,
    ) -> Decision {
        self.counters.tunnels += 1;
        let reply = own_reply(arrival, route, replies::no_tunnels());
        Decision::Refuse(RequestRefusal::because("tunnel", reply))
    }

    /// Leaves a request with credentials to the origin thread, which verifies them and runs any handler, and refuses one
    /// without.
    fn authenticate(
        &mut self,
        arrival: &RequestArrival<'_>,
        route: &Arc<Route>,
        auth: &BasicAuth,
    ) -> Decision {
        let Some(credentials) = Credentials::of(&arrival.head.headers) else {
            self.counters.no_credentials += 1;
            return Decision::Refuse(route.refuse(auth.unauthorized(), arrival.head).into());
        };
        if arrival.head.is_tunnel() && !route.takes_tunnel(arrival.head) {
            return self.refuse_tunnel(arrival, Some(route));
        }
        let is_tunnel = route.takes_tunnel(arrival.head);
        let mut routed = RoutedRequest::new(Arc::clone(route), None, is_tunnel, self.site);
        routed.credentials = Some(credentials);
        self.handle(arrival, routed)
    }

    /// Responds without a handler. A client that waits for a status gets the final one in place of 100: no body is needed.
    fn discard(
        &mut self,
        arrival: &RequestArrival<'_>,
        route: Option<&Arc<Route>>,
        reply: Reply,
    ) -> Decision {
        if arrival.head.is_tunnel() {
            // The client leaves its stream open until it gets a response. One of 2xx would open the tunnel.
            return if reply.status >= 300 {
                Decision::Refuse(reply.into())
            } else {
                self.refuse_tunnel(arrival, route)
            };
        }
        let limit = self.site.limits().max_request_body;
        if arrival.content_length.is_some_and(|length| length > limit) {
            return Decision::Refuse(own_reply(arrival, route, replies::body_too_large()).into());
        }
        if arrival.has_body && arrival.expects_status {
            return Decision::Refuse(reply.into());
        }
        Decision::Discard(reply, limit)
    }

    fn handle(&mut self, arrival: &RequestArrival<'_>, routed: RoutedRequest) -> Decision {
        match self.admit(arrival, &routed) {
            Ok(()) => Decision::Handle(routed),
            Err(mut refusal) => {
                refusal.reply = routed.route.refuse(refusal.reply, arrival.head);
                Decision::Refuse(refusal)
            }
        }
    }

    /// Admits a request to its handler.
    ///
    /// # Errors
    /// The body is too long, or there is no room for another exchange.
    fn admit(
        &mut self,
        arrival: &RequestArrival<'_>,
        routed: &RoutedRequest,
    ) -> Result<(), RequestRefusal> {
        let limit = routed.max_body();
        if arrival.content_length.is_some_and(|length| length > limit) {
            return Err(replies::body_too_large().into());
        }
        if self.memory_is_short {
            self.counters.memory += 1;
            return Err(RequestRefusal::because("memory", replies::no_memory()));
        }
        if arrival.running >= self.site.limits().max_concurrent_streams {
            // Exchanges of cancelled requests count until their handlers have stopped.
            self.counters.overloaded += 1;
            return Err(RequestRefusal::because("no_room", replies::too_many_requests()));
        }
        Ok(())
    }

    /// Returns the response with a file in memory, or the place for the file if it is not there.
    fn look_in_memory(
        &mut self,
        head: &RequestHead,
        route: &Route,
    ) -> Result<Reply, Option<Vacancy>> {
        let RouteAction::Origin(OriginHandler::Files(folder)) = &route.action else {
            return Err(None);
        };
        if !self.cache.store().is_on() {
            return Err(None);
        }
        let key = Key::of(folder, head, route.rest(&head.path)).ok_or(None)?;
        let Some(file) = self.cache.get(&key, self.now) else {
            return Err(Some(Vacancy::new(key, self.cache.store())));
        };
        let mut reply = reply_from_memory(head, &file).ok_or(None)?;
        route.error_pages().apply_for(&mut reply, &head.headers);
        route.edit_reply(&mut reply, head);
        self.counters.from_memory += 1;
        Ok(reply)
    }
}

impl GateCounters {
    /// Opens an exchange in the ring to the origin thread, within its accounts, and returns the exchange's number.
    ///
    /// # Errors
    /// There is no room for another exchange; the front sends the response.
    pub fn open(
        &mut self,
        origin_ring: Option<&mut OriginRing>,
        key: ExchangeKey,
        request: Box<Request>,
    ) -> Result<u64, RequestRefusal> {
        let opened = origin_ring.and_then(|origin_ring| {
            let permit = origin_ring.admit(request.peer.address)?;
            origin_ring.open(key, request, permit)
        });
        opened.ok_or_else(|| {
            self.overloaded += 1;
            RequestRefusal::no_room()
        })
    }
}

/// Returns a response of the gate itself as the request's route changes it, if it has one.
fn own_reply(arrival: &RequestArrival<'_>, route: Option<&Arc<Route>>, reply: Reply) -> Reply {
    match route {
        Some(route) => route.refuse(reply, arrival.head),
        None => reply,
    }
}
