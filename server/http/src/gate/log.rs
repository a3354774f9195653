//! The record of a request for the access log and for its span, the same by every front.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use http::header::{REFERER, USER_AGENT};
use sluicegate_base::clock;
use sluicegate_base::observe::access::{AccessLog, Outcome, PathState, Record};
use sluicegate_base::observe::account::WaitTimes;
use sluicegate_base::observe::request_logs::RequestLogs;
use sluicegate_base::observe::telemetry::{Span, SpanStart, UpstreamCall};

use crate::exchange::message::HandlerReport;
use crate::exchange::{Fields, RequestHead};
use crate::peer::Peer;
use crate::route::Site;

/// Cause of the reset of a request whose body or trailers are malformed.
pub const BODY_MALFORMED: &str = "body_malformed";

/// Facts of a request for the access log and for its span, kept from its head to its end.
#[derive(Debug)]
pub struct RequestRecord {
    /// Time of the head, since 1970.
    received: Duration,
    peer: Peer,
    method: String,
    authority: String,
    path: String,
    query: Option<String>,
    referer: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
    request_id: Option<HeaderValue>,
    traceparent: Option<HeaderValue>,
    /// Name of the route, if the request becomes a span.
    route: Option<Arc<str>>,
    /// Beginning of its span, if it becomes one.
    span: Option<Box<SpanStart>>,
    /// Facts that the handler reported.
    report: HandlerReport,
}

/// Outcome of a request and figures about it.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// Time when the head arrived.
    pub begun: Instant,
    /// Time since the head arrived.
    pub duration: Duration,
    /// Status of the final response, if its head was sent.
    pub status: Option<u16>,
    /// Bytes of the response's body that were sent.
    pub bytes_sent: u64,
    /// Bytes of the request's body that were received.
    pub bytes_received: u64,
    /// Completeness of the response, or the side that ended it early.
    pub outcome: Outcome,
    /// Time spent on each wait.
    pub waits: WaitTimes,
    /// State of the path at the end, if it is known.
    pub path_state: Option<PathState>,
}

impl RequestRecord {
    /// Begins the record of a request if anything is recorded of it: a line in the access log if `is_logged`, or a span. `raw_path` is a
    /// path that was refused.
    pub fn begin(
        peer: Peer,
        head: &RequestHead,
        raw_path: Option<&str>,
        span: Option<Box<SpanStart>>,
        site: &Site,
        is_logged: bool,
    ) -> Option<Box<RequestRecord>> {
        if !is_logged && span.is_none() {
            return None;
        }
        let field = |wanted| {
            let mut fields = head.headers.iter();
            fields.find(|(name, _)| *name == wanted).map(|(_, value)| value.clone())
        };
        let (version, identification) = (peer.connection.version, site.identification());
        let is_routed = span.is_some() && raw_path.is_none();
        let route = if is_routed { site.find(head).ok() } else { None };
        Some(Box::new(RequestRecord {
            received: clock::unix(),
            peer: peer.of_request(&head.headers),
            method: head.method_sent(version).to_owned(),
            authority: head.authority.clone(),
            path: raw_path.unwrap_or(head.path.as_str()).to_owned(),
            query: head.query.as_deref().map(str::to_owned),
            referer: field(REFERER),
            user_agent: field(USER_AGENT),
            request_id: identification.request_id(&head.headers).cloned(),
            traceparent: identification.traceparent(&head.headers).cloned(),
            route: route.map(|route| Arc::clone(route.name())),
            span,
            report: HandlerReport::default(),
        }))
    }

    /// Begins the record of a request whose head was malformed or was not read, if anything is recorded of it. Its fields stay empty.
    pub fn without_head(peer: Peer, site: &Site, is_logged: bool) -> Option<Box<RequestRecord>> {
        let span = site.identification().begin_span(&mut Fields::new(), || false);
        if !is_logged && span.is_none() {
            return None;
        }
        Some(Box::new(RequestRecord {
            received: clock::unix(),
            peer,
            method: String::new(),
            authority: String::new(),
            path: String::new(),
            query: None,
            referer: None,
            user_agent: None,
            request_id: None,
            traceparent: None,
            route: None,
            span,
            report: HandlerReport::default(),
        }))
    }

    /// Returns the method, and the path without its query.
    pub fn target(&self) -> (&str, &str) {
        (&self.method, &self.path)
    }

    /// Takes facts that the handler reports, in place of those before. A cause that is known stays.
    pub fn report(&mut self, report: HandlerReport) {
        let cause = report.cause.or(self.report.cause);
        self.report = HandlerReport { cause, ..report };
    }

    /// Takes the cause for which the server itself responds with a 5xx status or 429, or resets the stream, unless the handler has
    /// reported one.
    pub fn set_cause(&mut self, cause: &'static str) {
        self.report.cause.get_or_insert(cause);
    }

    /// Takes the end of a handler that did not complete its response, with the status that it is known for.
    pub fn on_abort(&mut self, status: u16) {
        self.set_cause(match status {
            504 => "route_timeout",
            _ => "handler_failed",
        });
    }

    /// Takes the reset of a response that had begun, by the status of the reply that came too late.
    pub fn on_cut(&mut self, status: u16) {
        match status {
            400 => self.set_cause(BODY_MALFORMED),
            413 => self.set_cause("body_too_large"),
            // The cause of all others is known.
            _ => {}
        }
    }

