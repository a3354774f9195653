//! What an upstream can do wrong, and what a client is told of it.

use http::{HeaderName, HeaderValue};

use crate::http::exchange::Reply;

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// What went wrong at an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Failure {
    /// Its name has no address.
    Resolve,
    /// It refused the connection.
    Refused,
    /// No way leads to it.
    Unreachable,
    /// The connection took too long to open.
    ConnectTimeout,
    /// This host has no descriptors or ports left for another connection.
    Exhausted,
    /// It closed or reset the connection before the response's head was complete.
    Closed,
    /// It took too long to accept more of the request's body.
    WriteTimeout,
    /// The response's head took too long.
    HeadTimeout,
    /// What it sent is no response, or one whose length cannot be trusted.
    Malformed,
    /// The response's head is larger than allowed.
    HeadTooLarge,
    /// Too many informational responses.
    TooManyInterim,
    /// It switched protocols, unasked.
    Switched,
    /// The response's body ended early, or broke its own framing.
    BodyCut,
    /// The response's body stood still for too long.
    BodyTimeout,
}

/// Name, status, what the log says, and the error as RFC 9209 §2.3 names it; in the order of [`Failure::index`].
const FACTS: [(&str, u16, &str, &str); Failure::ALL.len()] = [
    ("resolve", 502, "its name has no address", "dns_error"),
    (
        "refused",
        502,
        "it refused the connection",
        "connection_refused",
    ),
    (
        "unreachable",
        502,
        "no way leads to it",
        "destination_ip_unroutable",
    ),
    (
        "connect_timeout",
        504,
        "the connection took too long to open",
        "connection_timeout",
    ),
    (
        "exhausted",
        503,
        "no descriptors or ports are left on this host",
        "proxy_internal_error",
    ),
    (
        "closed",
        502,
        "it closed the connection before it answered",
        "connection_terminated",
    ),
    (
        "write_timeout",
        504,
        "it took no more of the request",
        "connection_write_timeout",
    ),
    (
        "head_timeout",
        504,
        "the head of its response took too long",
        "http_response_timeout",
    ),
    (
        "malformed",
        502,
        "its response is malformed",
        "http_protocol_error",
    ),
    (
        "head_too_large",
        502,
        "the head of its response is too large",
        "http_response_header_section_size",
    ),
    (
        "too_many_interim",
        502,
        "it sent too many informational responses",
        "http_protocol_error",
    ),
    (
        "switched",
        502,
        "it switched protocols unasked",
        "http_upgrade_failed",
    ),
    (
        "body_cut",
        502,
        "the body of its response ended early",
        "http_response_incomplete",
    ),
    (
        "body_timeout",
        504,
        "the body of its response stood still",
        "connection_read_timeout",
    ),
];

impl Failure {
    /// Every failure, in the order of [`Failure::index`].
    pub const ALL: [Failure; 14] = [
        Failure::Resolve,
        Failure::Refused,
        Failure::Unreachable,
        Failure::ConnectTimeout,
        Failure::Exhausted,
        Failure::Closed,
        Failure::WriteTimeout,
        Failure::HeadTimeout,
        Failure::Malformed,
        Failure::HeadTooLarge,
        Failure::TooManyInterim,
        Failure::Switched,
        Failure::BodyCut,
        Failure::BodyTimeout,
    ];

    /// Position in [`Failure::ALL`], for an array of counters.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Name as a counter's label.
    pub fn name(self) -> &'static str {
        FACTS[self.index()].0
    }

    /// Whether the upstream is to blame, rather than this host.
    pub(super) fn blames_upstream(self) -> bool {
        self != Failure::Exhausted
    }

    /// The answer, where none has begun: with the cause as RFC 9209 names it.
    pub(super) fn reply(self) -> Reply {
        let (_, status, _, error) = FACTS[self.index()];
        let text = match status {
            503 => "503 no connection to the upstream can be opened\n",
            504 => "504 the upstream took too long\n",
            _ => "502 the upstream failed\n",
        };
        let mut reply = Reply::plain(status, text);
        // Names of errors are tokens, which a field can always hold.
        if let Ok(cause) = HeaderValue::try_from(format!("sluicegate; error={error}")) {
            reply.headers.push((PROXY_STATUS, cause));
        }
        reply
    }

    /// For the log.
    pub(super) fn text(self) -> &'static str {
        FACTS[self.index()].2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_its_own_name_and_index() {
        let names: std::collections::BTreeSet<_> = Failure::ALL.map(Failure::name).into();
        assert_eq!(names.len(), Failure::ALL.len());
        for (index, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure.index(), index);
            let reply = failure.reply();
            assert!((502..=504).contains(&reply.status));
            assert_eq!(reply.headers.last().unwrap().0, "proxy-status");
            let words = format!("{failure:?}").to_lowercase();
            assert_eq!(words, failure.name().replace('_', ""));
        }
    }
}
