//! Explains why a connection ended.

use std::net::SocketAddr;

use anyhow::anyhow;

use super::connection::ClientConnection;

/// Returns in one line why a connection ended.
pub(super) fn closed(client: &mut ClientConnection) -> anyhow::Error {
    let peer = client.peer;
    if let Some(error) = client.connection.peer_error() {
        return by_peer(peer, error);
    }
    if client.connection.is_timed_out() {
        return anyhow!("{peer} fell silent");
    }
    if let Err(reason) = client.connection.as_mut().verify_result() {
        return anyhow!(
            "the certificate of {peer} is not trusted: {} (--cacert names its issuer, -k skips the check)",
            reason.error_string()
        );
    }
    match client.connection.local_error() {
        Some(error) => anyhow!(
            "{peer} broke the protocol: code {:#x} {}",
            error.error_code,
            readable(&error.reason)
        ),
        None => anyhow!("{peer} closed the connection or speaks no version of QUIC known here"),
    }
}

/// Explains the peer's CONNECTION_CLOSE. Codes of the transport from 0x100 to 0x1ff are TLS alerts (RFC 9001 §4.8).
fn by_peer(peer: SocketAddr, error: &quiche::ConnectionError) -> anyhow::Error {
    const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;
    match (error.is_app, error.error_code) {
        (false, NO_APPLICATION_PROTOCOL) => anyhow!("{peer} speaks QUIC but no HTTP/3"),
        (false, 0x2) => anyhow!("{peer} refuses connections"),
        (is_app, code) => {
            let layer = if is_app { "HTTP/3" } else { "QUIC" };
            let reason = readable(&error.reason);
            anyhow!("{peer} closed the connection: {layer} code {code:#x} {}", reason)
        }
    }
}

/// Returns text of the server without its control characters, which a terminal would obey.
pub(super) fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.replace(char::is_control, "\u{fffd}")
}
