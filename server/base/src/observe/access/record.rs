//! Facts of a request for the access log.

use std::time::{Duration, Instant};

use boring::ssl::{SslCipherRef, SslRef};

use crate::address::ValidatedAddress;
use crate::observe::account::WaitTimes;

/// End of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The whole response was handed to its stream.
    Complete,
    /// The client reset or stopped the stream, or closed the connection.
    Cancelled,
    /// The server reset the stream: the client took nothing of the response for too long, or sent nothing of the body.
    Stalled,
    /// The server reset the stream: the request was malformed, or its response could not be finished.
    Reset,
}

impl Outcome {
    /// Returns the word for it in a line.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Complete => "complete",
            Outcome::Cancelled => "cancelled",
            Outcome::Stalled => "stalled",
            Outcome::Reset => "reset",
        }
    }
}

/// The facts of a request that a line holds.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Time when the head was received, since 1970.
    pub received: Duration,
    /// Time from then until the end.
    pub duration: Duration,
    /// Address of the client; port 0 if a trusted proxy named it without one.
    pub client: ValidatedAddress,
    /// Trusted proxy that named the client.
    pub proxy: Option<ValidatedAddress>,
    /// Name of the listener.
    pub listener: &'a str,
    /// Protocol of the request, as in `HTTP/3`.
    pub protocol: &'a str,
    /// Method as sent; empty where the head was malformed, like the next three.
    pub method: &'a str,
    /// Host, and port if there is one.
    pub authority: &'a str,
    /// Path, up to the first `?`.
    pub path: &'a str,
    /// Query, behind the first `?`.
    pub query: Option<&'a str>,
    /// Status of the response, if its head was handed to the stream.
    pub status: Option<u16>,
    /// Bytes of the response's body handed to the stream.
    pub bytes_sent: u64,
    /// Bytes of the request's body received.
    pub bytes_received: u64,
    /// Value of `referer`.
    pub referer: Option<&'a [u8]>,
    /// Value of `user-agent`.
    pub user_agent: Option<&'a [u8]>,
    /// First destination connection ID of the client, after which the connection's trace is named, too.
    pub connection: &'a [u8],
    /// Congestion control algorithm of the connection.
    pub algorithm: &'a str,
    /// End of the exchange.
    pub outcome: Outcome,
    /// Time spent on each wait; the sum is the duration.
    pub waits: WaitTimes,
    /// State of the connection's path at the end; `None` if it is not known.
    pub path_state: Option<PathState>,
    /// Address of the upstream that was tried last.
    pub upstream: Option<&'a str>,
    /// Number of attempts to get a response from an upstream.
    pub attempts: u64,
    /// Times of the exchange with upstreams.
    pub upstream_times: UpstreamTimes,
    /// Reason for which the server itself responded with a 5xx status or 429, or reset the stream.
    pub cause: Option<&'a str>,
    /// ID of the request.
    pub request_id: Option<&'a [u8]>,
    /// Trace context of the request, as in `traceparent`.
    pub traceparent: Option<&'a [u8]>,
    /// TLS session of the client's connection.
    pub tls: Option<TlsSession>,
    /// Name that the client asked for in the TLS handshake (SNI).
    pub server_name: Option<&'a str>,
    /// Subject of the client's certificate.
    pub client_subject: Option<&'a str>,
}

/// State of the path of a client's connection, and what was sent on it so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathState {
    /// Smoothed round-trip time; `None` before the first sample.
    pub rtt: Option<Duration>,
    /// Least round-trip time; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Congestion window, bytes.
    pub window: u64,
    /// Rate at which data was delivered of late, bytes per second; `None` if it is not measured.
    pub delivery_rate: Option<u64>,
    /// Bytes that were sent again on it.
    pub retransmitted: u64,
    /// Probe timeouts of QUIC, or timeouts of TCP; `None` if the system does not tell.
    pub timeouts: Option<u64>,
}

/// Times of an exchange with upstreams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTimes {
    /// Time when the exchange began; `None` if there was none.
    pub begun: Option<Instant>,
    /// Time that the last attempt took to get a connection, if it got one; next to nothing for one that was open.
    pub connect: Option<Duration>,
    /// Time from the beginning of the exchange to the head of the response.
    pub head: Option<Duration>,
    /// Time from the beginning of the exchange to the end of the response.
    pub total: Option<Duration>,
}

impl UpstreamTimes {
    /// Adds the time of the head, with which the response may end.
    pub fn with_head(self, elapsed: Duration, is_end: bool) -> UpstreamTimes {
        UpstreamTimes { head: Some(elapsed), total: is_end.then_some(elapsed), ..self }
    }

    /// Adds the time of the response's end.
    pub fn with_end(self, elapsed: Duration) -> UpstreamTimes {
        UpstreamTimes { total: Some(elapsed), ..self }
    }
}

/// TLS session of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsSession {
    /// Version as OpenSSL names it, as in `TLSv1.3`.
    pub version: &'static str,
    /// Name of the cipher suite as IANA registers it, as in `TLS_AES_128_GCM_SHA256`.
    pub cipher: Option<&'static str>,
    /// Name of the group of the key exchange, as in `X25519MLKEM768`.
    pub group: Option<&'static str>,
    /// The client resumed an earlier session.
    pub resumed: bool,
}

impl TlsSession {
    /// Returns the session of a handshake that is complete.
    pub fn of(ssl: &SslRef) -> TlsSession {
        TlsSession {
            version: ssl.version_str(),
            cipher: ssl.current_cipher().and_then(SslCipherRef::standard_name),
            group: ssl.curve_name(),
            resumed: ssl.session_reused(),
        }
    }
}

impl<'a> Record<'a> {
    /// Returns the record without the queries of its target and of its Referer.
    pub(super) fn without_queries(&self) -> Record<'a> {
        Record { query: None, referer: self.referer.and_then(bare), ..*self }
    }
}

/// Returns a URL up to its query or fragment, or `None` if a name or password stands before its host (RFC 3986 §3.2.1).
fn bare(url: &[u8]) -> Option<&[u8]> {
    let end = url.iter().position(|byte| matches!(byte, b'?' | b'#'));
    let url = &url[..end.unwrap_or(url.len())];
    let authority = url.splitn(4, |byte| *byte == b'/').nth(2);
    authority.is_none_or(|host| !host.contains(&b'@')).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_ends_before_its_query_and_fragment() {
        for (url, shown) in [
            ("https://example.org/a?token=1", Some("https://example.org/a")),
            ("https://example.org/a#token=1", Some("https://example.org/a")),
            ("https://example.org/@me", Some("https://example.org/@me")),
            ("/a?b", Some("/a")),
            ("?b", Some("")),
            ("https://user:password@example.org/", None),
            ("https://user:password@example.org", None),
        ] {
            let expected = shown.map(str::as_bytes);
            assert_eq!(bare(url.as_bytes()), expected, "{url}");
        }
    }
}
