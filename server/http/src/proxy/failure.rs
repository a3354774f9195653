//! Failures of upstreams, and the responses that clients get for them.

use std::io;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use sluicegate_base::observe::metrics::labels;

use crate::exchange::Reply;

/// Pause in the client's reads after which a body that the upstream cuts does not count as its failure: its send timeout may have
/// expired. Servers usually have longer ones than this.
const PAUSE: Duration = Duration::from_secs(5);
const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

labels! {
    /// Reason for which an upstream failed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Failure {
        /// The host name has no address.
        Resolve = "resolve",
        /// The upstream refused the connection.
        Refused = "refused",
        /// No route leads to the upstream.
        Unreachable = "unreachable",
        /// The Unix socket does not exist.
        NoSocket = "no_socket",
        /// The path leads to something else than a Unix stream socket.
        NoStreamSocket = "no_stream_socket",
        /// The server's user may not connect to the Unix socket.
        Forbidden = "forbidden",
        /// The connection took too long to open.
        ConnectTimeout = "connect_timeout",
        /// This host has no descriptors or ports left for another connection.
        Exhausted = "exhausted",
        /// The upstream closed or reset the connection before the response's head was complete.
        Closed = "closed",
        /// The upstream took too long to accept more of the request's body.
        WriteTimeout = "write_timeout",
        /// The response's head took too long.
        HeadTimeout = "head_timeout",
        /// The response violates HTTP, or states its length ambiguously.
        Malformed = "malformed",
        /// The response's head is larger than allowed.
        HeadTooLarge = "head_too_large",
        /// The upstream sent too many informational responses.
        TooManyInterim = "too_many_interim",
        /// The upstream switched protocols unasked.
        Switched = "switched",
        /// The upstream does not speak WebSocket, or the protocol that it was asked to switch to, and has not refused it properly.
        NoWebsocket = "no_websocket",
        /// No byte passed through a WebSocket for too long, in neither direction.
        TunnelTimeout = "tunnel_timeout",
        /// The response's body ended early, or violates its framing.
        BodyCut = "body_cut",
        /// The response's body paused for too long.
        BodyTimeout = "body_timeout",
        /// The response's body ended early after the client had stopped reading for seconds, so that the upstream may have
        /// waited for it in vain.
        CutWhileClientPaused = "cut_while_client_paused",
        /// The TLS handshake failed, or the upstream does not speak TLS.
        TlsHandshake = "tls_handshake",
        /// The upstream's certificate is for other names.
        CertificateName = "certificate_name",
        /// The upstream's certificate has expired, or is not valid yet.
        CertificateExpired = "certificate_expired",
        /// No trusted authority has issued the upstream's certificate.
        CertificateIssuer = "certificate_issuer",
        /// The upstream's certificate is invalid for another reason.
        CertificateInvalid = "certificate_invalid",
        /// The upstream does not speak HTTP/2.
        NoHttp2 = "no_http2",
        /// The upstream does not speak HTTP/3, or no version of QUIC that this server knows.
        NoHttp3 = "no_http3",
        /// The upstream has reset the stream of HTTP/2 or HTTP/3 before the response's head.
        StreamReset = "stream_reset",
        /// The upstream has refused the stream of HTTP/2 or HTTP/3 without processing the request.
        StreamRefused = "stream_refused",
        /// The FastCGI server has refused the request: it is overloaded, or runs no scripts of this kind.
        RequestRefused = "request_refused",
        /// The upstream requires HTTP/1.1 for the request.
        Http1Required = "http1_required",
        /// All upstreams are busy, or the client has its share of them, and so it is with the queue.
        QueueFull = "queue_full",
        /// All upstreams stayed busy, or the client had its share of them, for as long as a request may wait.
        QueueTimeout = "queue_timeout",
    }
}

impl Failure {
    /// Returns the status of the response, if none has begun.
    fn status(self) -> u16 {
        match self {
            Failure::ConnectTimeout
            | Failure::WriteTimeout
            | Failure::HeadTimeout
            | Failure::BodyTimeout
            | Failure::TunnelTimeout => 504,
            Failure::Exhausted | Failure::QueueFull | Failure::QueueTimeout => 503,
            _ => 502,
        }
    }

