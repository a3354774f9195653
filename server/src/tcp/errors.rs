//! Errors that end connections.

use super::connection::Connection;
use super::refused_head::RefusedHead;
use super::refused_heads;

/// Counts the error that ended a connection, unless the client merely went away.
pub(super) fn on_error(connection: &Connection, error: &hyper::Error) {
    tracing::trace!(%error, "a connection over TCP ended by an error");
    if let Some(head) = RefusedHead::of(error).filter(|_| !connection.is_http2()) {
        refused_heads::record(connection, head);
    }
    if error.is_timeout() {
        let front = &connection.front;
        front.count(|counters| {
            counters.connections.closed_stalled += 1;
            counters.requests.stalled_heads += 1;
        });
        return;
    }
    let went_away =
        std::error::Error::source(error).is_some_and(|cause| cause.is::<std::io::Error>());
    if error.is_parse() || !(went_away || error.is_user() || error.is_incomplete_message()) {
        connection.front.count(|counters| {
            counters.connections.closed_protocol += 1;
            counters.requests.errors += 1;
        });
    }
}
