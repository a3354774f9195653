//! Serves one request: parses its head, asks the gate, and carries out the decision.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderValue, Method, Request, Response, Version, request};
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper::service::Service;
use sluicegate_base::observe::telemetry::SpanStart;
use sluicegate_http::authority::host_or_local;
use sluicegate_http::exchange::front::Received;
use sluicegate_http::exchange::message::Head;
use sluicegate_http::exchange::{Body, Reply, ReplyFields, RequestHead};
use sluicegate_http::gate::{
    Decision, RequestArrival, RequestRecord, RequestRefusal, RoutedRequest, replies,
};
use sluicegate_http::identification::ReturnedId;
use sluicegate_http::peer::Peer;
use tokio::sync::oneshot;

use super::body::ResponseBody;
use super::connection::Connection;
use super::exchange::Exchange;
use super::front::Front;
use super::open_request::OpenRequest;
use super::request::{self as head, ParsedRequest, Refusal as HeadRefusal};
use super::request_body::{Part, RequestBody};
use super::request_guard::RequestGuard;
use super::response::{of_handler, of_reply, of_tunnel};
use super::stream_task::StreamTask;
use super::tunnel::{ClientTunnel, TunnelSlot};
use super::unread_body;
use super::upload::{Source, Upload};

/// Response, with its body or with a tunnel behind its head.
pub(super) type Answer = Response<Either<ResponseBody, Empty<Bytes>>>;

/// Service of a connection of HTTP/1.1, for hyper.
#[derive(Clone)]
pub(super) struct RequestService {
    connection: Rc<Connection>,
    /// Place for the tunnel that the connection becomes.
    slot: TunnelSlot,
}

impl RequestService {
    pub(super) fn new(connection: &Rc<Connection>, slot: &TunnelSlot) -> RequestService {
        RequestService { connection: Rc::clone(connection), slot: Rc::clone(slot) }
    }
}

impl Service<Request<Incoming>> for RequestService {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>>>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let connection = Rc::clone(&self.connection);
        let slot = Rc::clone(&self.slot);
        let request = request.map(RequestBody::Http1);
        Box::pin(async move { Ok(respond(&connection, request, slot, None).await) })
    }
}

/// Responds to a request, which has a task of its stream over HTTP/2. A tunnel that the response opens is left in `slot`.
///
/// What waits is in boxes: most responses are at hand, and a future is moved with room for its longest wait.
pub(super) async fn respond(
    connection: &Rc<Connection>,
    request: Request<RequestBody>,
    slot: TunnelSlot,
    stream: Option<StreamTask>,
) -> Answer {
    let (parts, body) = request.into_parts();
    count(connection);
    let front = &connection.front;
    let max_section = front.config().site.limits().header_bytes;
    let peer = peer(connection, &parts);
    let mut parsed = head::parse(&parts, peer.connection.scheme, max_section);
    if let Ok(parsed) = &parsed {
        connection.progress.on_head(parsed.size);
    }
    let head = parsed.as_mut().ok().map(|parsed| &mut parsed.head);
    let identified = head.map(|head| front.identify(head, &peer)).unwrap_or_default();
    let is_head = parts.method == Method::HEAD;
    let record = record(connection, &peer, parsed.as_ref().ok(), identified.span);
    let guard = begin(connection, is_head, record, identified.returned_id, stream);
    guard.request.unread.set(!body.is_end_stream());
    let is_http10 = parts.version == Version::HTTP_10;
    guard.request.is_http10.set(is_http10);
    let reply = match parsed {
        Ok(mut parsed) => {
            guard.request.awaits_status.set(parsed.expects_status);
            let has_body = has_body(&parsed, &body);
            let arrival = RequestArrival {
                head: &parsed.head,
                path_refused: parsed.refused_path.is_some(),
                peer: &peer,
                content_length: parsed.content_length,
                expects_status: parsed.expects_status,
                has_body,
                running: connection.running.get(),
            };
            match own(connection, &arrival).await.unwrap_or_else(|| front.decide(&arrival)) {
                Decision::Refuse(refusal) => Err((refusal, body)),
                Decision::Discard(reply, limit) => {
                    guard.request.exchange().discard(parsed.content_length, limit);
                    if body.is_end_stream() {
                        Ok(reply)
                    } else {
                        Box::pin(discard(&guard, body, reply)).await
                    }
                }
                Decision::Handle(routed) => {
                    if routed.is_tunnel() {
                        return Box::pin(open(guard, parsed, peer, routed, &slot)).await;
                    }
                    // The route leaves an upgrade undone.
                    parsed.head.protocol = None;
                    let response = handle(guard, parsed, peer, routed, body);
                    return Box::pin(response).await.map(Either::Left);
                }
            }
        }
        Err(HeadRefusal::TooLarge) => Err((replies::head_too_large().into(), body)),
        Err(HeadRefusal::Version) => Err((replies::other_websocket(parts.version).into(), body)),
        Err(HeadRefusal::Malformed) => {
            front.count(|counters| counters.requests.malformed += 1);
            Err((replies::malformed().into(), body))
        }
    };
    let reply = match reply {
        Ok(reply) => reply,
        Err((refusal, body)) => {
            Box::pin(unread_body::leave(connection, &guard.request, body)).await;
            refused(&guard, refusal)
        }
    };
    of_reply(reply, guard).map(Either::Left)
}

