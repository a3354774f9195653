//! Decides where a request that failed may be sent once more.

use super::exchange_error::ExchangeError;
use super::failure::Failure;
use super::protocol::{Progress, UpstreamStream};
use super::request::is_idempotent;
use super::upstream_head::Framing;

/// Attempt that ended without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FailedAttempt {
    pub(super) error: ExchangeError,
    pub(super) retry: Retry,
    /// Whether the connection had served another request and was closed before a byte of this response. That says nothing
    /// about the upstream.
    pub(super) stale: bool,
}

/// Place where a request that failed may be sent once more (RFC 9110 §9.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// Nowhere: its work could be done twice, or its body is gone.
    Never,
    /// The same upstream, on a fresh connection.
    Reconnect,
    /// Any upstream: nothing of it has been sent, or the upstream has not processed it.
    Any,
    /// An upstream that has not seen it. It may have made the first one fail.
    Other,
}

/// Facts about a request on which the decision about a retry depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances<'a> {
    pub(super) method: &'a str,
    pub(super) framing: Framing,
    /// Whether a part of the body is gone.
    pub(super) taken: bool,
    /// Whether no connection was wanted that may be stale.
    pub(super) fresh: bool,
    /// Whether the upstream requires HTTP/1.1, which the next connection speaks.
    pub(super) falls_back: bool,
}

impl FailedAttempt {
    /// Returns an attempt that nothing may follow.
    pub(super) fn last(error: ExchangeError) -> FailedAttempt {
        FailedAttempt { error, retry: Retry::Never, stale: false }
    }

    /// Returns the attempt that has ended on this stream. A reused connection that turns out to be closed is no failure of the
    /// upstream, so the request is repeated on a fresh one.
    pub(super) fn on(
        stream: &dyn UpstreamStream,
        error: ExchangeError,
        request: Circumstances<'_>,
    ) -> FailedAttempt {
        let ExchangeError::Failed(failure) = error else {
            return FailedAttempt::last(error);
        };
        let silent =
            matches!(failure, Failure::Closed | Failure::StreamReset | Failure::StreamRefused);
        let unheard = silent && stream.progress() != Progress::Answered;
        let closed = failure == Failure::Closed;
        // Others may have used a fresh connection of HTTP/2, too.
        let stale = unheard && closed && stream.is_reused() && !request.fresh;
        let unsent = unheard && stream.progress() == Progress::Unprocessed;
        let bodiless = matches!(request.framing, Framing::None | Framing::Length(0));
        let repeatable = bodiless && is_idempotent(request.method);
        let retry = if request.falls_back && !request.taken && is_idempotent(request.method) {
            Retry::Reconnect
        } else if request.taken || !unheard || !(unsent || repeatable) {
            Retry::Never
        } else if stale {
            Retry::Reconnect
        } else if unsent {
            Retry::Any
        } else {
            Retry::Other
        };
        FailedAttempt { error, retry, stale }
    }
}
