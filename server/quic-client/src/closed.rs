//! Explains why a connection is closed.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;

/// H3_NO_ERROR (RFC 9114 §8.1).
pub const NO_ERROR: u64 = 0x100;

/// CONNECTION_REFUSED (RFC 9000 §20.1).
const CONNECTION_REFUSED: u64 = 0x2;
/// TLS alert `no_application_protocol`: codes from 0x100 to 0x1ff are alerts (RFC 9001 §4.8).
const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;

/// The end of a connection. Its text is one line that names the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Address of the server.
    pub peer: SocketAddr,
    /// Why the connection is closed.
    pub cause: Cause,
}

/// Why a connection is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The server speaks QUIC, but none of the protocols that the client offers.
    NoHttp3,
    /// The server refuses connections.
    Refused,
    /// The server has closed the connection.
    ByPeer(CloseReason),
    /// Nothing has arrived for as long as the idle timeout.
    Silent,
    /// The certificate of the server is not trusted, for this reason.
    Untrusted(&'static str),
    /// The server broke the protocol, so this side has closed the connection.
    ByClient(CloseReason),
    /// The server has reset the connection, or speaks other versions of QUIC.
    Unknown,
}

/// Contents of a CONNECTION_CLOSE frame. A precision limits the characters of its text: `{reason:.80}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReason {
    /// Whether the code is HTTP/3's rather than QUIC's.
    pub is_http: bool,
    /// Error code.
    pub code: u64,
    /// Text of the side that has closed the connection, without control characters.
    pub text: String,
}

impl CloseReason {
    fn new(error: &quiche::ConnectionError) -> CloseReason {
        let text = readable(&error.reason);
        CloseReason { is_http: error.is_app, code: error.error_code, text }
    }
}

impl Display for CloseReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let layer = if self.is_http { "HTTP/3" } else { "QUIC" };
        write!(f, "{layer} code {:#x} ", self.code)?;
        f.pad(&self.text)
    }
}

impl Display for Closed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let peer = self.peer;
        match &self.cause {
            Cause::NoHttp3 => write!(f, "{peer} speaks QUIC but no HTTP/3"),
            Cause::Refused => write!(f, "{peer} refuses connections"),
            Cause::ByPeer(reason) => write!(f, "{peer} closed the connection: {reason}"),
            Cause::Silent => write!(f, "{peer} fell silent"),
            Cause::Untrusted(reason) => {
                write!(f, "the certificate of {peer} is not trusted: {reason}")
            }
            Cause::ByClient(CloseReason { code, text, .. }) => {
                write!(f, "{peer} broke the protocol: code {code:#x} {text}")
            }
            Cause::Unknown => {
                write!(f, "{peer} closed the connection or speaks no version of QUIC known here")
            }
        }
    }
}

impl Cause {
    /// Returns why a connection is closed that is.
    pub(crate) fn of(quic: &mut quiche::Connection) -> Cause {
        if let Some(error) = quic.peer_error() {
            return match (error.is_app, error.error_code) {
                (false, NO_APPLICATION_PROTOCOL) => Cause::NoHttp3,
                (false, CONNECTION_REFUSED) => Cause::Refused,
                _ => Cause::ByPeer(CloseReason::new(error)),
            };
        }
        if quic.is_timed_out() {
            return Cause::Silent;
        }
        // A client that trusts anyone has completed its handshake in spite of the certificate.
        if !quic.is_established()
            && let Some(ssl) = quic.ssl_mut()
            && let Err(reason) = ssl.verify_result()
        {
            return Cause::Untrusted(reason.error_string());
        }
        let error = quic.local_error();
        error.map_or(Cause::Unknown, |error| Cause::ByClient(CloseReason::new(error)))
    }
}

/// Returns text of a server without its control characters, which a terminal would obey.
pub fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(cause: Cause) -> String {
        Closed { peer: SocketAddr::from(([127, 0, 0, 1], 443)), cause }.to_string()
    }

    #[test]
    fn text_of_a_server_has_no_control_characters_and_can_be_cut() {
        assert_eq!(readable(b"no\x1b[2J\xff"), "no\u{fffd}[2J\u{fffd}");
        let reason = CloseReason { is_http: true, code: NO_ERROR, text: "a".repeat(10_000) };
        assert_eq!(format!("{reason:.80}"), format!("HTTP/3 code 0x100 {}", "a".repeat(80)));
    }

    #[test]
    fn the_end_of_a_connection_is_a_line_about_the_server() {
        let reason = CloseReason { is_http: false, code: 0xa, text: "why".into() };
        for (cause, expected) in [
            (
                Cause::ByPeer(reason.clone()),
                "127.0.0.1:443 closed the connection: QUIC code 0xa why",
            ),
            (Cause::ByClient(reason), "127.0.0.1:443 broke the protocol: code 0xa why"),
            (Cause::Silent, "127.0.0.1:443 fell silent"),
            (Cause::Untrusted("old"), "the certificate of 127.0.0.1:443 is not trusted: old"),
        ] {
            assert_eq!(closed(cause), expected);
        }
    }
}