fn count(connection: &Connection) {
    connection.front.count(|counters| {
        counters.requests.requests += 1;
        if connection.is_http2() {
            counters.connections.http2 += 1;
        } else {
            counters.connections.http1 += 1;
        }
    });
}

/// Returns the response to a request that its connection alone decides about, in front of all routes.
async fn own(connection: &Connection, arrival: &RequestArrival<'_>) -> Option<Decision> {
    if connection.lacks_tls {
        connection.leave();
        return Some(Decision::Refuse(replies::lacks_tls().into()));
    }
    let challenge = challenge(&connection.front, arrival.head).await;
    challenge.or_else(|| to_https(arrival, connection.redirect?))
}

/// Returns the response to a challenge of an ACME authority, in front of all routes.
async fn challenge(front: &Front, head: &RequestHead) -> Option<Decision> {
    let config = front.config();
    let challenges = config.challenges.as_ref()?;
    let asks = matches!(head.method.as_str(), "GET" | "HEAD");
    if !asks {
        return None;
    }
    let text = challenges.http_01(&head.path).await?;
    let reply = Reply { body: Body::Bytes(text.into()), ..Reply::plain(200, "") };
    Some(Decision::Discard(reply, 0))
}

/// Returns the redirect of a request without TLS to the same URL with https at `port`; `None` for the gate to refuse it: it has no
/// path of its own.
fn to_https(arrival: &RequestArrival<'_>, port: u16) -> Option<Decision> {
    let head = arrival.head;
    if arrival.path_refused || !head.path.starts_with('/') || head.has_lower_case_method() {
        return None;
    }
    let Some(host) = host_or_local(&head.authority, arrival.peer.local) else {
        return Some(Decision::Refuse(replies::malformed().into()));
    };
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    let query = head.query.as_deref().map(|query| format!("?{query}"));
    let path = head.path.raw_reference();
    let location = format!("https://{host}{port}{path}{}", query.unwrap_or_default());
    let location = HeaderValue::try_from(location).ok()?;
    let reply = Reply {
        status: 308,
        headers: ReplyFields::Own(vec![(LOCATION, location)]),
        body: Body::Empty,
    };
    Some(Decision::Refuse(reply.into()))
}

/// Returns the client of a request. HTTP/1.1 and HTTP/1.0 may follow each other on a connection.
fn peer(connection: &Connection, parts: &request::Parts) -> Peer {
    let mut peer = connection.peer.clone();
    if parts.version == Version::HTTP_10 {
        let mut described = (*peer.connection).clone();
        described.version = Version::HTTP_10;
        peer.connection = described.into();
    }
    peer
}

/// Begins a request, with its place among those of the connection.
fn begin(
    connection: &Rc<Connection>,
    is_head: bool,
    record: Option<Box<RequestRecord>>,
    returned_id: Option<Box<ReturnedId>>,
    stream: Option<StreamTask>,
) -> RequestGuard {
    let now = connection.front.now();
    let (progress, meter) = (&connection.progress, &connection.meter);
    let request = OpenRequest::new(is_head, record, returned_id, now, progress, meter, stream);
    RequestGuard::new(connection, request)
}

/// Begins the record of a request, if anything is recorded of it.
fn record(
    connection: &Connection,
    peer: &Peer,
    parsed: Option<&ParsedRequest>,
    span: Option<Box<SpanStart>>,
) -> Option<Box<RequestRecord>> {
    let front = &connection.front;
    let is_logged = front.has_log();
    if !is_logged && span.is_none() && parsed.is_some() {
        return None;
    }
    let (site, peer) = (&front.config().site, peer.clone());
    match parsed {
        Some(parsed) => {
            let raw_path = parsed.refused_path.as_deref();
            RequestRecord::begin(peer, &parsed.head, raw_path, span, site, is_logged)
        }
        None => RequestRecord::without_head(peer, site, is_logged),
    }
}

