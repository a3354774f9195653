//! Settings of a worker's endpoint.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::observe::qlog::{DumpLimit, QlogWriter, Sampler};
use sluicegate_base::secrets::Secrets;
use sluicegate_config::{Limits, Quic};
use sluicegate_dataplane::{ListenerId, Payloads};

use super::application::Application;
use super::cid::CidScheme;
use super::token::UsedTokens;
use crate::congestion::selection::Selection;

/// Held by everybody who needs the sockets of a bound address.
#[derive(Clone, Debug, Default)]
pub struct Lease(Arc<()>);

impl Lease {
    /// Returns whether nobody else has one of the address.
    pub fn is_last(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

/// A worker's own state of a listener.
pub struct Listener<A: Application> {
    /// Name, for logs and traces.
    pub name: Arc<str>,
    /// Bound address, for logs.
    pub local: SocketAddr,
    /// Settings of the application.
    pub application: A::Listener,
    /// Choice of congestion control.
    pub selection: Selection,
    /// Largest datagrams that its interfaces carry.
    pub payloads: Payloads,
    /// quiche's configuration for new connections.
    pub config: quiche::Config,
    /// The worker's need of the sockets.
    pub lease: Lease,
}

impl<A: Application> Listener<A> {
    /// Returns the largest datagram that may be sent from `local`, bytes of UDP payload: the configured one, if the
    /// interface carries it, but never less than every path must carry (RFC 9000 §14).
    pub(super) fn max_datagram(&self, local: IpAddr, quic: &Quic) -> usize {
        let configured = usize::try_from(quic.max_udp_payload).unwrap_or(usize::MAX);
        let carried = self.payloads.at(local).unwrap_or(usize::MAX);
        configured.min(carried).max(quiche::MIN_CLIENT_INITIAL_LEN)
    }
}

/// Tracing of sampled connections.
#[derive(Clone)]
pub struct Tracing {
    /// Decides which connections are traced.
    pub sampler: Arc<Sampler>,
    /// Writes the traces.
    pub writer: Arc<QlogWriter>,
    /// Detail of the traces.
    pub level: sluicegate_config::QlogLevel,
    /// Values of fields that the traces contain.
    pub visible: quiche::redact::Visible,
    /// Flight recorder, where it is on.
    pub recorder: Option<FlightRecorder>,
}

/// Settings of the flight recorder.
#[derive(Clone, Debug)]
pub struct FlightRecorder {
    /// Memory for the events of each worker, bytes.
    pub memory: u64,
    /// Time without progress that fires a trigger.
    pub stall: Duration,
    /// Bound on the files of the process.
    pub dumps: Arc<DumpLimit>,
}

impl Tracing {
    /// Returns the writer.
    pub fn writer(&self) -> Arc<QlogWriter> {
        Arc::clone(&self.writer)
    }
}

/// Returns the values that traces contain: those of these fields, and queries if wanted.
pub fn visible(fields: &[String], query: bool) -> quiche::redact::Visible {
    quiche::redact::Visible { fields: fields.into(), query }
}

/// Everything an endpoint needs to start.
pub struct Settings<A: Application> {
    /// Listeners by their identifiers in the dataplane.
    pub listeners: HashMap<ListenerId, Listener<A>>,
    /// State that its sessions share.
    pub shared: A::Shared,
    /// Limits of connections, requests and memory.
    pub limits: Limits,
    /// Settings of QUIC.
    pub quic: Quic,
    /// Scheme of its connection IDs.
    pub cid_scheme: Box<dyn CidScheme>,
    /// Secrets that keys are derived from.
    pub secrets: Arc<Secrets>,
    /// Tokens of NEW_TOKEN frames that were used, at any worker.
    pub used_tokens: Arc<UsedTokens>,
    /// Sampling of traces, where it is on.
    pub tracing: Option<Tracing>,
    /// This worker's index in its group.
    pub worker: u8,
    /// Number of workers in the group.
    pub workers: usize,
}
