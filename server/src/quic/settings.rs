//! What the endpoint of a worker is made of.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_config::{Limits, Quic};
use sluicegate_dataplane::ListenerId;

use super::secrets::Secrets;
use super::selection::Selection;
use crate::observe::qlog::{QlogWriter, Sampler};
use crate::route::Site;

/// One listener, as its worker sees it.
pub struct Listener {
    /// For logs and traces.
    pub name: String,
    /// Of congestion controllers.
    pub selection: Selection,
    /// For new connections.
    pub config: quiche::Config,
}

/// Tracing of sampled connections.
#[derive(Clone)]
pub struct Tracing {
    /// Decides.
    pub sampler: Arc<Sampler>,
    /// Writes.
    pub writer: Arc<QlogWriter>,
    /// What is recorded.
    pub level: sluicegate_config::QlogLevel,
}

/// What an endpoint is made of.
pub struct Settings {
    /// By listener id.
    pub listeners: HashMap<ListenerId, Listener>,
    /// What is served.
    pub site: Arc<Site>,
    /// HTTP/3 settings.
    pub h3: quiche::h3::Config,
    /// Bounds.
    pub limits: Limits,
    /// Transport.
    pub quic: Quic,
    /// Keys.
    pub secrets: Arc<Secrets>,
    /// Sampling of traces, where it is on.
    pub tracing: Option<Tracing>,
    /// This worker's index in its group.
    pub worker: u8,
    /// Workers of the group.
    pub workers: usize,
}
