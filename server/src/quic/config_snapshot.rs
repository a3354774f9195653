//! A configuration as far as running workers take it on: what is served, to whom, and how connections behave.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_config::{Limits, Quic};
use sluicegate_dataplane::ListenerId;

use super::endpoint::Endpoint;
use super::secrets::Secrets;
use super::selection::Selection;
use super::settings::Listener;
use super::token::Tokens;
use super::transport::{Identity, TransportError, server_config};
use crate::http::route::Site;

/// A listener's certificates: the first one, and those for other names.
pub type Identities = (Identity, Vec<Identity>);

/// A listener on one address, ready for every worker of its group.
#[derive(Clone)]
pub struct BoundListener {
    /// As the dataplane knows it.
    pub id: ListenerId,
    /// Of the listener.
    pub name: String,
    /// Of congestion controllers.
    pub selection: Selection,
    /// The server's.
    pub identities: Arc<Identities>,
}

/// What workers share and are given anew when the configuration is read again; immutable.
pub struct ConfigSnapshot {
    /// 1 at the start.
    pub generation: u64,
    /// What is served.
    pub site: Arc<Site>,
    /// Bounds.
    pub limits: Limits,
    /// Transport.
    pub quic: Quic,
    /// All listening addresses.
    pub bound_listeners: Vec<BoundListener>,
}

/// Without the keys.
impl std::fmt::Debug for ConfigSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ConfigSnapshot")
            .field(&self.generation)
            .finish()
    }
}

impl ConfigSnapshot {
    /// What a worker makes of the bound_listeners that `is_its` names.
    ///
    /// # Errors
    /// Certificates or settings that cannot be used; all were tried when the snapshot was made.
    pub fn listeners(
        &self,
        is_its: impl Fn(ListenerId) -> bool,
        secrets: &Secrets,
    ) -> Result<HashMap<ListenerId, Listener>, TransportError> {
        let bound_listeners = self.bound_listeners.iter().filter(|bound| is_its(bound.id));
        let listeners = bound_listeners.map(|bound| {
            let (first, others) = &*bound.identities;
            let listener = Listener {
                name: bound.name.as_str().into(),
                selection: bound.selection.clone(),
                config: server_config((first, others), &self.quic, &self.limits, secrets)?,
            };
            Ok((bound.id, listener))
        });
        listeners.collect()
    }
}

impl Endpoint {
    /// Serves by another snapshot from now on: new connections in full; open ones their new requests, and keep the
    /// transport that they began with.
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
