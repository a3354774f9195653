//! The part of a configuration that running workers adopt: what is served, to whom, and how connections behave.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_config::{Limits, Quic};
use sluicegate_dataplane::{ListenerId, Payloads};
use thiserror::Error;

#[cfg(any(test, fuzzing))]
use crate::h3::SessionContext;
use crate::h3::{self, Http3Session};
use sluicegate_base::observe::certificates::Certificate;
use sluicegate_base::observe::request_logs::{RequestLogWriters, RequestLogs};
use sluicegate_base::secrets::Secrets;
use sluicegate_base::tls::{Identities, ListenerTls};
use sluicegate_http::route::Site;
use sluicegate_http::trusted_proxies::TrustedProxies;
use sluicegate_quic::congestion::selection::Selection;
use sluicegate_quic::endpoint::{Endpoint, EndpointConfig};
#[cfg(any(test, fuzzing))]
use sluicegate_quic::settings::Settings;
use sluicegate_quic::settings::{Lease, Listener, Tracing};
use sluicegate_quic::transport::{TransportError, server_config};

/// Protocols of a bound address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// QUIC alone.
    Quic,
    /// QUIC, and HTTP/1.1 and HTTP/2 over TLS and TCP.
    QuicAndTcp,
    /// HTTP/1.1 over TCP without TLS.
    Http,
}

impl Protocols {
    /// Returns QUIC with or without TCP.
    pub fn quic(with_tcp: bool) -> Protocols {
        if with_tcp { Protocols::QuicAndTcp } else { Protocols::Quic }
    }

    /// Returns whether QUIC is among them.
    pub fn has_quic(self) -> bool {
        self != Protocols::Http
    }

    /// Returns whether one of them runs over TCP.
    pub fn has_tcp(self) -> bool {
        self != Protocols::Quic
    }
}

/// A bound address of a listener.
#[derive(Clone, Debug)]
pub struct BoundAddress {
    /// Identifies the listener on this address, in the dataplane and in fronts over TCP.
    pub id: ListenerId,
    /// Name of the group whose workers serve it.
    pub group: String,
    /// Address as configured.
    pub configured: SocketAddr,
    /// Address as bound, with the port that the kernel chose for 0.
    pub local: SocketAddr,
    /// Protocols that it is bound for.
    pub protocols: Protocols,
    /// Largest datagrams that its interfaces carry.
    pub payloads: Payloads,
    /// Need of the sockets of QUIC, which workers have as long as there are connections.
    pub lease: Lease,
}

/// A listener on one address, ready for every worker of its group.
#[derive(Clone)]
pub struct BoundListener {
    /// Name of the listener.
    pub name: String,
    /// Bound address of the listener.
    pub at: BoundAddress,
    /// Settings of the listener.
    pub settings: ListenerSettings,
}

impl BoundListener {
    /// Returns whether it is at this address, by the configuration or by the system.
    pub fn is_at(&self, address: SocketAddr) -> bool {
        self.at.configured == address || self.at.local == address
    }
}

/// Settings of a listener, which its addresses share.
#[derive(Clone)]
pub struct ListenerSettings {
    /// Proxies whose word about a client counts.
    pub trusted_proxies: Arc<TrustedProxies>,
    /// Choice of congestion control.
    pub selection: Selection,
    /// Certificates and keys.
    pub identities: Arc<Identities>,
    /// Whether packets carry ECN marks on paths that pass validation.
    pub ecn: bool,
}

/// An immutable snapshot that all workers share; a reload makes another one.
#[derive(Clone)]
pub struct ConfigSnapshot {
    /// Number of the snapshot, 1 at the start.
    pub generation: u64,
    /// Routes and handlers.
    pub site: Arc<Site>,
    /// Limits of connections, requests and memory.
    pub limits: Limits,
    /// Settings of QUIC.
    pub quic: Quic,
    /// Secrets of tokens, tickets and resets.
    pub secrets: Arc<Secrets>,
    /// Listeners of all groups, one for each address.
    pub bound_listeners: Vec<BoundListener>,
    /// Writers of the access log and of spans.
    pub logs: RequestLogWriters,
    /// Tracing of sampled connections, where it is on.
    pub tracing: Option<Tracing>,
    /// Time that connections of removed listeners get for their requests.
    pub drain_timeout: Duration,
}

