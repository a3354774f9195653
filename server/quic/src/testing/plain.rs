//! Settings of endpoints in tests.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use sluicegate_base::secrets::Secrets;
use sluicegate_base::tls::{Alternatives, Identity, ListenerTls};
use sluicegate_config::Config;
use sluicegate_dataplane::{ListenerId, Payloads};

use super::{PageSession, Pages};
use crate::application::Application;
use crate::cid::CidSchemes;
use crate::congestion::selection::Selection;
use crate::settings::{Lease, Listener, Settings};
use crate::transport::server_config;

/// Returns settings of a worker whose only listener, 0, has a self-signed certificate.
///
/// # Panics
/// If the embedded configuration is broken.
pub fn plain<A: Application>(
    worker: u8,
    workers: usize,
    shared: A::Shared,
    application: A::Listener,
) -> Settings<A> {
    // Made once, since they take longer than most tests.
    static CONFIG: LazyLock<Config> = LazyLock::new(Config::embedded);
    static IDENTITY: LazyLock<Identity> =
        LazyLock::new(|| Identity::self_signed().expect("a certificate"));
    let config = &*CONFIG;
    let secrets = Arc::new(Secrets::in_memory());
    let (quic, limits) = (config.quic.clone(), config.limits.clone());
    let others = Alternatives::default();
    let tls = ListenerTls { listener: "main", secrets: &secrets, quic: &quic, limits: &limits };
    let mut transport =
        server_config::<A>(&tls, &IDENTITY, &others).expect("a transport configuration");
    transport.enable_ecn(true);
    let registry = sluicegate_cc::Registry::builtin();
    let listener = Listener {
        name: "main".into(),
        local: ([127, 0, 0, 1], 4433).into(),
        application,
        selection: Selection::of(&config.listeners[0], &registry, [0; 32], None)
            .expect("the default"),
        payloads: Payloads::default(),
        config: transport,
        lease: Lease::default(),
    };
    Settings {
        listeners: HashMap::from([(ListenerId(0), listener)]),
        shared,
        limits,
        quic,
        cid_scheme: CidSchemes::plain().scheme(),
        secrets,
        used_tokens: Arc::default(),
        tracing: None,
        worker,
        workers,
    }
}

impl Settings<PageSession> {
    /// Returns settings of a worker that serves pages.
    pub fn plain(worker: u8, workers: usize) -> Self {
        plain(worker, workers, Pages::default(), Vec::new())
    }
}

/// Returns the same with a change.
pub fn settings(change: impl FnOnce(&mut Settings<PageSession>)) -> Settings<PageSession> {
    let mut settings = Settings::plain(0, 1);
    change(&mut settings);
    settings
}
