//! Resumption of TLS over TCP.
#![expect(
    unsafe_code,
    reason = "boring cannot check that a session suits the context of a connection"
)]

use boring::error::ErrorStack;
use boring::ssl::{SslContextBuilder, SslRef, SslSession, SslSessionCacheMode};
use sluicegate_quic_client::SavedSession;

use crate::client::sessions::Sessions;

/// Lets connections of a context keep the sessions that the server sends.
pub(super) fn keep_sessions(context: &mut SslContextBuilder, sessions: &Sessions) {
    let sessions = sessions.clone();
    context.set_session_cache_mode(SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL);
    context.set_new_session_callback(move |_, session| {
        if sessions.are_kept()
            && let Ok(tls) = session.to_der()
        {
            sessions.keep(SavedSession::of_tls(tls));
        }
    });
}

/// Lets a connection resume a session, before its handshake.
///
/// # Errors
/// The session cannot be decoded.
pub(super) fn resume(connection: &mut SslRef, session: &SavedSession) -> Result<(), ErrorStack> {
    let session = SslSession::from_der(&session.tls)?;
    // SAFETY: BoringSSL binds a session to a context only by the way in which certificates are kept, which is the same in all
    // contexts and decoded sessions of boring: as `X509`. The handshake has not begun. BoringSSL counts its own reference.
    unsafe { connection.set_session(&session) }
}
