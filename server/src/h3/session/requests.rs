//! Requests as they arrive, and who answers them.

use std::sync::Arc;

use quiche::Shutdown;
use quiche::h3::{Event, Header, NameValue, WireErrorCode};

use super::{Exchange, Handler, Inbound, Outbound, Session};
use crate::h3::priority::Priority;
use crate::h3::request::{self, Refusal, Request};
use crate::h3::response::Response;
use crate::h3::session_context::SessionContext;
use crate::http::exchange::message::Request as Handed;
use crate::http::exchange::{ExchangeKey, Opaque, Peer, Reply, RequestHead};
use crate::http::files::{Key, reply_from_memory};
use crate::http::route::{Action, Answer, Route};

impl Session {
    pub(super) fn on_event(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        event: Event,
        context: &mut SessionContext,
    ) {
        match event {
            Event::Headers { list, more_frames } => {
                if self.open.contains_key(&stream) {
                    self.on_trailers(conn, stream, &list, context);
                } else {
                    self.on_head(conn, stream, &list, more_frames, context);
                }
            }
            Event::Data => self.on_data(conn, stream, context),
            Event::Finished => self.on_end(conn, stream, context),
            Event::Reset(_) => self.on_reset(conn, stream, context),
            Event::PriorityUpdate => self.on_priority_update(conn, stream),
            // It limits pushes, and there are none.
            Event::GoAway => {}
        }
    }

    fn on_head(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        list: &[Header],
        more_frames: bool,
        context: &mut SessionContext,
    ) {
        self.requests += 1;
        context.counters.requests += 1;
        if self.refused_from.is_some_and(|limit| stream >= limit) {
            context.counters.rejected += 1;
            return self.limit(conn, stream, WireErrorCode::RequestRejected, context);
        }
        self.taken += 1;
        self.next_stream = self.next_stream.max(stream + 4);
        self.open.insert(stream, blank(list, context));
        let (request, raw_path) = match request::parse(list, context.site.limits().header_bytes) {
            Ok(request) => (Some(request), None),
            Err(Refusal::Path(refused)) => (Some(refused.request), Some(refused.raw)),
            Err(Refusal::TooLarge) => {
                self.note(stream, peer(conn).address, None, None, context);
                return self.refuse(conn, stream, 431, "431 header section too large\n", context);
            }
            Err(Refusal::Malformed) => (None, None),
        };
        if context.access.is_some() {
            let head = request.as_ref().map(|request| &request.head);
            self.note(
                stream,
                peer(conn).address,
                head,
                raw_path.as_deref(),
                context,
            );
        }
        let Some(request) = request else {
            return self.malformed(conn, stream, context);
        };
        if !more_frames && request.content_length.is_some_and(|length| length > 0) {
            return self.malformed(conn, stream, context);
        }
        self.prioritize(conn, stream, &request.head);
        if !conn.is_established() && !is_safe(&request.head.method) {
            // RFC 8470 §5.2: what has effects is not done on the word of somebody who may only repeat it.
            context.counters.too_early += 1;
            return self.refuse(conn, stream, 425, "425 not in early data\n", context);
        }
        if let Some(exchange) = self.open.get_mut(&stream) {
            exchange.content_length = request.content_length;
        }
        if raw_path.is_some() {
            let reply = Reply::plain(400, "400 ambiguous path\n");
            return self.answer_later(conn, stream, &request, reply, more_frames, context);
        }
        match context.site.answer(&request.head) {
            Answer::Origin(route) => match from_memory(&request.head, &route, context) {
                Ok(reply) => self.answer_later(conn, stream, &request, reply, more_frames, context),
                Err(file) => {
                    let wanted = Wanted { route, file };
                    self.hand_over(conn, stream, request, wanted, more_frames, context);
                }
            },
            Answer::Reply(reply) => {
                self.answer_later(conn, stream, &request, reply, more_frames, context);
            }
        }
    }

    /// A request that the site answers by itself: at once where the client waits for a status, or else when it has ended.
    fn answer_later(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        request: &Request,
        reply: Reply,
        more_frames: bool,
        context: &mut SessionContext,
    ) {
        let limit = context.site.limits().max_request_body;
        if request.content_length.is_some_and(|length| length > limit) {
            return self.refuse(conn, stream, 413, "413 request body too large\n", context);
        }
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        exchange.limit = limit;
        if more_frames && request.expects_status {
            // A final status at once, instead of 100: nobody needs the body.
            self.stop_reading(conn, stream);
            return self.begin(stream, reply);
        }
        exchange.inbound = Inbound::Discarding(Box::new(reply));
    }

