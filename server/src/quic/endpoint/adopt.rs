//! Adoption of another snapshot of the configuration.

use std::sync::Arc;

use super::Endpoint;
use crate::quic::config_snapshot::{ConfigSnapshot, WorkerConfig};
use crate::quic::token::{NewTokens, RetryTokens};

impl Endpoint {
    /// Serves by another snapshot from now on: new connections in full, open ones in their new requests. Open connections
    /// keep the transport that they began with.
    pub fn adopt(&mut self, snapshot: &ConfigSnapshot, own: WorkerConfig) {
        let settings = &mut self.settings;
        let WorkerConfig { mut listeners, h3, access } = own;
        for bound in &snapshot.bound_listeners {
            if let Some(listener) = listeners.get_mut(&bound.at.id)
                && let Some(before) = settings.listeners.get_mut(&bound.at.id)
            {
                listener.selection.keep_learnt(&mut before.selection);
            }
        }
        let before = std::mem::replace(&mut settings.listeners, listeners);
        settings.sessions.h3 = h3;
        // Lines that wait in the previous one reach their writer with its end.
        settings.sessions.access = access;
        settings.sessions.adopt(Arc::clone(&snapshot.site));
        settings.tracing = snapshot.tracing.clone();
        settings.limits = snapshot.limits.clone();
        settings.quic = snapshot.quic.clone();
        self.retire_listeners(before, snapshot.drain_timeout);
        self.rates.adopt(&snapshot.quic);
        self.initials.set_retries(snapshot.quic.retries_per_second);
        let settings = &self.settings;
        let (secrets, quic) = (&settings.secrets, &settings.quic);
        self.retry_tokens = RetryTokens::new(secrets, quic.retry_token_lifetime);
        self.new_tokens = NewTokens::new(secrets, &settings.used_tokens, quic.new_token_lifetime);
    }
}
