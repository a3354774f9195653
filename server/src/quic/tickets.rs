//! TLS session tickets (RFC 8446 §4.6.1): whether clients get them, and how long they hold.

#![expect(
    unsafe_code,
    reason = "boring has no safe call for the lifetime of TLS 1.3 sessions"
)]

use std::time::Duration;

use boring::ssl::{SslContextBuilder, SslOptions};

/// Neither gives tickets nor takes them.
pub(super) fn refuse(context: &mut SslContextBuilder) {
    context.set_options(SslOptions::NO_TICKET);
}

/// Tickets hold for `lifetime`, in whole seconds.
pub(super) fn limit(context: &mut SslContextBuilder, lifetime: Duration) {
    let seconds = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX);
    // SAFETY: the builder owns a valid SSL_CTX, which nothing else uses while it is borrowed here; the call writes a number.
    unsafe { boring_sys::SSL_CTX_set_session_psk_dhe_timeout(context.as_ptr(), seconds) };
}
