//! The part of a configuration that running workers adopt: what is served, to whom, and how connections behave.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_config::{Limits, Quic};
use sluicegate_dataplane::{ListenerId, Payloads};

use super::secrets::Secrets;
use super::selection::Selection;
use super::settings::{Listener, Tracing};
use super::transport::{Alternatives, Identity, TransportError, server_config};
use crate::http::route::Site;
use crate::http::trusted_proxies::TrustedProxies;
use crate::observe::access::{AccessLog, AccessWriter};
use crate::observe::certificates::Certificate;

/// A listener's certificates.
pub struct Identities {
    /// Certificate for clients that ask for no name of the others.
    pub first: Identity,
    /// Certificates for other names.
    pub others: Alternatives,
    /// When each certificate expires.
    pub expiries: Vec<Certificate>,
}

impl Identities {
    /// Returns whether these are the same certificates as `other` has.
    pub fn are(&self, other: &Identities) -> bool {
        self.first.chain == other.first.chain && self.others.is(&other.others)
    }
}

/// A listener on one address, ready for every worker of its group.
#[derive(Clone)]
pub struct BoundListener {
    /// Identifies the listener in the dataplane.
    pub id: ListenerId,
    /// Name of the listener.
    pub name: String,
    /// Name of the group whose workers serve it.
    pub group: String,
    /// Proxies whose word about a client counts.
    pub trusted_proxies: Arc<TrustedProxies>,
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
    /// Writer of the access log, if there is one.
    pub access: Option<Arc<AccessWriter>>,
    /// Tracing of sampled connections, where it is on.
    pub tracing: Option<Tracing>,
}

/// The part of a snapshot that a worker does not share with others. Whoever has it can take the snapshot up without failing.
pub struct WorkerConfig {
    /// The listeners of the worker's group.
    pub listeners: HashMap<ListenerId, Listener>,
    /// quiche's configuration of HTTP/3.
    pub h3: quiche::h3::Config,
    /// Worker's end of the access log.
    pub access: Option<AccessLog>,
}

/// Omits the keys.
impl std::fmt::Debug for WorkerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerConfig").finish_non_exhaustive()
    }
}

/// Omits the keys.
impl std::fmt::Debug for ConfigSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ConfigSnapshot")
            .field(&self.generation)
            .finish()
    }
}

impl ConfigSnapshot {
    /// Returns the certificates of all listeners.
    pub fn certificates(&self) -> Vec<Certificate> {
        let bound = self.bound_listeners.iter();
        let all = bound.flat_map(|bound| bound.identities.expiries.iter().cloned());
        all.collect()
    }

    /// Makes the own state of a worker of `group` by its index there. No file is read; the TLS contexts of all certificates of a listener but
    /// the first are shared.
    ///
    /// # Errors
    /// Certificates or settings that cannot be used.
    pub fn for_worker(
        &self,
        (group, index): (&str, usize),
        secrets: &Secrets,
    ) -> Result<WorkerConfig, TransportError> {
        let of_group = self.bound_listeners.iter().filter(|b| b.group == group);
        let listeners = of_group.map(|bound| {
            let identities = (&bound.identities.first, &bound.identities.others);
            let listener = Listener {
                name: bound.name.as_str().into(),
                trusted_proxies: Arc::clone(&bound.trusted_proxies),
                selection: bound.selection.clone(),
                payloads: bound.payloads.clone(),
                config: server_config(&bound.name, identities, &self.quic, &self.limits, secrets)?,
            };
            Ok((bound.id, listener))
        });
        Ok(WorkerConfig {
            listeners: listeners.collect::<Result<_, TransportError>>()?,
            h3: crate::h3::config(&self.limits).map_err(TransportError::Http)?,
            access: { self.access.as_ref() }.map(|log| log.log(format!("{group}-{index}"))),
        })
    }
}
