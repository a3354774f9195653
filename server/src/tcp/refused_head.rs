//! Reasons for which hyper or h2 refuses the head of a request.

use sluicegate_http::gate::RequestCounters;

/// Reason for which a head was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusedHead {
    /// The head was larger than the limit, so the client got 431.
    TooLarge,
    /// The target was longer than hyper reads, so the client got 414.
    TargetTooLong,
    /// HTTP/1.1: the client got 400. HTTP/2: its stream was reset.
    Malformed,
    /// The client had opened more streams than it may, so this one was reset.
    TooManyStreams,
    /// The connection was closed for an error.
    Connection,
}

impl RefusedHead {
    /// Returns what hyper refuses with this error of a connection of HTTP/1.1.
    pub(super) fn of(error: &hyper::Error) -> Option<RefusedHead> {
        if !error.is_parse() {
            return None;
        }
        if error.is_parse_version_h2() {
            // HTTP/1.1 has no response to it.
            return Some(RefusedHead::Connection);
        }
        if error.is_parse_too_large() {
            // hyper has no other way to tell them apart.
            let is_target = error.to_string().contains("URI");
            return Some(if is_target {
                RefusedHead::TargetTooLong
            } else {
                RefusedHead::TooLarge
            });
        }
        Some(RefusedHead::Malformed)
    }

    /// Returns the cause in the access log.
    pub(super) fn cause(self) -> &'static str {
        match self {
            RefusedHead::TooLarge | RefusedHead::TargetTooLong => "head_too_large",
            RefusedHead::Malformed => "head_malformed",
            RefusedHead::TooManyStreams => "too_many_streams",
            RefusedHead::Connection => "connection_error",
        }
    }

    /// Returns the status of the response, if there was one.
    pub(super) fn status(self, is_http2: bool) -> Option<u16> {
        match self {
            RefusedHead::TooLarge => Some(431),
            RefusedHead::TargetTooLong => Some(414),
            RefusedHead::Malformed if !is_http2 => Some(400),
            RefusedHead::Malformed | RefusedHead::TooManyStreams | RefusedHead::Connection => None,
        }
    }

    /// Counts a refusal.
    pub(super) fn count(self, requests: &mut RequestCounters) {
        match self {
            RefusedHead::TooLarge | RefusedHead::TargetTooLong => requests.heads_too_large += 1,
            RefusedHead::Malformed => {
                requests.heads_malformed += 1;
                requests.malformed += 1;
            }
            RefusedHead::TooManyStreams => requests.heads_beyond_streams += 1,
            RefusedHead::Connection => requests.heads_ended += 1,
        }
    }
}