    /// Records a request that has ended: its line and its span.
    pub fn write(mut self, ending: &Ending, logs: &mut RequestLogs) {
        if let Some(access) = &mut logs.access {
            self.write_line(ending, access);
        }
        if let Some(spans) = &mut logs.spans
            && let Some(start) = self.span.take()
        {
            let query = self.query.take().filter(|_| spans.has_queries());
            spans.record(self.into_span(*start, query, ending));
        }
    }

    fn into_span(self, start: SpanStart, query: Option<String>, ending: &Ending) -> Span {
        let connection = &self.peer.connection;
        let HandlerReport { upstream, attempts, upstream_times, cause } = self.report;
        Span {
            start,
            received: self.received,
            duration: ending.duration,
            client: self.peer.address,
            proxy: self.peer.proxy,
            listener: Arc::clone(&connection.listener),
            protocol: connection.protocol(),
            scheme: connection.scheme,
            method: self.method,
            authority: self.authority,
            path: self.path,
            query,
            route: self.route,
            status: ending.status,
            bytes_sent: ending.bytes_sent,
            bytes_received: ending.bytes_received,
            user_agent: self.user_agent.map(|value| value.as_bytes().to_vec()),
            request_id: self.request_id.map(|value| value.as_bytes().to_vec()),
            connection: connection.id.clone(),
            outcome: ending.outcome,
            cause,
            waits: ending.waits,
            upstream: upstream.zip(upstream_times.begun).map(|(address, begun)| UpstreamCall {
                address,
                attempts,
                after: begun.saturating_duration_since(ending.begun),
                times: upstream_times,
            }),
        }
    }

    fn write_line(&self, ending: &Ending, access: &mut AccessLog) {
        let connection = &self.peer.connection;
        access.record(&Record {
            received: self.received,
            duration: ending.duration,
            client: self.peer.address,
            proxy: self.peer.proxy,
            listener: &connection.listener,
            protocol: connection.protocol(),
            method: &self.method,
            authority: &self.authority,
            path: &self.path,
            query: self.query.as_deref(),
            status: ending.status,
            bytes_sent: ending.bytes_sent,
            bytes_received: ending.bytes_received,
            referer: self.referer.as_ref().map(HeaderValue::as_bytes),
            user_agent: self.user_agent.as_ref().map(HeaderValue::as_bytes),
            connection: &connection.id,
            algorithm: connection.algorithm,
            outcome: ending.outcome,
            waits: ending.waits,
            path_state: ending.path_state,
            upstream: self.report.upstream.as_deref(),
            attempts: self.report.attempts,
            upstream_times: self.report.upstream_times,
            cause: self.report.cause,
            request_id: self.request_id.as_ref().map(HeaderValue::as_bytes),
            traceparent: self.traceparent.as_ref().map(HeaderValue::as_bytes),
            tls: connection.tls,
            server_name: connection.server_name.as_deref(),
            client_subject: { connection.client_certificate.as_ref() }
                .map(|certificate| &*certificate.subject),
        });
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_config::Config;

    use super::*;
    use crate::peer::PeerConnection;

    fn record() -> Box<RequestRecord> {
        let connection = PeerConnection::http3(Arc::from("l"), Box::default(), "cubic");
        let peer = Peer {
            address: "192.0.2.1:5000".parse().unwrap(),
            proxy: None,
            local: None,
            early_data: false,
            connection: Arc::new(connection),
        };
        let site = Site::of_routes("", &Config::embedded().limits);
        RequestRecord::without_head(peer, &site, true).unwrap()
    }

    fn tried(attempts: u64, cause: Option<&'static str>) -> HandlerReport {
        HandlerReport { attempts, cause, ..HandlerReport::default() }
    }

    #[test]
    fn a_report_replaces_the_one_before_but_a_known_cause_stays() {
        let mut record = record();
        record.report(tried(1, None));
        assert_eq!(record.report, tried(1, None));
        record.report(tried(2, Some("connect")));
        record.report(tried(3, None));
        assert_eq!(record.report, tried(3, Some("connect")));
        record.report(tried(4, Some("timeout")));
        assert_eq!(record.report, tried(4, Some("timeout")));
    }

    #[test]
    fn a_response_that_is_cut_names_what_was_wrong_with_the_body_unless_another_cause_is_known() {
        for (status, cause) in
            [(400, Some("body_malformed")), (413, Some("body_too_large")), (503, None)]
        {
            let mut cut = record();
            cut.on_cut(status);
            assert_eq!(cut.report, tried(0, cause));
            let mut known = record();
            known.set_cause("no_room");
            known.on_cut(status);
            assert_eq!(known.report, tried(0, Some("no_room")));
        }
    }

    #[test]
    fn an_abort_names_its_cause_unless_the_handler_has_named_one() {
        for (status, cause) in [(504, "route_timeout"), (502, "handler_failed")] {
            let mut record = record();
            record.on_abort(status);
            assert_eq!(record.report, tried(0, Some(cause)));
            record.report(tried(1, Some("connect")));
            record.on_abort(status);
            assert_eq!(record.report, tried(1, Some("connect")));
        }
    }
}
