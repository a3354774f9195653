//! What requests wait for.

use std::time::Instant;

use sluicegate_base::observe::account::{Account, RequestWait, Wait};
use sluicegate_base::observe::connections::{RequestSnapshot, SHOWN_REQUESTS};
use sluicegate_http::gate::RoutedRequest;

use super::{Exchange, Http3Session};
use crate::h3::response::Response;
use crate::h3::session_context::SessionContext;

impl Http3Session {
    /// Notes what a request waits for from now on.
    pub(super) fn note_wait(
        &mut self,
        conn: &quiche::Connection,
        stream: u64,
        context: &SessionContext,
    ) {
        if let Some(exchange) = self.open.get_mut(&stream) {
            exchange.note_wait(conn, stream, context);
        }
    }

    /// Notes the waits of the requests whose state has changed in this turn. Called once they have written what they could: most
    /// responses are complete then.
    pub(super) fn note_waits_of_changed(
        &mut self,
        conn: &quiche::Connection,
        context: &SessionContext,
    ) {
        while let Some(stream) = self.changed.pop() {
            if let Some(exchange) = self.open.get_mut(&stream) {
                exchange.has_changed = false;
                exchange.note_wait(conn, stream, context);
            }
        }
    }

    /// Notes the waits of all requests whose responses have something to write.
    pub(super) fn note_waits_of_pending(
        &mut self,
        conn: &quiche::Connection,
        context: &SessionContext,
    ) {
        let pending: Vec<u64> = self.pending.behind(None).map(|(_, stream)| stream).collect();
        for stream in pending.into_iter().chain(self.pending.shared()) {
            self.note_wait(conn, stream, context);
        }
    }
}

impl Http3Session {
    /// Returns the oldest open requests of a connection with this account, with their targets if `is_named`.
    pub(super) fn requests_at(
        &self,
        account: &Account,
        is_named: bool,
        now: Instant,
    ) -> Vec<RequestSnapshot> {
        let mut streams: Vec<u64> = self.open.keys().copied().collect();
        streams.sort_unstable();
        let mark = account.at(now);
        let (wait, since) = account.wait();
        let of_connection = (wait, now.saturating_duration_since(since));
        let oldest = streams.into_iter().take(SHOWN_REQUESTS);
        let shown = oldest.filter_map(|stream| Some((stream, self.open.get(&stream)?)));
        shown
            .map(|(stream, exchange)| {
                let of_request = exchange.front.account();
                let record = exchange.record.as_ref().filter(|_| is_named);
                let target = record.map(|record| record.target());
                let (wait, waiting) = of_request.current(now, of_connection);
                RequestSnapshot {
                    stream,
                    target: target.map(|(method, path)| (method.to_owned(), path.to_owned())),
                    age: now.saturating_duration_since(of_request.begun()),
                    wait,
                    waiting,
                    spent: of_request.spent(now, &mark),
                    sent: exchange.front.sent(),
                    received: exchange.front.received(),
                }
            })
            .collect()
    }
}

impl Exchange {
    /// Notes what the request waits for from now on.
    pub(super) fn note_wait(
        &mut self,
        conn: &quiche::Connection,
        stream: u64,
        context: &SessionContext,
    ) {
        // A client whose window others have filled may not send.
        let awaits_body = self.awaits_body() && !conn.is_window_shut(stream);
        let output = self.output(conn, stream);
        self.front.note_wait(awaits_body, output, || (context.now, context.account_now()));
    }

    /// Returns whether somebody reads the request's body, and has read all that arrived.
    pub(super) fn awaits_body(&self) -> bool {
        // Nobody waits for the next bytes of a tunnel.
        let is_tunnel = self.routed.as_ref().is_some_and(RoutedRequest::is_tunnel);
        let waits = !is_tunnel && !self.readable && self.front.room() > 0;
        self.front.reads() && (waits || !self.front.passes())
    }

    /// Returns whether a response has something to write that its client has room for.
    pub(super) fn waits_for_server(&self, conn: &quiche::Connection, stream: u64) -> bool {
        self.output(conn, stream) == Some(RequestWait::Connection)
    }

    /// Returns what keeps a part of the response from being sent; `None` if none is ready.
    fn output(&self, conn: &quiche::Connection, stream: u64) -> Option<RequestWait> {
        let next_write = |response: &Response| response.next_write(&self.front);
        let least = self.response.as_ref().and_then(next_write)?;
        let refused = conn.peer_allowance(stream).is_some_and(|allowed| allowed < least);
        Some(match refused {
            true if conn.connection_allowance() < least => RequestWait::Own(Wait::ConnectionFlow),
            true => RequestWait::Own(Wait::StreamFlow),
            false => RequestWait::Connection,
        })
    }
}
