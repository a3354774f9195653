//! Errors that end connections.

use std::io;

use super::connection::Connection;
use super::refused_head::RefusedHead;
use super::refused_heads;

/// Error that ended a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error(transparent)]
    Http1(#[from] hyper::Error),
    #[error(transparent)]
    Http2(#[from] h2::Error),
    #[error(transparent)]
    Stream(#[from] io::Error),
}

/// Counts the error that ended a connection, unless the client merely went away.
pub(super) fn on_error(connection: &Connection, error: &ConnectionError) {
    tracing::trace!(%error, "a connection over TCP ended by an error");
    match error {
        ConnectionError::Http1(error) => on_http1_error(connection, error),
        ConnectionError::Stream(_) => {}
        ConnectionError::Http2(error) if error.is_io() => {}
        ConnectionError::Http2(_) => on_protocol_error(connection),
    }
}

fn on_http1_error(connection: &Connection, error: &hyper::Error) {
    if let Some(head) = RefusedHead::of(error) {
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
    let went_away = std::error::Error::source(error).is_some_and(|cause| cause.is::<io::Error>());
    if error.is_parse() || !(went_away || error.is_user() || error.is_incomplete_message()) {
        on_protocol_error(connection);
    }
}

/// Counts a client that broke the protocol.
fn on_protocol_error(connection: &Connection) {
    connection.front.count(|counters| {
        counters.connections.closed_protocol += 1;
        counters.requests.errors += 1;
    });
}
