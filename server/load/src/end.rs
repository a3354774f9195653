//! Why connections end.

use std::error::Error as _;
use std::fmt::Debug;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

use boring::error::ErrorStack;
use boring::ssl::HandshakeError;
use sluicegate_quic_client::{Cause, Closed, readable};

use crate::protocol::Version;

/// Longest text of a server that is shown, characters.
const MAX_REASON: usize = 80;
/// Advice for a server that does not respond over QUIC.
const CHECK: &str = "check that a server of HTTP/3 listens there and that UDP may pass, or load one without QUIC by --alpn-list=h2";

/// End of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All its requests have ended.
    Done,
    /// The server takes no further requests on it, and has no open one.
    GoneAway,
    /// It was closed by an option's timeout.
    TimedOut,
    /// Nothing listens at the address, which has never responded.
    Unreachable(String),
    /// It failed.
    Failed(String),
}

/// Returns the end after an error of the socket.
pub(crate) fn of_socket(peer: SocketAddr, error: &Error, heard: bool) -> End {
    let cause = match error.kind() {
        ErrorKind::ConnectionRefused if heard => format!("{peer} has stopped listening"),
        ErrorKind::ConnectionRefused => {
            format!(
                "connection refused by {peer}: nothing listens on this UDP port; check host and port, or load a server without QUIC by \
                 --alpn-list=h2"
            )
        }
        _ => format!("cannot send to {peer}: {error}"),
    };
    if heard { End::Failed(cause) } else { End::Unreachable(cause) }
}

/// Returns the end of a connection over TCP that could not be made.
pub(crate) fn of_connect(peer: SocketAddr, error: &Error) -> End {
    End::Unreachable(match error.kind() {
        ErrorKind::ConnectionRefused => format!(
            "connection refused by {peer}: nothing listens on this TCP port; check host and port"
        ),
        _ => format!("cannot connect to {peer}: {error}"),
    })
}

/// Returns the end after a handshake of TLS over TCP that has failed.
pub(crate) fn of_tls<S: Debug>(
    peer: SocketAddr,
    error: &HandshakeError<S>,
    offered: &[Version],
) -> End {
    let HandshakeError::Failure(stream) = error else {
        return End::Failed(format!("cannot begin TLS with {peer}: {error}"));
    };
    let stack = stream.error().ssl_error();
    let errors = stack.map_or(&[][..], ErrorStack::errors);
    let reasons = || errors.iter().filter_map(boring::error::Error::reason);
    if reasons().any(|reason| reason.ends_with("NO_APPLICATION_PROTOCOL")) {
        return of_no_protocol(peer, offered);
    }
    if let Err(reason) = stream.ssl().verify_result() {
        let reason = reason.error_string();
        return End::Failed(format!("the certificate of {peer} is not trusted: {reason}"));
    }
    let reason = reasons().next().map(str::to_owned);
    let reason = reason.or_else(|| Some(stream.error().io_error()?.to_string()));
    let reason = reason.unwrap_or_else(|| "it closed the connection".into());
    End::Failed(format!("the TLS handshake with {peer} failed: {reason}"))
}

/// Returns the end of a connection whose server has picked none of the protocols that were offered.
pub(crate) fn of_no_protocol(peer: SocketAddr, offered: &[Version]) -> End {
    let names: Vec<_> = offered.iter().map(|version| version.alpn()).collect();
    End::Failed(format!(
        "{peer} speaks no protocol of the list {}; change --alpn-list",
        names.join(",")
    ))
}

/// Returns the end of a connection over TCP in which HTTP has begun, after an error of hyper if there was one.
pub(crate) fn of_stream(peer: SocketAddr, error: Option<&hyper::Error>) -> End {
    let Some(error) = error.filter(|error| !is_close(error)) else {
        return End::Failed(format!("{peer} closed the connection before a response was complete"));
    };
    let cause = error.source().map(|cause| format!(": {cause}"));
    let text = format!("{error}{}", cause.unwrap_or_default());
    let text = readable(text.as_bytes());
    End::Failed(format!("{peer} broke the protocol: {text:.MAX_REASON$}"))
}

/// Returns the end of a connection of HTTP/2 without TLS (h2c) whose server has not begun HTTP/2. It has responded by HTTP/1.1, if
/// `is_http1`, and may speak that alone otherwise.
pub(crate) fn without_h2c(peer: SocketAddr, end: End, is_http1: bool) -> End {
    match end {
        End::Failed(_) if is_http1 => {
            End::Failed(format!("{peer} speaks HTTP/1.1 but no h2c; use --h1"))
        }
        End::Failed(cause) => {
            End::Failed(format!("{cause}; if it speaks HTTP/1.1 alone, use --h1"))
        }
        other => other,
    }
}

/// Returns whether an error of hyper says only that the server has closed the connection.
pub(crate) fn is_close(error: &hyper::Error) -> bool {
    let mut cause = error.source();
    let mut of_socket = false;
    while let Some(found) = cause {
        of_socket |= found.is::<Error>();
        of_socket |= found.downcast_ref::<h2::Error>().is_some_and(h2::Error::is_io);
        cause = found.source();
    }
    of_socket || error.is_incomplete_message() || error.is_canceled() || error.is_closed()
}

/// Returns why a connection over TCP had no handshake when the run ended.
pub(crate) fn of_tcp_handshake(peer: SocketAddr, connected: bool) -> String {
    if connected {
        format!("the handshake with {peer} was not complete at the end")
    } else {
        format!("no response from {peer} until the end; check that a server listens there")
    }
}

/// Returns why a connection had no handshake when the run ended.
pub(crate) fn of_handshake(peer: SocketAddr, heard: bool) -> String {
    if heard {
        format!("the handshake with {peer} was not complete at the end")
    } else {
        format!("no response from {peer} until the end; {CHECK}")
    }
}

/// Returns the end of a connection of QUIC that was closed, by either side.
pub(crate) fn of_connection(closed: &Closed, established: bool) -> End {
    let peer = closed.peer;
    End::Failed(match &closed.cause {
        Cause::NoHttp3 => format!("{closed}; --alpn-list=h2 tries HTTP/2 over TCP"),
        Cause::ByPeer(reason) => {
            format!("{peer} closed the connection with {reason:.MAX_REASON$}")
        }
        Cause::Silent if !established => {
            return End::Unreachable(format!("no response from {peer}; {CHECK}"));
        }
        _ => closed.to_string(),
    })
}
