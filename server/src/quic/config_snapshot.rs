//! The part of a configuration that running workers adopt: what is served, to whom, and how connections behave.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_config::{Limits, Quic};
use sluicegate_dataplane::{ListenerId, Payloads};

use super::secrets::Secrets;
use super::selection::Selection;
use super::settings::Listener;
use super::transport::{Alternatives, Identity, TransportError, server_config};
use crate::http::route::Site;

/// A listener's certificates.
pub struct Identities {
    /// Certificate for clients that ask for no name of the others.
    pub first: Identity,
    /// Certificates for other names.
    pub others: Alternatives,
}

/// A listener on one address, ready for every worker of its group.
#[derive(Clone)]
pub struct BoundListener {
    /// Identifies the listener in the dataplane.
    pub id: ListenerId,
    /// Name of the listener.
    pub name: String,
    /// Choice of congestion control.
    pub selection: Selection,
    /// Largest datagrams that its interfaces carry.
    pub payloads: Payloads,
    /// Certificates and keys.
    pub identities: Arc<Identities>,
}

/// An immutable snapshot that all workers share; a reload makes another one.
pub struct ConfigSnapshot {
    /// Number of the snapshot, 1 at the start.
    pub generation: u64,
    /// Routes and handlers.
    pub site: Arc<Site>,
    /// Limits of connections, requests and memory.
    pub limits: Limits,
    /// Settings of QUIC.
    pub quic: Quic,
    /// Listeners of all groups, one for each address.
    pub bound_listeners: Vec<BoundListener>,
}

/// Leaves the keys out.
impl std::fmt::Debug for ConfigSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ConfigSnapshot")
            .field(&self.generation)
            .finish()
    }
}

impl ConfigSnapshot {
    /// Makes a worker's own state of the listeners for which `is_its` returns true. Only a listener's first certificate is
    /// read again; the contexts of the others are shared.
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
            let identities = (&bound.identities.first, &bound.identities.others);
            let listener = Listener {
                name: bound.name.as_str().into(),
                selection: bound.selection.clone(),
                payloads: bound.payloads.clone(),
                config: server_config(identities, &self.quic, &self.limits, secrets)?,
            };
            Ok((bound.id, listener))
        });
        listeners.collect()
    }
}