/// Notes the cause of a refusal and returns its reply.
fn refused(guard: &RequestGuard, refusal: RequestRefusal) -> Reply {
    if let Some(cause) = refusal.cause {
        guard.request.set_cause(cause);
    }
    refusal.reply
}

/// Discards the body before the reply.
async fn discard(
    guard: &RequestGuard,
    body: RequestBody,
    reply: Reply,
) -> Result<Reply, (RequestRefusal, RequestBody)> {
    let request = &guard.request;
    let mut upload = Upload(Some(Source::Body(body)));
    let reply = loop {
        request.set_awaits_body(true);
        let part = tokio::select! {
            part = upload.next() => part,
            () = request.stalled() => break replies::request_timeout(),
        };
        match part {
            Part::Data(block) => match request.on_received(block.len() as u64) {
                Received::Accepted | Received::Unneeded => continue,
                Received::TooLarge => break replies::body_too_large(),
                Received::Malformed => {}
            },
            Part::End(_) => {
                request.unread.set(false);
                if request.exchange().on_end() != Received::Malformed {
                    break reply;
                }
            }
            Part::Malformed | Part::Gone => {}
        }
        let front = &guard.connection.front;
        front.count(|counters| counters.requests.malformed += 1);
        break replies::malformed();
    };
    request.set_awaits_body(false);
    if let Some(body) = upload.stop() {
        unread_body::leave(&guard.connection, request, body).await;
    }
    Ok(reply)
}

/// Returns whether bytes of the client may follow the head.
fn has_body(parsed: &ParsedRequest, body: &RequestBody) -> bool {
    parsed.head.is_tunnel() || !body.is_end_stream()
}

/// Has a handler respond to a request.
async fn handle(
    guard: RequestGuard,
    parsed: ParsedRequest,
    peer: Peer,
    routed: RoutedRequest,
    body: RequestBody,
) -> Response<ResponseBody> {
    let source = (!body.is_end_stream()).then(|| Source::Body(body));
    match hand_over(&guard, parsed, peer, routed, source).await {
        Ok((head, exchange)) => of_handler(head, exchange, guard),
        Err(reply) => of_reply(reply, guard),
    }
}

/// Has a handler open a tunnel, or refuse to.
async fn open(
    guard: RequestGuard,
    mut parsed: ParsedRequest,
    peer: Peer,
    routed: RoutedRequest,
    slot: &TunnelSlot,
) -> Answer {
    let accept = parsed.accept.take();
    let (reader, opening) = oneshot::channel();
    let source = Some(Source::Opening(opening));
    let upgrade = match &parsed.head.protocol {
        Some(protocol) if !guard.connection.is_http2() => HeaderValue::from_str(protocol).ok(),
        _ => None,
    };
    let refused = match hand_over(&guard, parsed, peer, routed, source).await {
        Ok((head, exchange)) if guard.request.exchange().is_tunnel() => {
            let response = of_tunnel(head, upgrade, accept, &guard);
            slot.set(Some(ClientTunnel { exchange, guard, reader }));
            return response.map(Either::Right);
        }
        Ok((head, exchange)) => of_handler(head, exchange, guard),
        Err(reply) => of_reply(reply, guard),
    };
    refused.map(Either::Left)
}

/// Hands a request to a handler, and waits for the head of its response.
///
/// # Errors
/// There is a reply in its place.
async fn hand_over(
    guard: &RequestGuard,
    parsed: ParsedRequest,
    peer: Peer,
    mut routed: RoutedRequest,
    source: Option<Source>,
) -> Result<(Head, Exchange), Reply> {
    let connection = &guard.connection;
    let front = &connection.front;
    let mut handed = routed.request(parsed.head, peer, parsed.content_length, source.is_some());
    handed.wants_report = guard.request.record.borrow().is_some();
    let Some(permit) = front.exchanges.open(handed.peer.address) else {
        front.count(|counters| counters.requests.gate.overloaded += 1);
        if let Some(Source::Body(body)) = source {
            unread_body::leave(connection, &guard.request, body).await;
        }
        let mut reply = refused(guard, RequestRefusal::no_room());
        routed.refuse(&mut reply);
        return Err(reply);
    };
    let mut exchange = Exchange::start(connection, &guard.request, handed, routed, permit, source);
    let head = exchange.head().await?;
    Ok((head, exchange))
}
