//! What requests wait for.

use sluicegate_base::observe::account::{RequestWait, Wait};
use sluicegate_http::gate::Handling;

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
            let (awaits_body, output) = (exchange.awaits_body(), exchange.output(conn, stream));
            exchange.front.note_wait(awaits_body, output, || (context.now, context.account));
        }
    }

    /// Notes what the requests wait for of which handlers have told something. Called once they have written what they could: most
    /// responses are complete then.
    pub(super) fn note_waits_of_told(
        &mut self,
        conn: &quiche::Connection,
        context: &SessionContext,
    ) {
        while let Some(stream) = self.told.pop() {
            self.note_wait(conn, stream, context);
        }
    }
}

impl Exchange {
    /// Returns whether somebody reads the request's body, and has read all that arrived.
    pub(super) fn awaits_body(&self) -> bool {
        // Nobody waits for the next bytes of a tunnel.
        let is_tunnel = self.handling.as_ref().is_some_and(Handling::is_tunnel);
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
        Some(if refused { RequestWait::Own(Wait::StreamFlow) } else { RequestWait::Connection })
    }
}