    /// Returns the name of the error in `proxy-status` (RFC 9209 §2.3).
    fn error(self) -> &'static str {
        match self {
            Failure::Resolve => "dns_error",
            Failure::Refused
            | Failure::NoSocket
            | Failure::NoStreamSocket
            | Failure::RequestRefused => "connection_refused",
            Failure::Unreachable => "destination_ip_unroutable",
            Failure::Forbidden => "proxy_configuration_error",
            Failure::ConnectTimeout => "connection_timeout",
            Failure::TlsHandshake => "tls_protocol_error",
            Failure::CertificateName
            | Failure::CertificateExpired
            | Failure::CertificateIssuer
            | Failure::CertificateInvalid => "tls_certificate_error",
            Failure::Exhausted => "proxy_internal_error",
            Failure::Closed | Failure::StreamReset | Failure::StreamRefused => {
                "connection_terminated"
            }
            Failure::QueueFull | Failure::QueueTimeout => "connection_limit_reached",
            Failure::WriteTimeout => "connection_write_timeout",
            Failure::HeadTimeout => "http_response_timeout",
            Failure::Malformed
            | Failure::TooManyInterim
            | Failure::NoHttp2
            | Failure::NoHttp3
            | Failure::Http1Required => "http_protocol_error",
            Failure::HeadTooLarge => "http_response_header_section_size",
            Failure::Switched | Failure::NoWebsocket => "http_upgrade_failed",
            Failure::BodyCut | Failure::CutWhileClientPaused => "http_response_incomplete",
            Failure::BodyTimeout | Failure::TunnelTimeout => "connection_read_timeout",
        }
    }

    /// Returns the cause for the log.
    pub(super) fn text(self) -> &'static str {
        match self {
            Failure::Resolve => "its name has no address",
            Failure::Refused => "it refused the connection",
            Failure::Unreachable => "no route leads to it",
            Failure::NoSocket => "its socket does not exist; start it, or correct its path",
            Failure::NoStreamSocket => "its path is no stream socket",
            Failure::Forbidden => {
                "the server's user may not connect to its socket; permit the user to write to the socket and to enter \
                 its folder"
            }
            Failure::ConnectTimeout => "the connection took too long to open",
            Failure::TlsHandshake => {
                "its TLS handshake failed; check that it speaks TLS on this port"
            }
            Failure::CertificateName => {
                "its certificate is for other names; set `tls_name` to the name in it"
            }
            Failure::CertificateExpired => "its certificate has expired or is not valid yet",
            Failure::CertificateIssuer => {
                "no trusted authority has issued its certificate; set `tls_ca` to the certificate of its authority"
            }
            Failure::CertificateInvalid => "its certificate is invalid",
            Failure::NoHttp2 => {
                "it does not speak HTTP/2; give its address without h2c:// if it speaks HTTP/1.1"
            }
            Failure::NoHttp3 => {
                "it does not speak HTTP/3; give its address with https:// if it speaks HTTP/2 or HTTP/1.1 on this port"
            }
            Failure::StreamReset => "it reset the stream before it responded",
            Failure::StreamRefused => "it refused the stream",
            Failure::RequestRefused => "it is overloaded, or runs no scripts of this kind",
            Failure::Http1Required => {
                "it requires HTTP/1.1 for the request; give its address without h2c:// or h3://, or set `http2 = false`"
            }
            Failure::Exhausted => "no descriptors or ports are left on this host",
            Failure::QueueFull => {
                "all upstreams have `max_connections`, or the client its share of them, and so it is with the `queue`"
            }
            Failure::QueueTimeout => {
                "all upstreams have had `max_connections`, or the client its share of them, for as long as `queue_timeout`"
            }
            Failure::Closed => "it closed the connection before it responded",
            Failure::WriteTimeout => "it accepted no more of the request",
            Failure::HeadTimeout => "the head of its response took too long",
            Failure::Malformed => "its response is malformed",
            Failure::HeadTooLarge => "the head of its response is too large",
            Failure::TooManyInterim => "it sent too many informational responses",
            Failure::Switched => "it switched protocols unasked",
            Failure::NoWebsocket => {
                "it does not switch to WebSocket, or to the protocol that the client asks for"
            }
            Failure::TunnelTimeout => "no byte passed through the WebSocket for too long",
            Failure::BodyCut => "the body of its response ended early",
            Failure::CutWhileClientPaused => {
                "the body of its response ended early after the client had stopped reading"
            }
            Failure::BodyTimeout => "the body of its response paused for too long",
        }
    }

    /// Returns the failure that an error of `connect(2)` stands for, whatever the transport.
    pub(super) fn of_connect(error: &io::Error) -> Failure {
        let local = [libc::EMFILE, libc::ENFILE, libc::EADDRNOTAVAIL, libc::ENOBUFS, libc::ENOMEM];
        if error.raw_os_error().is_some_and(|code| local.contains(&code)) {
            return Failure::Exhausted;
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Failure::Refused,
            io::ErrorKind::TimedOut => Failure::ConnectTimeout,
            io::ErrorKind::ConnectionReset => Failure::Closed,
            _ => Failure::Unreachable,
        }
    }

    /// Returns the failure of a body that broke off after the client once had no room for it for so long.
    pub(crate) fn of_cut(longest_pause: Duration) -> Failure {
        if longest_pause >= PAUSE { Failure::CutWhileClientPaused } else { Failure::BodyCut }
    }

    /// Returns whether the upstream is to blame, rather than this host or the client.
    pub(super) fn blames_upstream(self) -> bool {
        !matches!(
            self,
            Failure::Exhausted
                | Failure::QueueFull
                | Failure::QueueTimeout
                | Failure::CutWhileClientPaused
                | Failure::NoWebsocket
                | Failure::TunnelTimeout
        )
    }

    /// Returns the response for the client if none has begun. `proxy-status` names the cause (RFC 9209).
    pub(crate) fn reply(self) -> Reply {
        let (status, error) = (self.status(), self.error());
        let text = match status {
            503 if self != Failure::Exhausted => "503 the upstreams are busy\n",
            503 => "503 no connection to the upstream can be opened\n",
            504 => "504 the upstream took too long\n",
            _ => "502 the upstream failed\n",
        };
        let mut reply = Reply::plain(status, text);
        // Names of errors are tokens, which a field can always hold.
        if let Ok(cause) = HeaderValue::try_from(format!("sluicegate; error={error}")) {
            reply.headers.edit().push((PROXY_STATUS, cause));
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use sluicegate_base::observe::metrics::Label;

    #[test]
    fn every_failure_has_its_own_name_and_index() {
        let names: BTreeSet<_> = Failure::ALL.iter().map(|failure| failure.name()).collect();
        assert_eq!(names.len(), Failure::ALL.len());
        for (index, failure) in Failure::ALL.iter().copied().enumerate() {
            assert_eq!(failure.index(), index);
            let reply = failure.reply();
            assert!((502..=504).contains(&reply.status));
            assert_eq!(reply.headers.last().unwrap().0, "proxy-status");
            let words = format!("{failure:?}").to_lowercase();
            assert_eq!(words, failure.name().replace('_', ""));
        }
    }

    #[test]
    fn a_host_without_descriptors_is_not_the_upstreams_fault() {
        let of = |code| Failure::of_connect(&io::Error::from_raw_os_error(code));
        assert_eq!(of(libc::EMFILE), Failure::Exhausted);
        assert!(!of(libc::ENFILE).blames_upstream());
        assert_eq!(of(libc::ECONNREFUSED), Failure::Refused);
        assert_eq!(of(libc::ETIMEDOUT), Failure::ConnectTimeout);
        assert_eq!(of(libc::EHOSTUNREACH), Failure::Unreachable);
    }
}
