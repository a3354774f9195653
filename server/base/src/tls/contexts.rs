//! TLS contexts of listeners: certificates by name, session tickets, protocols.

use std::sync::Arc;

use boring::error::ErrorStack;
use boring::ssl::{SslContextBuilder, SslMode, SslOptions, SslSessionCacheMode};
use sluicegate_config::{Limits, Quic};

use super::error::TlsError;
use super::identity::Identity;
use super::sni::{self, Alternative, Alternatives};
use super::tickets;
use crate::secrets::Secrets;

/// Settings that the TLS contexts of a listener's certificates share.
#[derive(Clone, Copy)]
pub struct ListenerTls<'a> {
    /// Name of the listener.
    pub listener: &'a str,
    /// Has the keys of session tickets.
    pub secrets: &'a Secrets,
    /// Whether sessions are resumed, and for how long.
    pub quic: &'a Quic,
    /// What clients remember of them with a session, for early data.
    pub limits: &'a Limits,
}

impl ListenerTls<'_> {
    /// Makes the contexts of the certificates beside the first one. Certificates that `before` has keep their contexts; it was made
    /// with the same settings.
    ///
    /// # Errors
    /// A certificate or key that cannot be used.
    pub fn alternatives(
        &self,
        others: &[Identity],
        before: &Alternatives,
    ) -> Result<Alternatives, TlsError> {
        let known = before.by_digest();
        let contexts = others.iter().map(|other| {
            let digest = other.digest();
            if let Some(known) = known.get(&digest) {
                return Ok(Arc::clone(known));
            }
            let (names, mut context) = other.context()?;
            self.set_tickets(&mut context, other)?;
            Ok(Arc::new(Alternative::new(digest, names, context)))
        });
        let contexts = contexts.collect::<Result<Vec<_>, TlsError>>()?;
        Ok(before.updated(contexts))
    }

    /// Begins the context for QUIC connections. Clients get the first identity where they ask for a name of none of the others.
    ///
    /// # Errors
    /// A certificate or key that cannot be used.
    pub fn quic_context(
        &self,
        first: &Identity,
        others: &Alternatives,
    ) -> Result<SslContextBuilder, TlsError> {
        let (names, mut context) = first.context()?;
        self.set_tickets(&mut context, first)?;
        sni::select(&mut context, names, others);
        Ok(context)
    }

    /// Begins the context for connections over TCP: the same certificates and ticket keys as over QUIC, without early data.
    ///
    /// # Errors
    /// A certificate or key that cannot be used.
    pub fn tcp_context(
        &self,
        first: &Identity,
        others: &Alternatives,
    ) -> Result<SslContextBuilder, TlsError> {
        let lost = |e: ErrorStack| TlsError::Tls {
            origin: first.origin.clone(),
            cause: e.to_string(),
            remedy: "see the TLS library's words",
        };
        let (names, mut context) = first.context()?;
        let quic = Quic { early_data: false, ..self.quic.clone() };
        ListenerTls { quic: &quic, ..*self }.set_tickets(&mut context, first)?;
        context.set_min_proto_version(Some(first.options.min_version())).map_err(lost)?;
        context.set_options(SslOptions::NO_RENEGOTIATION | SslOptions::CIPHER_SERVER_PREFERENCE);
        // Tickets resume sessions, if they are on; the cache would resume them by their IDs without.
        context.set_session_cache_mode(SslSessionCacheMode::OFF);
        // hyper writes what is left again from another place, with more behind it.
        context.set_mode(SslMode::ENABLE_PARTIAL_WRITE | SslMode::ACCEPT_MOVING_WRITE_BUFFER);
        sni::select_tcp_protocol(&mut context);
        sni::select(&mut context, names, others);
        Ok(context)
    }

    /// Sets whether clients get session tickets, by which keys, and what these are good for.
    fn set_tickets(
        &self,
        context: &mut SslContextBuilder,
        identity: &Identity,
    ) -> Result<(), TlsError> {
        let lost = |e: ErrorStack| TlsError::Tls {
            origin: identity.origin.clone(),
            cause: e.to_string(),
            remedy: "turn quic.early_data off",
        };
        let Quic { session_tickets, early_data, session_lifetime, .. } = *self.quic;
        let limits = (session_tickets && early_data).then_some(self.limits);
        tickets::bind(context, limits, identity.options.client_digest()).map_err(lost)?;
        if !session_tickets {
            tickets::refuse(context);
            return Ok(());
        }
        tickets::limit(context, session_lifetime);
        // Every certificate's context needs them: boring asks the one that the client's name has led to.
        tickets::set_keys(context, self.secrets.ticket_keys(), self.listener);
        if early_data {
            tickets::allow_early_data(context);
        }
        Ok(())
    }
}