/// The part of a snapshot that a worker does not share with others. Whoever has it can take the snapshot up without failing.
pub struct WorkerConfig {
    /// The listeners of the worker's group.
    pub listeners: HashMap<ListenerId, Listener<Http3Session>>,
    /// quiche's configuration of HTTP/3.
    pub h3: quiche::h3::Config,
    /// Worker's ends of the access log and of the export of spans.
    pub logs: RequestLogs,
}

/// Error that keeps a worker's part of a snapshot from being made.
#[derive(Debug, Error)]
pub enum WorkerConfigError {
    /// The transport of a listener cannot be set up.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// quiche refused a setting of HTTP/3.
    #[error("quiche's HTTP/3 refused the settings: {0}")]
    Http(quiche::h3::Error),
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
        f.debug_tuple("ConfigSnapshot").field(&self.generation).finish()
    }
}

impl ConfigSnapshot {
    /// Returns the certificates of all listeners.
    pub fn certificates(&self) -> Vec<Certificate> {
        let bound = self.bound_listeners.iter();
        let all = bound.flat_map(|bound| bound.settings.identities.expiries.iter().cloned());
        all.collect()
    }

    /// Makes the own state of a worker of `group` by its index there. No file is read; the TLS contexts of all certificates of a listener but
    /// the first are shared.
    ///
    /// # Errors
    /// Certificates or settings that cannot be used.
    pub fn for_worker(&self, group: &str, index: usize) -> Result<WorkerConfig, WorkerConfigError> {
        let of_group = self.bound_listeners.iter().filter(|b| b.at.group == group);
        let of_group = of_group.filter(|b| b.at.protocols.has_quic());
        let listeners = of_group.map(|bound| {
            let settings = &bound.settings;
            let tls = ListenerTls {
                listener: &bound.name,
                secrets: &self.secrets,
                quic: &self.quic,
                limits: &self.limits,
            };
            let Identities { first, others, .. } = &*settings.identities;
            let mut config = server_config::<Http3Session>(&tls, first, others)?;
            config.enable_ecn(settings.ecn);
            let listener = Listener {
                name: bound.name.as_str().into(),
                local: bound.at.local,
                application: Arc::clone(&settings.trusted_proxies),
                selection: settings.selection.clone(),
                payloads: bound.at.payloads.clone(),
                lease: bound.at.lease.clone(),
                config,
            };
            Ok((bound.at.id, listener))
        });
        Ok(WorkerConfig {
            listeners: listeners.collect::<Result<_, TransportError>>()?,
            h3: h3::config(&self.limits).map_err(WorkerConfigError::Http)?,
            logs: self.logs.logs(format!("{group}-{index}")),
        })
    }

    /// Has an endpoint serve by this snapshot from now on: new connections in full, open ones in their new requests.
    pub fn adopt(&self, endpoint: &mut Endpoint<Http3Session>, own: WorkerConfig) {
        let WorkerConfig { listeners, h3, logs } = own;
        let shared = endpoint.shared_mut();
        shared.h3 = h3;
        // What waits in the previous ones reaches its writer with their end.
        shared.logs = logs;
        shared.adopt(Arc::clone(&self.site));
        endpoint.adopt(EndpointConfig {
            listeners,
            limits: self.limits.clone(),
            quic: self.quic.clone(),
            secrets: Arc::clone(&self.secrets),
            tracing: self.tracing.clone(),
            drain_timeout: self.drain_timeout,
        });
    }
}

/// Returns settings of a worker without routes, whose only listener, 0, has a self-signed certificate.
#[cfg(any(test, fuzzing))]
pub(crate) fn plain_settings(worker: u8, workers: usize) -> Settings<Http3Session> {
    let limits = sluicegate_config::Config::embedded().limits;
    let sessions = SessionContext::new(
        Arc::new(Site::compile(&[], &limits).expect("no routes")),
        h3::config(&limits).expect("settings"),
        sluicegate_base::clock::now(),
    );
    sluicegate_quic::testing::plain(worker, workers, sessions, Arc::default())
}
