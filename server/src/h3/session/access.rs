//! The access log line of a request.

use std::net::SocketAddr;

use http::HeaderValue;
use http::header::{REFERER, USER_AGENT};

use super::record::RequestRecord;
use super::{Exchange, Outbound, Session};
use crate::clock;
use crate::h3::session_context::SessionContext;
use crate::http::exchange::RequestHead;
use crate::observe::access::{Outcome, Record};

impl Session {
    /// Keeps what the access log, if there is one, will want of a request. `raw_path` is a path that is refused.
    pub(super) fn note(
        &mut self,
        stream: u64,
        client: SocketAddr,
        head: Option<&RequestHead>,
        raw_path: Option<&str>,
        context: &SessionContext,
    ) {
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        if context.access.is_none() || self.connection_record.is_none() {
            return;
        }
        let text = |of: fn(&RequestHead) -> &String| head.map(of).cloned().unwrap_or_default();
        let field = |wanted| {
            let mut fields = head.into_iter().flat_map(|head| &head.headers);
            fields
                .find(|(name, _)| *name == wanted)
                .map(|(_, value)| value.clone())
        };
        exchange.record = Some(Box::new(RequestRecord {
            received: clock::unix(),
            client,
            method: text(|head| &head.method),
            authority: text(|head| &head.authority),
            path: raw_path
                .or(head.map(|head| head.path.as_str()))
                .unwrap_or_default()
                .to_owned(),
            query: head.and_then(|head| head.query.clone()),
            referer: field(REFERER),
            user_agent: field(USER_AGENT),
        }));
    }

    /// Writes the line of a request that is over; once.
    pub(super) fn record(&mut self, stream: u64, outcome: Outcome, context: &mut SessionContext) {
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        let (Some(access), Some(connection_record)) =
            (context.access.as_mut(), &self.connection_record)
        else {
            return;
        };
        let Some(record) = exchange.record.take() else {
            return;
        };
        access.record(&Record {
            received: record.received,
            duration: context.now.saturating_duration_since(exchange.begun),
            client: record.client,
            listener: &connection_record.listener,
            method: &record.method,
            authority: &record.authority,
            path: &record.path,
            query: record.query.as_deref(),
            status: exchange.status(),
            bytes_sent: exchange.sent(),
            bytes_received: exchange.received,
            referer: record.referer.as_ref().map(HeaderValue::as_bytes),
            user_agent: record.user_agent.as_ref().map(HeaderValue::as_bytes),
            connection: &connection_record.connection,
            algorithm: connection_record.algorithm,
            outcome,
        });
    }
}

impl Exchange {
    /// Returns the status of the final head, if it was handed to the stream.
    fn status(&self) -> Option<u16> {
        match &self.outbound {
            Outbound::Replying(response) if response.headed => Some(response.status),
            _ => None,
        }
    }

    fn sent(&self) -> u64 {
        match &self.outbound {
            Outbound::Replying(response) => response.sent,
            _ => 0,
        }
    }
}