    /// A request for a handler on the origin thread.
    fn hand_over(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        request: Request,
        Wanted { route, file }: Wanted,
        more_frames: bool,
        context: &mut SessionContext,
    ) {
        let too_long = |length| length > route.max_request_body;
        if request.content_length.is_some_and(too_long) {
            return self.refuse(conn, stream, 413, "413 request body too large\n", context);
        }
        let limits = context.site.limits();
        if self.running >= limits.max_concurrent_streams {
            // Those of requests given up count until they have stopped.
            context.counters.overloaded += 1;
            return self.refuse(
                conn,
                stream,
                503,
                "503 too many requests at once\n",
                context,
            );
        }
        let mut head = request.head;
        route.edit_request(&mut head.headers);
        let peer = peer(conn);
        let key = ExchangeKey {
            connection: self.key,
            stream,
        };
        let opened = context.origin_ring.as_mut().and_then(|origin_ring| {
            let request = Box::new(Handed {
                head,
                peer,
                handler: Opaque::new(Arc::clone(&route)),
                timeout: route.timeout,
                content_length: request.content_length,
                has_body: more_frames,
            });
            let permit = origin_ring.accounts().admit(request.peer.address.ip())?;
            Some((origin_ring.open(key, request, permit)?, origin_ring.share()))
        });
        let Some((number, share)) = opened else {
            context.counters.overloaded += 1;
            return self.refuse(
                conn,
                stream,
                503,
                "503 no room for further requests\n",
                context,
            );
        };
        self.running += 1;
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        exchange.limit = route.max_request_body;
        exchange.handler = Some(Handler {
            exchange: number,
            route,
            credit: share,
            readable: false,
            trailers: None,
            file,
        });
        let mut response = Response::awaited();
        if more_frames {
            exchange.inbound = Inbound::Passing;
            if request.expects_status {
                response.interim(100, &Vec::new());
                self.pending.insert(exchange.priority, stream);
            }
        }
        exchange.outbound = Outbound::Replying(response);
    }

    fn on_trailers(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        list: &[Header],
        context: &mut SessionContext,
    ) {
        match request::trailers(list, context.site.limits().header_bytes) {
            Ok(fields) => {
                if let Some(exchange) = self.open.get_mut(&stream)
                    && let Some(handler) = &mut exchange.handler
                {
                    handler.trailers = Some(fields);
                }
            }
            Err(_) => self.malformed(conn, stream, context),
        }
    }

    pub(super) fn on_reset(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        context: &mut SessionContext,
    ) {
        match self.open.get(&stream) {
            Some(Exchange {
                outbound: Outbound::Over,
                ..
            }) => self.forget(stream, context),
            Some(_) => {
                context.counters.cancelled += 1;
                self.wasted += 1;
                self.limit(conn, stream, WireErrorCode::RequestCancelled, context);
            }
            None => {
                self.misrouted += 1;
                // Its head was never seen, and nothing else would end the stream and let the client open another.
                if !conn.has_written(stream) {
                    let code = WireErrorCode::RequestCancelled as u64;
                    let _ = conn.stream_shutdown(stream, Shutdown::Write, code);
                }
            }
        }
    }

    /// By the request's own field (RFC 9218 §4), or by a frame that came before it (§7.1), which weighs more.
    fn prioritize(&mut self, conn: &mut quiche::Connection, stream: u64, head: &RequestHead) {
        let mut fields = head.headers.iter();
        let field = fields.find(|(name, _)| name == "priority");
        let update = self.h3.take_last_priority_update(stream).ok();
        let value = update
            .as_deref()
            .or(field.map(|(_, value)| value.as_bytes()));
        if let Some(value) = value {
            self.set_priority(conn, stream, Priority::parse(value));
        }
    }

    fn on_priority_update(&mut self, conn: &mut quiche::Connection, stream: u64) {
        // Before its request it stays with quiche, which bounds it by the streams that the client may open.
        if self.open.contains_key(&stream)
            && let Ok(value) = self.h3.take_last_priority_update(stream)
        {
            self.set_priority(conn, stream, Priority::parse(&value));
        }
    }

    fn set_priority(&mut self, conn: &mut quiche::Connection, stream: u64, priority: Priority) {
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        let before = std::mem::replace(&mut exchange.priority, priority);
        if let Outbound::Replying(response) = &exchange.outbound {
            self.pending.remove(before, stream);
            // One that has nothing to write takes itself out again.
            self.pending.insert(priority, stream);
            if response.has_begun() {
                priority.apply(conn, stream);
            }
        }
    }
}

/// Which handler a request is for, and under what its answer may be kept.
struct Wanted {
    route: Arc<Route>,
    file: Option<Key>,
}

/// A file that the worker has in memory; or else what it would be found under.
fn from_memory(
    head: &RequestHead,
    route: &Route,
    context: &mut SessionContext,
) -> Result<Reply, Option<Key>> {
    let Action::Files(files) = &route.action else {
        return Err(None);
    };
    let key = Key::of(route.id, files, head, route.rest(&head.path)).ok_or(None)?;
    match context.cache.get(&key, context.now) {
        Some(entry) => {
            let mut reply = reply_from_memory(head, &entry);
            route.edit_response(&mut reply.headers);
            context.counters.from_memory += 1;
            Ok(reply)
        }
        None => Err(Some(key)),
    }
}

fn blank(list: &[Header], context: &SessionContext) -> Exchange {
    Exchange {
        begun: context.now,
        // Whatever is wrong with the rest: no body comes with the answer to it.
        is_head: { list.iter() }.any(|line| line.name() == b":method" && line.value() == b"HEAD"),
        priority: Priority::default(),
        inbound: Inbound::Over,
        outbound: Outbound::Silent,
        handler: None,
        content_length: None,
        limit: 0,
        received: 0,
        record: None,
    }
}

/// Who is at the other end now. Data that comes before the handshake is done is early data.
fn peer(conn: &quiche::Connection) -> Peer {
    let path = conn.path_stats().find(|path| path.active);
    let nobody = (std::net::Ipv4Addr::UNSPECIFIED, 0).into();
    Peer {
        address: path.as_ref().map_or(nobody, |path| path.peer_addr),
        local: path.map(|path| path.local_addr),
        early_data: !conn.is_established(),
    }
}

/// RFC 9110 §9.2.1.
fn is_safe(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE")
}
