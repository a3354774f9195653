//! TLS sessions of an upstream, which further connections resume (RFC 8446 §2.2).
#![expect(
    unsafe_code,
    reason = "boring cannot check that a session belongs to the context of a connection"
)]

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use boring::error::ErrorStack;
use boring::ex_data::Index;
use boring::ssl::{
    ConnectConfiguration, Ssl, SslContextBuilder, SslSession, SslSessionCacheMode, SslVersion,
};

/// Largest number of sessions of one upstream: each resumes one connection (RFC 8446 §C.4).
const MAX_SESSIONS: usize = 32;

/// Place of the sessions of a connection's upstream; `None` if the TLS library has no room.
static PLACE: LazyLock<Option<Index<Ssl, Sessions>>> = LazyLock::new(|| Ssl::new_ex_index().ok());

/// Sessions that an upstream has offered, the newest last. All come from connections of one context to one upstream.
#[derive(Clone, Default)]
pub(super) struct Sessions(Arc<Mutex<Vec<SslSession>>>);

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sessions")
    }
}

/// Lets connections of a context keep the sessions that their upstreams offer.
pub(in crate::proxy) fn keep_sessions(context: &mut SslContextBuilder) {
    context.set_session_cache_mode(
        SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL_STORE,
    );
    context.set_new_session_callback(|ssl, session| {
        let sessions = PLACE.and_then(|place| ssl.ex_data(place));
        if let Some(sessions) = sessions {
            sessions.keep(session);
        }
    });
}

impl Sessions {
    fn keep(&self, session: SslSession) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MAX_SESSIONS {
            sessions.remove(0);
        }
        sessions.push(session);
    }

    /// Returns the newest session, and removes it unless it is of TLS 1.2, whose sessions serve many connections.
    fn take(&self) -> Option<SslSession> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = sessions.last()?;
        if newest.protocol_version() == SslVersion::TLS1_2 {
            return Some(newest.clone());
        }
        sessions.pop()
    }

    /// Lets a connection to the upstream resume a session, and keep those that it is offered. All connections of these
    /// sessions have the same context.
    ///
    /// # Errors
    /// The TLS library refused the session.
    pub(super) fn offer(&self, connection: &mut ConnectConfiguration) -> Result<(), ErrorStack> {
        let Some(place) = *PLACE else {
            return Ok(());
        };
        connection.set_ex_data(place, self.clone());
        if let Some(session) = self.take() {
            // SAFETY: every session in `self` comes from a connection that was configured here, and the caller makes all of
            // them from one context.
            unsafe { connection.set_session(&session)? };
        }
        Ok(())
    }
}
