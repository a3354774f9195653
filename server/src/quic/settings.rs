//! What the endpoint of a worker is made of.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_config::{Limits, Quic};
use sluicegate_dataplane::ListenerId;

use super::secrets::Secrets;
use super::selection::Selection;
use crate::h3::SessionContext;
use crate::observe::qlog::{QlogWriter, Sampler};

/// One listener, as its worker sees it.
pub struct Listener {
    /// For logs and traces.
    pub name: Arc<str>,
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
    /// What its HTTP/3 sessions share.
    pub sessions: SessionContext,
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

#[cfg(any(test, fuzzing))]
impl Settings {
    /// Of a worker without routes, whose only listener, 0, has a certificate of its own making.
    pub(crate) fn plain(worker: u8, workers: usize) -> Settings {
        let config = sluicegate_config::Config::embedded();
        let secrets = Arc::new(Secrets::in_memory());
        let identity = super::transport::Identity::self_signed().expect("a certificate");
        let (quic, limits) = (config.quic, config.limits);
        let others = super::transport::Alternatives::default();
        let transport =
            super::transport::server_config((&identity, &others), &quic, &limits, &secrets)
                .expect("a transport configuration");
        let registry = sluicegate_cc::Registry::builtin();
        let listener = Listener {
            name: "main".into(),
            selection: Selection::of(&config.listeners[0], &registry).expect("the default"),
            config: transport,
        };
        Settings {
            listeners: HashMap::from([(ListenerId(0), listener)]),
            sessions: SessionContext::new(
                Arc::new(crate::http::route::Site::compile(&[], &limits).expect("no routes")),
                crate::h3::config(&limits).expect("settings"),
                crate::clock::now(),
            ),
            limits,
            quic,
            secrets,
            tracing: None,
            worker,
            workers,
        }
    }
}
