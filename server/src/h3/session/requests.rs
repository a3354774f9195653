//! Reads requests, and carries out the gate's decisions about them.

use http::Version;
use quiche::h3::{Event, Header, NameValue, WireErrorCode};
use sluicegate_base::keys::ExchangeKey;
use sluicegate_base::observe::telemetry::SpanStart;
use sluicegate_http::exchange::RequestHead;
use sluicegate_http::exchange::front::FrontExchange;
use sluicegate_http::exchange::message::Request;
use sluicegate_http::exchange::ring::OriginRing;
use sluicegate_http::exchange::stall::StallTimer;
use sluicegate_http::gate::{Decision, RequestArrival, RoutedRequest, replies};

use super::{Exchange, Http3Session};
use crate::h3::request::{self, Refusal};
use crate::h3::response::Response;
use crate::h3::schedule::Schedule;
use crate::h3::session_context::SessionContext;

impl Http3Session {
    pub(super) fn on_event(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        event: Event,
        context: &mut SessionContext,
    ) {
        match event {
            Event::Headers { list, more_frames } => {
                self.sections += 1;
                let lines = list.iter();
                let bytes = lines.map(|line| line.name().len() + line.value().len());
                self.section_bytes += bytes.sum::<usize>() as u64;
                if self.open.contains_key(&stream) {
                    self.on_trailers(conn, stream, &list, context);
                } else {
                    self.on_head(conn, stream, &list, more_frames, context);
                }
            }
            Event::Data => self.on_data(conn, stream, context),
            Event::Finished => self.on_end(conn, stream, context),
            Event::Reset(_) => self.on_body_reset(conn, stream, context),
            Event::PriorityUpdate => self.on_priority_update(conn, stream),
            // A client's GOAWAY limits pushes, and this server sends none.
            Event::GoAway => {}
        }
    }

    /// Refuses a request of which nothing else is known.
    fn refuse_head(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        refusal: &Refusal,
        context: &mut SessionContext,
    ) {
        let reply = match refusal {
            Refusal::Version => replies::other_websocket(Version::HTTP_3),
            Refusal::TooLarge => replies::head_too_large(),
            Refusal::Malformed | Refusal::Path(_) => {
                context.counters.heads_malformed += 1;
                self.set_cause(stream, "head_malformed");
                return self.malformed(conn, stream, context);
            }
        };
        self.refuse(conn, stream, reply, context);
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
            context.counters.gate.rejected += 1;
            return self.reset_stream(conn, stream, WireErrorCode::RequestRejected, context);
        }
        self.taken += 1;
        self.next_stream = self.next_stream.max(stream + 4);
        let most = context.site.limits().requests_per_connection;
        if most > 0 && self.taken >= most {
            self.leaving = true;
        }
        self.open.insert(stream, blank(list, context));
        self.plan_stall_check(conn, context);
        let (mut request, raw_path) = match request::parse(list, context.site.limits().header_bytes)
        {
            Ok(request) => (request, None),
            Err(Refusal::Path(refused)) => (refused.request, Some(refused.raw)),
            Err(refusal) => {
                self.note_refused_head(conn, stream, context);
                return self.refuse_head(conn, stream, &refusal, context);
            }
        };
        let span = self.identify(conn, stream, &mut request.head, context);
        self.note(conn, stream, &request.head, raw_path.as_deref(), span, context);
        if !more_frames && request.content_length.is_some_and(|length| length > 0) {
            return self.malformed(conn, stream, context);
        }
        self.prioritize(conn, stream, &request.head);
        let peer = self.peer(conn);
        let decision = context.gate().decide(&RequestArrival {
            head: &request.head,
            path_refused: raw_path.is_some(),
            peer: &peer,
            content_length: request.content_length,
            expects_status: request.expects_status,
            has_body: more_frames,
            running: self.running,
        });
        match decision {
            Decision::Refuse(refusal) => self.refuse(conn, stream, refusal, context),
            Decision::Discard(reply, limit) => {
                if let Some(exchange) = self.open.get_mut(&stream) {
                    exchange.front.discard(request.content_length, limit);
                    exchange.reply = Some(Box::new(reply));
                    // Where nothing follows the head, the reply begins in this turn.
                    if more_frames {
                        exchange.note_wait(conn, stream, context);
                    }
                }
            }
            Decision::Handle(mut routed) => {
                let expects_status = request.expects_status;
                let length = request.content_length;
                let handed = routed.request(request.head, peer, length, more_frames);
                self.hand_over(conn, stream, handed, routed, expects_status, context);
            }
        }
    }

    /// Brings the fields that identify a request into their form. Returns the beginning of its span, if it becomes one.
    fn identify(
        &mut self,
        conn: &quiche::Connection,
        stream: u64,
        head: &mut RequestHead,
        context: &mut SessionContext,
    ) -> Option<Box<SpanStart>> {
        let is_logged = context.logs.access.is_some();
        let is_trusted = || self.peer(conn).is_trusted_proxy();
        let identified = context.gate().identify(head, is_logged, is_trusted);
        if identified.returned_id.is_some()
            && let Some(exchange) = self.open.get_mut(&stream)
        {
            exchange.returned_id = identified.returned_id;
        }
        identified.span
    }

    /// Hands a request to a handler on the origin thread.
    fn hand_over(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        mut handed: Box<Request>,
        routed: RoutedRequest,
        expects_status: bool,
        context: &mut SessionContext,
    ) {
        let key = ExchangeKey { connection: self.key, stream };
        let more_frames = handed.has_body;
        handed.reads_ranges = true;
        let credit = context.origin_ring.as_ref().map_or(0, OriginRing::first_credit);
        let origin_ring = context.origin_ring.as_mut();
        if let Some(exchange) = self.open.get_mut(&stream) {
            handed.wants_report = exchange.record.is_some();
            exchange.front.prepare(&handed, routed.max_body(), credit);
        }
        let number = match context.counters.gate.open(origin_ring, key, handed) {
            Ok(number) => number,
            Err(mut refusal) => {
                routed.refuse(&mut refusal.reply);
                return self.refuse(conn, stream, refusal, context);
            }
        };
        self.running += 1;
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        exchange.front.hand_over(more_frames, routed.wait());
        exchange.number = Some(number);
        exchange.routed = Some(routed);
        let mut response = Response::awaited();
        if more_frames && expects_status {
            response.interim(100, Vec::new());
            self.pending.insert(exchange.schedule.place(), stream);
        }
        exchange.response = Some(response);
        exchange.note_wait(conn, stream, context);
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
                    && exchange.front.passes()
                {
                    exchange.trailers = Some(fields);
                }
            }
            Err(_) => self.malformed(conn, stream, context),
        }
    }
}

fn blank(list: &[Header], context: &SessionContext) -> Exchange {
    let mut method = list.iter().filter(|line| line.name() == b":method");
    let method = method.next().map(NameValue::value);
    Exchange {
        is_connect: method == Some(b"CONNECT"),
        schedule: Schedule::new(context.now),
        // A response to HEAD has no body, even if the rest of the head is malformed.
        front: FrontExchange::new(method == Some(b"HEAD"), context.now),
        response: None,
        reply: None,
        lingering: None,
        routed: None,
        has_tunnel: false,
        number: None,
        readable: false,
        trailers: None,
        stall: StallTimer::default(),
        has_changed: false,
        record: None,
        returned_id: None,
    }
}
