//! Why connections end.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

/// Longest text of a server that is shown, characters.
const MAX_REASON: usize = 80;
/// Advice for a server that does not respond.
const CHECK: &str = "check that a server of HTTP/3 listens there and that UDP may pass";

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
                "connection refused by {peer}: nothing listens on this UDP port; check host and port"
            )
        }
        _ => format!("cannot send to {peer}: {error}"),
    };
    if heard {
        End::Failed(cause)
    } else {
        End::Unreachable(cause)
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

/// Returns the end of a connection that was closed, by either side.
pub(crate) fn of_connection(quic: &mut quiche::Connection, peer: SocketAddr) -> End {
    /// Codes from 0x100 to 0x1ff are alerts of TLS (RFC 9001 §4.8).
    const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;
    if let Some(error) = quic.peer_error() {
        return End::Failed(match (error.is_app, error.error_code) {
            (false, NO_APPLICATION_PROTOCOL) => format!("{peer} speaks QUIC but no HTTP/3"),
            (false, 0x2) => format!("{peer} refuses connections"),
            (is_app, code) => {
                let layer = if is_app { "HTTP/3" } else { "QUIC" };
                let reason = readable(&error.reason);
                format!("{peer} closed the connection with {layer} code {code:#x} {reason}")
            }
        });
    }
    let established = quic.is_established();
    if quic.is_timed_out() && established {
        return End::Failed(format!("{peer} fell silent"));
    }
    if quic.is_timed_out() {
        return End::Unreachable(format!("no response from {peer}; {CHECK}"));
    }
    // Without --cacert, an untrusted certificate ends no handshake.
    if !established && let Err(reason) = quic.as_mut().verify_result() {
        let reason = reason.error_string();
        return End::Failed(format!(
            "the certificate of {peer} is not trusted: {reason}"
        ));
    }
    End::Failed(match quic.local_error() {
        Some(error) => {
            let (code, reason) = (error.error_code, readable(&error.reason));
            format!("{peer} broke the protocol: code {code:#x} {reason}")
        }
        None => format!("{peer} closed the connection or speaks no version of QUIC known here"),
    })
}

/// Returns text of the server without its control characters, which a terminal would obey.
fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let shown = text.chars().take(MAX_REASON);
    shown
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_server_is_short_and_without_control_characters() {
        assert_eq!(readable(b"no\x1b[2J\xff"), "no\u{fffd}[2J\u{fffd}");
        assert_eq!(readable(&[b'a'; 10_000]).len(), MAX_REASON);
    }
}
