//! Records of a session's requests for the access log and for spans.

use std::time::Duration;

use quiche::h3::Error;
use sluicegate_base::clock;
use sluicegate_base::observe::access::{Outcome, PathState};
use sluicegate_base::observe::account::WaitTimes;
use sluicegate_base::observe::telemetry::SpanStart;
use sluicegate_http::exchange::RequestHead;
use sluicegate_http::gate::{Ending, RequestRecord};
use sluicegate_http::peer::Peer;

use super::{Exchange, Http3Session};
use crate::h3::session_context::SessionContext;

/// Reason for which quiche closes a connection whose client has sent a section that it does not decode.
const UNPARSED: &[u8] = b"Error parsing headers.";

impl Http3Session {
    /// Begins the record of a request if it has a span or there is an access log. `raw_path` is a path that is refused.
    pub(super) fn note(
        &mut self,
        conn: &quiche::Connection,
        stream: u64,
        head: &RequestHead,
        raw_path: Option<&str>,
        span: Option<Box<SpanStart>>,
        context: &SessionContext,
    ) {
        let is_logged = context.logs.access.is_some();
        if !is_logged && span.is_none() {
            return;
        }
        let peer = self.peer(conn);
        if let Some(exchange) = self.open.get_mut(&stream) {
            let site = &context.site;
            exchange.record = RequestRecord::begin(peer, head, raw_path, span, site, is_logged);
        }
    }

    /// Begins the record of a request whose head is malformed or too large, if anything is recorded of it.
    pub(super) fn note_refused_head(
        &mut self,
        conn: &quiche::Connection,
        stream: u64,
        context: &SessionContext,
    ) {
        let peer = self.peer(conn);
        let is_logged = context.logs.access.is_some();
        if let Some(exchange) = self.open.get_mut(&stream) {
            exchange.record = RequestRecord::without_head(peer, &context.site, is_logged);
        }
    }

    /// Notes the cause for which a request is reset, unless another one is known.
    pub(super) fn set_cause(&mut self, stream: u64, cause: &'static str) {
        let exchange = self.open.get_mut(&stream);
        if let Some(record) = exchange.and_then(|exchange| exchange.record.as_mut()) {
            record.set_cause(cause);
        }
    }

    /// Records a request whose head made quiche close the connection, if `error` is about a head. quiche does not say of which stream.
    pub(super) fn record_refused_head(
        &self,
        conn: &quiche::Connection,
        error: &Error,
        context: &mut SessionContext,
    ) {
        let parses = conn.local_error().is_some_and(|local| local.reason == UNPARSED);
        let cause = match error {
            // Its frame may be too long to be read at all.
            Error::ExcessiveLoad
                if parses || self.h3.streams_without_head(conn).next().is_some() =>
            {
                context.counters.heads_too_large += 1;
                "head_too_large"
            }
            Error::QpackDecompressionFailed if parses => {
                context.counters.heads_ended += 1;
                "connection_error"
            }
            _ => return,
        };
        context.counters.requests += 1;
        let peer = self.peer(conn);
        let is_logged = context.logs.access.is_some();
        if let Some(mut record) = RequestRecord::without_head(peer, &context.site, is_logged) {
            record.set_cause(cause);
            let ending = Ending {
                begun: context.now,
                duration: Duration::ZERO,
                status: None,
                bytes_sent: 0,
                bytes_received: 0,
                outcome: Outcome::Reset,
                waits: WaitTimes::default(),
                path_state: path_state(conn),
            };
            record.write(&ending, &mut context.logs);
        }
    }

    /// Returns the client at present, where it has proved to receive: a request may have come from an address that is not validated
    /// yet. Data that arrives before the handshake is complete is early data.
    pub(super) fn peer(&self, conn: &quiche::Connection) -> Peer {
        Peer {
            address: self.path.client,
            proxy: None,
            local: Some(self.path.local),
            early_data: !conn.is_established(),
            connection: std::sync::Arc::clone(&self.connection),
        }
    }
}

/// Returns the state of the path that the client is on.
fn path_state(conn: &quiche::Connection) -> Option<PathState> {
    let path = conn.path_stats().find(|path| path.active)?;
    Some(PathState {
        rtt: path.min_rtt.map(|_| path.rtt),
        min_rtt: path.min_rtt,
        window: path.cwnd as u64,
        delivery_rate: Some(path.delivery_rate).filter(|rate| *rate > 0),
        retransmitted: path.stream_retrans_bytes,
        timeouts: Some(path.total_pto_count as u64),
    })
}

impl Exchange {
    /// Records a request that is over; once.
    pub(super) fn record(&mut self, conn: &quiche::Connection, context: &mut SessionContext) {
        let Some(outcome) = self.front.end() else {
            return;
        };
        let account = self.front.account();
        context.record_waits(account);
        if let Some(record) = self.record.take() {
            let ending = Ending {
                begun: account.begun(),
                duration: clock::between(account.begun(), context.now),
                status: self.status(),
                bytes_sent: self.front.sent(),
                bytes_received: self.front.received(),
                outcome,
                waits: account.spent(context.now, &context.account_now()),
                path_state: path_state(conn),
            };
            record.write(&ending, &mut context.logs);
        }
    }

    /// Returns the status of the final head, if that was handed to the stream.
    fn status(&self) -> Option<u16> {
        let response = self.response.as_ref()?;
        response.headed.then_some(response.status)
    }
}
