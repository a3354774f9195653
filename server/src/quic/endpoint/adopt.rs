//! Adoption of another snapshot of the configuration.

use std::sync::Arc;

use super::Endpoint;
use crate::quic::config_snapshot::ConfigSnapshot;
use crate::quic::token::Tokens;
use crate::quic::transport::TransportError;

impl Endpoint {
    /// Serves by another snapshot from now on: new connections in full, open ones in their new requests. Open connections
    /// keep the transport that they began with.
    ///
    /// # Errors
    /// As [`ConfigSnapshot::listeners`]; nothing has changed then.
    pub fn adopt(&mut self, snapshot: &ConfigSnapshot) -> Result<(), TransportError> {
        let settings = &mut self.settings;
        let its = |id| settings.listeners.contains_key(&id);
        let mut listeners = snapshot.listeners(its, &settings.secrets)?;
        let h3 = crate::h3::config(&snapshot.limits).map_err(TransportError::Http)?;
        for bound in &snapshot.bound_listeners {
            if let Some(listener) = listeners.get_mut(&bound.id)
                && let Some(before) = settings.listeners.get_mut(&bound.id)
            {
                listener.selection.keep_learnt(&mut before.selection);
            }
        }
        settings.listeners = listeners;
        settings.sessions.h3 = h3;
        settings.sessions.site = Arc::clone(&snapshot.site);
        settings.limits = snapshot.limits.clone();
        settings.quic = snapshot.quic.clone();
        self.tokens = Tokens::new(&settings.secrets, settings.quic.retry_token_lifetime);
        Ok(())
    }
}
